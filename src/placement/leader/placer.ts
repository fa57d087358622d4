/**
 * The leader's placement machine: claims `/cluster/container-placer` with its fence, then runs guarded transactions.
 * Holds nothing the next leader could not read.
 *
 * It decides from the registry, and from who has asked it for the serving lease:
 *
 *   became leader -> read all -> write our fence to /cluster/container-placer -> see it there -> task after task
 *
 * Each task is one guarded transaction. A leader that finds a higher fence there was superseded and stops. Nothing is
 * remembered but what runs at this moment, so whoever leads next resumes at the same place: nothing is lost with a
 * leader, and nothing is done twice, however many have noticed why it should be done.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { type Outcome, RemusterError, failure, success } from '../../base/errors.ts';
import { type Fence, parseFence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Schedule } from '../../base/runtime/loop.ts';
import type { TransactionResult } from '../../base/registry.ts';
import type { LeaderEffect, LeaderInput } from './leader-machine-host.ts';
import { ReconcileQueue } from './reconcile-queue.ts';
import { planContainer } from '../plans/container-plan.ts';
import { PendingTakeovers } from './pending-takeovers.ts';
import { type ServingLeaseRequest, type ServingLeaseGrant, grantServingLease } from '../state/lease-grant.ts';
import { type ContainerMoveRequest, planRequestedMove } from '../plans/move-plan.ts';
import { NodeChangeDetector } from './node-change-detector.ts';
import { claimPlacement } from './placement-transactions.ts';
import { PlacementView } from '../state/placement-view.ts';
import type { PlacerEvent } from './placer-types.ts';
import type { PlacerOptions } from './placer-options.ts';
import { planNodeNumbers, planPool } from '../plans/pool-plan.ts';
import {
  type RunningTask,
  TaskTracker,
  type PlacementTask,
  placementEvents,
  poolTaskKey,
  placementTransaction,
} from './task-tracker.ts';
import { ServingLeases } from '../state/serving-leases.ts';
import { type RecoveryRanking, type PlanningContext, hasValidLease } from '../plans/planning-context.ts';

export type PlacerRequest =
  /** `grant` was asked, and perhaps the node can do more than before. */
  | { readonly kind: 'renewed'; readonly node: NodeId }
  | { readonly kind: 'gone'; readonly node: NodeId; readonly generation: number }
  | { readonly kind: 'move'; readonly call: number; readonly request: ContainerMoveRequest };
export type PlacerInput = LeaderInput | PlacerRequest;
export type PlacerMachineEffect = LeaderEffect<void, PlacerEvent>;
export type PlacerEffect = PlacerMachineEffect | Schedule<'wake'>;

export type PlacerPhase = 'follower' | 'loading' | 'claiming' | 'leading' | 'superseded';

const triesMax = 1_024;
const repairsLookMs = 1_000;

export class Placer {
  readonly #options: PlacerOptions;
  readonly #rank: RecoveryRanking;
  readonly #leases: ServingLeases;
  readonly #agenda = new ReconcileQueue();
  readonly #runs = new TaskTracker();
  readonly #disputes: PendingTakeovers;
  readonly #nodes: NodeChangeDetector;
  #phase: PlacerPhase = 'follower';
  #fence = 0n as Fence;
  #fenceBytes = new Uint8Array();
  #view: PlacementView | undefined;
  #claimId: number | undefined;
  #claimedRevision: number | undefined;
  #tries = new BoundedLru<string, number>(triesMax);
  /** The registry does not answer well: nothing is tried before. */
  #pausedUntilMs = 0;
  #errors = 0;
  #wakeMs: number | undefined;
  #effects: PlacerEffect[] = [];

  constructor(options: PlacerOptions, rank: RecoveryRanking) {
    this.#options = options;
    this.#rank = rank;
    this.#leases = new ServingLeases(options.servingLeaseMs);
    this.#disputes = new PendingTakeovers(this.#leases);
    this.#nodes = new NodeChangeDetector(this.#leases);
  }

  get phase(): PlacerPhase {
    return this.#phase;
  }

  /** What the leader sees; undefined on everybody else. */
  get view(): PlacementView | undefined {
    return this.#phase === 'leading' ? this.#view : undefined;
  }

  get runningCount(): number {
    return this.#runs.size;
  }

