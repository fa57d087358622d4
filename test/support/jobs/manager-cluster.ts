/**
 * A cluster for tests of the job manager, on virtual time: real job managers that share a fake registry, and fake
 * workers that behave as the test says (test/fakes/fake-worker.ts).
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { type Done, type Outcome, failure, success } from '../../../src/base/errors.ts';
import { type Fence, fenceOf } from '../../../src/base/fence.ts';
import type { Address, Clock } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { Leadership, LeadershipEvents } from '../../../src/base/registry.ts';
import type { JobMessage, JobVerb } from '../../../src/messages/jobs.ts';
import { clusterKey } from '../../../src/registry/cluster-keys.ts';
import { type FakeRegistry, fakeRegistry } from '../../fakes/fake-registry.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import type { JobProgress, JobRequest, JobView, SubmitReply } from '../../../src/jobs/job-types.ts';
import { type JobEvent, JobManagerHost } from '../../../src/jobs/manager/job-manager-host.ts';
import { FakeWorker } from '../../fakes/fake-worker.ts';

export const leaseMs = 10_000;
export const code = new TextEncoder().encode('export default 1;');
export const bundle = fakeBundleHash(code);

export function fakeBundleHash(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

type TestManager = { readonly name: string; readonly host: JobManagerHost; readonly registry: FakeRegistry };

export class ManagerTestCluster {
  readonly timeline = new Timeline();
  readonly random: Random;
  readonly registry: FakeRegistry;
  readonly clock: Clock;
  readonly workers = new Map<string, FakeWorker>();
  readonly managers = new Map<string, TestManager>();
  readonly events: JobEvent[] = [];
  readonly #watchers = new Map<string, Set<LeadershipEvents>>();
  readonly #wrongLeaders = new Set<string>();
  wallOffsetMs = 1_700_000_000_000;
  leader: string | undefined;
  term = 1;
  /** Upper bound of the random delay of a message. */
  delayMsMax = 2;

  constructor(seed = 'jobs', limits: Parameters<typeof fakeRegistry>[0]['limits'] = {}) {
    this.random = new Random(seed);
    this.clock = {
      nowMs: () => this.timeline.nowMs,
      schedule: (delayMs, run) => this.timeline.after(delayMs, run),
      wallMs: () => this.wallOffsetMs + this.timeline.nowMs,
    };
    this.registry = fakeRegistry({ clock: this.clock, limits });
  }

  /** Managers m1, which leads, and m2; the bundle is stored. */
  static start(
    workers: Readonly<Record<string, number>>,
    seed?: string,
    limits?: ConstructorParameters<typeof ManagerTestCluster>[1],
  ): ManagerTestCluster {
    const cluster = new ManagerTestCluster(seed, limits);
    cluster.manager('m1');
    cluster.manager('m2');
    cluster.elect('m1');
    for (const [name, cores] of Object.entries(workers)) cluster.worker(name, cores);
    const stored = cluster.wait((done) => cluster.host('m1').storeBundle(bundle, code, done));
    assert.ok(stored.ok);
    cluster.run(50);
    return cluster;
  }

  host(name: string): JobManagerHost {
    const manager = this.managers.get(name);
    assert.ok(manager !== undefined);
    return manager.host;
  }

  manager(name: string): JobManagerHost {
    const registry = this.registry.connect();
    const watchers = new Set<LeadershipEvents>();
    this.#watchers.set(name, watchers);
    const leadership: Leadership = {
      view: () => ({ leader: undefined, term: this.term, fence: this.leader === name ? this.#fence() : undefined }),
      isLeading: () => this.leader === name || this.#wrongLeaders.has(name),
      watch: (events) => {
        watchers.add(events);
        return () => watchers.delete(events);
      },
    };
    const host = new JobManagerHost(
      {
        ...{
          clock: this.clock,
          random: this.random.fork(name),
          registry,
          leadership,
          dc: 'dc1',
          sha256: fakeBundleHash,
        },
        request: (to, message, timeoutMs, done) => this.#request(name, to, message, timeoutMs, done),
        worker: (id) => [...this.workers.values()].find(({ identity }) => identity.id === id)?.status,
        emit: (event) => this.events.push(event),
        halted: (error) => {
          throw error;
        },
      },
      { jobLeaseMs: leaseMs },
    );
    this.managers.set(name, { name, host, registry });
    return host;
  }

  worker(name: string, cores: number, generation = 1): FakeWorker {
    const worker = new FakeWorker(this, name, cores, generation);
    this.workers.set(name, worker);
    this.setRegistered(worker, true);
    worker.sendHeartbeat();
    return worker;
  }

  get(name: string): FakeWorker {
    const worker = this.workers.get(name);
    assert.ok(worker !== undefined);
    return worker;
  }

  setRegistered(worker: FakeWorker, isRegistered: boolean): void {
    const key = clusterKey({ kind: 'registration', node: worker.identity.id });
    const then = isRegistered
      ? ({ kind: 'put', key, value: new Uint8Array([1]) } as const)
      : ({ kind: 'delete', range: { from: key, to: `${key}\0` } } as const);
    this.registry.transact({ compare: [], then: [then], otherwise: [] }, {}, () => {});
    worker.registered = isRegistered;
  }

  elect(name: string | undefined): void {
    const before = this.leader;
    this.leader = name;
    this.term += 1;
    if (before !== undefined && !this.#wrongLeaders.has(before))
      for (const events of this.#watchers.get(before) ?? []) events.lost?.('another leads');
    if (name === undefined) return;
    const fence = this.#fence();
    for (const events of this.#watchers.get(name) ?? []) events.elected?.(fence);
    for (const worker of this.workers.values()) this.timeline.after(5, () => worker.sendHeartbeat());
  }

  /** The manager keeps believing that it leads, whatever happens. */
  keepBelieving(name: string): void {
    this.#wrongLeaders.add(name);
  }

  run(ms: number): void {
    const until = this.timeline.nowMs + ms;
    let isOver = false;
    this.timeline.at(until, () => {
      isOver = true;
    });
    while (!isOver) this.timeline.step();
  }

  until(condition: () => boolean, what: string, withinMs = 120_000): void {
    const until = this.timeline.nowMs + withinMs;
    while (!condition()) {
      assert.ok(this.timeline.nowMs < until, `within ${withinMs} ms: ${what}`);
      this.timeline.step();
    }
  }

  wait<T>(start: (done: Done<T>) => void, withinMs = 60_000): Outcome<T> {
    let ended: Outcome<T> | undefined;
    start((outcome) => {
      assert.equal(ended, undefined, 'the callback ran twice');
      ended = outcome;
    });
    this.until(() => ended !== undefined, 'a reply', withinMs);
    return ended as unknown as Outcome<T>;
  }

  command<T>(verb: JobVerb, args: unknown, submitter = 'ann', waitMs = 0): Outcome<T> {
    const outcome = this.wait<string>((done) => {
      this.host(this.leader as string).command(verb, JSON.stringify(args), submitter, 30_000, done, waitMs);
    });
    return outcome.ok ? success(JSON.parse(outcome.value) as T) : outcome;
  }

  /** Throws the error of a refused command. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  commandOk<T>(verb: JobVerb, args: unknown, submitter?: string): T {
    const outcome = this.command<T>(verb, args, submitter);
    if (!outcome.ok) throw outcome.error;
    return outcome.value;
  }

  submit(request: Partial<JobRequest> & Pick<JobRequest, 'workflows'>, submitter?: string): string {
    return this.commandOk<SubmitReply>('submit', { bundle, ...request }, submitter).jobId;
  }

  show(jobId: string): JobView {
    return this.commandOk<JobView>('show', { jobId });
  }

  watch(jobId: string, afterVersion = 0, waitMs = 0): JobProgress {
    return this.commandOk<JobProgress>('watch', { jobId, afterVersion, waitMs });
  }

  untilStatus(jobId: string, status: string, withinMs = 120_000): JobView {
    const until = this.timeline.nowMs + withinMs;
    for (let view = this.show(jobId); ; view = this.show(jobId)) {
      if (view.status === status) return view;
      assert.ok(this.timeline.nowMs < until, `${jobId} is ${view.status} and not ${status}: ${JSON.stringify(view)}`);
      this.run(50);
    }
  }

  /** From a worker to the leader. */
  toLeader(
    worker: FakeWorker,
    call: (host: JobManagerHost, done: (outcome: Outcome<JobMessage>) => void) => void,
    done: (outcome: Outcome<JobMessage>) => void,
  ): void {
    this.#after(() => {
      const { leader } = this;
      if (worker.isolated || leader === undefined) {
        this.timeline.after(1_000, () => done(failure('UNREACHABLE')));
        return;
      }
      call(this.host(leader), (outcome) => {
        this.#after(() => done(worker.isolated ? failure('UNREACHABLE') : outcome));
      });
    });
  }

  #request(from: string, to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void {
    let isOver = false;
    const end: Done<JobMessage> = (outcome) => {
      if (isOver) return;
      isOver = true;
      done(outcome);
    };
    this.timeline.after(timeoutMs, () => end(failure('DEADLINE')));
    this.#after(() => {
      const worker = this.workers.get(to.host);
      if (worker === undefined || worker.isolated) return;
      if (!worker.alive) return end(failure('UNREACHABLE'));
      const reply: Done<JobMessage> = (outcome) => {
        this.#after(() => {
          if (!worker.isolated && this.managers.has(from)) end(outcome);
        });
      };
      if (message.kind === 'assignUnits') worker.onAssignUnits(message, reply);
      else if (message.kind === 'stopUnits') worker.onStopUnits(message, reply);
    });
  }

  #after(run: () => void): void {
    this.timeline.after(this.random.between(0, this.delayMsMax), run);
  }

  #fence(): Fence {
    return fenceOf(this.term, 7);
  }
}
