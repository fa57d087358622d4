/** Whether a drain can start, how far it has got, and what blocks it, as sentences. Pure; moves nothing. */
import type { NodeId } from '../../base/ids.ts';
import { nextMode } from '../../registration/node-modes.ts';
import type { ClusterView, KnownNode } from '../state/cluster-view.ts';
import { moveStepTexts } from '../state/container-records.ts';
import { type HeldContainer, canMove, heldCount, isMoving } from '../state/node-holdings.ts';

export type DrainProgress = {
  readonly node: NodeId;
  readonly phase: 'draining' | 'drained' | 'not draining';
  readonly total: number;
  readonly remaining: number;
  /** Of `remaining`: owned containers. */
  readonly containers: number;
  /** Of `remaining`: replicas of containers of other owners. */
  readonly copies: number;
  /** Of `containers`: with a move under way. */
  readonly releasing: number;
  /** The deadline has passed. The drain continues, and the remaining containers stay served. */
  readonly overdue: boolean;
  /** What the drain waits for now, as sentences. */
  readonly blockedBy: readonly string[];
  /** What is missing until the node is active again, as sentences. */
  readonly warnings: readonly string[];
};

const shownMax = 5;

/** Why a drain of the node could not end; empty if it can start. */
export function drainPreflight(view: ClusterView, id: NodeId): readonly string[] {
  const node = view.nodes.get(id);
  if (node?.registered === undefined) return [`node ${node?.name ?? id} is not registered`];
  const mode = node.state?.record?.mode;
  if (mode === undefined) return [`the state of node ${node.name} is unknown`];
  if (nextMode('admin_drain', mode) === undefined) return [`node ${node.name} is ${mode}, not active`];
  return !node.isWorker || othersActive(view, id).length > 0 ? [] : [noTarget(node)];
}

export function drainProgress(view: ClusterView, id: NodeId): DrainProgress {
  const node = view.nodes.get(id);
  const mode = node?.state?.record?.mode;
  const phase = mode === 'draining' || mode === 'drained' ? mode : 'not draining';
  const remaining = node === undefined ? 0 : heldCount(node);
  return {
    node: id,
    phase,
    total: Math.max(node?.drain?.record.total ?? 0, remaining),
    remaining,
    containers: node?.owned.size ?? 0,
    copies: node?.replicated.size ?? 0,
    releasing: node?.leaving ?? 0,
    overdue: node?.drain?.record.overdue ?? false,
    blockedBy: node !== undefined && phase === 'draining' ? blockers(view, node) : [],
    warnings: node === undefined ? [] : missingReplicas(view, node),
  };
}

function blockers(view: ClusterView, node: KnownNode): readonly string[] {
  if (heldCount(node) === 0)
    return node.registered === undefined
      ? []
      : [`node ${node.name} holds no containers any more; it waits for its running units of jobs`];
  if (node.registered === undefined)
    return [`node ${node.name} is gone; the leader recovers its containers from other replicas`];
  if (othersActive(view, node.id).length === 0) return [noTarget(node)];
  return [...moving(view, node), ...unopened(node), ...leftReplicas(node)];
}

function moving(view: ClusterView, node: KnownNode): readonly string[] {
  const moves = [...node.owned.values()].filter(isMoving).map(({ fullName, record: { move } }) => {
    return move === undefined ? fullName : `${fullName} to ${nameOf(view, move.to)} (${moveStepTexts[move.step]})`;
  });
  return moves.length === 0 ? [] : [`moving: ${first(moves)}`];
}

function unopened(node: KnownNode): readonly string[] {
  const held = [...node.owned.values()].filter((container) => !isMoving(container) && !canMove(container));
  if (held.length === 0) return [];
  const names = first(held.map(({ fullName }) => fullName));
  return [`node ${node.name} has not opened ${names} yet, and a container moves only once it is open`];
}

/** When the node owns nothing any more, its replicas wait for replacements. */
function leftReplicas({ owned, replicated }: KnownNode): readonly string[] {
  if (owned.size > 0) return [];
  return [`the state of ${first([...replicated.keys()])} has not been copied to another node yet`];
}

/** Containers for whose replicas no other node is free: a node has at most one replica of a container. */
function missingReplicas(view: ClusterView, node: KnownNode): readonly string[] {
  const others = othersActive(view, node.id);
  const hasRoom = ({ name, record }: HeldContainer): boolean => {
    const kept = others.filter(({ id }) => record.copies.includes(id)).length;
    return kept < others.length || kept >= (view.pools.get(name.pool)?.copies ?? 0);
  };
  const missing = [...node.owned.values(), ...node.replicated.values()].filter((held) => !hasRoom(held));
  if (missing.length === 0) return [];
  const names = first(missing.map(({ fullName }) => fullName));
  return [`without node ${node.name} there are too few workers for all copies of ${names}`];
}

function noTarget(node: KnownNode): string {
  return `no other node is active to take the ${heldCount(node)} containers and copies of node ${node.name}`;
}

function othersActive(view: ClusterView, id: NodeId): readonly KnownNode[] {
  return view.activeNodes().filter((node) => node.id !== id);
}

function nameOf(view: ClusterView, id: NodeId): string {
  return view.nodes.get(id)?.name ?? id;
}

function first(names: readonly string[]): string {
  return names.slice(0, shownMax).join(', ') + (names.length > shownMax ? ', ...' : '');
}
