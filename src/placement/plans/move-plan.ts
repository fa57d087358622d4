/**
 * How a move starts, advances and is cancelled. While it can be cancelled, the owner keeps serving; a handed container
 * is never taken back. Pure.
 *
 *   copying --the destination is in the ISR--> handing --the owner has drained its calls--> handed --> another owner
 *      |                                          |
 *      +--- timeout, or the destination is lost --+--> cancelled
 */
import { RemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import {
  type PlacementContainer,
  type PlacementNode,
  type PlacementView,
  isActiveNode,
  isStoppingNode,
} from '../state/placement-view.ts';
import {
  type ContainerMove,
  type PoolRecord,
  cancelledMoveNote,
  isCancelledMoveNote,
  moveStepTexts,
} from '../state/container-records.ts';
import {
  type ContainerUpdate,
  type ContainerPlan,
  type PlanningContext,
  byLoad,
  containerEventOf,
  eligibleNodes,
  isInSync,
  hasUncertainNodes,
  hasValidLease,
  ownerLoad,
  leaseStatusOf,
  blockedOnNodes,
} from './planning-context.ts';

/** The cause of the cancellation gets time to pass. */
const cancelledMoveDelayMs = 500;

export type ContainerMoveRequest = {
  readonly pool: string;
  readonly container: number;
  readonly to: NodeId;
  readonly cause: ContainerMove['cause'];
};

/** A move at `copying` or `handing`, whose owner has a serving lease or may have one. */
export function planMove(
  context: PlanningContext,
  pool: PoolRecord,
  container: PlacementContainer,
  move: ContainerMove,
): ContainerPlan {
  const { nowMs, options, view } = context;
  const target = view.nodes.get(move.to);
  if (target === undefined || !isActiveNode(target))
    return cancel(view, container, move, 'it is no longer an active node');
  if (leaseStatusOf(context, target) === 'expired')
    return cancel(view, container, move, 'its serving lease has expired (dead, cut off or restarting)');
  const maxMs = move.step === 'copying' ? options.copyingMsMax : options.handingMsMax;
  const dueMs = container.sinceMs + maxMs;
  const isReady = move.step === 'copying' && isInSync(context, pool, container.record, move.to);
  if (isReady && hasValidLease(context, target)) {
    const next = { ...container.record, move: { ...move, step: 'handing' as const } };
    return { update: { container, next, receivers: [move.to], previousOwner: undefined, isRepair: false, events: [] } };
  }
  if (nowMs >= dueMs) return cancel(view, container, move, `${moveStepTexts[move.step]} took longer than ${maxMs} ms`);
  return { dueMs };
}

/** The container stays with its owner. The note outlives the move, so it names the destination and the reason. */
function cancel(
  view: PlacementView,
  container: PlacementContainer,
  move: ContainerMove,
  reason: string,
): ContainerPlan {
  const note = cancelledMoveNote(view.nameOf(move.to), reason);
  const next = { ...container.record, move: undefined, note };
  const events = [containerEventOf(container, 'container.moveCancelled', move.to, reason)];
  return { update: { container, next, receivers: [], previousOwner: undefined, isRepair: false, events } };
}

/** A drained node owns a container only if no other node could: it moves away as soon as another node is eligible. */
export function planEvacuation(
  context: PlanningContext,
  pool: PoolRecord,
  container: PlacementContainer,
): ContainerPlan {
  const { record } = container;
  if (hasUncertainNodes(context)) return blockedOnNodes;
  const syncRank = (node: PlacementNode): number => (isInSync(context, pool, record, node.id) ? 0 : 1);
  const byOwned = byLoad((node) => ownerLoad(context, node));
  const [to] = eligibleNodes(context)
    .filter(({ id }) => id !== record.owner?.node)
    .toSorted((a, b) => syncRank(a) - syncRank(b) || byOwned(a, b));
  return to === undefined ? blockedOnNodes : { update: { ...startOfMove(container, to.id, 'drain'), isRepair: true } };
}

/**
 * A stopping node hands its containers to nodes that are in sync already: it has no time to wait for a copy. The others
 * stay with it until it is gone.
 */
export function planStopHandover(
  context: PlanningContext,
  pool: PoolRecord,
  container: PlacementContainer,
): ContainerPlan {
  const { record } = container;
  const dueMs = isCancelledMoveNote(record.note) ? container.sinceMs + cancelledMoveDelayMs : 0;
  if (context.nowMs < dueMs) return { dueMs };
  const byOwned = byLoad((node) => ownerLoad(context, node));
  const [to] = eligibleNodes(context)
    .filter(({ id }) => id !== record.owner?.node && isInSync(context, pool, record, id))
    .toSorted(byOwned);
  return to === undefined ? blockedOnNodes : { update: startOfMove(container, to.id, 'stop') };
}

/** The update that starts the move, or the error that refuses it. */
export function planRequestedMove(
  context: PlanningContext,
  request: ContainerMoveRequest,
): ContainerUpdate | RemusterError {
  const { view, leases, nowMs } = context;
  const pool = view.pools.get(request.pool);
  if (pool?.record === undefined) return new RemusterError('UNKNOWN_POOL', `there is no pool ${request.pool}`);
  const container = pool.containers.get(request.container);
  if (container === undefined) {
    return new RemusterError('UNKNOWN_CONTAINER', `pool ${request.pool} has no container ${request.container}`);
  }
  const refused = (why: string): RemusterError => new RemusterError('PRECONDITION', why, 'no');
  const { owner, move, phase } = container.record;
  if (pool.record.state !== 'active') return refused(`pool ${pool.name} is being deleted`);
  if (move !== undefined) return refused(`it is already moving to ${view.nameOf(move.to)}`);
  const isExpired = owner === undefined || leases.status(nowMs, owner.node, owner.generation) === 'expired';
  if (phase !== 'serving' || isExpired) return refused('it is not being served at this moment');
  if (owner.node === request.to) return refused(`${view.nameOf(owner.node)} owns it already`);
  const why = whyNotEligible(context, request.to);
  return why === undefined ? startOfMove(container, request.to, request.cause) : refused(why);
}

function whyNotEligible(context: PlanningContext, id: NodeId): string | undefined {
  const node = context.view.nodes.get(id);
  if (node === undefined) return `there is no node ${id}`;
  if (node.registered === undefined) return `${node.name} is not registered`;
  if (!node.isWorker) return `${node.name} is not a worker`;
  if (node.mode !== 'active') return `${node.name} is ${node.mode ?? 'not active'}`;
  if (isStoppingNode(node)) return `${node.name} is stopping`;
  return hasValidLease(context, node) ? undefined : `${node.name} does not answer`;
}

function startOfMove(container: PlacementContainer, to: NodeId, cause: ContainerMove['cause']): ContainerUpdate {
  const { record } = container;
  const copies = record.copies.includes(to) ? record.copies : [...record.copies, to];
  const next = { ...record, copies, move: { to, cause, step: 'copying' as const }, note: '' };
  const events = [containerEventOf(container, 'container.moving', to, cause)];
  return { container, next, receivers: [to], previousOwner: undefined, isRepair: false, events };
}
