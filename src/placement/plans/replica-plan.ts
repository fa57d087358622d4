/**
 * Which nodes should hold replicas. Adds before it drops: no replica with the state leaves before enough others have
 * it. Pure.
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
  /** It will not come back in time; it is to hold nothing. */
  | { readonly kind: 'dead' | 'leaves' };

/** Its owner serves it, and it is not on the move. */
export function planReplicas(situation: PlanningContext, pool: PoolRecord, placed: PlacementContainer): ContainerPlan {
  const { record } = placed;
  const owner = record.owner?.node;
  if (owner === undefined) return nothingToDo;
  const others = record.copies.filter((id) => id !== owner);
  const fates = new Map(others.map((id) => [id, fateOf(situation, id)]));
  const staying = others.filter((id) => fates.get(id)?.kind === 'stays');
  const missing = pool.copies - 1 - staying.length;
  const lateTimes = staying.map((id) => lateMs(situation, pool, placed, id));
  const isLate = lateTimes.some((ms) => situation.nowMs >= ms);
  // One place more than the pool wants, and no further one: perhaps it is the owner that cannot give.
  const places = missing > 0 ? missing : isLate && others.length < pool.copies ? 1 : 0;
  const added = places > 0 ? newPlaces(situation, [owner, ...record.copies]).slice(0, places) : [];
  const holds = (id: NodeId): boolean => isInSync(situation, pool, record, id);
  const kept = withoutSurplus(situation, staying, pool.copies - 1, holds);
  const dropped = others.filter((id) => {
    const fate = fates.get(id)?.kind;
    if (fate === 'stays') return !kept.includes(id);
    const inSync = [owner, ...kept].filter((one) => one === owner || holds(one)).length;
    if (fate === 'leaves') return !holds(id) || inSync >= Math.min(pool.copies, 1 + possibleOthers(situation, owner));
    return holds(id) ? inSync >= pool.copies : kept.length + added.length >= pool.copies - 1;
  });
  if (added.length + dropped.length === 0) {
    const times = [...fates.values()].map((fate) => (fate.kind === 'stays' ? (fate.untilMs ?? Infinity) : Infinity));
    const dueMs = [...times, ...lateTimes].reduce((a, b) => (b > situation.nowMs ? Math.min(a, b) : a), Infinity);
    return { ...(dueMs < Infinity ? { dueMs } : {}), stuck: places > 0 || staying.length < others.length };
  }
  const copies = [owner, ...others.filter((id) => !dropped.includes(id)), ...added];
  return { change: change(placed, copies, added) };
}

function change(placed: PlacementContainer, copies: readonly NodeId[], added: readonly NodeId[]): ContainerUpdate {
  const { record } = placed;
  const inSync = record.inSync.filter(({ node }) => copies.includes(node));
  const next = { ...record, copies, inSync };
  return { placed, next, receivers: added, previousOwner: undefined, isRepair: added.length > 0, events: [] };
}

/** A node that was switched off by mistake, or restarts, keeps its place for a while. */
function fateOf(situation: PlanningContext, id: NodeId): ReplicaFate {
  const node = situation.view.nodes.get(id);
  if (node === undefined) return { kind: 'dead' };
  if (node.mode === 'draining' || node.mode === 'drained') return { kind: 'leaves' };
  if (node.registered !== undefined) return { kind: node.isWorker ? 'stays' : 'leaves' };
  if (leaseStatusOf(situation, node) !== 'over') return { kind: 'stays' };
  const untilMs = node.missingSinceMs + situation.options.copyRepairDelayMs;
  return situation.nowMs >= untilMs ? { kind: 'dead' } : { kind: 'stays', untilMs };
}

/** From then on nobody counts on this copy any more: it is there, and does not come to have the state. */
function lateMs(
  { view, options }: PlanningContext,
  { durability }: PoolRecord,
  { fullName }: PlacementContainer,
  id: NodeId,
): number {
  const sinceMs = view.nodes.get(id)?.laggingSinceMs.get(fullName);
  return sinceMs === undefined || durability === 'local' ? Infinity : sinceMs + options.copyRepairStaleMs;
}

function newPlaces(situation: PlanningContext, taken: readonly NodeId[]): readonly NodeId[] {
  if (hasUncertainNodes(situation)) return [];
  const free = eligibleNodes(situation).filter(({ id }) => !taken.includes(id));
  return free.toSorted(byLoad((node) => replicaLoad(situation, node))).map(({ id }) => id);
}

/** When there are enough that have the state: drops those that have nothing, then those of the busiest nodes. */
function withoutSurplus(
  situation: PlanningContext,
  staying: readonly NodeId[],
  wanted: number,
  holds: (id: NodeId) => boolean,
): readonly NodeId[] {
  if (staying.filter(holds).length < wanted) return staying;
  const load = (id: NodeId): number => replicaLoad(situation, situation.view.nodes.get(id) as PlacementNode);
  // Of equals the one that came last.
  const worst = staying.toReversed().toSorted((a, b) => Number(holds(a)) - Number(holds(b)) || load(b) - load(a));
  const dropped = worst.slice(0, Math.max(0, staying.length - wanted));
  return staying.filter((id) => !dropped.includes(id));
}

/** Active nodes that could have a copy, also those that are silent at this moment. */
function possibleOthers({ view }: PlanningContext, owner: NodeId): number {
  return [...view.nodes.values()].filter((node) => node.id !== owner && isActiveNode(node)).length;
}
