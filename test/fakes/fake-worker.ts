/**
 * A worker as tests want it. It keeps the promises of a worker: it runs what is given twice once, tells ends until they
 * are heard, and stops everything when nobody has answered it for 0.8 of its lease. Holds no tests itself.
 */
import { type Done, failure, success } from '../../src/base/errors.ts';
import { parseNodeId } from '../../src/base/ids.ts';
import type { Identity } from '../../src/base/ports.ts';
import type { AttemptId, UnitAssignment, JobMessage, JobMessageOf, UnitReport } from '../../src/messages/jobs.ts';
import { type UnitSpec, decodeUnitSpec } from '../../src/jobs/unit-spec.ts';
import { type FakeManagerCluster, leaseMs } from '../support/jobs/manager-cluster.ts';
import type { WorkerStatus } from '../../src/jobs/manager/job-manager-host.ts';

/** What a unit does: its end, after a while; or nothing until the test says so. */
export type FakeUnitOutcome = { readonly afterMs: number; readonly news: Partial<UnitReport> } | 'hold';
export type FakeWorkerBehaviour = (order: UnitSpec, worker: FakeWorker, attempt: AttemptId) => FakeUnitOutcome;

/** Does what it is asked for, and counts it. */
const completeEveryUnit: FakeWorkerBehaviour = (order) => ({
  afterMs: 50,
  news: { status: 'completed', completed: itemCountInSpec(order) },
});

export function itemCountInSpec(order: UnitSpec): number {
  if (order.phase === 'plan' || order.phase === 'finish') return 0;
  return order.items?.count ?? order.iterations ?? 1;
}

type Running = { readonly name: AttemptId; readonly order: UnitSpec; cancel: () => void };

export class FakeWorker {
  readonly identity: Identity;
  readonly world: FakeManagerCluster;
  readonly coresTotal: number;
  behave: FakeWorkerBehaviour = completeEveryUnit;
  readonly runs = new Map<string, Running>();
  readonly ends = new Map<string, UnitReport>();
  /** Every attempt that ever began here, also in an earlier life, and the bytes it got. */
  readonly began: { readonly name: AttemptId; readonly bytes: Uint8Array; readonly order: UnitSpec }[] = [];
  readonly #seen = new Set<string>();
  #goodMs: number;
  alive = true;
  draining = false;
  admin: WorkerStatus['admin'] = 'active';
  state: WorkerStatus['state'] = 'alive';
  registered = true;
  /** Nothing gets to it or from it. */
  cut = false;
  refuse: string | undefined;
  mostRuns = 0;
  seenTerm = 0;

  constructor(world: FakeManagerCluster, name: string, coresTotal: number, generation = 1) {
    this.world = world;
    this.coresTotal = coresTotal;
    const number = Number(name.slice(1));
    const id = parseNodeId(number.toString(16).padStart(32, '0'));
    this.identity = { id, name, generation, host: name, port: 1, roles: ['worker'], dc: 'dc1' };
    this.#goodMs = world.timeline.nowMs;
    this.#beat();
  }

  get known(): WorkerStatus {
    const { id, name, generation, host, port } = this.identity;
    return {
      id,
      name,
      generation,
      address: { host, port },
      state: this.state,
      stuck: false,
      health: 0,
      admin: this.admin,
    };
  }

  /** The process is gone, with all it had. */
  kill(): void {
    this.alive = false;
    for (const { cancel } of this.runs.values()) cancel();
    this.runs.clear();
  }

  report(): void {
    if (!this.alive) return;
    const sentMs = this.world.timeline.nowMs;
    const names = [...[...this.runs.values()].map(({ name }) => name), ...[...this.ends.values()].map(nameOf)];
    const message: JobMessageOf<'workerHeartbeat'> = {
      ...{ kind: 'workerHeartbeat', generation: this.identity.generation, coresTotal: this.coresTotal },
      ...{ loadLevel: 'normal', draining: this.draining, attempts: names, isolation: 'full' },
    };
    this.world.toLeader(
      this,
      (host, done) => host.onHeartbeat(this.identity, message, done),
      (outcome) => {
        if (!this.alive || !outcome.ok) return;
        const heard = outcome.value as JobMessageOf<'workerHeartbeatReply'>;
        this.seenTerm = Math.max(this.seenTerm, heard.term);
        this.#goodMs = Math.max(this.#goodMs, sentMs);
        for (const name of heard.stop) this.#stop(name);
        this.tell();
      },
    );
  }

