/**
 * The machine of the leader that places containers. It decides from the registry and the serving leases that it grants:
 *
 *   elected -> load the view -> write the own fence to /cluster/container-placer -> see it there -> task after task
 *
 * Each task is one guarded transaction. A leader that sees a higher fence there is superseded and stops. It keeps only
 * the tasks in flight and the leases, so the next leader continues at the same point: a change of leader loses nothing
 * and repeats nothing.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { type Outcome, RemusterError, failure, success } from '../../base/errors.ts';
import { type Fence, parseFence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Schedule } from '../../base/runtime/loop.ts';
import type { TransactionResult } from '../../base/registry.ts';
import { registryEpoch } from '../../base/registry-epoch.ts';
import type { LeaderEffect, LeaderInput } from './leader-machine-host.ts';
import { ReconcileQueue } from './reconcile-queue.ts';
import { planContainer } from '../plans/container-plan.ts';
import { PendingTakeovers } from './pending-takeovers.ts';

import { type ContainerMoveRequest, planRequestedMove } from '../plans/move-plan.ts';
import { NodeChangeDetector } from './node-change-detector.ts';
import { claimPlacer } from './placement-transactions.ts';
import { PlacementView } from '../state/placement-view.ts';
import type { PlacerEvent, PlacerOptions } from './placer-types.ts';
import { planNodeNumbers, planPool } from '../plans/pool-plan.ts';
import {
  type RunningTask,
  TaskTracker,
  type PlacementTask,
  placementEvents,
  poolTaskKey,
  placementTransaction,
} from './task-tracker.ts';
import { type ServingLeaseGrant, type ServingLeaseRequest, ServingLeases } from '../state/serving-leases.ts';
import { type RecoveryRanking, type PlanningContext, hasValidLease } from '../plans/planning-context.ts';

export type PlacerRequest =
  /** `grantServingLease` has granted a lease, so the lease status of the node may have changed. */
  | { readonly kind: 'leaseRenewed'; readonly node: NodeId }
  | { readonly kind: 'nodeGone'; readonly node: NodeId; readonly generation: number }
  | { readonly kind: 'move'; readonly call: number; readonly request: ContainerMoveRequest };
export type PlacerInput = LeaderInput | PlacerRequest;
export type PlacerMachineEffect = LeaderEffect<void, PlacerEvent>;
export type PlacerEffect = PlacerMachineEffect | Schedule<'wake'>;

export type PlacerPhase = 'follower' | 'loading' | 'claiming' | 'leading' | 'superseded';

const refusalsMax = 1_024;
const repairPollMs = 1_000;

export class Placer {
  readonly #options: PlacerOptions;
  readonly #rank: RecoveryRanking;
  readonly #leases: ServingLeases;
  readonly #queue = new ReconcileQueue();
  readonly #tasks = new TaskTracker();
  readonly #takeovers: PendingTakeovers;
  readonly #nodeChanges: NodeChangeDetector;
  #phase: PlacerPhase = 'follower';
  #fence = 0n as Fence;
  #fenceBytes = new Uint8Array();
  #view: PlacementView | undefined;
  /** Of the registry that the view was loaded from. */
  #epoch = registryEpoch('', 0);
  #claimId: number | undefined;
  #claimedRevision: number | undefined;
  /** Consecutive refusals by task name, for the backoff. */
  #refusals = new BoundedLru<string, number>(refusalsMax);
  /** After errors of the registry no task starts before then. */
  #pausedUntilMs = 0;
  #errors = 0;
  #wakeMs: number | undefined;
  #effects: PlacerEffect[] = [];

  constructor(options: PlacerOptions, rank: RecoveryRanking) {
    this.#options = options;
    this.#rank = rank;
    this.#leases = new ServingLeases(options.servingLeaseMs);
    this.#takeovers = new PendingTakeovers(this.#leases);
    this.#nodeChanges = new NodeChangeDetector(this.#leases);
  }

  get phase(): PlacerPhase {
    return this.#phase;
  }

  /** The view of the leader; undefined on other nodes. */
  get view(): PlacementView | undefined {
    return this.#phase === 'leading' ? this.#view : undefined;
  }

  get inFlightCount(): number {
    return this.#tasks.size;
  }

