/**
 * The load of a node as one number, by strategy; lower is less loaded. Pure.
 *
 *   fair      owned containers
 *   weighted  owned containers divided by the capacity of the node
 *   balanced  containers 0.3, CPU 0.3, memory 0.2, throughput 0.2, each relative to the mean of the nodes; equals
 *             `fair` unless every node has a report
 *
 * `balanced` leaves out a factor in which the nodes hardly differ, and the others share its weight: otherwise the
 * memory that every process needs would hide an idle node.
 */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { LoadReport } from '../state/load-report.ts';

export const balanceStrategies = ['fair', 'balanced', 'weighted'] as const;
export type BalanceStrategy = (typeof balanceStrategies)[number];

export type NodeLoad = {
  readonly id: NodeId;
  readonly count: number;
  readonly report: LoadReport | undefined;
};

/** A factor counts only if its values differ by this much. */
const differenceMin = 0.15;

/** In the order of the nodes. */
export function loadScores(strategy: BalanceStrategy, nodes: readonly NodeLoad[]): readonly number[] {
  switch (strategy) {
    case 'fair':
      return nodes.map((node) => node.count);
    case 'weighted':
      return nodes.map((node) => node.count / (node.report?.capacity ?? 1));
    case 'balanced':
      return balancedScores(nodes);
    default:
      return unreachable(strategy);
  }
}

function balancedScores(nodes: readonly NodeLoad[]): readonly number[] {
  const reports = nodes.flatMap(({ report }) => (report === undefined ? [] : [report]));
  if (reports.length < nodes.length) return nodes.map((node) => node.count);
  const mostPerSecond = Math.max(1, ...reports.map((report) => report.perSecond));
  const distinctive = [
    { weight: 0.3, values: reports.map((report) => report.cpu) },
    { weight: 0.2, values: reports.map((report) => report.memory) },
    { weight: 0.2, values: reports.map((report) => report.perSecond / mostPerSecond) },
  ].filter(({ values }) => Math.max(...values) - Math.min(...values) >= differenceMin);
  const factors = [{ weight: 0.3, values: nodes.map((node) => node.count) }, ...distinctive];
  const weights = factors.reduce((sum, { weight }) => sum + weight, 0);
  // In units of containers, so that scores with different factors are comparable.
  const countMean = meanOf(nodes.map((node) => node.count));
  return nodes.map((_, index) => {
    const relative = factors.reduce((sum, { weight, values }) => sum + weight * relativeTo(values, index), 0);
    return (relative / weights) * (countMean === 0 ? 1 : countMean);
  });
}

function relativeTo(values: readonly number[], index: number): number {
  const mean = meanOf(values);
  return mean === 0 ? 0 : (values[index] as number) / mean;
}

export function meanOf(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Standard deviation of the population: the values are those of all nodes, not of a sample. */
export function deviationOf(values: readonly number[]): number {
  const mean = meanOf(values);
  return Math.sqrt(meanOf(values.map((value) => (value - mean) ** 2)));
}

/** Deviation divided by mean: how uneven the values are, independent of their size. Zero if all are zero. */
export function coefficientOfVariation(values: readonly number[]): number {
  const mean = meanOf(values);
  return mean === 0 ? 0 : deviationOf(values) / mean;
}

/** The loads after a move of one container, which carries its share of the measured CPU and throughput along. */
export function loadsAfterMove(nodes: readonly NodeLoad[], from: NodeId, to: NodeId): readonly NodeLoad[] {
  const source = nodes.find((node) => node.id === from);
  const share = source === undefined || source.count === 0 ? 0 : 1 / source.count;
  const moved = source?.report;
  return nodes.map((node) => {
    if (node.id !== from && node.id !== to) return node;
    const sign = node.id === from ? -1 : 1;
    const report = node.report && moved && shifted(node.report, moved, sign * share);
    return { id: node.id, count: node.count + sign, report };
  });
}

function shifted(report: LoadReport, moved: LoadReport, share: number): LoadReport {
  return {
    ...report,
    cpu: Math.max(0, report.cpu + share * moved.cpu),
    memory: report.memory,
    perSecond: Math.max(0, report.perSecond + share * moved.perSecond),
  };
}

/** Ties go to the node with fewer containers, then to the lower id, so that every leader decides alike. */
export function leastLoadedFirst(strategy: BalanceStrategy, nodes: readonly NodeLoad[]): readonly NodeLoad[] {
  // Counts one container more: among idle nodes the one with the greater capacity comes first.
  const counted = strategy === 'weighted' ? nodes.map((node) => ({ ...node, count: node.count + 1 })) : nodes;
  const scores = loadScores(strategy, counted);
  return nodes
    .map((node, index) => ({ node, score: scores[index] as number }))
    .toSorted((a, b) => a.score - b.score || a.node.count - b.node.count || (a.node.id < b.node.id ? -1 : 1))
    .map(({ node }) => node);
}
