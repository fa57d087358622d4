/**
 * What the leader hears of workers themselves: reports, news, deaths. A report renews the lease of a worker and says what
 * it runs: what is ours goes on, what is not is ended, and what it should have and has not is sent again, the same
 * attempt. A later life of a worker ends the earlier one.
 */
import { type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Identity } from '../../base/ports.ts';
import type { AttemptId, JobMessageOf } from '../../messages/jobs.ts';
import type { Giving } from './giving.ts';
import { type Attempt, type Run, type Unit, unitOf } from './model.ts';
import type { News } from './news.ts';
import type { Office } from './office.ts';
import type { Seat } from './seats.ts';

/** A worker that does not list what was sent a moment ago may not have had it when it wrote. */
const crossingMs = 1_000;
const restMs = 1_000;
/** What only the worker itself could have said. */
const told: ReadonlySet<string> = new Set(['completed', 'failed', 'returned']);
/** What is missing was sent again so often, and did not come back. */
const missedMax = 4;

export class Workers {
  readonly #office: Office;
  readonly #giving: Giving;
  readonly #news: News;

  constructor(office: Office, giving: Giving, news: News) {
    this.#office = office;
    this.#giving = giving;
    this.#news = news;
  }

  reported(
    from: Identity,
    message: JobMessageOf<'workerReport'>,
    reply: (outcome: Outcome<JobMessageOf<'workerHeard'>>) => void,
  ): void {
    const seat = this.#seat(from, message.generation);
    if (!seat.ok) return reply(seat);
    seat.value.address = { host: from.host, port: from.port };
    const stop = this.#listed(seat.value, message);
    const { term, options } = this.#office;
    reply(success({ kind: 'workerHeard', term, leaseMs: options.jobLeaseMs, stop }));
  }

  told(
    from: Identity,
    message: JobMessageOf<'tellUnits'>,
    reply: (outcome: Outcome<JobMessageOf<'unitsHeard'>>) => void,
  ): void {
    const seat = this.#office.seats.get(from.id);
    // Who did not report yet has no lease; its ends are told again after that.
    if (seat === undefined || !seat.isHeard || seat.generation !== message.generation)
      return reply(failure('PRECONDITION', 'report first'));
    this.#news.heard(seat, message.reports, (answer) => reply(success(answer)));
  }

  /** Proof: that life runs no longer. */
  gone(id: NodeId, generation: number): void {
    const seat = this.#office.seats.get(id);
    if (seat !== undefined && seat.generation <= generation) this.lose(seat, 'its process is gone');
  }

  /** Everything that it had begins anew elsewhere. */
  lose(seat: Seat, why: string): void {
    this.#office.seats.close(seat);
    for (const run of seat.runs) this.#news.lost(run, why);
    seat.runs.clear();
  }

  /** It was never recorded that this worker has it, because the worker is not registered. */
  takeBack(run: Run, nowMs: number): void {
    const { seat, unit } = run;
    seat.restUntilMs = nowMs + restMs;
    if (run.stopping !== undefined) return this.#news.stopped(run);
    seat.runs.delete(run);
    if (unit.run !== run) return;
    unit.run = undefined;
    unit.attempts.pop();
    unit.workflow.active -= 1;
    this.#giving.putBack(unit);
  }

  #seat(from: Identity, generation: number): Outcome<Seat> {
    const { seats, nowMs } = this.#office;
    const known = seats.get(from.id);
    if (known !== undefined && known.generation > generation)
      return failure('FENCED', `generation ${known.generation} of ${from.name} is known`);
    if (known?.generation === generation) return success(known);
    if (known === undefined && seats.isFull()) return failure('CAPACITY', 'there are too many workers');
    if (known !== undefined) this.lose(known, 'it was started anew');
    return success(seats.open(from.id, from.name, generation, nowMs));
  }

  /** Takes the report in; the answer is what the worker has to end. */
  #listed(
    seat: Seat,
    { coresTotal, level, draining, isolation, attempts }: JobMessageOf<'workerReport'>,
  ): readonly AttemptId[] {
    const { nowMs, book } = this.#office;
    Object.assign(seat, { coresTotal, level, draining, isolation, isHeard: true, heardMs: nowMs });
    const listed = new Set<Run>();
    const stop: AttemptId[] = [];
    for (const name of attempts) {
      const workflow = book.get(name.job)?.workflows[name.workflow];
      const unit = workflow === undefined ? undefined : unitOf(workflow, name.unit);
      const run = unit?.run;
      if (run?.seat === seat && isSame(run.attempt, name)) {
        listed.add(run);
        run.missed = 0;
        if (run.stopping === undefined) this.#giving.taken(run);
        else stop.push(name);
      } else if (unit === undefined || !isTold(unit, name)) stop.push(name);
    }
    for (const run of seat.runs) {
      if (listed.has(run) || !run.isRecorded || run.stopping !== undefined || run.sentMs > nowMs - crossingMs) continue;
      run.missed += 1;
      if (run.missed < missedMax) {
        run.isTaken = false;
        seat.resendAtMs = nowMs;
      } else this.#news.lost(run, 'it does not have it');
    }
    this.#giving.resend(seat);
    return stop;
  }
}

function isSame(attempt: Attempt, name: AttemptId): boolean {
  return attempt.attempt === name.attempt && attempt.fence === name.fence;
}

/** Its end was told to us and is perhaps not recorded yet: the worker has to keep it until it hears so. */
function isTold({ state, attempts }: Unit, name: AttemptId): boolean {
  const last = attempts.at(-1);
  if (last === undefined || !isSame(last, name)) return false;
  return state === 'storing' || told.has(last.outcome);
}
