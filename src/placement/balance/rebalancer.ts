/**
 * Turns rebalance requests, marks of new nodes and the automatic cycle into moves. Without a request it starts one move
 * at a time, so that each plan sees the result of the last. Plans only; never writes.
 */
import { type Outcome, type RemusterError, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import { type ClusterView, type KnownNode, isActive } from '../state/cluster-view.ts';
import { canMove } from '../state/node-holdings.ts';
import type { NodeLoad } from '../plans/load-score.ts';
import { HourlyMoveBudget, type RebalanceOptions } from './rebalance-options.ts';
import { type RebalanceNode, type PlannedMove, type RebalancePlan, planRebalance } from './rebalance-plan.ts';
import { NewNodeBalancer } from './new-node-balancer.ts';
import { type InFlightLoad, nodeLoads } from '../plans/move-target.ts';
import { type AssignerTask, assignerTaskKey } from '../plans/drain-plan.ts';

export type RebalanceRequest = { readonly dryRun: boolean; readonly movesMax: number };

export type RebalanceResult = RebalancePlan & {
  readonly dryRun: boolean;
  /** Moves that have started; the placer completes them. */
  readonly started: number;
  readonly failed: readonly { readonly name: string; readonly why: string }[];
};

export type RebalanceReply = { readonly call: number; readonly outcome: Outcome<RebalanceResult> };

export const rebalanceLimits = { movesMaxDefault: 10, movesMax: 1_000 } as const;

type PendingRequest = {
  readonly call: number;
  readonly plan: RebalancePlan;
  started: number;
  failed: { name: string; why: string }[];
};

export class Rebalancer {
  readonly #options: RebalanceOptions;
  readonly #isGone: (node: NodeId) => boolean;
  readonly #budget: HourlyMoveBudget;
  readonly #newNodes: NewNodeBalancer;
  #moves: PlannedMove[] = [];
  #cause: 'rebalance' | 'spread' = 'rebalance';
  /** Moves handed out whose start is not confirmed: task key to full name of the container. */
  readonly #starting = new Map<string, string>();
  #pending: PendingRequest | undefined;
  #cycleDueMs: number;

  constructor(options: RebalanceOptions, nowMs: number, isGone: (node: NodeId) => boolean = () => false) {
    this.#isGone = isGone;
    this.#options = options;
    this.#budget = new HourlyMoveBudget(options.movesPerHourMax);
    this.#newNodes = new NewNodeBalancer(options, this.#budget);
    this.#cycleDueMs = nowMs + options.intervalMs;
  }

  /** When `tick` or `newNodeMarks` may have something new. */
  get nextDueMs(): number {
    const { nextDueMs } = this.#newNodes;
    return this.#options.mode === 'automatic' ? Math.min(this.#cycleDueMs, nextDueMs) : nextDueMs;
  }

  /** Undefined: `takeReply` returns the reply after the start of the last move. */
  request(
    call: number,
    { dryRun, movesMax }: RebalanceRequest,
    view: ClusterView,
    nowMs: number,
    inFlight: InFlightLoad,
  ): RebalanceReply | undefined {
    if (!Number.isInteger(movesMax) || movesMax < 1 || movesMax > rebalanceLimits.movesMax) {
      const message = `a rebalance has 1 to ${rebalanceLimits.movesMax} moves, not ${movesMax}`;
      return { call, outcome: failure('BAD_ARGUMENT', message) };
    }
    if (!dryRun && this.#isBusy()) {
      return { call, outcome: failure('PRECONDITION', 'another rebalance is under way', 'no') };
    }
    const planned = planRebalance(this.#nodes(view, nowMs, inFlight), this.#options, { movesMax, isManual: true });
    if (!planned.ok) return { call, outcome: planned };
    const plan = planned.value;
    if (dryRun || plan.moves.length === 0) {
      return { call, outcome: success({ ...plan, dryRun, started: 0, failed: [] }) };
    }
    this.#moves = [...plan.moves];
    this.#cause = 'rebalance';
    this.#pending = { call, plan, started: 0, failed: [] };
    return undefined;
  }

  #nodes(view: ClusterView, nowMs: number, inFlight: InFlightLoad): readonly RebalanceNode[] {
    return rebalanceNodes(view, nowMs, inFlight, this.#isGone);
  }

  /** The marks of new nodes to set and to remove. */
  newNodeMarks(view: ClusterView, nowMs: number, inFlight: () => InFlightLoad): Iterable<AssignerTask> {
    return this.#newNodes.newNodeMarks(view, nowMs, () => this.#nodes(view, nowMs, inFlight()));
  }

  /** Plans one move if none is under way: to a new node, or for the automatic cycle if it is due. */
  tick(view: ClusterView, nowMs: number, inFlight: () => InFlightLoad): void {
    if (this.#isBusy() || view.hasMovesInFlight()) return void this.#takeCycle(nowMs);
    const move = this.#newNodes.nextMove(view, nowMs, () => this.#nodes(view, nowMs, inFlight()));
    if (move !== undefined) return this.#schedule(move, 'spread', nowMs);
    if (!this.#takeCycle(nowMs) || this.#budget.nextFreeMs(nowMs) > nowMs) return;
    const nodes = this.#nodes(view, nowMs, inFlight());
    const planned = planRebalance(nodes, this.#options, { movesMax: 1, isManual: false });
    const [first] = planned.ok ? planned.value.moves : [];
    if (first !== undefined) this.#schedule(first, 'rebalance', nowMs);
  }

  /** The next move as a task; moves that have become impossible are recorded as failed. */
  nextMove(view: ClusterView): AssignerTask | undefined {
    for (let move = this.#moves.shift(); move !== undefined; move = this.#moves.shift()) {
      const node = view.nodes.get(move.from);
      const to = view.nodes.get(move.to);
      const held = node?.owned.get(move.name);
      if (node === undefined || held === undefined || !canMove(held)) {
        this.#record(move.name, 'it has moved meanwhile');
      } else if (to === undefined || !isActive(to) || !isActive(node)) {
        this.#record(move.name, 'one of its nodes is no longer active');
      } else {
        const task: AssignerTask = { kind: 'move', node, held, cause: this.#cause, to };
        this.#starting.set(assignerTaskKey(task), move.name);
        return task;
      }
    }
    return undefined;
  }

  /** A move of `nextMove` has started, or has failed with an error. */
  onMoveStarted(taskKey: string, error: string | undefined): void {
    const name = this.#starting.get(taskKey);
    if (name === undefined) return;
    this.#starting.delete(taskKey);
    this.#record(name, error);
  }

  /** The reply to the pending request, once all its moves have started or failed. */
  takeReply(): RebalanceReply | undefined {
    if (this.#pending === undefined || this.#hasMoves()) return undefined;
    const { call, plan, started, failed } = this.#pending;
    this.#pending = undefined;
    return { call, outcome: success({ ...plan, dryRun: false, started, failed }) };
  }

  /** Drops the planned moves, because this node no longer leads; the pending request fails. */
  abort(error: RemusterError): RebalanceReply | undefined {
    const pending = this.#pending;
    this.#pending = undefined;
    this.#moves = [];
    return pending && { call: pending.call, outcome: { ok: false, error } };
  }

  #schedule(move: PlannedMove, cause: 'rebalance' | 'spread', nowMs: number): void {
    this.#moves = [move];
    this.#cause = cause;
    this.#budget.take(nowMs);
  }

  /** True if the automatic cycle is due; the next one is then due an interval later. */
  #takeCycle(nowMs: number): boolean {
    if (this.#options.mode !== 'automatic' || nowMs < this.#cycleDueMs) return false;
    this.#cycleDueMs = nowMs + this.#options.intervalMs;
    return true;
  }

  #record(name: string, error: string | undefined): void {
    if (this.#pending === undefined) return;
    if (error === undefined) this.#pending.started += 1;
    else this.#pending.failed.push({ name, why: error });
  }

  #hasMoves(): boolean {
    return this.#moves.length > 0 || this.#starting.size > 0;
  }

  #isBusy(): boolean {
    return this.#pending !== undefined || this.#hasMoves();
  }
}

/** Active nodes, without those that membership has declared dead although their registration has not expired. */
export function rebalanceNodes(
  view: ClusterView,
  nowMs: number,
  inFlight: InFlightLoad,
  isGone: (node: NodeId) => boolean,
): readonly RebalanceNode[] {
  const nodes = view.activeNodes().filter(({ id }) => !isGone(id));
  const loads = nodeLoads(nodes, inFlight);
  return nodes.map((node, index) => {
    const { id, count, report } = loads[index] as NodeLoad;
    return { id, count: count - node.leaving, report, movable: movableOf(node, nowMs) };
  });
}

function movableOf({ owned }: KnownNode, nowMs: number): RebalanceNode['movable'] {
  return [...owned.values()]
    .filter(canMove)
    .map(({ fullName, sinceMs }) => ({ name: fullName, settledMs: nowMs - sinceMs }));
}
