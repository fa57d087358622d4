/**
 * Gives a node that joined or was activated its share of containers:
 *
 *   - An active node that has owned no container for `settleMs` is marked as new if a move to it would make the load more
 *     even. The mark is in the registry, so the next leader continues.
 *   - While a node is marked, one container after the other moves to it, from the most loaded nodes, with the cause
 *     `spread`: within the hourly move budget, none of the blacklist. The cooldown does not apply: it prevents
 *     containers from moving back and forth, and no container moves away from a marked node.
 *   - The mark is removed when no further move to the node would help, or when the node is not active.
 *
 * It works without automatic rebalancing, in the mode `manual`, too; `off` moves nothing. Plans only; never writes.
 */
import type { NodeId } from '../../base/ids.ts';
import { type ClusterView, type KnownNode, isActive } from '../state/cluster-view.ts';
import type { HourlyMoveBudget, RebalanceOptions } from './rebalance-options.ts';
import { type RebalanceNode, type PlannedMove, planRebalance } from './rebalance-plan.ts';

/** `seenRevision`: in this view a move to the node would not have helped; a newer view is needed to check again. */
type IdleNode = { readonly dueMs: number; readonly seenRevision: number };

/** Long enough for containers that a new node gets anyway, such as those of a pool that is being created. */
const settleMs = 2_000;

export class NewNodeBalancer {
  readonly #options: RebalanceOptions;
  readonly #budget: HourlyMoveBudget;
  /** Active nodes without containers. */
  readonly #idle = new Map<NodeId, IdleNode>();
  /** Marked nodes to which no further move would help. */
  #settled: ReadonlySet<NodeId> = new Set();
  /** When an idle node may be marked. */
  #markDueMs = Infinity;
  /** When the move budget allows the next move. */
  #moveDueMs = Infinity;

  constructor(options: RebalanceOptions, budget: HourlyMoveBudget) {
    this.#options = options;
    this.#budget = budget;
  }

  get nextDueMs(): number {
    return Math.min(this.#markDueMs, this.#moveDueMs);
  }

  /** The marks to set and to remove. */
  *newNodeMarks(
    view: ClusterView,
    nowMs: number,
    planNodes: () => readonly RebalanceNode[],
  ): Generator<{ readonly kind: 'markNewNode' | 'unmarkNewNode'; readonly node: KnownNode }> {
    this.#markDueMs = Infinity;
    for (const id of this.#idle.keys()) if (!view.nodes.has(id)) this.#idle.delete(id);
    const isOff = this.#options.mode === 'off';
    for (const node of view.nodes.values()) {
      if (node.spread !== undefined) {
        if (isOff || !isActive(node) || this.#settled.has(node.id)) yield { kind: 'unmarkNewNode', node };
      } else if (!isOff && this.#isIdle(view, node, nowMs) && this.#wouldHelp(view, node, nowMs, planNodes))
        yield { kind: 'markNewNode', node };
    }
  }

  /** The next move to a marked node; the caller starts it. */
  nextMove(view: ClusterView, nowMs: number, planNodes: () => readonly RebalanceNode[]): PlannedMove | undefined {
    this.#moveDueMs = Infinity;
    const newNodes = view.activeNodes().filter((node) => node.spread !== undefined);
    if (newNodes.length === 0 || this.#options.mode === 'off') return undefined;
    const freeMs = this.#budget.nextFreeMs(nowMs);
    if (nowMs < freeMs) {
      this.#moveDueMs = freeMs;
      return undefined;
    }
    this.#settled = new Set();
    const ids = new Set(newNodes.map(({ id }) => id));
    const plan = planRebalance(planNodes(), this.#options, { movesMax: 1, isManual: true, newNodes: ids });
    const move = plan.ok ? plan.value.moves[0] : undefined;
    if (move !== undefined) return move;
    this.#settled = ids;
    return undefined;
  }

  #hasUsefulMove(node: KnownNode, nodes: readonly RebalanceNode[]): boolean {
    const newNodes = new Set([node.id]);
    const plan = planRebalance(nodes, this.#options, { movesMax: 1, isManual: true, newNodes });
    return plan.ok && plan.value.moves.length > 0;
  }

  /** True when the node has owned no container for `settleMs`. */
  #isIdle(view: ClusterView, node: KnownNode, nowMs: number): boolean {
    if (!isActive(node) || node.owned.size > 0) {
      this.#idle.delete(node.id);
      return false;
    }
    const idle = this.#idle.get(node.id) ?? { dueMs: nowMs + settleMs, seenRevision: -1 };
    this.#idle.set(node.id, idle);
    if (view.revision <= idle.seenRevision) return false;
    if (nowMs < idle.dueMs) this.#markDueMs = Math.min(this.#markDueMs, idle.dueMs);
    return nowMs >= idle.dueMs;
  }

  #wouldHelp(view: ClusterView, node: KnownNode, nowMs: number, planNodes: () => readonly RebalanceNode[]): boolean {
    if (!view.hasMovesInFlight() && this.#hasUsefulMove(node, planNodes())) return true;
    this.#idle.set(node.id, { dueMs: nowMs + settleMs, seenRevision: view.revision });
    return false;
  }
}
