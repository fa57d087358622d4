/**
 * The assigner: on the leader, carries out drains and moves for balance. It decides from the registry alone:
 *
 *   became leader -> read all -> write our fence to /cluster/assigner -> task after task, each one guarded transaction
 *
 * A leader that finds a higher fence there was superseded and stops. Nothing is remembered but what runs at this moment,
 * so whoever leads next resumes at the same place; nothing is lost with a leader, and nothing is done twice.
 * What it does not know for sure (a late view, an answer that did not come) it tries: the guards decide.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { type Outcome, RemusterError } from '../../base/errors.ts';
import { type Fence, parseFence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Schedule } from '../../base/runtime/loop.ts';
import type { RegistryTransaction, TransactionResult } from '../../base/registry.ts';
import type { LeaderEffect, LeaderInput } from './leader-machine-host.ts';
import { type BalanceEvent, balanceEventOf } from './assigner-event.ts';
import { ClusterView } from '../state/cluster-view.ts';
import type { RebalanceOptions } from '../balance/rebalance-options.ts';
import { type RebalanceRequest, Rebalancer, type RebalanceResult } from '../balance/rebalancer.ts';
import { type InFlightLoad, inFlightLoad } from '../plans/move-target.ts';
import {
  type DrainTask,
  type DrainPlanOptions,
  nextDrainDueMs,
  drainTaskKey,
  drainTasks,
} from '../plans/drain-plan.ts';
import { claim, drainTransaction } from './transactions.ts';

export type OwnAssignerInput = {
  readonly kind: 'rebalance';
  readonly call: number;
  readonly request: RebalanceRequest;
};
export type AssignerInput = LeaderInput | OwnAssignerInput;
export type AssignerAct = LeaderEffect<RebalanceResult, BalanceEvent>;
export type AssignerEffect = AssignerAct | Schedule<'wake'>;

export type AssignerOptions = Omit<DrainPlanOptions, 'strategy'> & {
  readonly rebalance: RebalanceOptions;
  /** Membership knows that the node is dead. */
  readonly isGone: (node: NodeId) => boolean;
  readonly transactionsMax: number;
  readonly retryMsMin: number;
  readonly retryMsMax: number;
};

export const assignerDefaults = {
  transactionsMax: 16,
  retryMsMin: 50,
  retryMsMax: 5_000,
} as const;

export type AssignerPhase = 'follower' | 'loading' | 'claiming' | 'leading' | 'superseded';

/** `doneRevision`: it happened, and the view has to show it before the same thing is looked at again. */
type Running = { readonly id: number; readonly task: DrainTask; readonly isMove: boolean; doneRevision?: number };
type Paused = { readonly untilMs: number; readonly tries: number };

const pausedMax = 1_024;

export class Assigner {
  readonly #options: AssignerOptions & DrainPlanOptions;
  #phase: AssignerPhase = 'follower';
  #fence: Fence | undefined;
  #fenceBytes = new Uint8Array();
  #view: ClusterView | undefined;
  #rebalancer: Rebalancer | undefined;
  readonly #running = new Map<string, Running>();
  #paused = new BoundedLru<string, Paused>(pausedMax);
  /** The registry does not answer well: nothing is tried before. */
  #pausedUntilMs = 0;
  #errors = 0;
  #nextId = 1;
  #claimId: number | undefined;
  #wakeMs: number | undefined;
  #effects: AssignerEffect[] = [];

  constructor(options: AssignerOptions) {
    this.#options = { ...options, strategy: options.rebalance.strategy };
  }

  get phase(): AssignerPhase {
    return this.#phase;
  }

  /** What the leader sees; undefined on everybody else. */
  get view(): ClusterView | undefined {
    return this.#phase === 'leading' ? this.#view : undefined;
  }

  get runningCount(): number {
    return this.#running.size;
  }

