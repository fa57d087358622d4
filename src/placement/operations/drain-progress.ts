/** Whether a drain can start, how far it is, and what blocks it, in sentences. Pure; moves nothing. */
import type { NodeId } from '../../base/ids.ts';
import { nextMode } from '../../registration/node-modes.ts';
import type { ClusterView, KnownNode } from '../state/cluster-view.ts';
import { type HeldContainer, canMove, heldCount, isMoving } from '../state/node-holdings.ts';

export type DrainProgress = {
  readonly node: NodeId;
  readonly phase: 'draining' | 'drained' | 'not draining';
  readonly total: number;
  readonly remaining: number;
  /** Of the remaining: containers that it owns, and copies of containers of others. */
  readonly containers: number;
  readonly copies: number;
  /** Of the remaining: on their way to another node. */
  readonly releasing: number;
  /** The deadline has passed. Nothing is taken by force: what is left stays where it is. */
  readonly overdue: boolean;
  /** In words: why it does not go on at this moment. */
  readonly blockedBy: readonly string[];
  /** In words: what it costs while it lasts, and until the node is active again. */
  readonly warnings: readonly string[];
};

const shownMax = 5;

/** Why a drain cannot begin, because it could not end; nothing when it can. */
export function drainPreflight(view: ClusterView, id: NodeId): readonly string[] {
  const node = view.nodes.get(id);
  if (node?.registered === undefined) return [`node ${node?.name ?? id} is not registered`];
  const mode = node.state?.record?.mode;
  if (mode === undefined) return [`the state of node ${node.name} is unknown`];
  if (nextMode('admin_drain', mode) === undefined) return [`node ${node.name} is ${mode}, not active`];
  return !node.works || othersActive(view, id).length > 0 ? [] : [noTarget(node)];
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
    copies: node?.copied.size ?? 0,
    releasing: node?.leaving ?? 0,
    overdue: node?.drain?.record.overdue ?? false,
    blockedBy: node !== undefined && phase === 'draining' ? blockers(view, node) : [],
    warnings: node === undefined ? [] : fewerCopies(view, node),
  };
}

function blockers(view: ClusterView, node: KnownNode): readonly string[] {
  if (heldCount(node) === 0)
    return node.registered === undefined
      ? []
      : [`node ${node.name} has nothing left but units of jobs, which end there`];
  if (node.registered === undefined)
    return [`node ${node.name} is gone; the leader recovers its containers from copies`];
  if (othersActive(view, node.id).length === 0) return [noTarget(node)];
  return [...moving(view, node), ...unopened(node), ...leftCopies(node)];
}

function moving(view: ClusterView, node: KnownNode): readonly string[] {
  const moves = [...node.owned.values()].filter(isMoving).map(({ text, record: { move } }) => {
    return move === undefined ? text : `${text} to ${nameOf(view, move.to)} (${move.step})`;
  });
  return moves.length === 0 ? [] : [`on the way: ${some(moves)}`];
}

function unopened(node: KnownNode): readonly string[] {
  const names = [...node.owned.values()].filter((held) => !isMoving(held) && !canMove(held)).map(({ text }) => text);
  return names.length === 0
    ? []
    : [`node ${node.name} has not opened ${some(names)} yet, and what is not open cannot move`];
}

/** Only copies are left. */
function leftCopies({ owned, copied }: KnownNode): readonly string[] {
  if (owned.size > 0) return [];
  return [`the state of ${some([...copied.keys()])} has not been copied to another node yet`];
}

/** What it keeps has no other place: each node keeps at most one copy of the same container. */
function fewerCopies(view: ClusterView, node: KnownNode): readonly string[] {
  const others = othersActive(view, node.id);
  const hasRoom = ({ name, record }: HeldContainer): boolean => {
    const kept = others.filter(({ id }) => record.copies.includes(id)).length;
    return kept < others.length || kept >= (view.pools.get(name.pool)?.copies ?? 0);
  };
  const fewer = [...node.owned.values(), ...node.copied.values()].filter((held) => !hasRoom(held));
  if (fewer.length === 0) return [];
  const names = some(fewer.map(({ text }) => text));
  return [`without node ${node.name} there are too few workers for as many copies as wanted of ${names}`];
}

function noTarget(node: KnownNode): string {
  return `no other node is active, so nobody could take what node ${node.name} holds (${heldCount(node)})`;
}

function othersActive(view: ClusterView, id: NodeId): readonly KnownNode[] {
  return view.activeNodes().filter((node) => node.id !== id);
}

function nameOf(view: ClusterView, id: NodeId): string {
  return view.nodes.get(id)?.name ?? id;
}

function some(names: readonly string[]): string {
  return names.slice(0, shownMax).join(', ') + (names.length > shownMax ? ', ...' : '');
}
