/**
 * The job manager of the leading node as one machine. Wires its parts and routes inputs. Inputs that arrive while it
 * restores are held, bounded.
 */
import { unreachable } from '../../base/assert.ts';
import { type Outcome, failure } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Random } from '../../base/random.ts';
import type { KeyRange, RangeResult, TransactionResult } from '../../base/registry.ts';
import { isTerminalStatus } from '../job-types.ts';
import type { ManagerReply, ManagerEffect, ManagerInput, ManagerStepInput } from './state/manager-io.ts';
import { JobStore } from './state/job-store.ts';
import { BundleCatalog } from './api/bundle-catalog.ts';
import { JobLifecycle } from './dispatch/job-lifecycle.ts';
import { deleteOldJobs } from './state/retention.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import { type CommitBatch, CommitBatcher } from './state/commit-batcher.ts';
import { RunQueue } from './state/run-queue.ts';
import type { RestoreState } from './recovery/restore-reader.ts';
import { nameOf } from './submission/job-factory.ts';
import type { JobManagerOptions, WorkerStatus } from './state/manager-ports.ts';
import { type ManagedJob, type ActiveAssignment, allUnits } from './model/managed-job.ts';
import { WorkerReports } from './dispatch/worker-reports.ts';
import { ManagerState } from './state/manager-state.ts';
import { JobCommands } from './api/job-commands.ts';
import { RequestCache } from './submission/request-cache.ts';
import { PeriodicWork } from './periodic-work.ts';
import { Schedules } from './api/schedules.ts';
import { WorkerTable } from './model/worker-table.ts';
import { WorkerSelector } from './state/worker-selector.ts';
import { UnitStopper } from './dispatch/unit-stopper.ts';
import { LeaderTakeover } from './recovery/leader-takeover.ts';
import { WorkerHeartbeats } from './dispatch/worker-heartbeats.ts';

