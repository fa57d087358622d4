/**
 * Ends attempts at workers: a worker is asked again and again until it says that none of them runs, or until its lease
 * is over. Only then is the core counted as free, and whoever waits for the end is told.
 */
import type { Outcome } from '../../base/errors.ts';
import type { AttemptId, JobMessage } from '../../messages/jobs.ts';
import { attemptNameOf } from './giving.ts';
import type { Run, StopWhy } from './model.ts';
import type { Office } from './office.ts';
import type { Seat } from './seats.ts';

const restopMs = 500;
const namesMax = 1_000;

export class Stopping {
  readonly #office: Office;
  readonly #over: (run: Run) => void;
  readonly #sent = new Map<number, { readonly seat: Seat; readonly runs: readonly Run[] }>();
  /** Workers that are to be asked at the end of this step. */
  readonly #pending = new Set<Seat>();
  #nextId = 1;

  /** `over`: that attempt surely runs no longer. */
  constructor(office: Office, over: (run: Run) => void) {
    this.#office = office;
    this.#over = over;
  }

  clear(): void {
    this.#pending.clear();
    this.#sent.clear();
  }

  /** From now on it counts for nothing. What was never sent is over when its recording has ended. */
  stop(run: Run, why: StopWhy): void {
    run.stopping ??= why;
    if (!run.isRecorded) return;
    run.seat.restopAtMs = Math.min(run.seat.restopAtMs, this.#office.nowMs);
    this.#pending.add(run.seat);
  }

  flush(): void {
    if (this.#pending.size === 0) return;
    for (const seat of this.#pending) this.send(seat);
    this.#pending.clear();
  }

  /** Asks those workers that have something to end. */
  send(seat: Seat): void {
    const { nowMs, out, term } = this.#office;
    if (seat.restopAtMs > nowMs || seat.stopping) return;
    seat.restopAtMs = Infinity;
    if (seat.address === undefined) return this.#again(seat);
    const runs: Run[] = [];
    const units: AttemptId[] = [];
    let why: StopWhy | undefined;
    for (const run of seat.runs) {
      if (run.stopping === undefined || !run.isRecorded) continue;
      why ??= run.stopping;
      if (run.stopping !== why || units.length === namesMax) {
        seat.restopAtMs = nowMs;
        continue;
      }
      runs.push(run);
      units.push(attemptNameOf(run));
    }
    if (why === undefined) return;
    const id = this.#nextId++;
    seat.stopping = true;
    this.#sent.set(id, { seat, runs });
    out.push({ kind: 'stop', id, to: seat.address, message: { kind: 'stopUnits', term, units, why } });
  }

  answered(id: number, outcome: Outcome<JobMessage>): void {
    const sent = this.#sent.get(id);
    this.#sent.delete(id);
    if (sent === undefined) return;
    const { seat, runs } = sent;
    seat.stopping = false;
    if (!outcome.ok || outcome.value.kind !== 'unitsStopped') return this.#again(seat);
    this.#pending.add(seat);
    for (const run of runs) if (seat.runs.has(run)) this.#over(run);
  }

  #again(seat: Seat): void {
    seat.restopAtMs = Math.min(seat.restopAtMs, this.#office.nowMs + restopMs);
  }
}
