/**
 * Chooses the node that a container moves to: a member of its ISR that does not own more than its share, else the least
 * loaded active node. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import type { ClusterView, KnownNode } from '../state/cluster-view.ts';
import type { HeldContainer } from '../state/node-holdings.ts';
import { type NodeLoad, type BalanceStrategy, leastLoadedFirst, meanOf } from './load-score.ts';

/** Containers that move to each node and are not owned by it yet, so that the next choice counts them. */
export type InFlightLoad = ReadonlyMap<NodeId, number>;

/** Undefined when no other node is active. */
export function chooseMoveTarget(
  view: ClusterView,
  strategy: BalanceStrategy,
  { record }: HeldContainer,
  inFlight: InFlightLoad,
): KnownNode | undefined {
  const others = view.activeNodes().filter((node) => node.id !== record.owner?.node);
  const ranked = leastLoadedFirst(strategy, nodeLoads(others, inFlight));
  const shareMax = meanOf(ranked.map(({ count }) => count)) + 1;
  const inSync = new Set(record.inSync.map(({ node }) => node));
  const found = ranked.find(({ id, count }) => inSync.has(id) && count <= shareMax) ?? ranked[0];
  return found === undefined ? undefined : view.nodes.get(found.id);
}

/** Counts the moves of the view; `started` has the targets of moves that the view does not show yet. */
export function inFlightLoad(view: ClusterView, started: readonly NodeId[] = []): InFlightLoad {
  const counts = new Map<NodeId, number>();
  const add = (to: NodeId | undefined): void => {
    if (to !== undefined) counts.set(to, (counts.get(to) ?? 0) + 1);
  };
  for (const to of started) add(to);
  for (const { record } of view.moving.values()) add(record.move?.to);
  return counts;
}

export function nodeLoads(nodes: readonly KnownNode[], inFlight: InFlightLoad): readonly NodeLoad[] {
  return nodes.map(({ id, owned, report }) => ({ id, count: owned.size + (inFlight.get(id) ?? 0), report }));
}
