/**
 * Which active node gets an assignment: the one it was meant for, the one it prefers, or the freest; in this order, and
 * only if that node is active. Nodes that could not take it are asked again only when nobody else is there. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import { type ClusterView, type KnownNode, isActive } from './cluster-view.ts';
import { type NodeLoad, type Strategy, freestFirst } from './ranking.ts';
import type { UnassignedRecord } from './record.ts';

/** What is on its way to a node and not in the view yet, so that the next choice sees it. */
export type OnTheWay = ReadonlyMap<NodeId, { readonly count: number; readonly weight: number }>;

export function chooseTarget(
  view: ClusterView,
  strategy: Strategy,
  record: UnassignedRecord,
  onTheWay: OnTheWay,
): KnownNode | undefined {
  const failed = record.reason === 'take_failed' ? record.from : undefined;
  for (const wished of [record.to, record.hint.preferred]) {
    const node = wished === undefined || wished === failed ? undefined : view.nodes.get(wished);
    if (node !== undefined && isActive(node)) return node;
  }
  const active = view.activeNodes();
  const others = active.filter((node) => node.id !== failed);
  const [freest] = freestFirst(strategy, loadsOf(others.length > 0 ? others : active, onTheWay));
  return freest === undefined ? undefined : view.nodes.get(freest.id);
}

export function loadsOf(nodes: readonly KnownNode[], onTheWay: OnTheWay): readonly NodeLoad[] {
  return nodes.map((node) => {
    const more = onTheWay.get(node.id);
    return {
      id: node.id,
      count: node.assignments.size + (more?.count ?? 0),
      weight: node.weight + (more?.weight ?? 0),
      report: node.report,
    };
  });
}
