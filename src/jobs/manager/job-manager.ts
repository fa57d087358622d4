/**
 * The job manager of the leading node as one machine: wires its parts and routes inputs to them. Inputs that arrive
 * while it restores are held, bounded. Replies only what is recorded.
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
import type { JobManagerOptions, WorkerStatus } from './state/manager-ports.ts';
import { type ManagedJob, type ActiveAssignment, allUnits, jobDisplayName } from './model/managed-job.ts';
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
  /** For display, start times and schedules; nothing else depends on it. */
  readonly wallMs: () => number;
};

type Phase = 'idle' | 'loading' | 'leading';
type Held = Extract<ManagerInput, { readonly kind: 'command' | 'heartbeat' | 'unitReports' }>;

const heldMax = 20_000;
const retryMs = 300;
/** Finished jobs that are deleted at a time when the registry is full. */
const jobsDeletedWhenFull = 50;
const encoder = new TextEncoder();

export class JobManager {
  readonly #state: ManagerState;
  readonly #dispatcher: Dispatcher;
  readonly #stopper: UnitStopper;
  readonly #lifecycle: JobLifecycle;
  readonly #reports: WorkerReports;
  readonly #commands: JobCommands;
  readonly #heartbeats: WorkerHeartbeats;
  readonly #periodic: PeriodicWork;
  readonly #bundles: BundleCatalog;
  readonly #schedules: Schedules;
  readonly #takeover: LeaderTakeover;
  #phase: Phase = 'idle';
  #fence: Uint8Array = new Uint8Array();
  /** Inputs that arrived while the phase was 'loading'. */
  #held: Held[] = [];
  /** Open reads and claims of this term. */
  readonly #reads = new Map<number, (outcome: Outcome<RangeResult>) => void>();
  readonly #claims = new Map<number, (outcome: Outcome<TransactionResult>) => void>();
  #nextId = 1_000_000;
  #isFlushing = false;

