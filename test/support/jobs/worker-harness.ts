/**
 * A worker on virtual time for tests: the test plays the leader, and the code of a bundle is one command, the behaviour
 * of its fake runner.
 */
import { createHash } from 'node:crypto';
import { type Done, type Outcome, failure, success } from '../../../src/base/errors.ts';
import { nodeIdFrom } from '../../../src/base/ids.ts';
import type { Clock, Identity, Peer } from '../../../src/base/ports.ts';
import { Random } from '../../../src/base/random.ts';
import type { AttemptId, UnitAssignment, JobMessage, JobMessageOf, UnitReport } from '../../../src/messages/jobs.ts';
import { Timeline } from '../../../src/simulation/engine/timeline.ts';
import { jobKeys } from '../../../src/jobs/job-keys.ts';
import { type UnitSpec, encodeUnitSpec } from '../../../src/jobs/unit-spec.ts';
import { type WorkerEvent, WorkerHost } from '../../../src/jobs/worker/worker-host.ts';
import { type FakeRunnerBehaviour, FakeRunners } from '../../fakes/fake-runners.ts';

export const encoder = new TextEncoder();

export function fakeBundleHash(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function timelineClock(timeline: Timeline): Clock {
  return {
    nowMs: () => timeline.nowMs,
    wallMs: () => 1_700_000_000_000 + timeline.nowMs,
    schedule: (delayMs, run) => timeline.after(delayMs, run),
  };
}

export function unitSpecOf(job: string, changed: Partial<UnitSpec> = {}): UnitSpec {
  return {
    ...{ job, workflow: 0, unit: 0, units: 1, phase: 'whole', bundle: '', facts: '{}', env: new Map(), seed: 1 },
    ...{ users: undefined, iterations: undefined, items: undefined, data: undefined, context: '{}' },
    ...{ network: false, memoryMb: 256, timeoutMs: 600_000, submitter: 'me', ...changed },
  };
}

export function unitAssignmentOf(spec: UnitSpec, changed: Partial<UnitAssignment> = {}): UnitAssignment {
  const { job, workflow, unit } = spec;
  return { job, workflow, unit, attempt: 1, fence: 1n, mayWait: false, spec: encodeUnitSpec(spec), ...changed };
}

export type WorkerTestBedOptions = {
  readonly cores?: number;
  readonly leaseMs?: number;
  readonly seed?: string;
  /** How many further runs a busy runner queues. */
  readonly prefetch?: number;
};

export class WorkerTestBed {
  readonly timeline = new Timeline();
  readonly clock = timelineClock(this.timeline);
  readonly codes = new Map<string, string>();
  readonly runners = new FakeRunners(this.timeline, this.codes);
  readonly worker: WorkerHost;
  readonly events: WorkerEvent[] = [];
  readonly mistakes: unknown[] = [];
  readonly heartbeats: JobMessageOf<'workerHeartbeat'>[] = [];
  readonly unitReports: UnitReport[] = [];
  /** False: the leader does not reply, and the request ends with its timeout. */
  answersHeartbeats = true;
  acknowledgesReports = true;
  term = 1;
  leaseMs: number;
  supersededIds: readonly AttemptId[] = [];
  leader: Peer | undefined = { id: nodeIdFrom(new Uint8Array(16).fill(9)), host: '10.0.0.9', port: 7400 };
  fetches = 0;
  registryFails = false;

  constructor({ cores = 2, leaseMs = 10_000, seed = 'worker', prefetch }: WorkerTestBedOptions = {}) {
    this.runners.prefetch = prefetch;
    this.leaseMs = leaseMs;
    const id = nodeIdFrom(new Uint8Array(16).fill(1));
    const roles = ['worker'] as const;
    const self: Identity = { id, name: 'w1', host: '10.0.0.1', port: 7400, generation: 3, roles, dc: 'x' };
    this.worker = new WorkerHost(
      {
        ...{ clock: this.clock, random: new Random(seed), self, cores, runners: this.runners, sha256: fakeBundleHash },
        ...{ isolation: 'full', loadLevel: () => 'normal', leader: () => this.leader },
        program: { moduleUrl: 'data:,', main: () => undefined },
        registry: { range: ({ from }, _options, done) => this.#range(from, done) },
        request: (_to, message, timeoutMs, done) => this.#request(message, timeoutMs, done),
        emit: (event) => this.events.push(event),
        halted: (error) => this.mistakes.push(error),
      },
      { jobLeaseMs: leaseMs },
    );
    this.pass(1_000);
  }

  /** Stores code with this behaviour and returns its hash. */
  bundle(behaviour: FakeRunnerBehaviour, note = ''): string {
    const hash = fakeBundleHash(encoder.encode(`${behaviour}${note}`));
    this.codes.set(hash, behaviour);
    this.#stored.set(jobKeys.bundlePart(hash, 0), encoder.encode(behaviour));
    this.#stored.set(jobKeys.bundlePart(hash, 1), encoder.encode(note));
    return hash;
  }

  pass(durationMs: number): void {
    this.timeline.runUntil(this.timeline.nowMs + durationMs);
    if (this.mistakes.length > 0) throw this.mistakes[0];
  }

  assign(
    units: readonly UnitAssignment[],
    changed: Partial<JobMessageOf<'assignUnits'>> = {},
  ): readonly (string | undefined)[] {
    const outcome = this.assignUnits(units, changed);
    if (!outcome.ok) throw outcome.error;
    return outcome.value.units.map(({ code }) => code);
  }

  assignUnits(
    units: readonly UnitAssignment[],
    changed: Partial<JobMessageOf<'assignUnits'>> = {},
  ): Outcome<JobMessageOf<'assignUnitsReply'>> {
    let answer: Outcome<JobMessageOf<'assignUnitsReply'>> = failure('DEADLINE');
    const message = { kind: 'assignUnits', term: this.term, generation: 3, units, ...changed } as const;
    this.worker.assignUnits(this.#manager, message, (outcome) => {
      answer = outcome;
    });
    return answer;
  }

  /** `outcome` is set when the worker replies. */
  stop(ids: readonly AttemptId[], reason: JobMessageOf<'stopUnits'>['reason'] = 'cancelled'): { outcome: unknown } {
    const held: { outcome: unknown } = { outcome: undefined };
    const units = ids.map(({ job, workflow, unit, attempt, fence }) => ({ job, workflow, unit, attempt, fence }));
    this.worker.stopUnits(this.#manager, { kind: 'stopUnits', term: this.term, units, reason }, (outcome) => {
      held.outcome = outcome;
    });
    return held;
  }

  /** The reported ends of this job, without repetitions. */
  ends(job: string): readonly UnitReport[] {
    const seen = new Set<string>();
    return this.unitReports.filter((report) => {
      const isEnd = report.job === job && report.status !== 'started' && report.status !== 'progress';
      const key = `${report.attempt} ${report.fence}`;
      if (!isEnd || seen.has(key)) return false;
      seen.add(key);
      return true;
    });
  }

  readonly #stored = new Map<string, Uint8Array>();
  readonly #manager: Identity = {
    ...{ id: nodeIdFrom(new Uint8Array(16).fill(9)), name: 'm1', host: '10.0.0.9', port: 7400 },
    ...{ generation: 1, roles: ['manager'], dc: 'x' },
  };

  #range(from: string, done: Done<never>): void {
    this.fetches += 1;
    this.clock.schedule(3, () => {
      if (this.registryFails) return done(failure('NO_QUORUM'));
      const prefix = from.slice(0, from.lastIndexOf('/') + 1);
      const keys = [...this.#stored.keys()].filter((key) => key.startsWith(prefix) && key >= from).toSorted();
      const [key] = keys;
      const meta = { createRevision: 1, modRevision: 1, version: 1, lease: undefined };
      const entries = key === undefined ? [] : [{ key, value: this.#stored.get(key), ...meta }];
      done(success({ entries, more: keys.length > 1, revision: 1 }) as never);
    });
  }

  #request(message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void {
    if (message.kind === 'workerHeartbeat') {
      this.heartbeats.push(message);
      if (!this.answersHeartbeats) return void this.clock.schedule(timeoutMs, () => done(failure('DEADLINE')));
      const { term, leaseMs, supersededIds: stop } = this;
      return void this.clock.schedule(1, () => done(success({ kind: 'workerHeartbeatReply', term, leaseMs, stop })));
    }
    if (message.kind !== 'reportUnits') throw new Error(`a worker does not send ${message.kind}`);
    this.unitReports.push(...message.reports);
    if (!this.acknowledgesReports) return void this.clock.schedule(timeoutMs, () => done(failure('DEADLINE')));
    const acknowledged = message.reports
      .filter(({ status }) => status !== 'started' && status !== 'progress')
      .map(({ job, workflow, unit, attempt, fence }) => ({ job, workflow, unit, attempt, fence }));
    this.clock.schedule(1, () => done(success({ kind: 'reportUnitsAck', acknowledged, stop: [] })));
  }
}
