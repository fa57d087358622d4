/**
 * The placer: on the leader, brings containers from where they are to where they should be. It decides from the
 * registry, and from who has asked it for the serving lease:
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
import type { LeadersAct, LeadersInput } from '../leaders-host.ts';
import { Agenda } from './agenda.ts';
import { planContainer } from './container-plan.ts';
import { Disputes } from './disputes.ts';
import { type LeaseAsker, type LeaseGrant, grantLease } from './lease-grant.ts';
import { type MoveRequest, requestedMove } from './move-plan.ts';
import { NodeWatch } from './node-watch.ts';
import { claimPlacing } from './placement-transactions.ts';
import { PlacementView } from './placement-view.ts';
import type { PlacerEvent } from './placer-event.ts';
import type { PlacerOptions } from './placer-options.ts';
import { planNumbers, planPool } from './pool-plan.ts';
import { type Run, Runs, type Task, eventsOf, poolName, transactionOf } from './runs.ts';
import { ServingLeases } from './serving-leases.ts';
import { type Rank, type Situation, isLive } from './situation.ts';

export type OwnPlacerInput =
  /** `grant` was asked, and perhaps the node can do more than before. */
  | { readonly kind: 'renewed'; readonly node: NodeId }
  | { readonly kind: 'gone'; readonly node: NodeId; readonly generation: number }
  | { readonly kind: 'move'; readonly call: number; readonly request: MoveRequest };
export type PlacerInput = LeadersInput | OwnPlacerInput;
export type PlacerAct = LeadersAct<void, PlacerEvent>;
export type PlacerEffect = PlacerAct | Schedule<'wake'>;

export type PlacerPhase = 'follower' | 'loading' | 'claiming' | 'leading' | 'superseded';

const triesMax = 1_024;
const repairsLookMs = 1_000;

export class Placer {
  readonly #options: PlacerOptions;
  readonly #rank: Rank;
  readonly #leases: ServingLeases;
  readonly #agenda = new Agenda();
  readonly #runs = new Runs();
  readonly #disputes: Disputes;
  readonly #nodes: NodeWatch;
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

