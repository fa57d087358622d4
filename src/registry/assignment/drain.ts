/**
 * What can be said about draining a node, from the view alone: whether it can begin, how far it is, and what stands in
 * its way. Pure. The work itself is done by the assigner, whoever leads, until it is done; asking only begins it.
 */
import type { NodeId } from '../../base/ids.ts';
import { modeAfter } from '../registration/modes.ts';
import { type ClusterView, type KnownNode, isActive } from './cluster-view.ts';

export type DrainProgress = {
  readonly node: NodeId;
  readonly phase: 'draining' | 'drained' | 'not draining';
  readonly total: number;
  readonly remaining: number;
  /** Of the remaining: the node was asked to release them. */
  readonly releasing: number;
  /** Released, and given to nobody yet. */
  readonly adrift: number;
  /** The deadline has passed. Nothing is taken by force: what is left stays where it is. */
  readonly overdue: boolean;
  /** In words: why it does not go on at this moment. */
  readonly blockedBy: readonly string[];
};

/** Why a drain cannot begin; nothing when it can. */
export function drainPreflight(view: ClusterView, id: NodeId): readonly string[] {
  const node = view.nodes.get(id);
  if (node?.registered === undefined) return [`node ${node?.name ?? id} is not registered`];
  const mode = node.state?.record?.mode;
  if (mode === undefined) return [`the state of node ${node.name} is unknown`];
  if (modeAfter('admin_drain', mode) === undefined) return [`node ${node.name} is ${mode}, not active`];
  return !node.works || othersActive(view, id) > 0 ? [] : [noTarget(node)];
}

export function drainProgress(view: ClusterView, id: NodeId): DrainProgress {
  const node = view.nodes.get(id);
  const mode = node?.state?.record?.mode;
  const phase = mode === 'draining' || mode === 'drained' ? mode : 'not draining';
  const remaining = node?.assignments.size ?? 0;
  return {
    node: id,
    phase,
    total: Math.max(node?.drain?.record.total ?? 0, remaining),
    remaining,
    releasing: node?.releasing ?? 0,
    adrift: node?.adrift ?? 0,
    overdue: node?.drain?.record.overdue ?? false,
    blockedBy: node !== undefined && phase === 'draining' ? blockers(view, node) : [],
  };
}

function blockers(view: ClusterView, node: KnownNode): readonly string[] {
  if (node.assignments.size === 0) return [];
  if (node.registered === undefined) return [`node ${node.name} is gone; the leader takes back what it held`];
  if (othersActive(view, node.id) === 0) return [noTarget(node)];
  if (node.releasing === 0) return [];
  const names = [...view.releasing].filter(([, owner]) => owner === node.id).map(([text]) => text);
  const shown = names.slice(0, 5).join(', ') + (names.length > 5 ? ', ...' : '');
  return [`node ${node.name} has not released ${shown} yet`];
}

function noTarget(node: KnownNode): string {
  return `no other node is active, so nobody could take what node ${node.name} holds (${node.assignments.size})`;
}

function othersActive(view: ClusterView, id: NodeId): number {
  return view.activeNodes().filter((node) => node.id !== id && isActive(node)).length;
}
