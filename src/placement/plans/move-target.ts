/**
 * Chooses the node a container moves to: one that has its state and not more than its share, else the least loaded.
 * Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import { type ClusterView, type KnownNode, isActive } from '../state/cluster-view.ts';
import { type HeldContainer, loadWeight } from '../state/node-holdings.ts';
import { type NodeLoad, type BalanceStrategy, leastLoadedFirst, meanOf } from './load-score.ts';
import type { UnassignedRecord } from '../../registry/assignment/record.ts';

/** What is on its way to a node and not in the view yet, so that the next choice sees it. */
export type InFlightLoad = ReadonlyMap<NodeId, { readonly count: number; readonly weight: number }>;

export function chooseTarget(
  view: ClusterView,
  strategy: BalanceStrategy,
  record: UnassignedRecord,
  onTheWay: InFlightLoad,
): KnownNode | undefined {
  const failed = record.reason === 'take_failed' ? record.from : undefined;
  for (const wished of [record.to, record.hint.preferred]) {
    const node = wished === undefined || wished === failed ? undefined : view.nodes.get(wished);
    if (node !== undefined && isActive(node)) return node;
  }
  const active = view.activeNodes();
  const others = active.filter((node) => node.id !== failed);
  const [freest] = leastLoadedFirst(strategy, nodeLoads(others.length > 0 ? others : active, onTheWay));
  return freest === undefined ? undefined : view.nodes.get(freest.id);
}

/** Undefined when nobody else is active. */
export function chooseMoveTarget(
  view: ClusterView,
  strategy: BalanceStrategy,
  { record }: HeldContainer,
  onTheWay: InFlightLoad,
): KnownNode | undefined {
  const others = view.activeNodes().filter((node) => node.id !== record.owner?.node);
  const ranked = leastLoadedFirst(strategy, nodeLoads(others, onTheWay));
  const shareMax = meanOf(ranked.map(({ count }) => count)) + 1;
  const inSync = new Set(record.inSync.map(({ node }) => node));
  const found = ranked.find(({ id, count }) => inSync.has(id) && count <= shareMax) ?? ranked[0];
  return found === undefined ? undefined : view.nodes.get(found.id);
}

type Sums = Map<NodeId, { count: number; weight: number }>;

/** What the registry shows as meant for a node that does not hold it yet; `more` is what only the asker knows of. */
export function inFlightLoad(view: ClusterView, more: readonly (readonly [NodeId, number])[] = []): InFlightLoad {
  const sums: Sums = new Map();
  const add = (to: NodeId | undefined, weight: number): void => {
    if (to === undefined) return;
    const sum = sums.get(to) ?? { count: 0, weight: 0 };
    sums.set(to, { count: sum.count + 1, weight: sum.weight + weight });
  };
  for (const [to, weight] of more) add(to, weight);
  for (const [text, owner] of view.releasing) {
    const held = view.nodes.get(owner)?.assignments.get(text);
    if (held !== undefined) add(held.record.releasing?.to, loadWeight(held));
  }
  for (const held of view.moving.values()) add(held.record.move?.to, loadWeight(held));
  return sums;
}

export function nodeLoads(nodes: readonly KnownNode[], onTheWay: InFlightLoad): readonly NodeLoad[] {
  return nodes.map((node) => {
    const more = onTheWay.get(node.id);
    return {
      id: node.id,
      count: node.assignments.size + node.owned.size + (more?.count ?? 0),
      weight: node.weight + (more?.weight ?? 0),
      report: node.report,
    };
  });
}
