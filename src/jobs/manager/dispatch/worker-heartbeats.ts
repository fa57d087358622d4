/**
 * Handles worker heartbeats: renews the lease and reconciles the listed attempts with the assignments. A new
 * generation, an expired lease or proof that the process is gone ends a session; its units are retried elsewhere.
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

/** An assignment that was sent less than this before may have crossed the heartbeat on its way. */
const crossingMs = 1_000;
const backoffMs = 1_000;
/** Outcomes that only the worker itself reports. */
const reportedOutcomes: ReadonlySet<string> = new Set(['completed', 'failed', 'returned']);
/** After this number of heartbeats without the attempt it is lost; until then it is resent. */
const missedHeartbeatsMax = 4;

export class WorkerHeartbeats {
  readonly #state: ManagerState;
  readonly #dispatcher: Dispatcher;
  readonly #reports: WorkerReports;

  constructor(state: ManagerState, dispatcher: Dispatcher, reports: WorkerReports) {
    this.#state = state;
    this.#dispatcher = dispatcher;
    this.#reports = reports;
  }

  onHeartbeat(
    from: Identity,
    message: JobMessageOf<'workerHeartbeat'>,
    reply: (outcome: Outcome<JobMessageOf<'workerHeartbeatReply'>>) => void,
  ): void {
    const session = this.#openSession(from, message.generation);
    if (!session.ok) return reply(session);
    session.value.address = { host: from.host, port: from.port };
    const stop = this.#reconcile(session.value, message);
    const { term, options } = this.#state;
    reply(success({ kind: 'workerHeartbeatReply', term, leaseMs: options.jobLeaseMs, stop }));
  }

  onUnitReports(
    from: Identity,
    message: JobMessageOf<'reportUnits'>,
    reply: (outcome: Outcome<JobMessageOf<'reportUnitsAck'>>) => void,
  ): void {
    const session = this.#state.workers.get(from.id);
    // A worker without a heartbeat has no lease; it resends the ends after its first heartbeat.
    if (session === undefined || !session.hasReported || session.generation !== message.generation)
      return reply(failure('PRECONDITION', 'send a heartbeat before unit reports', 'no'));
    this.#reports.applyReports(session, message.reports, (answer) => reply(success(answer)));
  }

  /** Proof that the process of this generation has ended. */
  processGone(id: NodeId, generation: number): void {
    const session = this.#state.workers.get(id);
    if (session !== undefined && session.generation <= generation) this.removeWorker(session, 'its process has ended');
  }

  /** Ends the session; all its assignments are lost. */
  removeWorker(session: WorkerSession, reason: string): void {
    this.#state.workers.close(session);
    for (const assignment of session.assignments) this.#reports.assignmentLost(assignment, reason);
    session.assignments.clear();
  }

  /** Undoes an assignment whose commit was refused because the worker is not registered. */
  revokeAssignment(assignment: ActiveAssignment, nowMs: number): void {
    const { worker, unit } = assignment;
    worker.backoffUntilMs = nowMs + backoffMs;
    if (assignment.stopping !== undefined) return this.#reports.assignmentStopped(assignment);
    worker.assignments.delete(assignment);
    if (unit.assignment !== assignment) return;
    unit.assignment = undefined;
    unit.attempts.pop();
    unit.workflow.active -= 1;
    this.#dispatcher.requeue(unit);
  }

  #openSession(from: Identity, generation: number): Outcome<WorkerSession> {
    const { workers, nowMs } = this.#state;
    const known = workers.get(from.id);
    if (known !== undefined && known.generation > generation)
      return failure(
        'FENCED',
        `generation ${generation} of ${from.name} is stale: generation ${known.generation} is known`,
        'no',
      );
    if (known?.generation === generation) return success(known);
    if (known === undefined && workers.isFull()) return failure('CAPACITY', 'the worker table is full');
    if (known !== undefined) this.removeWorker(known, 'the worker restarted');
    return success(workers.open(from.id, from.name, generation, nowMs));
  }

  /** Compares the listed attempts with the assignments; returns the attempts that the worker must stop. */
  #reconcile(
    session: WorkerSession,
    { coresTotal, loadLevel: level, draining, isolation, attempts }: JobMessageOf<'workerHeartbeat'>,
  ): readonly AttemptId[] {
    const { nowMs, jobs } = this.#state;
    Object.assign(session, {
      coresTotal,
      loadLevel: level,
      draining,
      isolation,
      hasReported: true,
      lastHeartbeatMs: nowMs,
    });
    const listed = new Set<ActiveAssignment>();
    const stop: AttemptId[] = [];
    for (const id of attempts) {
      const workflow = jobs.get(id.job)?.workflows[id.workflow];
      const unit = workflow === undefined ? undefined : findUnit(workflow, id.unit);
      const assignment = unit?.assignment;
      if (assignment?.worker === session && isSame(assignment.attempt, id)) {
        listed.add(assignment);
        assignment.missedHeartbeats = 0;
        if (assignment.stopping === undefined) this.#dispatcher.markAccepted(assignment);
        else stop.push(id);
      } else if (unit === undefined || !isEndReported(unit, id)) stop.push(id);
    }
    for (const assignment of session.assignments) {
      if (
        listed.has(assignment) ||
        !assignment.isRecorded ||
        assignment.stopping !== undefined ||
        assignment.sentMs > nowMs - crossingMs
      )
        continue;
      assignment.missedHeartbeats += 1;
      if (assignment.missedHeartbeats < missedHeartbeatsMax) {
        assignment.isAccepted = false;
        session.resendAtMs = nowMs;
      } else this.#reports.assignmentLost(assignment, 'the worker does not have the unit');
    }
    this.#dispatcher.resendUnanswered(session);
    return stop;
  }
}

function isSame(attempt: Attempt, id: AttemptId): boolean {
  return attempt.attempt === id.attempt && attempt.fence === id.fence;
}

/**
 * True if the worker reported the end, which may not be recorded yet: the worker keeps it until the acknowledgement.
 */
function isEndReported({ state, attempts }: ManagedUnit, id: AttemptId): boolean {
  const last = attempts.at(-1);
  if (last === undefined || !isSame(last, id)) return false;
  return state === 'storing' || reportedOutcomes.has(last.outcome);
}
