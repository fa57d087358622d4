/**
 * Turns rebalance requests, new nodes and the automatic cycle into moves, one at a time unless requested, so that each
 * plan rests on what the last one led to. Never writes anything.
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
import { type DrainTask, drainTaskKey } from '../plans/drain-plan.ts';

export type RebalanceRequest = { readonly dryRun: boolean; readonly movesMax: number };

export type RebalanceResult = RebalancePlan & {
  readonly dryRun: boolean;
  /** How many of the moves have begun; they go on by themselves. */
  readonly started: number;
  readonly failed: readonly { readonly name: string; readonly why: string }[];
};

export type RebalanceReply = { readonly call: number; readonly outcome: Outcome<RebalanceResult> };

export const rebalanceLimits = { movesMaxDefault: 10, movesMax: 1_000 } as const;

type Asked = {
  readonly call: number;
  readonly plan: RebalancePlan;
  started: number;
  failed: { name: string; why: string }[];
};

export class Rebalancer {
  readonly #options: RebalanceOptions;
  readonly #isGone: (node: NodeId) => boolean;
  readonly #budget: HourlyMoveBudget;
  readonly #spreader: NewNodeBalancer;
  #moves: PlannedMove[] = [];
  #cause: 'rebalance' | 'spread' = 'rebalance';
  /** Handed out and not ended: name of the task to the name that people know. */
  readonly #begun = new Map<string, string>();
  #asked: Asked | undefined;
  #cycleMs: number;

  constructor(options: RebalanceOptions, nowMs: number, isGone: (node: NodeId) => boolean = () => false) {
    this.#isGone = isGone;
    this.#options = options;
    this.#budget = new HourlyMoveBudget(options.movesPerHourMax);
    this.#spreader = new NewNodeBalancer(options, this.#budget);
    this.#cycleMs = nowMs + options.intervalMs;
  }

  /** When `cycle` has something to look at next. */
  get nextMs(): number {
    const { nextMs } = this.#spreader;
    return this.#options.mode === 'automatic' ? Math.min(this.#cycleMs, nextMs) : nextMs;
  }