  constructor(parts: JobManagerParts, options: JobManagerOptions) {
    const workers = new WorkerTable(options.jobLeaseMs);
    const selector = new WorkerSelector(workers, parts.random.fork('selection'), parts.worker);
    const requests = new RequestCache(parts.sha256);
    const stores = {
      jobs: new JobStore(),
      workers,
      selector,
      runQueue: new RunQueue(),
      commits: new CommitBatcher(),
      requests,
    };
    this.#state = new ManagerState({ ...stores, options, random: parts.random.fork('seeds') }, parts.wallMs);
    this.#dispatcher = new Dispatcher(this.#state, (run, code, message) =>
      this.#reports.assignmentFailed(run, code, message),
    );
    this.#stopper = new UnitStopper(this.#state, (run) => this.#reports.assignmentStopped(run));
    this.#lifecycle = new JobLifecycle(this.#state, this.#dispatcher, this.#stopper, (job) => this.#endRecorded(job));
    this.#reports = new WorkerReports(this.#state, this.#dispatcher, this.#lifecycle);
    this.#heartbeats = new WorkerHeartbeats(this.#state, this.#dispatcher, this.#reports);
    this.#bundles = new BundleCatalog(this.#state, (range, limit, done) => this.#read(range, limit, done));
    const hashOf = (text: string): string => parts.sha256(encoder.encode(text));
    this.#schedules = new Schedules(this.#state, {
      hashOf: (submitter, name) => hashOf(`${submitter}\0${name}`),
      submit: (requestJson, submitter) => this.#commands.submitScheduled(requestJson, submitter),
    });
    this.#commands = new JobCommands(
      this.#state,
      {
        ...{ dc: parts.dc, sha256: parts.sha256, knowsBundle: (sha256, done) => this.#bundles.isStored(sha256, done) },
        readResult: (call, verb, job, query) =>
          this.#state.effects.push({ kind: 'readResult', call, verb, job, query }),
      },
      { dispatcher: this.#dispatcher, lifecycle: this.#lifecycle, schedules: this.#schedules },
    );
    this.#takeover = new LeaderTakeover(this.#state, {
      read: (range, limit, then) => this.#read(range, limit, then),
      transact: (transaction, then) => {
        const id = this.#nextId++;
        this.#claims.set(id, then);
        this.#state.effects.push({ kind: 'transact', id, transaction });
      },
      failed: () => this.#retryTakeover(),
      ready: (jobs, restored) => this.#startLeading(jobs, restored),
    });
    this.#periodic = new PeriodicWork(this.#state, {
      dispatcher: this.#dispatcher,
      stopper: this.#stopper,
      lifecycle: this.#lifecycle,
      heartbeats: this.#heartbeats,
      watchers: this.#commands.watchers,
      bundles: this.#bundles,
      schedules: this.#schedules,
    });
  }

  get phase(): Phase {
    return this.#phase;
  }

  counts(): { readonly open: number; readonly queued: number; readonly running: number } {
    const { open } = this.#state.jobs;
    let queued = 0;
    for (const { status } of open) if (status === 'QUEUED' || status === 'SUBMITTED') queued += 1;
    return { open: open.size, queued, running: open.size - queued };
  }

  /** Units that the node runs or may still run. */
  unitsOn(node: NodeId): number {
    if (this.#phase !== 'leading') return 1;
    return this.#state.workers.get(node)?.assignments.size ?? 0;
  }

  step(nowMs: number, input: ManagerStepInput): readonly ManagerEffect[] {
    this.#state.effects = [];
    this.#state.nowMs = nowMs;
    this.#onInput(input);
    if (this.#phase === 'leading') this.#endStep();
    return this.#state.effects;
  }

  #onInput(input: ManagerStepInput): void {
    switch (input.kind) {
      case 'becameLeader':
        return this.#onBecameLeader(input.fence);
      case 'lostLeadership':
        return this.#onLostLeadership();
      case 'read': {
        const then = this.#reads.get(input.id);
        this.#reads.delete(input.id);
        return then?.(input.outcome);
      }
      case 'transacted':
        return this.#transacted(input.id, input.outcome);
      case 'command':
      case 'heartbeat':
      case 'unitReports':
        return this.#serveOrHold(input);
      case 'assignReply':
        return this.#dispatcher.onAssignReply(input.id, input.outcome);
      case 'stopReply':
        return this.#stopper.onStopReply(input.id, input.outcome);
      case 'processGone':
        return this.#phase === 'leading' ? this.#heartbeats.processGone(input.node, input.generation) : undefined;
      case 'membershipChanged':
        return this.#state.selector.invalidate(this.#state.nowMs);
      case 'persistFailed':
        return;
      case 'expired':
        return this.#onTimer(input.timer);
      default:
        return unreachable(input);
    }
  }

  #onBecameLeader(fence: Fence): void {
    this.#reset();
    this.#state.becomeLeader(fence);
    this.#fence = encoder.encode(String(fence));
    this.#phase = 'loading';
    this.#takeover.begin(this.#fence);
  }

  #onLostLeadership(): void {
    for (const { call } of this.#held) this.#reply(call, failure('NOT_LEADER', 'this node no longer leads', 'no'));
    this.#reset();
    this.#phase = 'idle';
  }

  #reset(): void {
    const { jobs, workers, runQueue, commits, deferredStatus } = this.#state;
    for (const part of [
      jobs,
      workers,
      runQueue,
      commits,
      deferredStatus,
      this.#dispatcher,
      this.#stopper,
      this.#reports,
    ])
      part.clear();
    const parts = [this.#commands.watchers, this.#bundles, this.#schedules, this.#periodic, this.#takeover];
    for (const part of [...parts, this.#reads, this.#claims]) part.clear();
    this.#held = [];
    this.#isFlushing = false;
  }

  #serveOrHold(input: Held): void {
    if (this.#phase === 'leading') return this.#serve(input);
    if (this.#phase === 'idle') this.#reply(input.call, failure('NOT_LEADER', 'this node does not lead', 'no'));
    else if (this.#held.length >= heldMax)
      this.#reply(input.call, failure('CAPACITY', 'the new leader is still restoring'));
    else this.#held.push(input);
  }

  #serve(input: Held): void {
    const reply = (outcome: Outcome<ManagerReply>): void => this.#reply(input.call, outcome);
    if (input.kind === 'command') this.#commands.execute(input.call, input, reply);
    else if (input.kind === 'heartbeat') this.#heartbeats.onHeartbeat(input.from, input.message, reply);
    else this.#heartbeats.onUnitReports(input.from, input.message, reply);
  }

  #reply(call: number, outcome: Outcome<ManagerReply>): void {
    this.#state.effects.push({ kind: 'reply', call, outcome });
  }

  #onTimer(timer: 'flush' | 'tick'): void {
    if (timer === 'flush') this.#isFlushing = false;
    if (this.#phase === 'idle') return;
    if (this.#phase === 'loading') return timer === 'tick' ? this.#takeover.begin(this.#fence) : undefined;
    if (timer === 'flush') this.#flush();
    else this.#periodic.tick();
  }

  #retryTakeover(): void {
    this.#state.effects.push({ kind: 'schedule', atMs: this.#state.nowMs + retryMs, timer: 'tick', key: 'tick' });
  }

  /** The state is restored: resumes open jobs and serves the held inputs. */
  #startLeading(
    jobs: readonly ManagedJob[],
    { bundles, schedules }: Pick<RestoreState, 'bundles' | 'schedules'>,
  ): void {
    this.#phase = 'leading';
    this.#bundles.restore(bundles);
    this.#schedules.restore(schedules);
    for (const job of jobs) if (!isTerminalStatus(job.status)) this.#resume(job);
    const held = this.#held;
    this.#held = [];
    this.#periodic.begin();
    for (const input of held) this.#serve(input);
    this.#state.effects.push({ kind: 'schedule', atMs: this.#state.nowMs, timer: 'tick', key: 'tick' });
  }

  #resume(job: ManagedJob): void {
    const { workers, wallMs } = this.#state;
    for (const workflow of job.workflows)
      for (const { assignment } of allUnits(workflow))
        if (assignment !== undefined && workers.get(assignment.worker.id) !== assignment.worker)
          this.#reports.assignmentLost(assignment, 'the worker restarted');
    if (job.startedMs !== undefined)
      this.#state.addIncident(job, 'leader.changed', '', 'another manager leads; running units continue');
    if (job.status !== 'SUBMITTED') this.#lifecycle.resume(job);
    else if ((job.startAtMs ?? 0) <= wallMs) this.#lifecycle.begin(job);
  }

  #read(range: KeyRange, limit: number, then: (outcome: Outcome<RangeResult>) => void): void {
    const id = this.#nextId++;
    this.#reads.set(id, then);
    this.#state.effects.push({ kind: 'read', id, range, limit });
  }

  /** Ends a step: assigns units, sends stop requests, schedules the commit. */
  #endStep(): void {
    const { commits, effects, nowMs } = this.#state;
    // Assignments need a commit. While one is in flight none can start, and then all are made at once.
    if (!commits.isInFlight) this.#dispatcher.dispatch();
    this.#stopper.sendPending();
    if (this.#isFlushing || commits.isInFlight || !commits.hasPending) return;
    this.#isFlushing = true;
    effects.push({ kind: 'schedule', atMs: nowMs, timer: 'flush', key: 'flush' });
  }

  #flush(): void {
    const { commits, managerClockMs, effects } = this.#state;
    const batch = commits.nextBatch(this.#fence, managerClockMs);
    if (batch === undefined) return;
    this.#periodic.clockRecorded();
    effects.push({ kind: 'transact', id: batch.id, transaction: batch.transaction });
  }

  #transacted(id: number, outcome: Outcome<TransactionResult>): void {
    const claim = this.#claims.get(id);
    this.#claims.delete(id);
    if (claim !== undefined) return claim(outcome);
    if (this.#phase !== 'leading') return;
    const { commits } = this.#state;
    const batch = commits.inFlight(id);
    if (batch === undefined) return;
    if (!outcome.ok && outcome.error.code === 'STORE_FULL') return this.#onStoreFull(batch);
    if (!outcome.ok) return this.#periodic.resend(batch);
    if (!outcome.value.succeeded) return this.#onRefused(batch, outcome.value);
    commits.committed();
    for (const piece of batch.pieces)
      if (piece.job !== undefined && piece.isState) this.#jobRecorded(piece.job, piece.status);
    for (const assignment of batch.assignments) this.#assignmentRecorded(assignment);
    this.#dispatcher.sendRecorded(batch.assignments);
    for (const { callbacks } of batch.pieces) for (const callback of callbacks) callback();
  }

  #jobRecorded(job: ManagedJob, status: ManagedJob['status'] | undefined): void {
    job.isRecorded = true;
    job.requestJson = '';
    if (status === undefined || status === job.recordedStatus) return;
    job.recordedStatus = status;
    job.hasUnpublishedChange = true;
    if (this.#state.canEmit) this.#state.emit({ kind: 'job.state', job: job.id, name: jobDisplayName(job), status });
  }

  #assignmentRecorded(assignment: ActiveAssignment): void {
    assignment.isRecorded = true;
    // Never sent, so there is nothing to stop.
    const { stopping, worker } = assignment;
    if (stopping !== undefined && worker.assignments.has(assignment)) this.#reports.assignmentStopped(assignment);
  }

  /** Another node leads, or a selected worker is not registered. */
  #onRefused(batch: CommitBatch, { results }: TransactionResult): void {
    const { commits, nowMs } = this.#state;
    const isThere = (index: number): boolean => {
      const result = results[index];
      return result?.kind === 'read' && result.entries.length > 0;
    };
    const missing = new Set(batch.workers.filter((_, index) => !isThere(index + 1)));
    const [first] = results;
    const fence = first?.kind === 'read' ? first.entries[0]?.value : undefined;
    if (fence === undefined || !isSame(fence, this.#fence)) {
      // Another leader owns the records. If this node leads again, the input `becameLeader` starts a restore.
      this.#reset();
      this.#phase = 'idle';
      return;
    }
    commits.requeue(batch, ({ worker }) => missing.has(worker.id));
    for (const assignment of batch.assignments)
      if (missing.has(assignment.worker.id)) this.#heartbeats.revokeAssignment(assignment, nowMs);
  }

  /** The registry is full and recorded nothing: the oldest finished jobs are deleted first. */
  #onStoreFull(batch: CommitBatch): void {
    const { commits, effects, nowMs } = this.#state;
    commits.requeue(batch, () => false);
    deleteOldJobs(this.#state, jobsDeletedWhenFull);
    commits.deleteFirst();
    this.#isFlushing = true;
    effects.push({ kind: 'schedule', atMs: nowMs + retryMs, timer: 'flush', key: 'flush' });
  }

  #endRecorded(job: ManagedJob): void {
    this.#state.jobs.markEnded(job);
    this.#commands.watchers.notifyEnd(job);
    deleteOldJobs(this.#state);
  }
}

function isSame(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}