export type JobManagerParts = {
  readonly random: Random;
  readonly dc: string;
  readonly worker: (id: NodeId) => WorkerStatus | undefined;
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

export class JobManager {
  readonly #office: ManagerState;
  readonly #giving: Dispatcher;
  readonly #stopping: UnitStopper;
  readonly #flow: JobLifecycle;
  readonly #news: WorkerReports;
  readonly #orders: JobCommands;
  readonly #workers: WorkerHeartbeats;
  readonly #rounds: PeriodicWork;
  readonly #bundles: BundleCatalog;
  readonly #schedules: Schedules;
  readonly #takeover: LeaderTakeover;
  #phase: Phase = 'idle';
  #fence: Uint8Array = new Uint8Array();
  /** What came while it was loading. */
  #held: Held[] = [];
  /** Reads and claims of the present time in office. */
  readonly #asked = new Map<number, (outcome: Outcome<RangeResult>) => void>();
  readonly #claims = new Map<number, (outcome: Outcome<TransactionResult>) => void>();
  #nextId = 1_000_000;
  #isFlushing = false;

  constructor(parts: JobManagerParts, options: JobManagerOptions) {
    const workers = new WorkerTable(options.jobLeaseMs);
    const selection = new WorkerSelector(workers, parts.random.fork('selection'), parts.worker);
    const requests = new RequestCache(parts.sha256);
    const books = {
      jobs: new JobStore(),
      workers,
      selection,
      runQueue: new RunQueue(),
      commits: new CommitBatcher(),
      requests,
    };
    this.#office = new ManagerState({ ...books, options, random: parts.random.fork('seeds') }, parts.wallMs);
    this.#giving = new Dispatcher(this.#office, (run, code, why) => this.#news.assignmentFailed(run, code, why));
    this.#stopping = new UnitStopper(this.#office, (run) => this.#news.assignmentStopped(run));
    this.#flow = new JobLifecycle(this.#office, this.#giving, this.#stopping, (job) => this.#ended(job));
    this.#news = new WorkerReports(this.#office, this.#giving, this.#flow);
    this.#workers = new WorkerHeartbeats(this.#office, this.#giving, this.#news);
    this.#bundles = new BundleCatalog(this.#office, (range, limit, done) => this.#read(range, limit, done));
    const hashOf = (text: string): string => parts.sha256(encoder.encode(text));
    this.#schedules = new Schedules(this.#office, {
      hashOf: (submitter, name) => hashOf(`${submitter}\0${name}`),
      submit: (words, submitter) => this.#orders.submitScheduled(words, submitter),
    });
    this.#orders = new JobCommands(
      this.#office,
      {
        ...{ dc: parts.dc, sha256: parts.sha256, knowsBundle: (sha256, done) => this.#bundles.isStored(sha256, done) },
        gather: (call, verb, job, argumentsJson) =>
          this.#office.effects.push({ kind: 'gather', call, verb, job, argumentsJson }),
      },
      { giving: this.#giving, flow: this.#flow, schedules: this.#schedules },
    );
    this.#takeover = new LeaderTakeover(this.#office, {
      read: (range, limit, then) => this.#read(range, limit, then),
      transact: (transaction, then) => {
        const id = this.#nextId++;
        this.#claims.set(id, then);
        this.#office.effects.push({ kind: 'transact', id, transaction });
      },
      failed: () => this.#loadLater(),
      ready: (jobs, loaded) => this.#lead(jobs, loaded),
    });
    const { watching } = this.#orders;
    const parts2 = { giving: this.#giving, stopping: this.#stopping, flow: this.#flow, workers: this.#workers };
    this.#rounds = new PeriodicWork(this.#office, {
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
    const { open } = this.#office.jobs;
    let queued = 0;
    for (const { status } of open) if (status === 'QUEUED' || status === 'SUBMITTED') queued += 1;
    return { open: open.size, queued, running: open.size - queued };
  }

  /** Units that node has, or may still have. */
  unitsAt(node: NodeId): number {
    if (this.#phase !== 'leading') return 1;
    return this.#office.workers.get(node)?.assignments.size ?? 0;
  }

  step(nowMs: number, input: ManagerStepInput): readonly ManagerEffect[] {
    this.#office.effects = [];
    this.#office.nowMs = nowMs;
    this.#take(input);
    if (this.#phase === 'leading') this.#afterwards();
    return this.#office.effects;
  }

  #take(input: ManagerStepInput): void {
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
        return this.#giving.onAssignReply(input.id, input.outcome);
      case 'stopped':
        return this.#stopping.onStopReply(input.id, input.outcome);
      case 'gone':
        return this.#phase === 'leading' ? this.#workers.processGone(input.node, input.generation) : undefined;
      case 'members':
        return this.#office.selection.invalidate(this.#office.nowMs);
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
    this.#office.becomeLeader(fence);
    this.#fence = encoder.encode(String(fence));
    this.#phase = 'loading';
    this.#takeover.begin(this.#fence);
  }

  #lost(): void {
    for (const { call } of this.#held) this.#answer(call, failure('NOT_LEADER', 'this node leads no longer', 'no'));
    this.#forgetAll();
    this.#phase = 'idle';
  }

  #forgetAll(): void {
    const { jobs, workers, runQueue, commits, deferredStatus } = this.#office;
    for (const part of [jobs, workers, runQueue, commits, deferredStatus, this.#giving, this.#stopping, this.#news])
      part.clear();
    const parts = [this.#orders.watching, this.#bundles, this.#schedules, this.#rounds, this.#takeover];
    for (const part of [...parts, this.#asked, this.#claims]) part.clear();
    this.#held = [];
    this.#isFlushing = false;
  }

  #hold(input: Held): void {
    if (this.#phase === 'leading') return this.#serve(input);
    if (this.#phase === 'idle') this.#answer(input.call, failure('NOT_LEADER', 'this node does not lead', 'no'));
    else if (this.#held.length >= heldMax) this.#answer(input.call, failure('CAPACITY', 'the new leader still reads'));
    else this.#held.push(input);
  }

  #serve(input: Held): void {
    const answer = (outcome: Outcome<ManagerReply>): void => this.#answer(input.call, outcome);
    if (input.kind === 'order') this.#orders.execute(input.call, input, answer);
    else if (input.kind === 'report') this.#workers.onHeartbeat(input.from, input.message, answer);
    else this.#workers.onUnitReports(input.from, input.message, answer);
  }

  #answer(call: number, outcome: Outcome<ManagerReply>): void {
    this.#office.effects.push({ kind: 'answer', call, outcome });
  }

  #expired(timer: 'flush' | 'tick'): void {
    if (timer === 'flush') this.#isFlushing = false;
    if (this.#phase === 'idle') return;
    if (this.#phase === 'loading') return timer === 'tick' ? this.#takeover.begin(this.#fence) : undefined;
    if (timer === 'flush') this.#flush();
    else this.#rounds.tick();
  }

  #loadLater(): void {
    this.#office.effects.push({ kind: 'schedule', atMs: this.#office.nowMs + retryMs, timer: 'tick', key: 'tick' });
  }

  /** The books are here: whatever was about to follow, follows now. */
  #lead(jobs: readonly ManagedJob[], { bundles, schedules }: Pick<RestoreState, 'bundles' | 'schedules'>): void {
    this.#phase = 'leading';
    this.#bundles.restore(bundles);
    this.#schedules.restore(schedules);
    for (const job of jobs) if (!isTerminalStatus(job.status)) this.#resume(job);
    const held = this.#held;
    this.#held = [];
    this.#rounds.begin();
    for (const input of held) this.#serve(input);
    this.#office.effects.push({ kind: 'schedule', atMs: this.#office.nowMs, timer: 'tick', key: 'tick' });
  }

  #resume(job: ManagedJob): void {
    const { workers, wallMs } = this.#office;
    for (const workflow of job.workflows)
      for (const { assignment } of allUnits(workflow))
        if (assignment !== undefined && workers.get(assignment.worker.id) !== assignment.worker)
          this.#news.assignmentLost(assignment, 'it was started anew');
    if (job.startedMs !== undefined)
      this.#office.addIncident(job, 'leader.changed', '', 'another manager leads; what runs goes on');
    if (job.status !== 'SUBMITTED') this.#flow.resume(job);
    else if ((job.startAtMs ?? 0) <= wallMs) this.#flow.begin(job);
  }

  #read(range: KeyRange, limit: number, then: (outcome: Outcome<RangeResult>) => void): void {
    const id = this.#nextId++;
    this.#asked.set(id, then);
    this.#office.effects.push({ kind: 'read', id, range, limit });
  }

  /** What was decided in this step: who gets a unit, who is asked to end one, what is recorded. */
  #afterwards(): void {
    const { commits, effects, nowMs } = this.#office;
    // What is given has to be recorded. While a transaction is under way nothing can be: then all is given at one time.
    if (!commits.isInFlight) this.#giving.dispatch();
    this.#stopping.sendPending();
    if (this.#isFlushing || commits.isInFlight || !commits.hasPending) return;
    this.#isFlushing = true;
    effects.push({ kind: 'schedule', atMs: nowMs, timer: 'flush', key: 'flush' });
  }

  #flush(): void {
    const { commits, managerClockMs, effects } = this.#office;
    const flight = commits.nextBatch(this.#fence, managerClockMs);
    if (flight === undefined) return;
    this.#rounds.clockRecorded();
    effects.push({ kind: 'transact', id: flight.id, transaction: flight.transaction });
  }

  #transacted(id: number, outcome: Outcome<TransactionResult>): void {
    const claim = this.#claims.get(id);
    this.#claims.delete(id);
    if (claim !== undefined) return claim(outcome);
    if (this.#phase !== 'leading') return;
    const { commits } = this.#office;
    const flight = commits.inFlight(id);
    if (flight === undefined) return;
    if (!outcome.ok && outcome.error.code === 'STORE_FULL') return this.#makeRoom(flight);
    if (!outcome.ok) return this.#rounds.resend(flight);
    if (!outcome.value.succeeded) return this.#refused(flight, outcome.value);
    commits.committed();
    for (const piece of flight.pieces)
      if (piece.job !== undefined && piece.isState) this.#recorded(piece.job, piece.status);
    for (const run of flight.runs) this.#runRecorded(run);
    this.#giving.sendRecorded(flight.runs);
    for (const { releases } of flight.pieces) for (const release of releases) release();
  }

  #recorded(job: ManagedJob, status: ManagedJob['status'] | undefined): void {
    job.isRecorded = true;
    job.requestJson = '';
    if (status === undefined || status === job.recordedStatus) return;
    job.recordedStatus = status;
    job.hasUnpublishedChange = true;
    if (this.#office.canEmit) this.#office.emit({ kind: 'job.state', job: job.id, name: nameOf(job), status });
  }

  #runRecorded(run: ActiveAssignment): void {
    run.isRecorded = true;
    // Nobody heard of it, so nothing has to be ended.
    if (run.stopping !== undefined && run.worker.assignments.has(run)) this.#news.assignmentStopped(run);
  }

  /** Somebody else leads, or a worker that was chosen is not registered. */
  #refused(flight: CommitBatch, { results }: TransactionResult): void {
    const { commits, nowMs } = this.#office;
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
    commits.requeue(flight, (run) => missing.has(run.worker.id));
    for (const run of flight.runs) if (missing.has(run.worker.id)) this.#workers.revokeAssignment(run, nowMs);
  }

  /** Nothing of it was recorded, because the registry is full: older jobs that are over go first. */
  #makeRoom(flight: CommitBatch): void {
    const { commits, effects, nowMs } = this.#office;
    commits.requeue(flight, () => false);
    deleteOldJobs(this.#office, roomJobs);
    commits.deleteFirst();
    this.#isFlushing = true;
    effects.push({ kind: 'schedule', atMs: nowMs + retryMs, timer: 'flush', key: 'flush' });
  }

  /** Its end is recorded. */
  #ended(job: ManagedJob): void {
    this.#office.jobs.markEnded(job);
    this.#orders.watching.notifyEnd(job);
    deleteOldJobs(this.#office);
  }
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
