/**
 * How a move advances and when it is cancelled. A cancelled move costs nothing; a handed container is never taken back.
 * Pure.
 *
 *   copying --the destination has the state--> handing --the owner has let go--> handed --> another owner
 *      |                                          |
 *      +--- too long, or the destination is lost -+--> no move
 */
import { RemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import {
  type PlacementContainer,
  type PlacementNode,
  type PlacementView,
  isActiveNode,
} from '../state/placement-view.ts';
import type { ContainerMove, PoolRecord } from '../state/container-records.ts';
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

export type ContainerMoveRequest = {
  readonly pool: string;
  readonly container: number;
  readonly to: NodeId;
  readonly cause: ContainerMove['cause'];
};

/** The owner serves, or may do so; the move has not been handed. */
export function planMove(
  situation: PlanningContext,
  pool: PoolRecord,
  placed: PlacementContainer,
  move: ContainerMove,
): ContainerPlan {
  const { nowMs, options, view } = situation;
  const target = view.nodes.get(move.to);
  if (target === undefined || !isActiveNode(target))
    return cancel(view, placed, move, 'it is not an active node any more');
  if (leaseStatusOf(situation, target) === 'over')
    return cancel(view, placed, move, 'its serving lease is over (dead, cut off or restarting)');
  const maxMs = move.step === 'copying' ? options.copyingMsMax : options.handingMsMax;
  const dueMs = placed.sinceMs + maxMs;
  const isReady = move.step === 'copying' && isInSync(situation, pool, placed.record, move.to);
  if (isReady && hasValidLease(situation, target)) {
    const next = { ...placed.record, move: { ...move, step: 'handing' as const } };
    return { change: { placed, next, receivers: [move.to], previousOwner: undefined, isRepair: false, events: [] } };
  }
  if (nowMs >= dueMs) return cancel(view, placed, move, `${move.step} took longer than ${maxMs} ms`);
  return { dueMs };
}

/** The container stays with its owner. The note outlives the move, so it names what was cancelled and why. */
function cancel(view: PlacementView, placed: PlacementContainer, move: ContainerMove, reason: string): ContainerPlan {
  const note = `the move to ${view.nameOf(move.to)} was cancelled: ${reason}`;
  const next = { ...placed.record, move: undefined, note };
  const events = [containerEventOf(placed, 'container.moveCancelled', move.to, reason)];
  return { change: { placed, next, receivers: [], previousOwner: undefined, isRepair: false, events } };
}

/** Its owner was drained and serves it only because nobody else could: it leaves as soon as somebody can have it. */
export function planEvacuation(
  situation: PlanningContext,
  pool: PoolRecord,
  placed: PlacementContainer,
): ContainerPlan {
  const { record } = placed;
  if (hasUncertainNodes(situation)) return blockedOnNodes;
  const has = (node: PlacementNode): number => (isInSync(situation, pool, record, node.id) ? 0 : 1);
  const byOwned = byLoad((node) => ownerLoad(situation, node));
  const [to] = eligibleNodes(situation)
    .filter(({ id }) => id !== record.owner?.node)
    .toSorted((a, b) => has(a) - has(b) || byOwned(a, b));
  return to === undefined ? blockedOnNodes : { change: { ...beginning(placed, to.id, 'drain'), isRepair: true } };
}

/** The change that begins it, or why it cannot begin. */
export function planRequestedMove(
  situation: PlanningContext,
  request: ContainerMoveRequest,
): ContainerUpdate | RemusterError {
  const { view, leases, nowMs } = situation;
  const pool = view.pools.get(request.pool);
  if (pool?.record === undefined) return new RemusterError('UNKNOWN_POOL', `there is no pool ${request.pool}`);
  const placed = pool.containers.get(request.container);
  if (placed === undefined) {
    return new RemusterError('UNKNOWN_CONTAINER', `pool ${request.pool} has no container ${request.container}`);
  }
  const refused = (why: string): RemusterError => new RemusterError('PRECONDITION', why, 'no');
  const { owner, move, phase } = placed.record;
  if (pool.record.state !== 'active') return refused(`pool ${pool.name} is being deleted`);
  if (move !== undefined) return refused(`it is already moving to ${view.nameOf(move.to)}`);
  const isOver = owner === undefined || leases.status(nowMs, owner.node, owner.generation) === 'over';
  if (phase !== 'serving' || isOver) return refused('it is not being served at this moment');
  if (owner.node === request.to) return refused(`${view.nameOf(owner.node)} owns it already`);
  const why = unfitness(situation, request.to);
  return why === undefined ? beginning(placed, request.to, request.cause) : refused(why);
}

function unfitness(situation: PlanningContext, id: NodeId): string | undefined {
  const node = situation.view.nodes.get(id);
  if (node === undefined) return `there is no node ${id}`;
  if (node.registered === undefined) return `${node.name} is not registered`;
  if (!node.isWorker) return `${node.name} is no worker`;
  if (node.mode !== 'active') return `${node.name} is ${node.mode ?? 'not active'}`;
  return hasValidLease(situation, node) ? undefined : `${node.name} does not answer`;
}

function beginning(placed: PlacementContainer, to: NodeId, cause: ContainerMove['cause']): ContainerUpdate {
  const { record } = placed;
  const copies = record.copies.includes(to) ? record.copies : [...record.copies, to];
  const next = { ...record, copies, move: { to, cause, step: 'copying' as const }, note: '' };
  const events = [containerEventOf(placed, 'container.moving', to, cause)];
  return { placed, next, receivers: [to], previousOwner: undefined, isRepair: false, events };
}
