/**
 * How evenly the load is spread over the active nodes, for `remuster balance`. Inactive nodes are listed with the
 * containers and replicas that they still hold. Pure.
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
  /** Membership has declared it dead; its registration has not expired yet. */
  readonly isGone: boolean;
  /** Replicas of containers of other owners; they do not count as load. */
  readonly copies: number;
};

export type BalanceRow = {
  readonly id: NodeId;
  readonly name: string;
  readonly isActive: boolean;
  readonly isGone: boolean;
  /** Owned containers count as load, replicas do not. */
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

/**
 * With fewer containers per node, one of them is so large a share that 'severely imbalanced' would be a false alarm.
 */
const containersPerNodeMin = 4;

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
  /** Coefficient of variation: deviation divided by mean, 0 for an even spread. */
  readonly variation: number;
  readonly variationMax: number;
  /** Moves to the most even spread; at 0 the cluster is balanced whatever the variation. */
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
    // In a balanced cluster no single node is overloaded.
    nodes: nodes.map((node) => row(node, loads.get(node.id), meanLoad, balanced ? 0 : deviation)),
  };
}

function bandOf(variation: number, containersPerNode: number): BalanceBand {
  const found = bands.find(({ below }) => variation < below)?.band;
  return found ?? (containersPerNode < containersPerNodeMin ? 'imbalanced' : 'severely imbalanced');
}

function row(node: BalancedNode, load: number | undefined, mean: number, deviation: number): BalanceRow {
  const { id, name, isActive, isGone, count: containers, copies } = node;
  const shownLoad = load ?? containers;
  const isCompared = load !== undefined && deviation > 0;
  return {
    id,
    name,
    isActive: isActive && !isGone,
    isGone,
    containers,
    copies,
    load: shownLoad,
    isOverloaded: isCompared && shownLoad > mean + deviation,
    isUnderloaded: isCompared && shownLoad < mean - deviation && shownLoad < mean / 2,
  };
}
