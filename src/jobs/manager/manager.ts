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
import { forgetOld } from './forgetting.ts';
import { Giving } from './giving.ts';
import { type Flight, Ledger } from './ledger.ts';
import { Line } from './line.ts';
import type { Loading } from './loading.ts';
import { nameOf } from './making.ts';
import type { ManagerOptions, WorkerKnown } from './manager-ports.ts';
import { type Job, type Run, unitsOf } from './model.ts';
import { News } from './news.ts';
import { Office } from './office.ts';
import { Orders } from './orders.ts';
import { Requests } from './requests.ts';
import { Rounds } from './rounds.ts';
import { Schedules } from './schedules.ts';
import { Seats } from './seats.ts';
import { Selection } from './selection.ts';
import { Stopping } from './stopping.ts';
import { Takeover } from './takeover.ts';
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
/** So many are forgotten at a time when the registry is full. */
const roomJobs = 50;
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
  readonly #takeover: Takeover;
  #phase: Phase = 'idle';
  #fence: Uint8Array = new Uint8Array();
  /** What came while it was loading. */
  #held: Held[] = [];
  /** Reads and claims of the present time in office. */
  readonly #asked = new Map<number, (outcome: Outcome<RangeResult>) => void>();
  readonly #claims = new Map<number, (outcome: Outcome<TransactionResult>) => void>();
  #nextId = 1_000_000;
  #isFlushing = false;

  constructor(parts: ManagerParts, options: ManagerOptions) {
    const seats = new Seats(options.jobLeaseMs);
    const selection = new Selection(seats, parts.random.fork('selection'), parts.worker);
    const requests = new Requests(parts.sha256);
    const books = { book: new Book(), seats, selection, line: new Line(), ledger: new Ledger(), requests };
    this.#office = new Office({ ...books, options, random: parts.random.fork('seeds') }, parts.wallMs);
    this.#giving = new Giving(this.#office, (run, code, why) => this.#news.broken(run, code, why));
    this.#stopping = new Stopping(this.#office, (run) => this.#news.stopped(run));
    this.#flow = new Flow(this.#office, this.#giving, this.#stopping, (job) => this.#ended(job));
    this.#news = new News(this.#office, this.#giving, this.#flow);
    this.#workers = new Workers(this.#office, this.#giving, this.#news);
    this.#bundles = new Bundles(this.#office, (range, limit, done) => this.#read(range, limit, done));
    const hashOf = (text: string): string => parts.sha256(encoder.encode(text));
    this.#schedules = new Schedules(this.#office, {
      hashOf: (submitter, name) => hashOf(`${submitter}\0${name}`),
      fire: (words, submitter) => this.#orders.fire(words, submitter),
    });
    this.#orders = new Orders(
      this.#office,
      {
        ...{ dc: parts.dc, sha256: parts.sha256, knowsBundle: (sha256, done) => this.#bundles.knows(sha256, done) },
        gather: (call, verb, job, words) => this.#office.out.push({ kind: 'gather', call, verb, job, words }),
      },
      { giving: this.#giving, flow: this.#flow, schedules: this.#schedules },
    );
    this.#takeover = new Takeover(this.#office, {
      read: (range, limit, then) => this.#read(range, limit, then),
      transact: (transaction, then) => {
        const id = this.#nextId++;
        this.#claims.set(id, then);
        this.#office.out.push({ kind: 'transact', id, transaction });
      },
      failed: () => this.#loadLater(),
      ready: (jobs, loaded) => this.#lead(jobs, loaded),
    });
    const { watching } = this.#orders;
    const parts2 = { giving: this.#giving, stopping: this.#stopping, flow: this.#flow, workers: this.#workers };
    this.#rounds = new Rounds(this.#office, {
      ...parts2,
      watching,
      bundles: this.#bundles,
      schedules: this.#schedules,
    });
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

  /** Units that node has, or may still have. */
  unitsAt(node: NodeId): number {
    if (this.#phase !== 'leading') return 1;
    return this.#office.seats.get(node)?.runs.size ?? 0;
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
        return this.#office.selection.forget(this.#office.nowMs);
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
    this.#takeover.begin(this.#fence);
  }

  #lost(): void {
    for (const { call } of this.#held) this.#answer(call, failure('NOT_LEADER', 'this node leads no longer'));
    this.#forgetAll();
    this.#phase = 'idle';
  }

  #forgetAll(): void {
    const { book, seats, line, ledger, soft } = this.#office;
    for (const part of [book, seats, line, ledger, soft, this.#giving, this.#stopping, this.#news]) part.clear();
    const parts = [this.#orders.watching, this.#bundles, this.#schedules, this.#rounds, this.#takeover];
    for (const part of [...parts, this.#asked, this.#claims]) part.clear();
    this.#held = [];
    this.#isFlushing = false;
  }

  #hold(input: Held): void {
    if (this.#phase === 'leading') return this.#serve(input);
    if (this.#phase === 'idle') this.#answer(input.call, failure('NOT_LEADER', 'this node does not lead'));
    else if (this.#held.length >= heldMax) this.#answer(input.call, failure('CAPACITY', 'the new leader still reads'));
    else this.#held.push(input);
  }

  #serve(input: Held): void {
    const answer = (outcome: Outcome<CallAnswer>): void => this.#answer(input.call, outcome);
    if (input.kind === 'order') this.#orders.carryOut(input.call, input, answer);
    else if (input.kind === 'report') this.#workers.reported(input.from, input.message, answer);
    else this.#workers.told(input.from, input.message, answer);
  }

  #answer(call: number, outcome: Outcome<CallAnswer>): void {
    this.#office.out.push({ kind: 'answer', call, outcome });
  }

  #expired(timer: 'flush' | 'tick'): void {
    if (timer === 'flush') this.#isFlushing = false;
    if (this.#phase === 'idle') return;
    if (this.#phase === 'loading') return timer === 'tick' ? this.#takeover.begin(this.#fence) : undefined;
    if (timer === 'flush') this.#flush();
    else this.#rounds.tick();
  }

  #loadLater(): void {
    this.#office.out.push({ kind: 'schedule', atMs: this.#office.nowMs + retryMs, timer: 'tick', key: 'tick' });
  }

  /** The books are here: whatever was about to follow, follows now. */
  #lead(jobs: readonly Job[], { bundles, schedules }: Pick<Loading, 'bundles' | 'schedules'>): void {
    this.#phase = 'leading';
    this.#bundles.restore(bundles);
    this.#schedules.restore(schedules);
    for (const job of jobs) if (!isOver(job.status)) this.#resume(job);
    const held = this.#held;
    this.#held = [];
    this.#rounds.begin();
    for (const input of held) this.#serve(input);
    this.#office.out.push({ kind: 'schedule', atMs: this.#office.nowMs, timer: 'tick', key: 'tick' });
  }

  #resume(job: Job): void {
    const { seats, wallMs } = this.#office;
    for (const workflow of job.workflows)
      for (const { run } of unitsOf(workflow))
        if (run !== undefined && seats.get(run.seat.id) !== run.seat) this.#news.lost(run, 'it was started anew');
    if (job.startedMs !== undefined)
      this.#office.incident(job, 'leader.changed', '', 'another manager leads; what runs goes on');
    if (job.status !== 'SUBMITTED') this.#flow.resume(job);
    else if ((job.startAtMs ?? 0) <= wallMs) this.#flow.begin(job);
  }

  #read(range: KeyRange, limit: number, then: (outcome: Outcome<RangeResult>) => void): void {
    const id = this.#nextId++;
    this.#asked.set(id, then);
    this.#office.out.push({ kind: 'read', id, range, limit });
  }

  /** What was decided in this step: who gets a unit, who is asked to end one, what is recorded. */
  #afterwards(): void {
    const { ledger, out, nowMs } = this.#office;
    // What is given has to be recorded. While a transaction is under way nothing can be: then all is given at one time.
    if (!ledger.isFlying) this.#giving.pass();
    this.#stopping.flush();
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
    const claim = this.#claims.get(id);
    this.#claims.delete(id);
    if (claim !== undefined) return claim(outcome);
    if (this.#phase !== 'leading') return;
    const { ledger } = this.#office;
    const flight = ledger.flight(id);
    if (flight === undefined) return;
    if (!outcome.ok && outcome.error.code === 'STORE_FULL') return this.#makeRoom(flight);
    if (!outcome.ok) return this.#rounds.sendAgain(flight);
    if (!outcome.value.succeeded) return this.#refused(flight, outcome.value);
    ledger.landed();
    for (const piece of flight.pieces)
      if (piece.job !== undefined && piece.isState) this.#recorded(piece.job, piece.status);
    for (const run of flight.runs) this.#runRecorded(run);
    this.#giving.send(flight.runs);
    for (const { releases } of flight.pieces) for (const release of releases) release();
  }

  #recorded(job: Job, status: Job['status'] | undefined): void {
    job.isStored = true;
    job.words = '';
    if (status === undefined || status === job.shown) return;
    job.shown = status;
    job.isChanged = true;
    if (this.#office.mayTell) this.#office.tell({ kind: 'job.state', job: job.id, name: nameOf(job), status });
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

  /** Nothing of it was recorded, because the registry is full: older jobs that are over go first. */
  #makeRoom(flight: Flight): void {
    const { ledger, out, nowMs } = this.#office;
    ledger.undo(flight, () => false);
    forgetOld(this.#office, roomJobs);
    ledger.makeRoom();
    this.#isFlushing = true;
    out.push({ kind: 'schedule', atMs: nowMs + retryMs, timer: 'flush', key: 'flush' });
  }

  /** Its end is recorded. */
  #ended(job: Job): void {
    this.#office.book.ended(job);
    this.#orders.watching.ended(job);
    forgetOld(this.#office);
  }
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