  step(nowMs: number, input: AssignerInput): readonly AssignerEffect[] {
    this.#take(nowMs, input);
    if (this.#phase === 'loading') this.#claim(nowMs);
    if (this.#phase === 'leading') this.#work(nowMs);
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #take(nowMs: number, input: AssignerInput): void {
    switch (input.kind) {
      case 'became':
        this.#resign('loading', 'another leadership began');
        this.#fence = input.fence;
        this.#fenceBytes = new TextEncoder().encode(String(input.fence));
        this.#effects.push({ kind: 'follow' });
        return;
      case 'lost':
        return this.#resign('follower', 'this node leads no longer');
      case 'loaded':
        this.#view = ClusterView.from(input.entries, input.revision, nowMs, this.#view);
        return this.#looked();
      case 'changed':
        this.#view?.apply(input.changes, input.revision, nowMs);
        return this.#looked();
      case 'transacted':
        return this.#transacted(nowMs, input.id, input.outcome);
      case 'rebalance':
        return this.#ask(nowMs, input.call, input.request);
      case 'expired':
        if (this.#wakeMs !== undefined && this.#wakeMs <= nowMs) this.#wakeMs = undefined;
    }
  }

  #resign(phase: AssignerPhase, why: string): void {
    const answer = this.#rebalancer?.abandon(new RemusterError('NOT_LEADER', why));
    if (answer !== undefined) this.#effects.push({ kind: 'answer', ...answer });
    if (this.#phase !== 'follower') this.#effects.push({ kind: 'unfollow' });
    this.#phase = phase;
    this.#rebalancer = undefined;
    this.#view = undefined;
    this.#claimId = undefined;
    this.#running.clear();
    this.#paused = new BoundedLru(pausedMax);
    this.#pausedUntilMs = 0;
    this.#errors = 0;
  }

  /** The view is newer: tasks that it shows as done are over, and somebody may have superseded us. */
  #looked(): void {
    const view = this.#view;
    if (view === undefined) return;
    for (const [name, { doneRevision }] of this.#running) {
      if (doneRevision !== undefined && doneRevision <= view.revision) this.#running.delete(name);
    }
    if (this.#fence === undefined || standingFence(view) <= this.#fence) return;
    this.#effects.push({ kind: 'tell', event: { kind: 'superseded' } });
    this.#resign('superseded', 'a later leader has begun');
  }

  #claim(nowMs: number): void {
    const view = this.#view;
    if (view === undefined || this.#claimId !== undefined) return;
    if (standingFence(view) === this.#fence) return this.#lead(nowMs);
    if (nowMs < this.#pausedUntilMs) return this.#wakeAt(nowMs, this.#pausedUntilMs);
    this.#claimId = this.#transact(claim(this.#fenceBytes, view.assigner?.modRevision ?? 0));
    this.#phase = 'claiming';
  }

  #lead(nowMs: number): void {
    this.#phase = 'leading';
    this.#errors = 0;
    this.#rebalancer = new Rebalancer(this.#options.rebalance, nowMs, this.#options.isGone);
    this.#effects.push({ kind: 'tell', event: { kind: 'leading' } });
  }

  #transacted(nowMs: number, id: number, outcome: Outcome<TransactionResult>): void {
    if (id === this.#claimId) {
      this.#claimId = undefined;
      if (outcome.ok && outcome.value.succeeded) return this.#lead(nowMs);
      this.#phase = 'loading';
      return this.#pause(nowMs);
    }
    const found = [...this.#running].find(([, running]) => running.id === id);
    if (found === undefined) return;
    const [name, running] = found;
    if (!outcome.ok) this.#failed(nowMs, name, running, outcome.error);
    else if (outcome.value.succeeded) this.#succeeded(name, running, outcome.value.revision);
    else this.#refused(nowMs, name, running);
  }

  #succeeded(name: string, running: Running, revision: number): void {
    this.#errors = 0;
    this.#paused.delete(name);
    this.#rebalancer?.moveEnded(name, undefined);
    this.#effects.push({ kind: 'tell', event: balanceEventOf(running.task) });
    if ((this.#view?.revision ?? 0) >= revision) this.#running.delete(name);
    else running.doneRevision = revision;
  }

  /** What it rested on has passed. The view will show it; until then this one thing waits. */
  #refused(nowMs: number, name: string, { isMove }: Running): void {
    this.#errors = 0;
    this.#running.delete(name);
    if (isMove) return this.#rebalancer?.moveEnded(name, 'something changed meanwhile');
    const tries = (this.#paused.peek(name)?.tries ?? 0) + 1;
    this.#paused.set(name, { untilMs: nowMs + this.#delayMs(tries), tries });
  }

  #failed(nowMs: number, name: string, { isMove }: Running, error: RemusterError): void {
    this.#running.delete(name);
    if (isMove) this.#rebalancer?.moveEnded(name, error.message);
    this.#pause(nowMs);
  }

  #pause(nowMs: number): void {
    this.#errors += 1;
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + this.#delayMs(this.#errors));
  }

  #delayMs(tries: number): number {
    return Math.min(this.#options.retryMsMax, this.#options.retryMsMin * 2 ** Math.min(20, tries - 1));
  }

  #ask(nowMs: number, call: number, request: RebalanceRequest): void {
    const answer =
      this.#phase !== 'leading' || this.#rebalancer === undefined || this.#view === undefined
        ? {
            call,
            outcome: { ok: false as const, error: new RemusterError('NOT_LEADER', 'only the leader rebalances', 'no') },
          }
        : this.#rebalancer.request(call, request, this.#view, nowMs, this.#onTheWay(this.#view));
    if (answer !== undefined) this.#effects.push({ kind: 'answer', ...answer });
  }

  #work(nowMs: number): void {
    const [view, rebalancer] = [this.#view, this.#rebalancer];
    if (view === undefined || rebalancer === undefined) return;
    if (nowMs >= this.#pausedUntilMs) this.#startTasks(nowMs, view, rebalancer);
    const answer = rebalancer.takeReply();
    if (answer !== undefined) this.#effects.push({ kind: 'answer', ...answer });
    this.#wakeLater(nowMs, view);
  }

  #startTasks(nowMs: number, view: ClusterView, rebalancer: Rebalancer): void {
    const onTheWay = (): InFlightLoad => this.#onTheWay(view);
    this.#startAll(nowMs, drainTasks(view, nowMs, this.#options, onTheWay));
    rebalancer.tick(view, nowMs, onTheWay);
    this.#startAll(nowMs, rebalancer.newNodeMarks(view, nowMs, onTheWay));
    while (this.#running.size < this.#options.transactionsMax) {
      const move = rebalancer.nextMove(view);
      if (move === undefined) return;
      if (this.#running.has(drainTaskKey(move))) rebalancer.moveEnded(drainTaskKey(move), 'it is on the move already');
      else this.#start(move, true);
    }
  }

  #startAll(nowMs: number, tasks: Iterable<DrainTask>): void {
    for (const task of tasks) {
      if (this.#running.size >= this.#options.transactionsMax) return;
      const name = drainTaskKey(task);
      if (!this.#running.has(name) && nowMs >= (this.#paused.peek(name)?.untilMs ?? 0)) this.#start(task, false);
    }
  }

  #start(task: DrainTask, isMove: boolean): void {
    this.#running.set(drainTaskKey(task), {
      id: this.#transact(drainTransaction(task, this.#fenceBytes)),
      task,
      isMove,
    });
  }

  #transact(transaction: RegistryTransaction): number {
    const id = this.#nextId++;
    this.#effects.push({ kind: 'transact', id, transaction });
    return id;
  }