  /** All ends that were not heard, and whatever the test adds. */
  tell(more: readonly UnitReport[] = []): void {
    const reports = [...this.ends.values(), ...more];
    if (!this.alive || reports.length === 0) return;
    const message = {
      kind: 'reportUnits',
      generation: this.identity.generation,
      reports,
    } as const;
    this.world.toLeader(
      this,
      (host, done) => host.onUnitReports(this.identity, message, done),
      (outcome) => {
        if (!this.alive) return;
        if (!outcome.ok) {
          this.world.timeline.after(300, () => this.tell());
          return;
        }
        const heard = outcome.value as JobMessageOf<'reportUnitsAck'>;
        for (const name of heard.acknowledged) this.ends.delete(attemptText(name));
        for (const name of heard.stop) this.#stop(name);
      },
    );
  }

  progress(name: AttemptId, completed: number, failed = 0): void {
    this.tell([{ ...bare(name), status: 'progress', completed, failed }]);
  }

  end(name: AttemptId, news: Partial<UnitReport>): void {
    const running = this.runs.get(attemptText(name));
    if (running === undefined || !this.alive) return;
    running.cancel();
    this.runs.delete(attemptText(name));
    this.ends.set(attemptText(name), { ...bare(name), ...news });
    this.tell();
  }

  given(message: JobMessageOf<'assignUnits'>, reply: Done<JobMessage>): void {
    if (message.generation !== this.identity.generation || message.term < this.seenTerm)
      return reply(failure('FENCED'));
    this.seenTerm = message.term;
    const units = message.units.map((unit) => ({ code: this.#take(unit), message: undefined }));
    reply(success({ kind: 'assignUnitsReply', units }));
  }

  stopped({ units }: JobMessageOf<'stopUnits'>, reply: Done<JobMessage>): void {
    for (const name of units) this.#stop(name);
    reply(success({ kind: 'stopUnitsReply' }));
  }

  #take(given: UnitAssignment): string | undefined {
    const key = attemptText(given);
    if (this.#seen.has(key)) return undefined;
    if (this.draining) return 'DRAINED';
    if (this.refuse !== undefined) return this.refuse;
    if (this.#free() === 0 && !given.mayWait) return 'CAPACITY';
    this.#seen.add(key);
    const { spec: bytes, mayWait: _ahead, ...name } = given;
    const order = decodeUnitSpec(bytes);
    this.began.push({ name, bytes, order });
    this.runs.set(key, { name, order, cancel: () => {} });
    this.mostRuns = Math.max(this.mostRuns, this.runs.size);
    const deed = this.behave(order, this, name);
    if (deed !== 'hold') {
      const cancel = this.world.timeline.after(deed.afterMs, () => this.end(name, deed.news));
      this.runs.set(key, { name, order, cancel });
    }
    return undefined;
  }

  #stop(name: AttemptId): void {
    const key = attemptText(name);
    this.#seen.add(key);
    this.runs.get(key)?.cancel();
    this.runs.delete(key);
    this.ends.delete(key);
  }

  #free(): number {
    return Math.max(0, this.coresTotal - this.runs.size);
  }

  #beat(): void {
    this.world.timeline.after(this.world.timeline.nowMs === 0 ? 1 : leaseMs / 4, () => {
      if (!this.alive) return;
      if (this.world.timeline.nowMs - this.#goodMs >= 0.8 * leaseMs)
        for (const { name } of this.runs.values()) this.end(name, { status: 'cancelled' });
      this.report();
      this.tell();
      this.#beat();
    });
  }
}

function bare({ job, workflow, unit, attempt, fence }: AttemptId): UnitReport {
  return {
    ...{ job, workflow, unit, attempt, fence, status: 'completed', completed: 0, failed: 0, summary: undefined },
    ...{ output: undefined, code: undefined, message: undefined, found: undefined, durationMs: 5, failures: undefined },
  };
}

function nameOf({ job, workflow, unit, attempt, fence }: UnitReport): AttemptId {
  return { job, workflow, unit, attempt, fence };
}

function attemptText({ job, workflow, unit, attempt, fence }: AttemptId): string {
  return `${job}/${workflow}/${unit}/${attempt}/${fence}`;
}
