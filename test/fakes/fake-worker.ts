/**
 * A fake worker with the guarantees of a real one: an attempt that is assigned twice runs once, an end is resent until
 * it is acknowledged, and without a reply for 0.8 of its lease every unit stops. The test decides what each unit does.
 */
import { type Done, failure, success } from '../../src/base/errors.ts';
import { parseNodeId } from '../../src/base/ids.ts';
import type { Identity } from '../../src/base/ports.ts';
import type { AttemptId, UnitAssignment, JobMessage, JobMessageOf, UnitReport } from '../../src/messages/jobs.ts';
import { type UnitSpec, decodeUnitSpec } from '../../src/jobs/unit-spec.ts';
import { type ManagerTestCluster, leaseMs } from '../support/jobs/manager-cluster.ts';
import type { WorkerStatus } from '../../src/jobs/manager/job-manager-host.ts';

/** What a unit does: it ends with this report after a delay, or it runs until the test ends it. */
export type FakeUnitOutcome = { readonly afterMs: number; readonly report: Partial<UnitReport> } | 'hold';
export type FakeWorkerBehaviour = (spec: UnitSpec, worker: FakeWorker, id: AttemptId) => FakeUnitOutcome;

/** Completes every unit with all its items. */
const completeEveryUnit: FakeWorkerBehaviour = (spec) => ({
  afterMs: 50,
  report: { status: 'completed', completed: itemCountInSpec(spec) },
});

export function itemCountInSpec({ phase, items, iterations }: UnitSpec): number {
  if (phase === 'plan' || phase === 'finish') return 0;
  return items?.count ?? iterations ?? 1;
}

type Running = { readonly id: AttemptId; readonly spec: UnitSpec; cancel: () => void };

export class FakeWorker {
  readonly identity: Identity;
  readonly cluster: ManagerTestCluster;
  readonly coresTotal: number;
  behave: FakeWorkerBehaviour = completeEveryUnit;
  /** What the end of a stopped attempt reports beside its status. */
  whenStopped: (id: AttemptId) => Partial<UnitReport> = () => ({});
  readonly runs = new Map<string, Running>();
  readonly ends = new Map<string, UnitReport>();
  /** Every attempt that started here, also before a restart, with the bytes of its spec. */
  readonly started: { readonly id: AttemptId; readonly bytes: Uint8Array; readonly spec: UnitSpec }[] = [];
  readonly #seen = new Set<string>();
  /** When the last heartbeat with a reply was sent. */
  #renewedMs: number;
  alive = true;
  draining = false;
  admin: WorkerStatus['admin'] = 'active';
  state: WorkerStatus['state'] = 'alive';
  registered = true;
  /** No message arrives or leaves. */
  isolated = false;
  /** Error code with which it refuses new units. */
  refuse: string | undefined;
  runsMax = 0;
  seenTerm = 0;

  constructor(cluster: ManagerTestCluster, name: string, coresTotal: number, generation = 1) {
    this.cluster = cluster;
    this.coresTotal = coresTotal;
    const number = Number(name.slice(1));
    const id = parseNodeId(number.toString(16).padStart(32, '0'));
    this.identity = { id, name, generation, host: name, port: 1, roles: ['worker'], dc: 'dc1' };
    this.#renewedMs = cluster.timeline.nowMs;
    this.#scheduleHeartbeats();
  }