  #onTheWay(view: ClusterView): InFlightLoad {
    const begun: NodeId[] = [];
    for (const { task } of this.#running.values())
      if (task.kind === 'move' && !view.moving.has(task.held.text)) begun.push(task.to.id);
    return inFlightLoad(view, begun);
  }

  /** Only for times to come: what is due and waits for a free hand is looked at when one becomes free. */
  #wakeLater(nowMs: number, view: ClusterView): void {
    const times = [nextDrainDueMs(view, nowMs), this.#rebalancer?.nextMs, this.#pausedUntilMs];
    for (const [, { untilMs }] of this.#paused.entries()) times.push(untilMs);
    const later = times.filter((atMs) => atMs !== undefined && atMs > nowMs && atMs < Infinity) as number[];
    if (later.length > 0)
      this.#wakeAt(
        nowMs,
        later.reduce((a, b) => Math.min(a, b)),
      );
  }

  #wakeAt(nowMs: number, atMs: number): void {
    if (this.#wakeMs !== undefined && this.#wakeMs <= atMs && this.#wakeMs > nowMs) return;
    this.#wakeMs = Math.max(atMs, nowMs);
    this.#effects.push({ kind: 'schedule', atMs: this.#wakeMs, timer: 'wake' });
  }
}

/** Zero when there is none, or none that can be read. */
function standingFence(view: ClusterView): Fence {
  try {
    return parseFence(new TextDecoder().decode(view.assigner?.value ?? new Uint8Array()));
  } catch {
    return 0n as Fence;
  }
}
