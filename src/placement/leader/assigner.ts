/**
 * The machine of the leader that drains nodes and balances load by starting moves. It decides from the registry alone:
 *
 *   elected -> load the view -> write the own fence to /cluster/assigner -> tasks, each one guarded transaction
 *
 * A leader that sees a higher fence there is superseded and stops. It keeps only the tasks in flight, so the next
 * leader continues at the same point and repeats nothing. With a stale view or a lost reply it tries again: the guards
 * decide.
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
  type AssignerTask,
  type DrainPlanOptions,
  nextDrainDueMs,
  assignerTaskKey,
  drainTasks,
} from '../plans/drain-plan.ts';
import { claimAssigner, assignerTransaction } from './assigner-transactions.ts';

export type AssignerRequest = {
  readonly kind: 'rebalance';
  readonly call: number;
  readonly request: RebalanceRequest;
};
export type AssignerInput = LeaderInput | AssignerRequest;
export type AssignerMachineEffect = LeaderEffect<RebalanceResult, BalanceEvent>;
export type AssignerEffect = AssignerMachineEffect | Schedule<'wake'>;

export type AssignerOptions = Omit<DrainPlanOptions, 'strategy'> & {
  readonly rebalance: RebalanceOptions;
  /** Membership has declared the node dead. */
  readonly isGone: (node: NodeId) => boolean;
  readonly transactionsMax: number;
  readonly retryDelayMsMin: number;
  readonly retryDelayMsMax: number;
};

export const assignerDefaults = {
  transactionsMax: 16,
  retryDelayMsMin: 50,
  retryDelayMsMax: 5_000,
} as const;

export type AssignerPhase = 'follower' | 'loading' | 'claiming' | 'leading' | 'superseded';

/** `committedRevision`: the task has succeeded and ends when the view shows that revision. */
type TaskInFlight = {
  readonly id: number;
  readonly task: AssignerTask;
  /** A move of the rebalancer, which awaits its end. */
  readonly isMove: boolean;
  committedRevision?: number;
};
type Backoff = { readonly untilMs: number; readonly attempts: number };

const backoffsMax = 1_024;

export class Assigner {
  readonly #options: AssignerOptions & DrainPlanOptions;
  #phase: AssignerPhase = 'follower';
  #fence: Fence | undefined;
  #fenceBytes = new Uint8Array();
  #view: ClusterView | undefined;
  #rebalancer: Rebalancer | undefined;
  readonly #tasks = new Map<string, TaskInFlight>();
  /** Per task that was refused by its guards. */
  #backoffs = new BoundedLru<string, Backoff>(backoffsMax);
  /** After errors of the registry no task starts before then. */
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

  /** The view of the leader; undefined on other nodes. */
  get view(): ClusterView | undefined {
    return this.#phase === 'leading' ? this.#view : undefined;
  }

  get inFlightCount(): number {
    return this.#tasks.size;
  }

