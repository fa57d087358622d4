/**
 * The nodes that should hold replicas. It adds before it drops: no replica in sync leaves before enough others are in
 * sync. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import { type PlacementContainer, type PlacementNode, isActiveNode } from '../state/placement-view.ts';
import type { PoolRecord } from '../state/container-records.ts';
import {
  type ContainerUpdate,
  type ContainerPlan,
  type PlanningContext,
  byLoad,
  replicaLoad,
  eligibleNodes,
  isInSync,
  hasUncertainNodes,
  nothingToDo,
  leaseStatusOf,
} from './planning-context.ts';

type ReplicaFate =
  | { readonly kind: 'stays'; readonly untilMs?: number }
  /** dead: the node did not return in time. leaves: it is draining, drained or no worker. */
  | { readonly kind: 'dead' | 'leaves' };

/** For a container that is served by its owner and does not move. */
export function planReplicas(context: PlanningContext, pool: PoolRecord, container: PlacementContainer): ContainerPlan {
  const { record } = container;
  const owner = record.owner?.node;
  if (owner === undefined) return nothingToDo;
  const others = record.copies.filter((id) => id !== owner);
  const fates = new Map(others.map((id) => [id, fateOf(context, id)]));
  const staying = others.filter((id) => fates.get(id)?.kind === 'stays');
  const missing = pool.copies - 1 - staying.length;
  const staleTimes = staying.map((id) => staleMs(context, pool, container, id));
  const isStale = staleTimes.some((ms) => context.nowMs >= ms);
  // At most one replica more than the pool wants: the cause may be an owner that cannot send.
  const places = missing > 0 ? missing : isStale && others.length < pool.copies ? 1 : 0;
  const added = places > 0 ? freeNodes(context, [owner, ...record.copies]).slice(0, places) : [];
  const holds = (id: NodeId): boolean => isInSync(context, pool, record, id);
  const kept = withoutSurplus(context, staying, pool.copies - 1, holds);
  const dropped = others.filter((id) => {
    const fate = fates.get(id)?.kind;
    if (fate === 'stays') return !kept.includes(id);
    const inSync = [owner, ...kept].filter((node) => node === owner || holds(node)).length;
    if (fate === 'leaves') return !holds(id) || inSync >= Math.min(pool.copies, 1 + possibleOthers(context, owner));
    return holds(id) ? inSync >= pool.copies : kept.length + added.length >= pool.copies - 1;
  });
  if (added.length + dropped.length === 0) {
    const times = [...fates.values()].map((fate) => (fate.kind === 'stays' ? (fate.untilMs ?? Infinity) : Infinity));
    const dueMs = [...times, ...staleTimes].reduce((a, b) => (b > context.nowMs ? Math.min(a, b) : a), Infinity);
    return { ...(dueMs < Infinity ? { dueMs } : {}), isBlocked: places > 0 || staying.length < others.length };
  }
  const copies = [owner, ...others.filter((id) => !dropped.includes(id)), ...added];
  return { update: replicaUpdate(container, copies, added) };
}

function replicaUpdate(
  container: PlacementContainer,
  copies: readonly NodeId[],
  added: readonly NodeId[],
): ContainerUpdate {
  const { record } = container;
  const inSync = record.inSync.filter(({ node }) => copies.includes(node));
  const next = { ...record, copies, inSync };
  return { container, next, receivers: added, previousOwner: undefined, isRepair: added.length > 0, events: [] };
}

/** A node that restarts, or was stopped by mistake, keeps its replica for `copyRepairDelayMs`. */
function fateOf(context: PlanningContext, id: NodeId): ReplicaFate {
  const node = context.view.nodes.get(id);
  if (node === undefined) return { kind: 'dead' };
  if (node.mode === 'draining' || node.mode === 'drained') return { kind: 'leaves' };
  if (node.registered !== undefined) return { kind: node.isWorker ? 'stays' : 'leaves' };
  if (leaseStatusOf(context, node) !== 'expired') return { kind: 'stays' };
  const untilMs = node.missingSinceMs + context.options.copyRepairDelayMs;
  return context.nowMs >= untilMs ? { kind: 'dead' } : { kind: 'stays', untilMs };
}

/** From then on this replica counts as missing: its node is there, but it does not catch up. */
function staleMs(
  { view, options }: PlanningContext,
  { durability }: PoolRecord,
  { fullName }: PlacementContainer,
  id: NodeId,
): number {
  const sinceMs = view.nodes.get(id)?.laggingSinceMs.get(fullName);
  return sinceMs === undefined || durability === 'local' ? Infinity : sinceMs + options.copyRepairStaleMs;
}

function freeNodes(context: PlanningContext, taken: readonly NodeId[]): readonly NodeId[] {
  if (hasUncertainNodes(context)) return [];
  const free = eligibleNodes(context).filter(({ id }) => !taken.includes(id));
  return free.toSorted(byLoad((node) => replicaLoad(context, node))).map(({ id }) => id);
}

/** Once enough replicas are in sync: drops those that are not, then those on the most loaded nodes. */
function withoutSurplus(
  context: PlanningContext,
  staying: readonly NodeId[],
  wanted: number,
  holds: (id: NodeId) => boolean,
): readonly NodeId[] {
  if (staying.filter(holds).length < wanted) return staying;
  const load = (id: NodeId): number => replicaLoad(context, context.view.nodes.get(id) as PlacementNode);
  // Of equals, the replica that was added last goes first.
  const worst = staying.toReversed().toSorted((a, b) => Number(holds(a)) - Number(holds(b)) || load(b) - load(a));
  const dropped = worst.slice(0, Math.max(0, staying.length - wanted));
  return staying.filter((id) => !dropped.includes(id));
}

/** Active nodes that could replicate, including silent ones. */
function possibleOthers({ view }: PlanningContext, owner: NodeId): number {
  return [...view.nodes.values()].filter((node) => node.id !== owner && isActiveNode(node)).length;
}
