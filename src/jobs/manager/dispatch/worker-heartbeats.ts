/**
 * Handles worker heartbeats: renews the lease and reconciles the listed attempts. A new generation, an expired lease or
 * a gone process ends a session.
 */
import { type Outcome, failure, success } from '../../../base/errors.ts';
import type { NodeId } from '../../../base/ids.ts';
import type { Identity } from '../../../base/ports.ts';
import type { AttemptId, JobMessageOf } from '../../../messages/jobs.ts';
import type { Dispatcher } from './dispatcher.ts';
import { type Attempt, type ActiveAssignment, type ManagedUnit, findUnit } from '../model/managed-job.ts';
import type { WorkerReports } from './worker-reports.ts';
import type { ManagerState } from '../state/manager-state.ts';
import type { WorkerSession } from '../model/worker-table.ts';

/** A worker that does not list what was sent a moment ago may not have had it when it wrote. */
const crossingMs = 1_000;
const restMs = 1_000;
/** What only the worker itself could have said. */
const told: ReadonlySet<string> = new Set(['completed', 'failed', 'returned']);
/** What is missing was sent again so often, and did not come back. */
const missedMax = 4;

export class WorkerHeartbeats {
  readonly #office: ManagerState;
  readonly #giving: Dispatcher;
  readonly #news: WorkerReports;

  constructor(office: ManagerState, giving: Dispatcher, news: WorkerReports) {
    this.#office = office;
    this.#giving = giving;
    this.#news = news;
  }

  onHeartbeat(
    from: Identity,
    message: JobMessageOf<'workerHeartbeat'>,
    reply: (outcome: Outcome<JobMessageOf<'workerHeartbeatReply'>>) => void,
  ): void {
    const seat = this.#seat(from, message.generation);
    if (!seat.ok) return reply(seat);
    seat.value.address = { host: from.host, port: from.port };
    const stop = this.#listed(seat.value, message);
    const { term, options } = this.#office;
    reply(success({ kind: 'workerHeartbeatReply', term, leaseMs: options.jobLeaseMs, stop }));
  }

  onUnitReports(
    from: Identity,
    message: JobMessageOf<'reportUnits'>,
    reply: (outcome: Outcome<JobMessageOf<'reportUnitsAck'>>) => void,
  ): void {
    const seat = this.#office.workers.get(from.id);
    // Who did not report yet has no lease; its ends are told again after that.
    if (seat === undefined || !seat.hasReported || seat.generation !== message.generation)
      return reply(failure('PRECONDITION', 'report first', 'no'));
    this.#news.applyReports(seat, message.reports, (answer) => reply(success(answer)));
  }

  /** Proof: that life runs no longer. */
  processGone(id: NodeId, generation: number): void {
    const seat = this.#office.workers.get(id);
    if (seat !== undefined && seat.generation <= generation) this.removeWorker(seat, 'its process is gone');
  }

  /** Everything that it had begins anew elsewhere. */
  removeWorker(seat: WorkerSession, why: string): void {
    this.#office.workers.close(seat);
    for (const run of seat.assignments) this.#news.assignmentLost(run, why);
    seat.assignments.clear();
  }

  /** It was never recorded that this worker has it, because the worker is not registered. */
  revokeAssignment(run: ActiveAssignment, nowMs: number): void {
    const { worker, unit } = run;
    worker.backoffUntilMs = nowMs + restMs;
    if (run.stopping !== undefined) return this.#news.assignmentStopped(run);
    worker.assignments.delete(run);
    if (unit.assignment !== run) return;
    unit.assignment = undefined;
    unit.attempts.pop();
    unit.workflow.active -= 1;
    this.#giving.requeue(unit);
  }

  #seat(from: Identity, generation: number): Outcome<WorkerSession> {
    const { workers, nowMs } = this.#office;
    const known = workers.get(from.id);
    if (known !== undefined && known.generation > generation)
      return failure('FENCED', `generation ${known.generation} of ${from.name} is known`, 'no');
    if (known?.generation === generation) return success(known);
    if (known === undefined && workers.isFull()) return failure('CAPACITY', 'there are too many workers');
    if (known !== undefined) this.removeWorker(known, 'it was started anew');
    return success(workers.open(from.id, from.name, generation, nowMs));
  }

  /** Takes the report in; the answer is what the worker has to end. */
  #listed(
    seat: WorkerSession,
    { coresTotal, loadLevel: level, draining, isolation, attempts }: JobMessageOf<'workerHeartbeat'>,
  ): readonly AttemptId[] {
    const { nowMs, jobs } = this.#office;
    Object.assign(seat, {
      coresTotal,
      loadLevel: level,
      draining,
      isolation,
      hasReported: true,
      lastHeartbeatMs: nowMs,
    });
    const listed = new Set<ActiveAssignment>();
    const stop: AttemptId[] = [];
    for (const name of attempts) {
      const workflow = jobs.get(name.job)?.workflows[name.workflow];
      const unit = workflow === undefined ? undefined : findUnit(workflow, name.unit);
      const run = unit?.assignment;
      if (run?.worker === seat && isSame(run.attempt, name)) {
        listed.add(run);
        run.missedHeartbeats = 0;
        if (run.stopping === undefined) this.#giving.markAccepted(run);
        else stop.push(name);
      } else if (unit === undefined || !isTold(unit, name)) stop.push(name);
    }
    for (const run of seat.assignments) {
      if (listed.has(run) || !run.isRecorded || run.stopping !== undefined || run.sentMs > nowMs - crossingMs) continue;
      run.missedHeartbeats += 1;
      if (run.missedHeartbeats < missedMax) {
        run.isTaken = false;
        seat.resendAtMs = nowMs;
      } else this.#news.assignmentLost(run, 'it does not have it');
    }
    this.#giving.resendUnanswered(seat);
    return stop;
  }
}

function isSame(attempt: Attempt, name: AttemptId): boolean {
  return attempt.attempt === name.attempt && attempt.fence === name.fence;
}

/** Its end was told to us and is perhaps not recorded yet: the worker has to keep it until it hears so. */
function isTold({ state, attempts }: ManagedUnit, name: AttemptId): boolean {
  const last = attempts.at(-1);
  if (last === undefined || !isSame(last, name)) return false;
  return state === 'storing' || told.has(last.outcome);
}
