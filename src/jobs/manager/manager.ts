/**
 * The manager of jobs of the node that leads, as one machine: it wakes up when this node becomes the leader, reads what
 * was recorded, and from then on takes orders, gives units, hears of them, and loses workers, until it leads no longer.
 * It holds the parts together and decides little itself; each part says what it owns.
 */
import { unreachable } from '../../base/assert.ts';
import { type Outcome, failure } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { KeyRange, RangeResult, TransactionResult } from '../../base/registry.ts';
import { isOver } from '../job-words.ts';
import type { CallAnswer, ManagerEffect, ManagerInput, ManagerStep } from './acts.ts';
import { Book } from './book.ts';
import { Bundles } from './bundles.ts';
import { Flow } from './flow.ts';
import { Giving } from './giving.ts';
import { type Flight, Ledger } from './ledger.ts';
import { Line } from './line.ts';
import { Loading, Thawing, type Wanted } from './loading.ts';
import { nameOf } from './making.ts';
import type { ManagerOptions, WorkerKnown } from './manager-ports.ts';
import type { Job, Run } from './model.ts';
import { News } from './news.ts';
import { Office } from './office.ts';
import { Orders } from './orders.ts';
import { missingOutputs, restoreJob, restoreValues } from './restoring.ts';
import { Rounds } from './rounds.ts';
import { Schedules } from './schedules.ts';
import { Seats, newSeat } from './seats.ts';
import { Selection } from './selection.ts';
import { Stopping } from './stopping.ts';
import { Watching } from './watching.ts';
import { Workers } from './workers.ts';

export type ManagerParts = {
  readonly random: Random;
  readonly dc: string;
  readonly worker: (id: NodeId) => WorkerKnown | undefined;
  readonly sha256: (bytes: Uint8Array) => string;
  /** For people, start times and schedules; nothing else is decided by it. */
  readonly wallMs: () => number;
};

type Phase = 'idle' | 'loading' | 'leading';
type Held = Extract<ManagerInput, { readonly kind: 'order' | 'report' | 'news' }>;

const heldMax = 20_000;
const retryMs = 300;
const encoder = new TextEncoder();

export class Manager {
  readonly #office: Office;
  readonly #giving: Giving;
  readonly #stopping: Stopping;
  readonly #flow: Flow;
  readonly #news: News;
  readonly #orders: Orders;
  readonly #workers: Workers;
  readonly #rounds: Rounds;
  readonly #bundles: Bundles;
  readonly #schedules: Schedules;
  #phase: Phase = 'idle';
  #fence: Uint8Array = new Uint8Array();
  #loading: Loading | undefined;
  #thawing: Thawing | undefined;
  #restored: Job[] = [];
  /** What came while it was loading. */
  #held: Held[] = [];
  /** Reads and claims of the present time in office. */
  readonly #asked = new Map<number, (outcome: Outcome<RangeResult>) => void>();
  #nextId = 1_000_000;
  #claimId = 0;
  #isFlushing = false;