  /** May that node go on serving? Answered at once, and followed by the input `renewed`. */
  grantServingLease(nowMs: number, asker: ServingLeaseRequest): Outcome<ServingLeaseGrant> {
    if (this.#phase === 'leading') return grantServingLease(this.#leases, nowMs, asker);
    return failure('NOT_LEADER', 'this node does not place containers', 'no');
  }

  step(nowMs: number, input: PlacerInput): readonly PlacerEffect[] {
    this.#take(nowMs, input);
    if (this.#phase === 'loading') this.#claim(nowMs);
    if (this.#phase === 'leading') this.#work(nowMs);
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #take(nowMs: number, input: PlacerInput): void {
    switch (input.kind) {
      case 'became':
        this.#resign('loading');
        this.#fence = input.fence;
        this.#fenceBytes = new TextEncoder().encode(String(input.fence));
        this.#leases.begin(nowMs);
        this.#effects.push({ kind: 'follow' });
        return;
      case 'lost':
        return this.#resign('follower');
      case 'loaded':
        this.#view = PlacementView.from(input.entries, input.revision, nowMs, this.#view);
        return this.#looked(nowMs, this.#view);
      case 'changed':
        this.#view?.apply(input.changes, input.revision, nowMs);
        return this.#looked(nowMs, this.#view);
      case 'transacted':
        return this.#transacted(nowMs, input.id, input.outcome);
      case 'renewed':
        return this.#nodes.check(nowMs, this.#view, input.node, this.#agenda);
      case 'gone':
        this.#leases.markGone(nowMs, input.node, input.generation);
        return this.#nodes.check(nowMs, this.#view, input.node, this.#agenda);
      case 'move':
        return this.#move(nowMs, input.call, input.request);
      case 'expired':
        if (this.#wakeMs !== undefined && this.#wakeMs <= nowMs) this.#wakeMs = undefined;
    }
  }

  #resign(phase: PlacerPhase): void {
    if (this.#phase !== 'follower') this.#effects.push({ kind: 'unfollow' });
    for (const { task } of this.#runs.all()) this.#answer(task, failure('NOT_LEADER', 'this node leads no longer'));
    this.#phase = phase;
    this.#view = undefined;
    this.#claimId = undefined;
    this.#claimedRevision = undefined;
    this.#runs.clear();
    this.#agenda.clear();
    this.#disputes.clear();
    this.#nodes.clear();
    this.#tries = new BoundedLru(triesMax);
    this.#pausedUntilMs = 0;
    this.#errors = 0;
  }

  /** The view is newer: what it shows as done is over, what it shows as changed is looked at. */
  #looked(nowMs: number, view: PlacementView | undefined): void {
    if (view === undefined) return;
    for (const run of this.#runs.visibleIn(view.revision)) this.#lookAgain(run);
    const { containers, pools, nodes } = view.changedNames;
    for (const text of containers) this.#agenda.enqueue(text);
    for (const pool of pools) this.#agenda.enqueuePool(pool);
    for (const node of nodes) this.#nodes.check(nowMs, view, node, this.#agenda);
    if (nodes.size > 0) this.#nodes.allNumbered = false;
    for (const touched of [containers, pools, nodes]) touched.clear();
    if (standingFence(view) > this.#fence) {
      this.#effects.push({ kind: 'tell', event: { kind: 'placer.superseded' } });
      this.#resign('superseded');
    } else if (this.#claimedRevision !== undefined) this.#lead(view, this.#claimedRevision);
  }

  #claim(nowMs: number): void {
    const view = this.#view;
    if (view === undefined || this.#claimId !== undefined) return;
    if (standingFence(view) === this.#fence) return this.#lead(view, view.placer?.modRevision ?? 0);
    if (nowMs < this.#pausedUntilMs) return this.#wakeAt(nowMs, this.#pausedUntilMs);
    this.#claimId = this.#runs.newId();
    this.#phase = 'claiming';
    const transaction = claimPlacement(this.#fenceBytes, view.placer?.modRevision ?? 0);
    this.#effects.push({ kind: 'transact', id: this.#claimId, transaction });
  }

  /** Everything that leaders before us have done is older than our claim: nothing is decided before we see it. */
  #lead(view: PlacementView, claimedRevision: number): void {
    this.#claimedRevision = claimedRevision;
    if (this.#phase === 'leading' || view.revision < claimedRevision) return;
    this.#phase = 'leading';
    this.#leases.requireRevisionOfAll(claimedRevision);
    this.#errors = 0;
    this.#effects.push({ kind: 'tell', event: { kind: 'placer.leading' } });
  }

  #transacted(nowMs: number, id: number, outcome: Outcome<TransactionResult>): void {
    if (id === this.#claimId) return this.#claimed(nowMs, outcome);
    const run = this.#runs.get(id);
    if (run === undefined) return;
    this.#disputes.takeoverEnded(run, outcome);
    if (!outcome.ok) {
      this.#runs.end(run);
      this.#answer(run.task, outcome);
      this.#lookAgain(run);
      return this.#pause(nowMs);
    }
    this.#errors = 0;
    if (outcome.value.succeeded) this.#succeeded(run, outcome.value.revision);
    else this.#refused(nowMs, run);
  }

  #claimed(nowMs: number, outcome: Outcome<TransactionResult>): void {
    this.#claimId = undefined;
    if (outcome.ok && outcome.value.succeeded && this.#view !== undefined) {
      return this.#lead(this.#view, outcome.value.revision);
    }
    this.#phase = 'loading';
    this.#pause(nowMs);
  }

  #succeeded(run: RunningTask, revision: number): void {
    this.#tries.delete(run.name);
    for (const event of placementEvents(run.task)) this.#effects.push({ kind: 'tell', event });
    // Whoever has not heard of it would go on to serve what was in there.
    if (run.task.kind === 'deletePool') this.#leases.requireRevisionOfAll(revision);
    this.#answer(run.task, success(undefined));
    if ((this.#view?.revision ?? 0) < revision) return this.#runs.committed(run, revision);
    this.#runs.end(run);
    this.#lookAgain(run);
  }

  /** What it rested on has passed. The view will show it; until then this one thing waits. */
  #refused(nowMs: number, run: RunningTask): void {
    this.#runs.end(run);
    this.#answer(run.task, failure('PRECONDITION', 'something changed meanwhile'));
    const tries = (this.#tries.peek(run.name) ?? 0) + 1;
    this.#tries.set(run.name, tries);
    const atMs = nowMs + this.#delayMs(tries);
    const { task } = run;
    // What happened to the pool meanwhile may have been seen, and left alone because of this very run.
    if (task.kind !== 'numbers')
      this.#agenda.enqueuePoolAt(task.kind === 'change' ? task.change.placed.pool : task.pool.name, atMs);
    if (task.kind === 'change' || task.kind === 'numbers') this.#agenda.enqueueAt(run.name, atMs);
  }

  #answer(task: PlacementTask, outcome: Outcome<void>): void {
    if (task.kind === 'change' && task.call !== undefined) {
      this.#effects.push({ kind: 'answer', call: task.call, outcome });
    }
  }

  #pause(nowMs: number): void {
    this.#errors += 1;
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + this.#delayMs(this.#errors));
  }

  #delayMs(tries: number): number {
    return Math.min(this.#options.retryDelayMsMax, this.#options.retryDelayMsMin * 2 ** Math.min(20, tries - 1));
  }

  #lookAgain({ name, task }: RunningTask): void {
    if (task.kind === 'change') {
      this.#agenda.enqueue(name);
      this.#agenda.enqueuePool(task.change.placed.pool);
    } else if (task.kind === 'numbers') this.#nodes.allNumbered = false;
    else this.#agenda.enqueuePool(task.pool.name);
  }

  #move(nowMs: number, call: number, request: ContainerMoveRequest): void {
    const answer = (error: RemusterError): void =>
      void this.#effects.push({ kind: 'answer', call, outcome: { ok: false, error } });
    if (this.#phase !== 'leading' || this.#view === undefined) {
      return answer(new RemusterError('NOT_LEADER', 'only the leader moves containers', 'no'));
    }
    const change = planRequestedMove(this.#situation(nowMs, this.#view), request);
    if (change instanceof RemusterError) return answer(change);
    if (this.#runs.has(change.placed.fullName)) {
      return answer(new RemusterError('PRECONDITION', 'it is being changed at this moment', 'no'));
    }
    this.#start(nowMs, this.#view, { kind: 'change', change, call });
  }

  #work(nowMs: number): void {
    const view = this.#view;
    if (view === undefined) return;
    this.#nodes.checkAll(nowMs, view, this.#agenda);
    if (nowMs >= this.#pausedUntilMs) {
      this.#startNumbers(nowMs, view);
      this.#startPools(nowMs, view);
      this.#startContainers(nowMs, view);
    }
    this.#wakeLater(nowMs);
  }

  #startNumbers(nowMs: number, view: PlacementView): void {
    if (this.#nodes.allNumbered || this.#runs.has('numbers')) return;
    const task = planNodeNumbers(view);
    if (task === undefined) this.#nodes.allNumbered = true;
    else this.#start(nowMs, view, task);
  }

  #startPools(nowMs: number, view: PlacementView): void {
    while (this.#runs.size < this.#options.transactionsMax) {
      const name = this.#agenda.nextPool(nowMs);
      if (name === undefined) return;
      const pool = view.pools.get(name);
      if (pool === undefined || this.#runs.has(poolTaskKey(name))) continue;
      const task = planPool(this.#situation(nowMs, view), pool);
      if (task === 'wait') this.#agenda.blockPool(name);
      else if (task?.kind === 'roll') {
        const { change } = task;
        if (!this.#runs.has(change.placed.fullName))
          this.#start(nowMs, view, { kind: 'change', change, call: undefined });
      } else if (task !== undefined) this.#start(nowMs, view, task);
    }
  }

  #startContainers(nowMs: number, view: PlacementView): void {
    if (this.#agenda.repairsWaiting > 0) this.#agenda.enqueueRepairs(this.#repairsFree(nowMs, view));
    while (this.#runs.size < this.#options.transactionsMax) {
      const text = this.#agenda.nextContainer(nowMs);
      if (text === undefined) return;
      const placed = view.containers.get(text);
      this.#disputes.recordSeen(text, placed?.modRevision);
      if (placed === undefined || this.#runs.has(text)) continue;
      const plan = planContainer(this.#situation(nowMs, view), placed);
      if (plan.change === undefined) this.#agenda.planned(text, plan);
      else if (plan.change.isRepair && this.#repairsFree(nowMs, view) === 0) this.#agenda.blockOnRepair(text);
      else this.#start(nowMs, view, { kind: 'change', change: plan.change, call: undefined });
    }
  }

  #repairsFree(nowMs: number, view: PlacementView): number {
    const { copyRepairsMax, copyRepairStaleMs } = this.#options;
    const situation = this.#situation(nowMs, view);
    let free = copyRepairsMax - this.#runs.repairs;
    for (const node of view.nodes.values()) {
      if (node.laggingSinceMs.size === 0 || !hasValidLease(situation, node)) continue;
      for (const sinceMs of node.laggingSinceMs.values()) {
        if (nowMs - sinceMs < copyRepairStaleMs) free -= 1;
        if (free <= 0) return 0;
      }
    }
    return Math.max(0, free);
  }

  #start(nowMs: number, view: PlacementView, task: PlacementTask): void {
    const run = this.#runs.begin(task);
    this.#disputes.takeoverStarted(nowMs, run);
    this.#effects.push({
      kind: 'transact',
      id: run.id,
      transaction: placementTransaction(task, this.#fenceBytes, view),
    });
  }

  #situation(nowMs: number, view: PlacementView): PlanningContext {
    const { inFlight } = this.#runs;
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

  /** Only for times to come: what is due and waits for a free hand is looked at when one becomes free. */
  #wakeLater(nowMs: number): void {
    const repairsMs = this.#agenda.repairsWaiting > 0 ? nowMs + repairsLookMs : undefined;
    for (const atMs of [...this.#agenda.nextDueMs(), this.#nodes.nextMs, this.#pausedUntilMs, repairsMs]) {
      if (atMs !== undefined && atMs > nowMs && atMs < Infinity) this.#wakeAt(nowMs, atMs);
    }
  }

  #wakeAt(nowMs: number, atMs: number): void {
    if (this.#wakeMs !== undefined && this.#wakeMs <= atMs && this.#wakeMs > nowMs) return;
    this.#wakeMs = atMs;
    this.#effects.push({ kind: 'schedule', atMs, timer: 'wake' });
  }
}

/** Zero when there is none, or none that can be read. */
function standingFence(view: PlacementView): Fence {
  if (view.placer === undefined) return 0n as Fence;
  try {
    return parseFence(new TextDecoder().decode(view.placer.value));
  } catch {
    return 0n as Fence;
  }
}