  /** Undefined: the answer comes with the end of the last move. */
  request(
    call: number,
    { dryRun, movesMax }: RebalanceRequest,
    view: ClusterView,
    nowMs: number,
    onTheWay: InFlightLoad,
  ): RebalanceReply | undefined {
    if (!Number.isInteger(movesMax) || movesMax < 1 || movesMax > rebalanceLimits.movesMax) {
      const message = `the number of moves is 1 to ${rebalanceLimits.movesMax}`;
      return { call, outcome: failure('BAD_ARGUMENT', message) };
    }
    if (!dryRun && this.#isBusy()) {
      return { call, outcome: failure('PRECONDITION', 'another rebalance is under way', 'no') };
    }
    const planned = planRebalance(this.#nodes(view, nowMs, onTheWay), this.#options, { movesMax, isManual: true });
    if (!planned.ok) return { call, outcome: planned };
    const plan = planned.value;
    if (dryRun || plan.moves.length === 0) {
      return { call, outcome: success({ ...plan, dryRun, started: 0, failed: [] }) };
    }
    this.#moves = [...plan.moves];
    this.#cause = 'rebalance';
    this.#asked = { call, plan, started: 0, failed: [] };
    return undefined;
  }

  #nodes(view: ClusterView, nowMs: number, onTheWay: InFlightLoad): readonly RebalanceNode[] {
    return rebalanceNodes(view, nowMs, onTheWay, this.#isGone);
  }

  /** Who becomes a newcomer, and who is one no longer. */
  newNodeMarks(view: ClusterView, nowMs: number, onTheWay: () => InFlightLoad): Iterable<DrainTask> {
    return this.#spreader.newNodeMarks(view, nowMs, () => this.#nodes(view, nowMs, onTheWay()));
  }

  /** Looks, if it is time. */
  tick(view: ClusterView, nowMs: number, onTheWay: () => InFlightLoad): void {
    if (this.#isBusy() || view.hasMovesInFlight()) return void this.#skipCycle(nowMs);
    const move = this.#spreader.nextMove(view, nowMs, () => this.#nodes(view, nowMs, onTheWay()));
    if (move !== undefined) return this.#begin(move, 'spread', nowMs);
    if (!this.#skipCycle(nowMs) || this.#budget.nextFreeMs(nowMs) > nowMs) return;
    const nodes = this.#nodes(view, nowMs, onTheWay());
    const planned = planRebalance(nodes, this.#options, { movesMax: 1, isManual: false });
    const [even] = planned.ok ? planned.value.moves : [];
    if (even !== undefined) this.#begin(even, 'rebalance', nowMs);
  }

  /** The next move as a task; moves that have become impossible are skipped and noted. */
  nextMove(view: ClusterView): DrainTask | undefined {
    for (let move = this.#moves.shift(); move !== undefined; move = this.#moves.shift()) {
      const node = view.nodes.get(move.from);
      const to = view.nodes.get(move.to);
      const held = node?.owned.get(move.name);
      if (node === undefined || held === undefined || !canMove(held)) {
        this.#note(move.name, 'it has moved meanwhile');
      } else if (to === undefined || !isActive(to) || !isActive(node)) {
        this.#note(move.name, 'one of its nodes is no longer active');
      } else {
        const task: DrainTask = { kind: 'move', node, held, cause: this.#cause, to };
        this.#begun.set(drainTaskKey(task), move.name);
        return task;
      }
    }
    return undefined;
  }

  /** A task of `next` has ended, well or with a reason. */
  moveEnded(task: string, error: string | undefined): void {
    const name = this.#begun.get(task);
    if (name === undefined) return;
    this.#begun.delete(task);
    this.#note(name, error);
  }

  /** The answer to who asked, once. */
  takeReply(): RebalanceReply | undefined {
    if (this.#asked === undefined || this.#isMoving()) return undefined;
    const { call, plan, started, failed } = this.#asked;
    this.#asked = undefined;
    return { call, outcome: success({ ...plan, dryRun: false, started, failed }) };
  }

  /** The leader is none any more. */
  abandon(error: RemusterError): RebalanceReply | undefined {
    const asked = this.#asked;
    this.#asked = undefined;
    this.#moves = [];
    return asked && { call: asked.call, outcome: { ok: false, error } };
  }

  #begin(move: PlannedMove, cause: 'rebalance' | 'spread', nowMs: number): void {
    this.#moves = [move];
    this.#cause = cause;
    this.#budget.take(nowMs);
  }

  /** True when it was time for one. */
  #skipCycle(nowMs: number): boolean {
    if (this.#options.mode !== 'automatic' || nowMs < this.#cycleMs) return false;
    this.#cycleMs = nowMs + this.#options.intervalMs;
    return true;
  }

  #note(name: string, error: string | undefined): void {
    if (this.#asked === undefined) return;
    if (error === undefined) this.#asked.started += 1;
    else this.#asked.failed.push({ name, why: error });
  }

  #isMoving(): boolean {
    return this.#moves.length > 0 || this.#begun.size > 0;
  }

  #isBusy(): boolean {
    return this.#asked !== undefined || this.#isMoving();
  }
}

/** `isGone`: membership knows that a node is dead before its registration has run out. It is no place to move to. */
export function rebalanceNodes(
  view: ClusterView,
  nowMs: number,
  onTheWay: InFlightLoad,
  isGone: (node: NodeId) => boolean,
): readonly RebalanceNode[] {
  const nodes = view.activeNodes().filter(({ id }) => !isGone(id));
  const loads = nodeLoads(nodes, onTheWay);
  return nodes.map((node, index) => {
    const { id, count, report } = loads[index] as NodeLoad;
    return { id, count: count - node.leaving, report, movable: movableOf(node, nowMs) };
  });
}

function movableOf({ owned }: KnownNode, nowMs: number): RebalanceNode['movable'] {
  return [...owned.values()].filter(canMove).map(({ text, sinceMs }) => ({ name: text, settledMs: nowMs - sinceMs }));
}
