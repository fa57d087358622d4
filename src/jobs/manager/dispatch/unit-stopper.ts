/**
 * Asks workers to stop attempts, and resends until the worker confirms. A core is free only after that or its lease.
 */
import type { Outcome } from '../../../base/errors.ts';
import type { AttemptId, JobMessage } from '../../../messages/jobs.ts';
import { awaitsMeasuredEnd } from './cancelled-load.ts';
import { assignedAttemptId } from './dispatcher.ts';
import type { ActiveAssignment, StopReason } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import type { WorkerSession } from '../model/worker-table.ts';

const resendMs = 500;
const attemptsMax = 1_000;

export class UnitStopper {
  readonly #state: ManagerState;
  readonly #stopped: (assignment: ActiveAssignment) => void;
  readonly #sent = new Map<
    number,
    { readonly session: WorkerSession; readonly assignments: readonly ActiveAssignment[] }
  >();
  /** Workers to send to at the end of this step. */
  readonly #pending = new Set<WorkerSession>();
  #nextId = 1;

  /** `stopped`: the worker confirmed that the attempt does not run. */
  constructor(state: ManagerState, stopped: (assignment: ActiveAssignment) => void) {
    this.#state = state;
    this.#stopped = stopped;
  }

  clear(): void {
    this.#pending.clear();
    this.#sent.clear();
  }

  /** Its result does not count from now on. One that is not recorded yet is never sent and ends with its commit. */
  stop(assignment: ActiveAssignment, reason: StopReason): void {
    assignment.stopping ??= reason;
    if (!assignment.isRecorded) return;
    assignment.worker.resendStopAtMs = Math.min(assignment.worker.resendStopAtMs, this.#state.nowMs);
    this.#pending.add(assignment.worker);
  }

  sendPending(): void {
    if (this.#pending.size === 0) return;
    for (const session of this.#pending) this.sendTo(session);
    this.#pending.clear();
  }

  /** Sends the stop requests of this worker that are due: one reason per message. */
  sendTo(session: WorkerSession): void {
    const { nowMs, effects, term } = this.#state;
    if (session.resendStopAtMs > nowMs || session.stopping) return;
    session.resendStopAtMs = Infinity;
    if (session.address === undefined) return this.#resendLater(session);
    const assignments: ActiveAssignment[] = [];
    const units: AttemptId[] = [];
    let reason: StopReason | undefined;
    for (const assignment of session.assignments) {
      if (assignment.stopping === undefined || !assignment.isRecorded) continue;
      reason ??= assignment.stopping;
      if (assignment.stopping !== reason || units.length === attemptsMax) {
        session.resendStopAtMs = nowMs;
        continue;
      }
      assignments.push(assignment);
      units.push(assignedAttemptId(assignment));
    }
    if (reason === undefined) return;
    const id = this.#nextId++;
    session.stopping = true;
    this.#sent.set(id, { session, assignments });
    effects.push({ kind: 'stop', id, to: session.address, message: { kind: 'stopUnits', term, units, reason } });
  }

  onStopReply(id: number, outcome: Outcome<JobMessage>): void {
    const sent = this.#sent.get(id);
    this.#sent.delete(id);
    if (sent === undefined) return;
    const { session, assignments } = sent;
    session.stopping = false;
    if (!outcome.ok || outcome.value.kind !== 'stopUnitsReply') return this.#resendLater(session);
    this.#pending.add(session);
    for (const assignment of assignments)
      if (session.assignments.has(assignment) && !awaitsMeasuredEnd(assignment)) this.#stopped(assignment);
  }

  #resendLater(session: WorkerSession): void {
    session.resendStopAtMs = Math.min(session.resendStopAtMs, this.#state.nowMs + resendMs);
  }
}
