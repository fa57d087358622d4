/** What all parts of the leading manager share: the books, the time of the step that goes on, and what comes of it. */
import { CompactingSet } from '../../base/collections/compacting-map.ts';
import type { Fence } from '../../base/fence.ts';
import type { Random } from '../../base/random.ts';
import { fenceParts } from '../../base/fence.ts';
import type { IncidentRecord } from '../records/job-record.ts';
import { incidentsMax } from '../records/job-record.ts';
import type { ManagerEffect } from './acts.ts';
import type { Book } from './book.ts';
import { cut } from './checking.ts';
import type { Ledger } from './ledger.ts';
import type { Line } from './line.ts';
import type { JobEvent, ManagerOptions } from './manager-ports.ts';
import type { Job, Workflow } from './model.ts';
import type { Requests } from './requests.ts';
import type { Seats } from './seats.ts';
import type { Selection } from './selection.ts';

const eventsEachSecondMax = 500;

export class Office {
  readonly options: ManagerOptions;
  readonly book: Book;
  readonly seats: Seats;
  readonly selection: Selection;
  readonly line: Line;
  readonly ledger: Ledger;
  readonly requests: Requests;
  readonly random: Random;
  readonly #wallMs: () => number;
  /** Effects of the step that goes on. */
  out: ManagerEffect[] = [];
  nowMs = 0;
  /** Time of the managers is that of this leader and so much. */
  clockOffsetMs = 0;
  term = 0;
  #fence = 0n;
  /** Jobs whose status has changed in a way that may be recorded a little later. */
  readonly soft = new CompactingSet<Job>();
  #eventsSecond = 0;
  #events = 0;

  constructor(
    parts: Pick<Office, 'options' | 'book' | 'seats' | 'selection' | 'line' | 'ledger' | 'requests' | 'random'>,
    wallMs: () => number,
  ) {
    this.options = parts.options;
    this.book = parts.book;
    this.seats = parts.seats;
    this.selection = parts.selection;
    this.line = parts.line;
    this.ledger = parts.ledger;
    this.requests = parts.requests;
    this.random = parts.random;
    this.#wallMs = wallMs;
  }

  get wallMs(): number {
    return Math.max(0, Math.floor(this.#wallMs()));
  }

  /** What all leaders count together: for deadlines that outlive one of them. */
  get managerMs(): number {
    return Math.max(0, Math.floor(this.nowMs + this.clockOffsetMs));
  }

  lead(fence: Fence): void {
    this.#fence = fence;
    const { term, index } = fenceParts(fence);
    // A registry without terms of its own counts its leaders by its revisions.
    this.term = term > 0 ? term : index % 2 ** 32;
  }

  /** Above all that were given before for the same thing. */
  nextFence(last: bigint | undefined): bigint {
    this.#fence += 1n;
    return last !== undefined && last >= this.#fence ? last + 1n : this.#fence;
  }

  incident(job: Job, type: IncidentRecord['type'], node: string, effect: string): void {
    if (job.incidents.length < incidentsMax)
      job.incidents.push({ wallMs: this.wallMs, type, node, effect: cut(effect, 160) });
    job.isChanged = true;
  }

  /** Whoever watches has other things to do than to read thousands of them. */
  get mayTell(): boolean {
    return this.#events < eventsEachSecondMax || Math.floor(this.nowMs / 1_000) !== this.#eventsSecond;
  }

  tell(event: JobEvent): void {
    const second = Math.floor(this.nowMs / 1_000);
    if (second !== this.#eventsSecond) [this.#eventsSecond, this.#events] = [second, 0];
    this.#events += 1;
    if (this.#events <= eventsEachSecondMax) this.out.push({ kind: 'tell', event });
  }

  /** Numbers of it may have changed. */
  progressed(workflow: Workflow): void {
    workflow.job.isChanged = true;
  }
}
