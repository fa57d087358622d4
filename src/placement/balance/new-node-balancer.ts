/**
 * Gives a node that joined or was activated its share of containers. The mark is in the registry, so the next leader
 * continues. Never writes it itself.
 *
 * The rule:
 *
 *   - Who is active, owns no container for `settleMs`, and would make the load more even by owning some, is marked as a
 *     newcomer, in the registry: so the next leader goes on where this one stopped.
 *   - While a newcomer is there, one container after the other moves to it, from the heaviest node first, with the cause
 *     `spread`: within the moves of an hour, and none of the blacklist. The cooldown of a container does not matter: it
 *     keeps things from moving to and fro, and nothing moves away from a newcomer.
 *   - It is no newcomer any more when no further move to it would help, or when it is not active.
 *
 * This needs no automatic rebalancing: `manual` is about evening out what has grown uneven, a newcomer is meant to take
 * part. `off` moves nothing.
 */
import type { NodeId } from '../../base/ids.ts';
import { type ClusterView, type KnownNode, isActive } from '../state/cluster-view.ts';
import type { HourlyMoveBudget, RebalanceOptions } from './rebalance-options.ts';
import { type RebalanceNode, type PlannedMove, planRebalance } from './rebalance-plan.ts';

/** `seenRevision`: of the view in which a move to it would not have helped; looked at again when there is a newer one. */
type Idle = { readonly dueMs: number; readonly seenRevision: number };

/** Long enough for what is on its way to a new node anyway, such as a pool that is being created. */
const settleMs = 2_000;

export class NewNodeBalancer {
  readonly #options: RebalanceOptions;
  readonly #budget: HourlyMoveBudget;
  /** Active nodes without containers; one for each at most. */
  readonly #idle = new Map<NodeId, Idle>();
  /** Newcomers to which no further move would help. */
  #settled: ReadonlySet<NodeId> = new Set();
  /** When there is something to look at only because time has passed: at who is idle, and at the next move. */
  #idleMs = Infinity;
  #planMs = Infinity;

  constructor(options: RebalanceOptions, budget: HourlyMoveBudget) {
    this.#options = options;
    this.#budget = budget;
  }

  get nextMs(): number {
    return Math.min(this.#idleMs, this.#planMs);
  }

  /** Who becomes a newcomer, and who is one no longer. */
  *newNodeMarks(
    view: ClusterView,
    nowMs: number,
    planNodes: () => readonly RebalanceNode[],
  ): Generator<{ readonly kind: 'beginSpread' | 'endSpread'; readonly node: KnownNode }> {
    this.#idleMs = Infinity;
    for (const id of this.#idle.keys()) if (!view.nodes.has(id)) this.#idle.delete(id);
    const isOff = this.#options.mode === 'off';
    for (const node of view.nodes.values()) {
      if (node.spread !== undefined) {
        if (isOff || !isActive(node) || this.#settled.has(node.id)) yield { kind: 'endSpread', node };
      } else if (!isOff && this.#isIdle(view, node, nowMs) && this.#wouldHelp(view, node, nowMs, planNodes))
        yield { kind: 'beginSpread', node };
    }
  }

  /** The next move to a newcomer; the caller begins it. */
  nextMove(view: ClusterView, nowMs: number, planNodes: () => readonly RebalanceNode[]): PlannedMove | undefined {
    this.#planMs = Infinity;
    const newcomers = view.activeNodes().filter((node) => node.spread !== undefined);
    if (newcomers.length === 0 || this.#options.mode === 'off') return undefined;
    const fromMs = this.#budget.nextFreeMs(nowMs);
    if (nowMs < fromMs) {
      this.#planMs = fromMs;
      return undefined;
    }
    this.#settled = new Set();
    const ids = new Set(newcomers.map(({ id }) => id));
    const plan = planRebalance(planNodes(), this.#options, { movesMax: 1, isManual: true, newNodes: ids });
    const move = plan.ok ? plan.value.moves[0] : undefined;
    if (move !== undefined) return move;
    this.#settled = ids;
    return undefined;
  }

  #helps(node: KnownNode, nodes: readonly RebalanceNode[]): boolean {
    const newNodes = new Set([node.id]);
    const plan = planRebalance(nodes, this.#options, { movesMax: 1, isManual: true, newNodes });
    return plan.ok && plan.value.moves.length > 0;
  }

  /** For long enough. */
  #isIdle(view: ClusterView, node: KnownNode, nowMs: number): boolean {
    if (!isActive(node) || node.owned.size > 0) {
      this.#idle.delete(node.id);
      return false;
    }
    const idle = this.#idle.get(node.id) ?? { dueMs: nowMs + settleMs, seenRevision: -1 };
    this.#idle.set(node.id, idle);
    if (view.revision <= idle.seenRevision) return false;
    if (nowMs < idle.dueMs) this.#idleMs = Math.min(this.#idleMs, idle.dueMs);
    return nowMs >= idle.dueMs;
  }

  #wouldHelp(view: ClusterView, node: KnownNode, nowMs: number, planNodes: () => readonly RebalanceNode[]): boolean {
    if (!view.hasMovesInFlight() && this.#helps(node, planNodes())) return true;
    this.#idle.set(node.id, { dueMs: nowMs + settleMs, seenRevision: view.revision });
    return false;
  }
}