  constructor(parts: ManagerParts, options: ManagerOptions) {
    const seats = new Seats(options.jobLeaseMs);
    const selection = new Selection(seats, parts.random.fork('selection'), parts.worker);
    const books = { book: new Book(), seats, selection, line: new Line(), ledger: new Ledger() };
    this.#office = new Office({ ...books, options, random: parts.random.fork('seeds') }, parts.wallMs);
    this.#giving = new Giving(this.#office);
    this.#stopping = new Stopping(this.#office, (run) => this.#news.stopped(run));
    this.#flow = new Flow(this.#office, this.#giving, this.#stopping, (job) => this.#ended(job));
    this.#news = new News(this.#office, this.#giving, this.#flow);
    this.#workers = new Workers(this.#office, this.#giving, this.#news);
    this.#bundles = new Bundles(this.#office, (range, limit, done) => this.#read(range, limit, done));
    this.#schedules = new Schedules();
    this.#orders = new Orders(
      this.#office,
      {
        ...{ dc: parts.dc, sha256: parts.sha256, knowsBundle: (sha256, done) => this.#bundles.knows(sha256, done) },
        gather: (call, verb, job, words) => this.#office.out.push({ kind: 'gather', call, verb, job, words }),
      },
      { giving: this.#giving, flow: this.#flow, schedules: this.#schedules },
    );
    const { watching } = this.#orders;
    const parts2 = { giving: this.#giving, stopping: this.#stopping, flow: this.#flow, workers: this.#workers };
    this.#rounds = new Rounds(this.#office, { ...parts2, watching, bundles: this.#bundles });
  }

  get phase(): Phase {
    return this.#phase;
  }

  counts(): { readonly open: number; readonly queued: number; readonly running: number } {
    const { open } = this.#office.book;
    let queued = 0;
    for (const { status } of open) if (status === 'QUEUED' || status === 'SUBMITTED') queued += 1;
    return { open: open.size, queued, running: open.size - queued };
  }

  step(nowMs: number, input: ManagerStep): readonly ManagerEffect[] {
    this.#office.out = [];
    this.#office.nowMs = nowMs;
    this.#take(input);
    if (this.#phase === 'leading') this.#afterwards();
    return this.#office.out;
  }

  #take(input: ManagerStep): void {
    switch (input.kind) {
      case 'became':
        return this.#became(input.fence);
      case 'lost':
        return this.#lost();
      case 'read': {
        const then = this.#asked.get(input.id);
        this.#asked.delete(input.id);
        return then?.(input.outcome);
      }
      case 'transacted':
        return this.#transacted(input.id, input.outcome);
      case 'order':
      case 'report':
      case 'news':
        return this.#hold(input);
      case 'given':
        return this.#giving.answered(input.id, input.outcome);
      case 'stopped':
        return this.#stopping.answered(input.id, input.outcome);
      case 'gone':
        return this.#phase === 'leading' ? this.#workers.gone(input.node, input.generation) : undefined;
      case 'members':
      case 'persistFailed':
        return;
      case 'expired':
        return this.#expired(input.timer);
      default:
        return unreachable(input);
    }
  }

  #became(fence: Fence): void {
    this.#forgetAll();
    this.#office.lead(fence);
    this.#fence = encoder.encode(String(fence));
    this.#phase = 'loading';
    this.#load();
  }

  #lost(): void {
    for (const { call } of this.#held) this.#answer(call, failure('NOT_LEADER', 'this node leads no longer'));
    this.#forgetAll();
    this.#phase = 'idle';
  }

  #forgetAll(): void {
    const { book, seats, line, ledger, soft } = this.#office;
    for (const part of [book, seats, line, ledger, soft, this.#giving, this.#stopping, this.#news]) part.clear();
    for (const part of [this.#orders.watching, this.#asked, this.#bundles, this.#rounds]) part.clear();
    this.#held = [];
    this.#restored = [];
    this.#loading = undefined;
    this.#thawing = undefined;
    this.#isFlushing = false;
    this.#claimId = 0;
  }

  #hold(input: Held): void {
    if (this.#phase === 'leading') return this.#serve(input);
    if (this.#phase === 'idle') this.#answer(input.call, failure('NOT_LEADER', 'this node does not lead'));
    else if (this.#held.length >= heldMax) this.#answer(input.call, failure('CAPACITY', 'the new leader still reads'));
    else this.#held.push(input);
  }

  #serve(input: Held): void {
    const answer = (outcome: Outcome<CallAnswer>): void => this.#answer(input.call, outcome);
    if (input.kind === 'order') this.#orders.carryOut(input.call, input.verb, input.words, input.submitter, answer);
    else if (input.kind === 'report') this.#workers.reported(input.from, input.message, answer);
    else this.#workers.told(input.from, input.message, answer);
  }

  #answer(call: number, outcome: Outcome<CallAnswer>): void {
    this.#office.out.push({ kind: 'answer', call, outcome });
  }

  #expired(timer: 'flush' | 'tick'): void {
    if (timer === 'flush') this.#isFlushing = false;
    if (this.#phase === 'idle') return;
    if (this.#phase === 'loading') return timer === 'tick' ? this.#load() : undefined;
    if (timer === 'flush') this.#flush();
    else this.#rounds.tick();
  }

  /** From the beginning; also again, after something failed. */
  #load(): void {
    this.#asked.clear();
    this.#claimId = 0;
    this.#thawing = undefined;
    this.#loading = new Loading(this.#fence);
    this.#loadNext();
  }

  #loadNext(): void {
    const wanted = this.#thawing === undefined ? this.#loading?.next() : this.#thawing.next();
    if (wanted !== undefined) return this.#want(wanted);
    if (this.#thawing === undefined) this.#restore();
    else this.#lead();
  }

  #want(wanted: Wanted): void {
    if (wanted.kind === 'transact') {
      this.#claimId = this.#nextId++;
      this.#office.out.push({ kind: 'transact', id: this.#claimId, transaction: wanted.transaction });
      return;
    }
    this.#read(wanted.range, wanted.limit, (outcome) => {
      if (this.#phase !== 'loading') return;
      if (!outcome.ok) return this.#loadLater();
      const { entries, more } = outcome.value;
      (this.#thawing ?? this.#loading)?.read(entries, more);
      this.#loadNext();
    });
  }

  #loadLater(): void {
    this.#office.out.push({ kind: 'schedule', atMs: this.#office.nowMs + retryMs, timer: 'tick', key: 'tick' });
  }

  #restore(): void {
    const loading = this.#loading as Loading;
    const { nowMs, seats, options, term, book } = this.#office;
    this.#office.clockOffsetMs = loading.clockMs - nowMs;
    const late: Run[] = [];
    this.#restored = [];
    for (const recorded of loading.recorded()) {
      try {
        const job = restoreJob(recorded, {
          ...{ nowMs, managerMs: this.#office.managerMs, jobTimeoutMs: options.jobTimeoutMs },
          seatOf: (id, name, generation) => {
            const seat = seats.get(id);
            if (seat?.generation === generation) return seat;
            if (seat === undefined || seat.generation < generation) {
              if (seat !== undefined) late.push(...seat.runs);
              return seats.open(id, name, generation, nowMs);
            }
            const detached = newSeat(id, name, generation, nowMs - 10 * options.jobLeaseMs);
            return detached;
          },
        });
        job.version = Watching.firstVersion(term);
        this.#restored.push(job);
      } catch {
        // A later version wrote what this one does not understand: it stays as it is.
      }
    }
    const inOrder = this.#restored.toSorted((a, b) => (a.endedMs ?? 0) - (b.endedMs ?? 0));
    for (const job of inOrder) if (isOver(job.status)) book.add(job);
    for (const job of this.#restored) if (!isOver(job.status)) book.add(job);
    this.#bundles.restore(loading.bundles);
    this.#loading = undefined;
    this.#thawing = new Thawing(this.#restored, missingOutputs);
    this.#loadNext();
  }

  #lead(): void {
    this.#phase = 'leading';
    this.#thawing = undefined;
    const { seats, wallMs } = this.#office;
    for (const job of this.#restored) {
      if (isOver(job.status)) continue;
      restoreValues(job);
      for (const workflow of job.workflows)
        for (const { run } of workflow.units)
          if (run !== undefined && seats.get(run.seat.id) !== run.seat) this.#news.lost(run, 'it was started anew');
      if (job.startedMs !== undefined)
        this.#office.incident(job, 'leader.changed', '', 'another manager leads; what runs goes on');
      if (job.status === 'SUBMITTED' && (job.startAtMs ?? 0) <= wallMs) this.#flow.begin(job);
      else if (job.status !== 'SUBMITTED') this.#flow.resume(job);
    }
    this.#restored = [];
    const held = this.#held;
    this.#held = [];
    this.#rounds.begin();
    for (const input of held) this.#serve(input);
    this.#office.out.push({ kind: 'schedule', atMs: this.#office.nowMs, timer: 'tick', key: 'tick' });
  }

  #read(range: KeyRange, limit: number, then: (outcome: Outcome<RangeResult>) => void): void {
    const id = this.#nextId++;
    this.#asked.set(id, then);
    this.#office.out.push({ kind: 'read', id, range, limit });
  }

  /** What was decided in this step: who gets a unit, who is asked to end one, what is recorded. */
  #afterwards(): void {
    this.#giving.pass();
    this.#stopping.flush();
    const { ledger, out, nowMs } = this.#office;
    if (this.#isFlushing || ledger.isFlying || !ledger.isWanted) return;
    this.#isFlushing = true;
    out.push({ kind: 'schedule', atMs: nowMs, timer: 'flush', key: 'flush' });
  }

  #flush(): void {
    const { ledger, managerMs, out } = this.#office;
    const flight = ledger.next(this.#fence, managerMs);
    if (flight === undefined) return;
    this.#rounds.recorded();
    out.push({ kind: 'transact', id: flight.id, transaction: flight.transaction });
  }

  #transacted(id: number, outcome: Outcome<TransactionResult>): void {
    if (this.#phase === 'loading' && id === this.#claimId) {
      if (!outcome.ok || !outcome.value.succeeded) return this.#loadLater();
      this.#loading?.claimed();
      return this.#loadNext();
    }
    if (this.#phase !== 'leading') return;
    const { ledger } = this.#office;
    const flight = ledger.flight(id);
    if (flight === undefined) return;
    if (!outcome.ok) return this.#rounds.sendAgain(flight);
    if (!outcome.value.succeeded) return this.#refused(flight, outcome.value);
    ledger.landed();
    for (const piece of flight.pieces.values())
      if (piece.job !== undefined && piece.isState) this.#recorded(piece.job, piece.status);
    for (const run of flight.runs) this.#runRecorded(run);
    this.#giving.send(flight.runs);
    for (const piece of flight.pieces.values()) for (const release of piece.releases) release();
  }

  #recorded(job: Job, status: Job['status'] | undefined): void {
    job.isStored = true;
    job.words = '';
    if (status === undefined || status === job.shown) return;
    job.shown = status;
    job.isChanged = true;
    this.#office.tell({ kind: 'job.state', job: job.id, name: nameOf(job), status });
  }

