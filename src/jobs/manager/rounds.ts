/**
 * What has to be looked at from time to time: deadlines of jobs and workflows, leases of workers, messages and
 * transactions that have to be sent again, start times, watchers. One timer for all.
 */
import { isOver } from '../job-words.ts';
import type { Bundles } from './bundles.ts';
import type { Flow } from './flow.ts';
import { forgetOld } from './forgetting.ts';
import type { Giving } from './giving.ts';
import type { Flight } from './ledger.ts';
import { type Job, isEnded } from './model.ts';
import type { Office } from './office.ts';
import type { Schedules } from './schedules.ts';
import type { Stopping } from './stopping.ts';
import type { Watching } from './watching.ts';
import type { Workers } from './workers.ts';

export type RoundsParts = {
  readonly giving: Giving;
  readonly stopping: Stopping;
  readonly flow: Flow;
  readonly workers: Workers;
  readonly watching: Watching;
  readonly bundles: Bundles;
  readonly schedules: Schedules;
};

const tickMs = 100;
const idleTickMs = 500;
const deadlinesMs = 500;
const clockMs = 1_000;

export class Rounds {
  readonly #office: Office;
  readonly #parts: RoundsParts;
  #deadlinesAtMs = 0;
  #recordedMs = 0;
  #again: Flight | undefined;
  /** Those whose status is recorded with the next round, unless something else is recorded of them before. */
  #soft: Job[] = [];

  constructor(office: Office, parts: RoundsParts) {
    this.#office = office;
    this.#parts = parts;
  }

  begin(): void {
    this.#deadlinesAtMs = 0;
    this.#recordedMs = this.#office.nowMs;
  }

  clear(): void {
    this.#again = undefined;
    this.#soft = [];
  }

  /** Something is being recorded, and with it the time. */
  recorded(): void {
    this.#recordedMs = this.#office.nowMs;
  }

  /** Nobody knows whether it was executed. It says the same a second time. */
  sendAgain(flight: Flight): void {
    this.#again = flight;
  }

  tick(): void {
    const { out, nowMs, seats, book, ledger } = this.#office;
    const { giving, stopping, workers, watching, bundles, schedules } = this.#parts;
    if (this.#again !== undefined) {
      out.push({ kind: 'transact', id: this.#again.id, transaction: this.#again.transaction });
      this.#again = undefined;
    }
    for (const seat of seats.values()) {
      if (seats.isOver(seat, nowMs)) workers.lose(seat, 'it was not heard for its lease');
      else {
        giving.resend(seat);
        stopping.send(seat);
      }
    }
    this.#recordSoft();
    forgetOld(this.#office);
    if (nowMs >= this.#deadlinesAtMs) this.#deadlines();
    watching.tick(nowMs);
    schedules.tick();
    bundles.tick(schedules.words());
    const isBusy = book.open.size > 0 || !watching.isEmpty;
    if (book.open.size > 0 && nowMs >= this.#recordedMs + clockMs) ledger.beat();
    out.push({ kind: 'schedule', atMs: nowMs + (isBusy ? tickMs : idleTickMs), timer: 'tick', key: 'tick' });
  }

  #recordSoft(): void {
    const { soft, ledger } = this.#office;
    for (const job of this.#soft) if (job.status !== job.shown && !isOver(job.status)) ledger.touch(job);
    this.#soft = [...soft];
    soft.clear();
  }

  #deadlines(): void {
    const { book, nowMs, managerMs, wallMs } = this.#office;
    const { flow } = this.#parts;
    this.#deadlinesAtMs = nowMs + deadlinesMs;
    for (const job of book.open) {
      if (isOver(job.status)) continue;
      if (job.status === 'SUBMITTED' && job.startAtMs !== undefined) {
        if (job.startAtMs <= wallMs) flow.begin(job);
        continue;
      }
      if (nowMs >= job.deadlineMs) {
        flow.expire(job);
        continue;
      }
      if (job.status === 'CANCELLING') continue;
      for (const workflow of job.workflows) {
        const { startedMs, facts } = workflow;
        const isLate = startedMs !== undefined && managerMs >= startedMs + facts.timeoutMs;
        if (isLate && !isEnded(workflow) && (workflow.code === undefined || workflow.phase === 'finish'))
          flow.expireWorkflow(workflow);
      }
    }
  }
}
