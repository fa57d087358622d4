/**
 * How evenly load lies on the active nodes, for `remuster balance`; the other nodes are listed with what they still
 * hold. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import {
  type NodeLoad,
  type BalanceStrategy,
  deviationOf,
  meanOf,
  loadScores,
  coefficientOfVariation,
} from '../plans/load-score.ts';

export type BalancedNode = NodeLoad & {
  readonly name: string;
  readonly isActive: boolean;
  /** Known dead, although its registration still has time left. */
  readonly isGone: boolean;
  /** Containers of others whose state it keeps a copy of: they are no load. */
  readonly copies: number;
};

export type BalanceRow = {
  readonly id: NodeId;
  readonly name: string;
  readonly isActive: boolean;
  readonly isGone: boolean;
  /** Owned ones are load, copies are not. */
  readonly containers: number;
  readonly copies: number;
  readonly load: number;
  readonly isOverloaded: boolean;
  readonly isUnderloaded: boolean;
};

const bands = [
  { below: 0.2, band: 'well balanced' },
  { below: 0.3, band: 'balanced' },
  { below: 0.4, band: 'imbalanced' },
] as const;

/** With fewer containers a node, one more or less is so large a part that the worst word would be an alarm over nothing. */
const containersForAlarm = 4;

export type BalanceBand = (typeof bands)[number]['band'] | 'severely imbalanced';

export type BalanceReport = {
  readonly strategy: BalanceStrategy;
  readonly activeNodes: number;
  readonly containers: number;
  /** Containers without an owner. */
  readonly unassigned: number;
  readonly meanLoad: number;
  readonly maxLoad: number;
  readonly minLoad: number;
  readonly deviation: number;
  /** Deviation by mean: 0 is perfectly even. */
  readonly variation: number;
  readonly variationMax: number;
  /** How many containers would have to move for the most even spread that there is; at 0 nothing is wrong. */
  readonly movesToEven: number;
  readonly band: BalanceBand;
  readonly balanced: boolean;
  readonly nodes: readonly BalanceRow[];
};

export type BalanceGoal = Pick<BalanceReport, 'strategy' | 'variationMax' | 'movesToEven'>;

export function balanceReport(goal: BalanceGoal, nodes: readonly BalancedNode[], unassigned: number): BalanceReport {
  const active = nodes.filter(({ isActive, isGone }) => isActive && !isGone);
  const scores = loadScores(goal.strategy, active);
  const [meanLoad, deviation, variation] = [meanOf(scores), deviationOf(scores), coefficientOfVariation(scores)];
  const loads = new Map(active.map((node, index) => [node.id, scores[index] as number]));
  const containers = nodes.reduce((sum, node) => sum + node.count, 0);
  const balanced = goal.movesToEven === 0 || variation <= goal.variationMax;
  return {
    ...goal,
    activeNodes: active.length,
    containers,
    unassigned,
    meanLoad,
    maxLoad: Math.max(0, ...scores),
    minLoad: scores.length === 0 ? 0 : Math.min(...scores),
    deviation,
    variation,
    band: goal.movesToEven === 0 ? 'well balanced' : bandOf(variation, containers / active.length),
    balanced,
    // Where the whole is balanced, a node a little above the others is not a finding.
    nodes: nodes.map((node) => row(node, loads.get(node.id), meanLoad, balanced ? 0 : deviation)),
  };
}

function bandOf(variation: number, containersPerNode: number): BalanceBand {
  const found = bands.find(({ below }) => variation < below)?.band;
  return found ?? (containersPerNode < containersForAlarm ? 'imbalanced' : 'severely imbalanced');
}

function row(node: BalancedNode, load: number | undefined, mean: number, deviation: number): BalanceRow {
  const { id, name, isActive, isGone, count: containers, copies } = node;
  const known = load ?? containers;
  const isCompared = load !== undefined && deviation > 0;
  return {
    id,
    name,
    isActive: isActive && !isGone,
    isGone,
    containers,
    copies,
    load: known,
    isOverloaded: isCompared && known > mean + deviation,
    isUnderloaded: isCompared && known < mean - deviation && known < mean / 2,
  };
}
