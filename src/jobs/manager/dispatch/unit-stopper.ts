/** Asks workers to stop attempts and resends until confirmed or the lease has expired. Only then is the core free. */
import type { Outcome } from '../../../base/errors.ts';
import type { AttemptId, JobMessage } from '../../../messages/jobs.ts';
import { assignedAttemptId } from './dispatcher.ts';
import type { ActiveAssignment, StopReason } from '../model/managed-job.ts';
import type { ManagerState } from '../state/manager-state.ts';
import type { WorkerSession } from '../model/worker-table.ts';

const restopMs = 500;
const namesMax = 1_000;

export class UnitStopper {
  readonly #office: ManagerState;
  readonly #over: (run: ActiveAssignment) => void;
  readonly #sent = new Map<number, { readonly seat: WorkerSession; readonly runs: readonly ActiveAssignment[] }>();
  /** Workers that are to be asked at the end of this step. */
  readonly #pending = new Set<WorkerSession>();
  #nextId = 1;

  /** `over`: that attempt surely runs no longer. */
  constructor(office: ManagerState, over: (run: ActiveAssignment) => void) {
    this.#office = office;
    this.#over = over;
  }

  clear(): void {
    this.#pending.clear();
    this.#sent.clear();
  }

  /** From now on it counts for nothing. What was never sent is over when its recording has ended. */
  stop(run: ActiveAssignment, why: StopReason): void {
    run.stopping ??= why;
    if (!run.isRecorded) return;
    run.worker.resendStopAtMs = Math.min(run.worker.resendStopAtMs, this.#office.nowMs);
    this.#pending.add(run.worker);
  }

  sendPending(): void {
    if (this.#pending.size === 0) return;
    for (const seat of this.#pending) this.sendTo(seat);
    this.#pending.clear();
  }

  /** Asks those workers that have something to end. */
  sendTo(seat: WorkerSession): void {
    const { nowMs, effects, term } = this.#office;
    if (seat.resendStopAtMs > nowMs || seat.stopping) return;
    seat.resendStopAtMs = Infinity;
    if (seat.address === undefined) return this.#again(seat);
    const runs: ActiveAssignment[] = [];
    const units: AttemptId[] = [];
    let why: StopReason | undefined;
    for (const run of seat.assignments) {
      if (run.stopping === undefined || !run.isRecorded) continue;
      why ??= run.stopping;
      if (run.stopping !== why || units.length === namesMax) {
        seat.resendStopAtMs = nowMs;
        continue;
      }
      runs.push(run);
      units.push(assignedAttemptId(run));
    }
    if (why === undefined) return;
    const id = this.#nextId++;
    seat.stopping = true;
    this.#sent.set(id, { seat, runs });
    effects.push({ kind: 'stop', id, to: seat.address, message: { kind: 'stopUnits', term, units, reason: why } });
  }

  onStopReply(id: number, outcome: Outcome<JobMessage>): void {
    const sent = this.#sent.get(id);
    this.#sent.delete(id);
    if (sent === undefined) return;
    const { seat, runs } = sent;
    seat.stopping = false;
    if (!outcome.ok || outcome.value.kind !== 'stopUnitsReply') return this.#again(seat);
    this.#pending.add(seat);
    for (const run of runs) if (seat.assignments.has(run)) this.#over(run);
  }

  #again(seat: WorkerSession): void {
    seat.resendStopAtMs = Math.min(seat.resendStopAtMs, this.#office.nowMs + restopMs);
  }
}