  step(nowMs: number, input: AssignerInput): readonly AssignerEffect[] {
    this.#onInput(nowMs, input);
    if (this.#phase === 'loading') this.#claimAssigner(nowMs);
    if (this.#phase === 'leading') this.#startWork(nowMs);
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #onInput(nowMs: number, input: AssignerInput): void {
    switch (input.kind) {
      case 'elected':
        this.#stepDown('loading', 'a new leadership has started');
        this.#fence = input.fence;
        this.#fenceBytes = new TextEncoder().encode(String(input.fence));
        this.#effects.push({ kind: 'watch' });
        return;
      case 'lost':
        return this.#stepDown('follower', 'this node is no longer the leader');
      case 'loaded':
        this.#view = ClusterView.from(input.entries, input.revision, nowMs, this.#view);
        return this.#onViewChanged();
      case 'changed':
        this.#view?.apply(input.changes, input.revision, nowMs);
        return this.#onViewChanged();
      case 'transacted':
        return this.#onTransacted(nowMs, input.id, input.outcome);
      case 'rebalance':
        return this.#onRebalance(nowMs, input.call, input.request);
      case 'expired':
        if (this.#wakeMs !== undefined && this.#wakeMs <= nowMs) this.#wakeMs = undefined;
    }
  }

  #stepDown(phase: AssignerPhase, why: string): void {
    const reply = this.#rebalancer?.abort(new RemusterError('NOT_LEADER', why));
    if (reply !== undefined) this.#effects.push({ kind: 'reply', ...reply });
    if (this.#phase !== 'follower') this.#effects.push({ kind: 'unwatch' });
    this.#phase = phase;
    this.#rebalancer = undefined;
    this.#view = undefined;
    this.#claimId = undefined;
    this.#tasks.clear();
    this.#backoffs = new BoundedLru(backoffsMax);
    this.#pausedUntilMs = 0;
    this.#errors = 0;
  }

  /** Ends the tasks that the view shows as done; steps down if a later leader has written its fence. */
  #onViewChanged(): void {
    const view = this.#view;
    if (view === undefined) return;
    for (const [key, { committedRevision }] of this.#tasks) {
      if (committedRevision !== undefined && committedRevision <= view.revision) this.#tasks.delete(key);
    }
    if (this.#fence === undefined || recordedFence(view) <= this.#fence) return;
    this.#effects.push({ kind: 'emit', event: { kind: 'superseded' } });
    this.#stepDown('superseded', 'a later leader has taken over');
  }

  #claimAssigner(nowMs: number): void {
    const view = this.#view;
    if (view === undefined || this.#claimId !== undefined) return;
    if (recordedFence(view) === this.#fence) return this.#lead(nowMs);
    if (nowMs < this.#pausedUntilMs) return this.#wakeAt(nowMs, this.#pausedUntilMs);
    this.#claimId = this.#transact(claimAssigner(this.#fenceBytes, view.assigner?.modRevision ?? 0));
    this.#phase = 'claiming';
  }

  #lead(nowMs: number): void {
    this.#phase = 'leading';
    this.#errors = 0;
    this.#rebalancer = new Rebalancer(this.#options.rebalance, nowMs, this.#options.isGone);
    this.#effects.push({ kind: 'emit', event: { kind: 'leading' } });
  }

  #onTransacted(nowMs: number, id: number, outcome: Outcome<TransactionResult>): void {
    if (id === this.#claimId) {
      this.#claimId = undefined;
      if (outcome.ok && outcome.value.succeeded) return this.#lead(nowMs);
      this.#phase = 'loading';
      return this.#pause(nowMs);
    }
    const found = [...this.#tasks].find(([, task]) => task.id === id);
    if (found === undefined) return;
    const [key, task] = found;
    if (!outcome.ok) this.#onFailed(nowMs, key, task, outcome.error);
    else if (outcome.value.succeeded) this.#onSucceeded(key, task, outcome.value.revision);
    else this.#onRefused(nowMs, key, task);
  }

  #onSucceeded(key: string, inFlight: TaskInFlight, revision: number): void {
    this.#errors = 0;
    this.#backoffs.delete(key);
    this.#rebalancer?.onMoveStarted(key, undefined);
    this.#effects.push({ kind: 'emit', event: balanceEventOf(inFlight.task) });
    if ((this.#view?.revision ?? 0) >= revision) this.#tasks.delete(key);
    else inFlight.committedRevision = revision;
  }

  /** A guard did not hold. The view will show why; until then only this task backs off. */
  #onRefused(nowMs: number, key: string, { isMove }: TaskInFlight): void {
    this.#errors = 0;
    this.#tasks.delete(key);
    if (isMove) return this.#rebalancer?.onMoveStarted(key, 'its record or its destination changed meanwhile');
    const attempts = (this.#backoffs.peek(key)?.attempts ?? 0) + 1;
    this.#backoffs.set(key, { untilMs: nowMs + this.#retryDelayMs(attempts), attempts });
  }

  #onFailed(nowMs: number, key: string, { isMove }: TaskInFlight, error: RemusterError): void {
    this.#tasks.delete(key);
    if (isMove) this.#rebalancer?.onMoveStarted(key, error.message);
    this.#pause(nowMs);
  }

  #pause(nowMs: number): void {
    this.#errors += 1;
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + this.#retryDelayMs(this.#errors));
  }

  #retryDelayMs(attempts: number): number {
    const { retryDelayMsMin, retryDelayMsMax } = this.#options;
    return Math.min(retryDelayMsMax, retryDelayMsMin * 2 ** Math.min(20, attempts - 1));
  }

  #onRebalance(nowMs: number, call: number, request: RebalanceRequest): void {
    const reply =
      this.#phase !== 'leading' || this.#rebalancer === undefined || this.#view === undefined
        ? {
            call,
            outcome: { ok: false as const, error: new RemusterError('NOT_LEADER', 'only the leader rebalances', 'no') },
          }
        : this.#rebalancer.request(call, request, this.#view, nowMs, this.#inFlight(this.#view));
    if (reply !== undefined) this.#effects.push({ kind: 'reply', ...reply });
  }

  #startWork(nowMs: number): void {
    const [view, rebalancer] = [this.#view, this.#rebalancer];
    if (view === undefined || rebalancer === undefined) return;
    if (nowMs >= this.#pausedUntilMs) this.#startTasks(nowMs, view, rebalancer);
    const reply = rebalancer.takeReply();
    if (reply !== undefined) this.#effects.push({ kind: 'reply', ...reply });
    this.#scheduleWake(nowMs, view);
  }

  #startTasks(nowMs: number, view: ClusterView, rebalancer: Rebalancer): void {
    const inFlight = (): InFlightLoad => this.#inFlight(view);
    this.#startAll(nowMs, drainTasks(view, nowMs, this.#options, inFlight));
    rebalancer.tick(view, nowMs, inFlight);
    this.#startAll(nowMs, rebalancer.newNodeMarks(view, nowMs, inFlight));
    while (this.#tasks.size < this.#options.transactionsMax) {
      const move = rebalancer.nextMove(view);
      if (move === undefined) return;
      const key = assignerTaskKey(move);
      if (this.#tasks.has(key)) rebalancer.onMoveStarted(key, 'it is moving already');
      else this.#start(move, true);
    }
  }

  #startAll(nowMs: number, tasks: Iterable<AssignerTask>): void {
    for (const task of tasks) {
      if (this.#tasks.size >= this.#options.transactionsMax) return;
      const key = assignerTaskKey(task);
      if (!this.#tasks.has(key) && nowMs >= (this.#backoffs.peek(key)?.untilMs ?? 0)) this.#start(task, false);
    }
  }

  #start(task: AssignerTask, isMove: boolean): void {
    this.#tasks.set(assignerTaskKey(task), {
      id: this.#transact(assignerTransaction(task, this.#fenceBytes)),
      task,
      isMove,
    });
  }

  #transact(transaction: RegistryTransaction): number {
    const id = this.#nextId++;
    this.#effects.push({ kind: 'transact', id, transaction });
    return id;
  }

  #inFlight(view: ClusterView): InFlightLoad {
    const started: NodeId[] = [];
    for (const { task } of this.#tasks.values())
      if (task.kind === 'move' && !view.moving.has(task.held.fullName)) started.push(task.to.id);
    return inFlightLoad(view, started);
  }

  /** Future times only: a due task without a free transaction starts when one ends. */
  #scheduleWake(nowMs: number, view: ClusterView): void {
    const times = [nextDrainDueMs(view, nowMs), this.#rebalancer?.nextDueMs, this.#pausedUntilMs];
    for (const [, { untilMs }] of this.#backoffs.entries()) times.push(untilMs);
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

/** The fence at /cluster/assigner; zero when it is missing or malformed. */
function recordedFence(view: ClusterView): Fence {
  try {
    return parseFence(new TextDecoder().decode(view.assigner?.value ?? new Uint8Array()));
  } catch {
    return 0n as Fence;
  }
}
