/**
 * Plans moves from the most to the least loaded nodes. Every move lowers the coefficient of variation, so a plan is
 * finite and no plan undoes another. Pure.
 */
import { type Outcome, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import {
  type NodeLoad,
  type BalanceStrategy,
  loadsAfterMove,
  meanOf,
  loadScores,
  coefficientOfVariation,
} from '../plans/load-score.ts';
import { type RebalanceOptions, isBlacklisted } from './rebalance-options.ts';

export type MovableContainer = {
  readonly name: string;
  /** Time since it arrived at its node. */
  readonly settledMs: number;
};

/** An active node with the containers that can move away from it; `count` includes containers that move to it. */
export type RebalanceNode = NodeLoad & { readonly movable: readonly MovableContainer[] };

export type PlannedMove = {
  readonly name: string;
  readonly from: NodeId;
  readonly to: NodeId;
  readonly variationBefore: number;
  readonly variationAfter: number;
};

export type RebalancePlan = {
  readonly moves: readonly PlannedMove[];
  readonly variationBefore: number;
  readonly variationAfter: number;
  /** Why the plan ends here, as text. */
  readonly why: string;
};

export type RebalancePlanRequest = {
  readonly movesMax: number;
  /** Requested by an operator: needs no automatic mode, and the cooldown does not apply. */
  readonly isManual: boolean;
  /** Moves go to these new nodes only; this needs no automatic mode either. */
  readonly newNodes?: ReadonlySet<NodeId>;
};

export function planRebalance(
  nodes: readonly RebalanceNode[],
  options: RebalanceOptions,
  request: RebalancePlanRequest,
): Outcome<RebalancePlan> {
  const refused = whyRefused(nodes, options, request);
  if (refused !== undefined) return failure('PRECONDITION', refused, 'no');
  const variationBefore = coefficientOfVariation(loadScores(options.strategy, nodes));
  const movable = new Map(nodes.map((node) => [node.id, candidates(node, options, request)]));
  const moves: PlannedMove[] = [];
  let loads: readonly NodeLoad[] = nodes;
  let variation = variationBefore;
  let why = 'as many moves as allowed';
  while (moves.length < request.movesMax) {
    why = 'balanced';
    if (variation <= options.variationMax) break;
    why = 'no allowed move would make the load more even';
    const step = bestStep(options.strategy, loads, movable, request.newNodes);
    if (step === undefined) break;
    loads = step.loads;
    const { held, from, to } = step;
    moves.push({ name: held.name, from, to, variationBefore: variation, variationAfter: step.variation });
    movable.set(from, movable.get(from)?.filter((container) => container !== held) ?? []);
    variation = step.variation;
    why = variation <= options.variationMax ? 'balanced after these moves' : 'as many moves as allowed';
  }
  return success({ moves, variationBefore, variationAfter: variation, why });
}

function whyRefused(
  nodes: readonly RebalanceNode[],
  options: RebalanceOptions,
  request: RebalancePlanRequest,
): string | undefined {
  if (options.mode === 'off') return 'rebalancing is switched off';
  if (!request.isManual && request.newNodes === undefined && options.mode !== 'automatic')
    return 'automatic rebalancing is switched off';
  if (nodes.length >= 2) return undefined;
  return `rebalancing needs at least 2 active nodes, and there ${nodes.length === 1 ? 'is 1' : 'are none'}`;
}

function candidates(
  node: RebalanceNode,
  options: RebalanceOptions,
  request: RebalancePlanRequest,
): readonly MovableContainer[] {
  return node.movable
    .filter(({ settledMs }) => request.isManual || settledMs >= options.cooldownMs)
    .filter(({ name }) => !isBlacklisted(options.blacklist, name))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

type Step = {
  readonly held: MovableContainer;
  readonly from: NodeId;
  readonly to: NodeId;
  readonly loads: readonly NodeLoad[];
  readonly variation: number;
};

/** The first pair that helps, in order of the most loaded source and the least loaded destination. */
function bestStep(
  strategy: BalanceStrategy,
  loads: readonly NodeLoad[],
  movable: ReadonlyMap<NodeId, readonly MovableContainer[]>,
  newNodes: ReadonlySet<NodeId> | undefined,
): Step | undefined {
  const scores = loadScores(strategy, loads);
  const mean = meanOf(scores);
  const ranked = loads
    .map(({ id }, index) => ({ id, score: scores[index] as number }))
    .toSorted((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
  const variation = coefficientOfVariation(scores);
  for (const { id: from } of ranked.filter(({ score }) => score > mean)) {
    const first = movable.get(from)?.[0];
    if (first === undefined) continue;
    const destinations = ranked.filter(({ id, score }) => score < mean && (newNodes?.has(id) ?? true));
    for (const { id: to } of destinations.toReversed()) {
      const after = loadsAfterMove(loads, from, to);
      const left = coefficientOfVariation(loadScores(strategy, after));
      if (left < variation - improvementMin) return { held: first, from, to, loads: after, variation: left };
    }
  }
  return undefined;
}

/** A smaller improvement is rounding noise. */
const improvementMin = 1e-6;