  /** Decides at once; after a grant the caller feeds `leaseRenewed`. */
  grantServingLease(nowMs: number, request: ServingLeaseRequest): Outcome<ServingLeaseGrant> {
    if (this.#phase === 'leading') return this.#leases.grant(nowMs, request, this.#epoch);
    return failure('NOT_LEADER', 'this node does not place containers', 'no');
  }

  step(nowMs: number, input: PlacerInput): readonly PlacerEffect[] {
    this.#onInput(nowMs, input);
    if (this.#phase === 'loading') this.#claim(nowMs);
    if (this.#phase === 'leading') this.#startWork(nowMs);
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #onInput(nowMs: number, input: PlacerInput): void {
    switch (input.kind) {
      case 'elected':
        this.#stepDown('loading');
        this.#fence = input.fence;
        this.#fenceBytes = new TextEncoder().encode(String(input.fence));
        this.#leases.startLeadership(nowMs);
        this.#effects.push({ kind: 'watch' });
        return;
      case 'lost':
        return this.#stepDown('follower');
      case 'loaded':
        this.#epoch = input.epoch;
        this.#view = PlacementView.from(input.entries, input.revision, nowMs, this.#view);
        return this.#onViewChanged(nowMs, this.#view);
      case 'changed':
        this.#view?.apply(input.changes, input.revision, nowMs);
        return this.#onViewChanged(nowMs, this.#view);
      case 'transacted':
        return this.#onTransacted(nowMs, input.id, input.outcome);
      case 'leaseRenewed':
        return this.#nodeChanges.check(nowMs, this.#view, input.node, this.#queue);
      case 'nodeGone':
        this.#leases.markGone(nowMs, input.node, input.generation);
        return this.#nodeChanges.check(nowMs, this.#view, input.node, this.#queue);
      case 'move':
        return this.#onMoveRequest(nowMs, input.call, input.request);
      case 'expired':
        if (this.#wakeMs !== undefined && this.#wakeMs <= nowMs) this.#wakeMs = undefined;
    }
  }

  #stepDown(phase: PlacerPhase): void {
    if (this.#phase !== 'follower') this.#effects.push({ kind: 'unwatch' });
    for (const { task } of this.#tasks.all())
      this.#reply(task, failure('NOT_LEADER', 'this node is no longer the leader'));
    this.#phase = phase;
    this.#view = undefined;
    this.#claimId = undefined;
    this.#claimedRevision = undefined;
    this.#tasks.clear();
    this.#queue.clear();
    this.#takeovers.clear();
    this.#nodeChanges.clear();
    this.#refusals = new BoundedLru(refusalsMax);
    this.#pausedUntilMs = 0;
    this.#errors = 0;
  }

  /** Ends tasks that the view shows as done, enqueues what has changed, and steps down if a later leader took over. */
  #onViewChanged(nowMs: number, view: PlacementView | undefined): void {
    if (view === undefined) return;
    for (const running of this.#tasks.endVisible(view.revision)) this.#requeue(running);
    const { containers, pools, nodes } = view.changedNames;
    for (const container of containers) this.#queue.enqueue(container);
    for (const pool of pools) this.#queue.enqueuePool(pool);
    for (const node of nodes) this.#nodeChanges.check(nowMs, view, node, this.#queue);
    if (nodes.size > 0) this.#nodeChanges.allNumbered = false;
    for (const names of [containers, pools, nodes]) names.clear();
    if (recordedFence(view) > this.#fence) {
      this.#effects.push({ kind: 'emit', event: { kind: 'placer.superseded' } });
      this.#stepDown('superseded');
    } else if (this.#claimedRevision !== undefined) this.#lead(view, this.#claimedRevision);
  }

  #claim(nowMs: number): void {
    const view = this.#view;
    if (view === undefined || this.#claimId !== undefined) return;
    if (recordedFence(view) === this.#fence) return this.#lead(view, view.placer?.modRevision ?? 0);
    if (nowMs < this.#pausedUntilMs) return this.#wakeAt(nowMs, this.#pausedUntilMs);
    this.#claimId = this.#tasks.newId();
    this.#phase = 'claiming';
    const transaction = claimPlacer(this.#fenceBytes, view.placer?.modRevision ?? 0);
    this.#effects.push({ kind: 'transact', id: this.#claimId, transaction });
  }

  /** All changes of former leaders are older than the own claim, so no decision is made before the view shows it. */
  #lead(view: PlacementView, claimedRevision: number): void {
    this.#claimedRevision = claimedRevision;
    if (this.#phase === 'leading' || view.revision < claimedRevision) return;
    this.#phase = 'leading';
    this.#leases.requireRevisionOfAll(claimedRevision);
    this.#errors = 0;
    this.#effects.push({ kind: 'emit', event: { kind: 'placer.leading' } });
  }

  #onTransacted(nowMs: number, id: number, outcome: Outcome<TransactionResult>): void {
    if (id === this.#claimId) return this.#onClaimed(nowMs, outcome);
    const running = this.#tasks.get(id);
    if (running === undefined) return;
    this.#takeovers.onTaskEnded(running, outcome);
    if (!outcome.ok) {
      this.#tasks.end(running);
      this.#reply(running.task, outcome);
      this.#requeue(running);
      return this.#pause(nowMs);
    }
    this.#errors = 0;
    if (outcome.value.succeeded) this.#onSucceeded(running, outcome.value.revision);
    else this.#onRefused(nowMs, running);
  }

  #onClaimed(nowMs: number, outcome: Outcome<TransactionResult>): void {
    this.#claimId = undefined;
    if (outcome.ok && outcome.value.succeeded && this.#view !== undefined) {
      return this.#lead(this.#view, outcome.value.revision);
    }
    this.#phase = 'loading';
    this.#pause(nowMs);
  }

  #onSucceeded(running: RunningTask, revision: number): void {
    this.#refusals.delete(running.name);
    for (const event of placementEvents(running.task)) this.#effects.push({ kind: 'emit', event });
    // A node that has not seen the deletion would keep serving the containers of the pool.
    if (running.task.kind === 'deletePool') this.#leases.requireRevisionOfAll(revision);
    this.#reply(running.task, success(undefined));
    if ((this.#view?.revision ?? 0) < revision) return this.#tasks.commit(running, revision);
    this.#tasks.end(running);
    this.#requeue(running);
  }

  /** A guard did not hold. The view will show why; until then only this task backs off. */
  #onRefused(nowMs: number, running: RunningTask): void {
    const { name, task } = running;
    this.#tasks.end(running);
    this.#reply(task, failure('PRECONDITION', 'the container or its nodes changed meanwhile'));
    const refusals = (this.#refusals.peek(name) ?? 0) + 1;
    this.#refusals.set(name, refusals);
    const atMs = nowMs + this.#retryDelayMs(refusals);
    // A change of the pool may have been seen and skipped while this task was in flight.
    if (task.kind !== 'numbers')
      this.#queue.enqueuePoolAt(task.kind === 'update' ? task.update.container.pool : task.pool.name, atMs);
    if (task.kind === 'update' || task.kind === 'numbers') this.#queue.enqueueAt(name, atMs);
  }

  #reply(task: PlacementTask, outcome: Outcome<void>): void {
    if (task.kind === 'update' && task.call !== undefined) {
      this.#effects.push({ kind: 'reply', call: task.call, outcome });
    }
  }

  #pause(nowMs: number): void {
    this.#errors += 1;
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + this.#retryDelayMs(this.#errors));
  }

  #retryDelayMs(attempts: number): number {
    const { retryDelayMsMin, retryDelayMsMax } = this.#options;
    return Math.min(retryDelayMsMax, retryDelayMsMin * 2 ** Math.min(20, attempts - 1));
  }

  #requeue({ name, task }: RunningTask): void {
    if (task.kind === 'update') {
      this.#queue.enqueue(name);
      this.#queue.enqueuePool(task.update.container.pool);
    } else if (task.kind === 'numbers') this.#nodeChanges.allNumbered = false;
    else this.#queue.enqueuePool(task.pool.name);
  }

  #onMoveRequest(nowMs: number, call: number, request: ContainerMoveRequest): void {
    const refuse = (error: RemusterError): void =>
      void this.#effects.push({ kind: 'reply', call, outcome: { ok: false, error } });
    if (this.#phase !== 'leading' || this.#view === undefined) {
      return refuse(new RemusterError('NOT_LEADER', 'only the leader moves containers', 'no'));
    }
    const update = planRequestedMove(this.#context(nowMs, this.#view), request);
    if (update instanceof RemusterError) return refuse(update);
    if (this.#tasks.has(update.container.fullName)) {
      return refuse(new RemusterError('PRECONDITION', 'another change of the container is under way', 'no'));
    }
    this.#start(nowMs, this.#view, { kind: 'update', update, call });
  }

  #startWork(nowMs: number): void {
    const view = this.#view;
    if (view === undefined) return;
    this.#nodeChanges.checkAll(nowMs, view, this.#queue);
    if (nowMs >= this.#pausedUntilMs) {
      this.#startNumbers(nowMs, view);
      this.#startPools(nowMs, view);
      this.#startContainers(nowMs, view);
    }
    this.#scheduleWake(nowMs);
  }

  #startNumbers(nowMs: number, view: PlacementView): void {
    if (this.#nodeChanges.allNumbered || this.#tasks.has('numbers')) return;
    const task = planNodeNumbers(view);
    if (task === undefined) this.#nodeChanges.allNumbered = true;
    else this.#start(nowMs, view, task);
  }

  #startPools(nowMs: number, view: PlacementView): void {
    while (this.#tasks.size < this.#options.transactionsMax) {
      const name = this.#queue.nextPool(nowMs);
      if (name === undefined) return;
      const pool = view.pools.get(name);
      if (pool === undefined || this.#tasks.has(poolTaskKey(name))) continue;
      const task = planPool(this.#context(nowMs, view), pool);
      if (task === 'wait') this.#queue.blockPool(name);
      else if (task?.kind === 'roll') {
        const { update } = task;
        if (!this.#tasks.has(update.container.fullName))
          this.#start(nowMs, view, { kind: 'update', update, call: undefined });
      } else if (task !== undefined) this.#start(nowMs, view, task);
    }
  }

  #startContainers(nowMs: number, view: PlacementView): void {
    if (this.#queue.repairsWaiting > 0) this.#queue.enqueueRepairs(this.#freeRepairs(nowMs, view));
    while (this.#tasks.size < this.#options.transactionsMax) {
      const name = this.#queue.nextContainer(nowMs);
      if (name === undefined) return;
      const container = view.containers.get(name);
      this.#takeovers.onRecordSeen(name, container?.modRevision);
      if (container === undefined || this.#tasks.has(name)) continue;
      const plan = planContainer(this.#context(nowMs, view), container);
      if (plan.update === undefined) this.#queue.defer(name, plan);
      else if (plan.update.isRepair && this.#freeRepairs(nowMs, view) === 0) this.#queue.blockOnRepair(name);
      else this.#start(nowMs, view, { kind: 'update', update: plan.update, call: undefined });
    }
  }

  /** How many repairs may start: replicas that lag for less than `copyRepairStaleMs` count as repairs under way. */
  #freeRepairs(nowMs: number, view: PlacementView): number {
    const { copyRepairsMax, copyRepairStaleMs } = this.#options;
    const context = this.#context(nowMs, view);
    let free = copyRepairsMax - this.#tasks.repairs;
    for (const node of view.nodes.values()) {
      if (node.laggingSinceMs.size === 0 || !hasValidLease(context, node)) continue;
      for (const sinceMs of node.laggingSinceMs.values()) {
        if (nowMs - sinceMs < copyRepairStaleMs) free -= 1;
        if (free <= 0) return 0;
      }
    }
    return Math.max(0, free);
  }

  #start(nowMs: number, view: PlacementView, task: PlacementTask): void {
    const running = this.#tasks.start(task);
    this.#takeovers.onTaskStarted(nowMs, running);
    const transaction = placementTransaction(task, this.#fenceBytes, view);
    this.#effects.push({ kind: 'transact', id: running.id, transaction });
  }

  #context(nowMs: number, view: PlacementView): PlanningContext {
    const { receiving: inFlight } = this.#tasks;
    return {
      nowMs,
      view,
      leases: this.#leases,
      fence: this.#fence,
      options: this.#options,
      rank: this.#rank,
      inFlight,
    };
  }

  /** Future times only: a due task without a free transaction starts when one ends. */
  #scheduleWake(nowMs: number): void {
    const repairsMs = this.#queue.repairsWaiting > 0 ? nowMs + repairPollMs : undefined;
    for (const atMs of [...this.#queue.nextDueMs(), this.#nodeChanges.nextMs, this.#pausedUntilMs, repairsMs]) {
      if (atMs !== undefined && atMs > nowMs && atMs < Infinity) this.#wakeAt(nowMs, atMs);
    }
  }

  #wakeAt(nowMs: number, atMs: number): void {
    if (this.#wakeMs !== undefined && this.#wakeMs <= atMs && this.#wakeMs > nowMs) return;
    this.#wakeMs = atMs;
    this.#effects.push({ kind: 'schedule', atMs, timer: 'wake' });
  }
}

/** The fence at /cluster/container-placer; zero when it is missing or malformed. */
function recordedFence(view: PlacementView): Fence {
  if (view.placer === undefined) return 0n as Fence;
  try {
    return parseFence(new TextDecoder().decode(view.placer.value));
  } catch {
    return 0n as Fence;
  }
}
