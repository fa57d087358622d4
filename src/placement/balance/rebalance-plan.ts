/**
 * Plans moves from the most to the least loaded node. Every move lowers the coefficient of variation, so plans end and
 * do not undo each other. Pure.
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
  /** Since it came to its node. */
  readonly settledMs: number;
};

/** An active, registered node with what could be moved away from it; `count` has also what is on its way here. */
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
  /** Why these and not more, in words. */
  readonly why: string;
};

export type RebalancePlanRequest = {
  readonly movesMax: number;
  /** Asked for by a person: the cooldown does not count, and `manual` is enough. */
  readonly isManual: boolean;
  /** Only to these nodes, which came without containers: also for this `manual` is enough. */
  readonly newNodes?: ReadonlySet<NodeId>;
};

export function planRebalance(
  nodes: readonly RebalanceNode[],
  options: RebalanceOptions,
  request: RebalancePlanRequest,
): Outcome<RebalancePlan> {
  const refused = refusal(nodes, options, request);
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
    why = 'no move that is allowed would make it more even';
    const step = bestStep(options.strategy, loads, movable, request.newNodes);
    if (step === undefined) break;
    loads = step.loads;
    const { held, from, to } = step;
    moves.push({ name: held.name, from, to, variationBefore: variation, variationAfter: step.variation });
    movable.set(from, movable.get(from)?.filter((one) => one !== held) ?? []);
    variation = step.variation;
    why = variation <= options.variationMax ? 'balanced after these moves' : 'as many moves as allowed';
  }
  return success({ moves, variationBefore, variationAfter: variation, why });
}

function refusal(
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

/** From the heaviest node that can give to the freest that may take, if that helps; otherwise the next pair. */
function bestStep(
  strategy: BalanceStrategy,
  loads: readonly NodeLoad[],
  movable: ReadonlyMap<NodeId, readonly MovableContainer[]>,
  newcomers: ReadonlySet<NodeId> | undefined,
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
    const takers = ranked.filter(({ id, score }) => score < mean && (newcomers?.has(id) ?? true));
    for (const { id: to } of takers.toReversed()) {
      const after = loadsAfterMove(loads, from, to);
      const left = coefficientOfVariation(loadScores(strategy, after));
      if (left < variation - improvementMin) return { held: first, from, to, loads: after, variation: left };
    }
  }
  return undefined;
}

/** Less is the noise of floating point, and no reason to move anything. */
const improvementMin = 1e-6;