  constructor(options: PlacerOptions, rank: Rank) {
    this.#options = options;
    this.#rank = rank;
    this.#leases = new ServingLeases(options.servingLeaseMs);
    this.#disputes = new Disputes(this.#leases);
    this.#nodes = new NodeWatch(this.#leases);
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
  grant(nowMs: number, asker: LeaseAsker): Outcome<LeaseGrant> {
    if (this.#phase === 'leading') return grantLease(this.#leases, nowMs, asker);
    return failure('NOT_LEADER', 'this node does not place containers');
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
        this.#leases.gone(nowMs, input.node, input.generation);
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
    for (const run of this.#runs.shown(view.revision)) this.#lookAgain(run);
    const { containers, pools, nodes } = view.touched;
    for (const text of containers) this.#agenda.lookAt(text);
    for (const pool of pools) this.#agenda.lookAtPool(pool);
    for (const node of nodes) this.#nodes.check(nowMs, view, node, this.#agenda);
    if (nodes.size > 0) this.#nodes.areNumbered = false;
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
    const transaction = claimPlacing(this.#fenceBytes, view.placer?.modRevision ?? 0);
    this.#effects.push({ kind: 'transact', id: this.#claimId, transaction });
  }

  /** Everything that leaders before us have done is older than our claim: nothing is decided before we see it. */
  #lead(view: PlacementView, claimedRevision: number): void {
    this.#claimedRevision = claimedRevision;
    if (this.#phase === 'leading' || view.revision < claimedRevision) return;
    this.#phase = 'leading';
    this.#leases.demandOfAll(claimedRevision);
    this.#errors = 0;
    this.#effects.push({ kind: 'tell', event: { kind: 'placer.leading' } });
  }

  #transacted(nowMs: number, id: number, outcome: Outcome<TransactionResult>): void {
    if (id === this.#claimId) return this.#claimed(nowMs, outcome);
    const run = this.#runs.get(id);
    if (run === undefined) return;
    this.#disputes.ended(run, outcome);
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

  #succeeded(run: Run, revision: number): void {
    this.#tries.delete(run.name);
    for (const event of eventsOf(run.task)) this.#effects.push({ kind: 'tell', event });
    // Whoever has not heard of it would go on to serve what was in there.
    if (run.task.kind === 'deletePool') this.#leases.demandOfAll(revision);
    this.#answer(run.task, success(undefined));
    if ((this.#view?.revision ?? 0) < revision) return this.#runs.happened(run, revision);
    this.#runs.end(run);
    this.#lookAgain(run);
  }

  /** What it rested on has passed. The view will show it; until then this one thing waits. */
  #refused(nowMs: number, run: Run): void {
    this.#runs.end(run);
    this.#answer(run.task, failure('PRECONDITION', 'something changed meanwhile'));
    const tries = (this.#tries.peek(run.name) ?? 0) + 1;
    this.#tries.set(run.name, tries);
    const atMs = nowMs + this.#delayMs(tries);
    const { task } = run;
    // What happened to the pool meanwhile may have been seen, and left alone because of this very run.
    if (task.kind !== 'numbers')
      this.#agenda.lookAtPoolAgain(task.kind === 'change' ? task.change.placed.pool : task.pool.name, atMs);
    if (task.kind === 'change' || task.kind === 'numbers') this.#agenda.lookAtAgain(run.name, atMs);
  }

  #answer(task: Task, outcome: Outcome<void>): void {
    if (task.kind === 'change' && task.call !== undefined) {
      this.#effects.push({ kind: 'answer', call: task.call, outcome });
    }
  }

  #pause(nowMs: number): void {
    this.#errors += 1;
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + this.#delayMs(this.#errors));
  }

  #delayMs(tries: number): number {
    return Math.min(this.#options.retryMsMax, this.#options.retryMsMin * 2 ** Math.min(20, tries - 1));
  }

  #lookAgain({ name, task }: Run): void {
    if (task.kind === 'change') {
      this.#agenda.lookAt(name);
      this.#agenda.lookAtPool(task.change.placed.pool);
    } else if (task.kind === 'numbers') this.#nodes.areNumbered = false;
    else this.#agenda.lookAtPool(task.pool.name);
  }

  #move(nowMs: number, call: number, request: MoveRequest): void {
    const answer = (error: RemusterError): void =>
      void this.#effects.push({ kind: 'answer', call, outcome: { ok: false, error } });
    if (this.#phase !== 'leading' || this.#view === undefined) {
      return answer(new RemusterError('NOT_LEADER', 'only the leader moves containers'));
    }
    const change = requestedMove(this.#situation(nowMs, this.#view), request);
    if (change instanceof RemusterError) return answer(change);
    if (this.#runs.has(change.placed.text)) {
      return answer(new RemusterError('PRECONDITION', 'it is being changed at this moment'));
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
    if (this.#nodes.areNumbered || this.#runs.has('numbers')) return;
    const task = planNumbers(view);
    if (task === undefined) this.#nodes.areNumbered = true;
    else this.#start(nowMs, view, task);
  }

  #startPools(nowMs: number, view: PlacementView): void {
    while (this.#runs.size < this.#options.transactionsMax) {
      const name = this.#agenda.takePool(nowMs);
      if (name === undefined) return;
      const pool = view.pools.get(name);
      if (pool === undefined || this.#runs.has(poolName(name))) continue;
      const task = planPool(this.#situation(nowMs, view), pool);
      if (task === 'wait') this.#agenda.poolWaits(name);
      else if (task?.kind === 'roll') {
        const { change } = task;
        if (!this.#runs.has(change.placed.text)) this.#start(nowMs, view, { kind: 'change', change, call: undefined });
      } else if (task !== undefined) this.#start(nowMs, view, task);
    }
  }

  #startContainers(nowMs: number, view: PlacementView): void {
    if (this.#agenda.repairsWaiting > 0) this.#agenda.lookAtRepairs(this.#repairsFree(nowMs, view));
    while (this.#runs.size < this.#options.transactionsMax) {
      const text = this.#agenda.takeContainer(nowMs);
      if (text === undefined) return;
      const placed = view.containers.get(text);
      this.#disputes.seen(text, placed?.modRevision);
      if (placed === undefined || this.#runs.has(text)) continue;
      const plan = planContainer(this.#situation(nowMs, view), placed);
      if (plan.change === undefined) this.#agenda.looked(text, plan);
      else if (plan.change.isRepair && this.#repairsFree(nowMs, view) === 0) this.#agenda.waitForRepair(text);
      else this.#start(nowMs, view, { kind: 'change', change: plan.change, call: undefined });
    }
  }

  #repairsFree(nowMs: number, view: PlacementView): number {
    const { copyRepairsMax, copyRepairStaleMs } = this.#options;
    const situation = this.#situation(nowMs, view);
    let free = copyRepairsMax - this.#runs.repairs;
    for (const node of view.nodes.values()) {
      if (node.lacking.size === 0 || !isLive(situation, node)) continue;
      for (const sinceMs of node.lacking.values()) {
        if (nowMs - sinceMs < copyRepairStaleMs) free -= 1;
        if (free <= 0) return 0;
      }
    }
    return Math.max(0, free);
  }

  #start(nowMs: number, view: PlacementView, task: Task): void {
    const run = this.#runs.begin(task);
    this.#disputes.begun(nowMs, run);
    this.#effects.push({ kind: 'transact', id: run.id, transaction: transactionOf(task, this.#fenceBytes, view) });
  }

  #situation(nowMs: number, view: PlacementView): Situation {
    const { onTheWay } = this.#runs;
    return {
      nowMs,
      view,
      leases: this.#leases,
      fence: this.#fence,
      options: this.#options,
      rank: this.#rank,
      onTheWay,
    };
  }

  /** Only for times to come: what is due and waits for a free hand is looked at when one becomes free. */
  #wakeLater(nowMs: number): void {
    const repairsMs = this.#agenda.repairsWaiting > 0 ? nowMs + repairsLookMs : undefined;
    for (const atMs of [...this.#agenda.nextTimesMs(), this.#nodes.nextMs, this.#pausedUntilMs, repairsMs]) {
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