  get status(): WorkerStatus {
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

  /** Ends the process and everything that it runs. */
  kill(): void {
    this.alive = false;
    for (const { cancel } of this.runs.values()) cancel();
    this.runs.clear();
  }

  sendHeartbeat(): void {
    if (!this.alive) return;
    const sentMs = this.cluster.timeline.nowMs;
    const attempts = [...[...this.runs.values()].map(({ id }) => id), ...[...this.ends.values()].map(attemptIdOf)];
    const message: JobMessageOf<'workerHeartbeat'> = {
      ...{ kind: 'workerHeartbeat', generation: this.identity.generation, coresTotal: this.coresTotal },
      ...{ loadLevel: 'normal', draining: this.draining, attempts, isolation: 'full' },
    };
    this.cluster.toLeader(
      this,
      (host, done) => host.onHeartbeat(this.identity, message, done),
      (outcome) => {
        if (!this.alive || !outcome.ok) return;
        const reply = outcome.value as JobMessageOf<'workerHeartbeatReply'>;
        this.seenTerm = Math.max(this.seenTerm, reply.term);
        this.#renewedMs = Math.max(this.#renewedMs, sentMs);
        for (const id of reply.stop) this.#stop(id);
        this.sendReports();
      },
    );
  }

  /** Sends all unacknowledged ends and the given reports. */
  sendReports(more: readonly UnitReport[] = []): void {
    const reports = [...this.ends.values(), ...more];
    if (!this.alive || reports.length === 0) return;
    const message = {
      kind: 'reportUnits',
      generation: this.identity.generation,
      reports,
    } as const;
    this.cluster.toLeader(
      this,
      (host, done) => host.onUnitReports(this.identity, message, done),
      (outcome) => {
        if (!this.alive) return;
        if (!outcome.ok) {
          this.cluster.timeline.after(300, () => this.sendReports());
          return;
        }
        const ack = outcome.value as JobMessageOf<'reportUnitsAck'>;
        for (const id of ack.acknowledged) this.ends.delete(attemptText(id));
        for (const id of ack.stop) this.#stop(id);
      },
    );
  }

  progress(id: AttemptId, completed: number, failed = 0): void {
    this.sendReports([{ ...emptyReport(id), status: 'progress', completed, failed }]);
  }

  end(id: AttemptId, report: Partial<UnitReport>): void {
    const running = this.runs.get(attemptText(id));
    if (running === undefined || !this.alive) return;
    running.cancel();
    this.runs.delete(attemptText(id));
    this.ends.set(attemptText(id), { ...emptyReport(id), ...report });
    this.sendReports();
  }

  onAssignUnits(message: JobMessageOf<'assignUnits'>, reply: Done<JobMessage>): void {
    if (message.generation !== this.identity.generation || message.term < this.seenTerm)
      return reply(failure('FENCED'));
    this.seenTerm = message.term;
    const units = message.units.map((unit) => ({ code: this.#accept(unit), message: undefined }));
    reply(success({ kind: 'assignUnitsReply', units }));
  }

  onStopUnits({ units }: JobMessageOf<'stopUnits'>, reply: Done<JobMessage>): void {
    for (const id of units) this.#stop(id);
    reply(success({ kind: 'stopUnitsReply' }));
  }

  #accept(assignment: UnitAssignment): string | undefined {
    const key = attemptText(assignment);
    if (this.#seen.has(key)) return undefined;
    if (this.draining) return 'DRAINED';
    if (this.refuse !== undefined) return this.refuse;
    if (this.#freeCores() === 0 && !assignment.mayWait) return 'CAPACITY';
    this.#seen.add(key);
    const { spec: bytes, mayWait: _mayWait, ...id } = assignment;
    const spec = decodeUnitSpec(bytes);
    this.started.push({ id, bytes, spec });
    this.runs.set(key, { id, spec, cancel: () => {} });
    this.runsMax = Math.max(this.runsMax, this.runs.size);
    const outcome = this.behave(spec, this, id);
    if (outcome !== 'hold') {
      const cancel = this.cluster.timeline.after(outcome.afterMs, () => this.end(id, outcome.report));
      this.runs.set(key, { id, spec, cancel });
    }
    return undefined;
  }

  #stop(id: AttemptId): void {
    this.#seen.add(attemptText(id));
    this.end(id, { status: 'cancelled', ...this.whenStopped(id) });
  }

  #freeCores(): number {
    return Math.max(0, this.coresTotal - this.runs.size);
  }

  #scheduleHeartbeats(): void {
    this.cluster.timeline.after(this.cluster.timeline.nowMs === 0 ? 1 : leaseMs / 4, () => {
      if (!this.alive) return;
      if (this.cluster.timeline.nowMs - this.#renewedMs >= 0.8 * leaseMs)
        for (const { id } of this.runs.values()) this.end(id, { status: 'cancelled' });
      this.sendHeartbeat();
      this.sendReports();
      this.#scheduleHeartbeats();
    });
  }
}

function emptyReport({ job, workflow, unit, attempt, fence }: AttemptId): UnitReport {
  return {
    ...{ job, workflow, unit, attempt, fence, status: 'completed', completed: 0, failed: 0, summary: undefined },
    ...{ output: undefined, code: undefined, message: undefined, found: undefined, durationMs: 5, failures: undefined },
  };
}

function attemptIdOf({ job, workflow, unit, attempt, fence }: UnitReport): AttemptId {
  return { job, workflow, unit, attempt, fence };
}

function attemptText({ job, workflow, unit, attempt, fence }: AttemptId): string {
  return `${job}/${workflow}/${unit}/${attempt}/${fence}`;
}