  #runRecorded(run: Run): void {
    run.isRecorded = true;
    // Nobody heard of it, so nothing has to be ended.
    if (run.stopping !== undefined && run.seat.runs.has(run)) this.#news.stopped(run);
  }

  /** Somebody else leads, or a worker that was chosen is not registered. */
  #refused(flight: Flight, { results }: TransactionResult): void {
    const { ledger, nowMs } = this.#office;
    const isThere = (index: number): boolean => {
      const result = results[index];
      return result?.kind === 'read' && result.entries.length > 0;
    };
    const missing = new Set(flight.workers.filter((_, index) => !isThere(index + 1)));
    const [first] = results;
    const fence = first?.kind === 'read' ? first.entries[0]?.value : undefined;
    if (fence === undefined || !isSame(fence, this.#fence)) {
      // The books are those of another leader now. If we lead again, we are told.
      this.#forgetAll();
      this.#phase = 'idle';
      return;
    }
    ledger.undo(flight, (run) => missing.has(run.seat.id));
    for (const run of flight.runs) if (missing.has(run.seat.id)) this.#workers.takeBack(run, nowMs);
  }

  /** Its end is recorded. */
  #ended(job: Job): void {
    const { book, ledger } = this.#office;
    book.ended(job);
    this.#orders.watching.ended(job);
    for (let old = book.takeOldest(); old !== undefined; old = book.takeOldest()) ledger.forget(old);
  }
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
