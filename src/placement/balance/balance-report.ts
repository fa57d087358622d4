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
  /** Containers of others whose state it keeps a copy of: they are no load. */
  readonly copies: number;
};

export type BalanceRow = {
  readonly id: NodeId;
  readonly name: string;
  readonly isActive: boolean;
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
  readonly band: BalanceBand;
  readonly balanced: boolean;
  readonly nodes: readonly BalanceRow[];
};

export function balanceReport(
  strategy: BalanceStrategy,
  variationMax: number,
  nodes: readonly BalancedNode[],
  unassigned: number,
): BalanceReport {
  const active = nodes.filter((node) => node.isActive);
  const scores = loadScores(strategy, active);
  const [meanLoad, deviation, variation] = [meanOf(scores), deviationOf(scores), coefficientOfVariation(scores)];
  const loads = new Map(active.map((node, index) => [node.id, scores[index] as number]));
  return {
    strategy,
    activeNodes: active.length,
    containers: nodes.reduce((sum, node) => sum + node.count, 0),
    unassigned,
    meanLoad,
    maxLoad: Math.max(0, ...scores),
    minLoad: scores.length === 0 ? 0 : Math.min(...scores),
    deviation,
    variation,
    variationMax,
    band: bands.find(({ below }) => variation < below)?.band ?? 'severely imbalanced',
    balanced: variation <= variationMax,
    nodes: nodes.map((node) => row(node, loads.get(node.id), meanLoad, deviation)),
  };
}

function row(node: BalancedNode, load: number | undefined, mean: number, deviation: number): BalanceRow {
  const { id, name, isActive, count: containers, copies } = node;
  const known = load ?? containers;
  return {
    id,
    name,
    isActive,
    containers,
    copies,
    load: known,
    isOverloaded: isActive && deviation > 0 && known > mean + deviation,
    isUnderloaded: isActive && deviation > 0 && known < mean - deviation && known < mean / 2,
  };
}
