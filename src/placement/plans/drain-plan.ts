/**
 * What a draining node needs next: a move, the deadline noted, or the end of the drain. Pure: read from the view, so a
 * new leader continues.
 */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { RegistryTransaction } from '../../base/registry.ts';
import type { ContainerMove } from '../state/container-records.ts';
import type { NodeStateRecord } from '../../registration/registration-records.ts';
import { type ClusterView, type KnownNode, type KnownUnassigned, isActive } from '../state/cluster-view.ts';
import {
  type Held,
  type KnownAssignment,
  type HeldContainer,
  canMove,
  containersHeldBy,
  heldCount,
  heldName,
  moveRetryDueMs,
} from '../state/node-holdings.ts';
import type { BalanceStrategy } from './load-score.ts';
import type { MoveReason } from '../../registry/assignment/record.ts';
import { type InFlightLoad, chooseMoveTarget, chooseTarget } from './move-target.ts';
import {
  askToRelease,
  startMoveTransaction,
  markNewNodeTransaction,
  endDrainTransaction,
  unmarkNewNodeTransaction,
  give,
  keep,
  updateDrainTransaction,
  reclaim,
} from '../leader/transactions.ts';

export type DrainTask =
  | { readonly kind: 'reclaim'; readonly node: KnownNode; readonly held: KnownAssignment }
  | { readonly kind: 'give'; readonly waiting: KnownUnassigned; readonly to: KnownNode }
  | {
      readonly kind: 'release';
      readonly node: KnownNode;
      readonly held: KnownAssignment;
      readonly reason: MoveReason;
      readonly to: KnownNode | undefined;
    }
  | {
      readonly kind: 'move';
      readonly node: KnownNode;
      readonly held: HeldContainer;
      readonly cause: ContainerMove['cause'];
      readonly to: KnownNode;
    }
  | { readonly kind: 'keep'; readonly node: KnownNode; readonly held: KnownAssignment }
  | { readonly kind: 'drained'; readonly node: KnownNode; readonly state: NodeStateRecord }
  | { readonly kind: 'overdue'; readonly node: KnownNode }
  | { readonly kind: 'forgetDrain'; readonly node: KnownNode }
  | { readonly kind: 'beginSpread'; readonly node: KnownNode }
  | { readonly kind: 'endSpread'; readonly node: KnownNode };

export type DrainPlanOptions = {
  readonly strategy: BalanceStrategy;
  /** How long a node without a registration and without a state has to be missing before what it held is taken back. */
  readonly regrantDelayMs: number;
  /** Wall time minus ours, for what people read. */
  readonly wallOffsetMs: number;
  /** A node that is asked to release for the sake of balance and does not do it in this time keeps what it has. */
  readonly releaseTimeoutMs: number;
  /** Work of a node that is not in the view, such as units of jobs that run there: it is drained when there is none. */
  readonly runningUnitsAt: (node: NodeId) => number;
};

/** The end of such work changes nothing in the view, so a node that is draining is looked at again and again. */
const workLookMs = 200;

/** Two tasks with the same name never run at the same time. */
export function drainTaskKey(task: DrainTask): string {
  if (task.kind === 'give') return task.waiting.text;
  if ('held' in task) return heldName(task.held);
  const isSpread = task.kind === 'beginSpread' || task.kind === 'endSpread';
  return `${isSpread ? 'spread to' : 'drain of'} ${task.node.id}`;
}

/** Lazily: whoever has no more hands stops asking. */
export function* drainTasks(
  view: ClusterView,
  nowMs: number,
  options: DrainPlanOptions,
  onTheWay: () => InFlightLoad,
): Generator<DrainTask> {
  for (const node of view.nodes.values()) {
    if (nowMs < goneMs(node, options)) continue;
    for (const held of node.assignments.values()) yield { kind: 'reclaim', node, held };
  }
  if (view.activeNodes().length > 0) {
    for (const waiting of view.unassigned.values()) {
      if (nowMs < dueMs(waiting)) continue;
      const to = chooseTarget(view, options.strategy, waiting.record, onTheWay());
      if (to !== undefined) yield { kind: 'give', waiting, to };
    }
  }
  for (const node of view.nodes.values()) yield* drainTasksOfNode(view, node, nowMs, options, onTheWay);
  for (const [text, owner] of view.releasing) {
    const node = view.nodes.get(owner);
    const held = node?.assignments.get(text);
    if (node === undefined || held?.record.releasing?.reason !== 'rebalance' || !isActive(node)) continue;
    if (nowMs >= (held.releasingMs ?? nowMs) + options.releaseTimeoutMs) yield { kind: 'keep', node, held };
  }
}

function* drainTasksOfNode(
  view: ClusterView,
  node: KnownNode,
  nowMs: number,
  options: DrainPlanOptions,
  onTheWay: () => InFlightLoad,
): Generator<DrainTask> {
  const { drain } = node;
  const state = node.state?.record;
  if (state?.mode !== 'draining') {
    if (drain !== undefined) yield { kind: 'forgetDrain', node };
    return;
  }
  if (heldCount(node) === 0 && (node.registered === undefined || options.runningUnitsAt(node.id) === 0)) {
    const sinceWallMs = Math.max(0, Math.round(nowMs + options.wallOffsetMs));
    yield { kind: 'drained', node, state: { ...state, mode: 'drained', reason: 'drain_complete', sinceWallMs } };
    return;
  }
  if (drain !== undefined && !drain.record.overdue && nowMs >= drain.sinceMs + drain.record.deadlineMs) {
    yield { kind: 'overdue', node };
  }
  // Without somebody to have it, it is better served by a node that is draining than by nobody.
  if (node.registered === undefined || view.activeNodes().length === 0) return;
  let hands = (drain?.record.parallelMax ?? 1) - node.releasing - node.adrift - node.leaving;
  for (const held of containersHeldBy(node)) {
    if (hands <= 0) return;
    const isReady = canMove(held) && nowMs >= moveRetryDueMs(held);
    const task = isReady ? leaveTask(view, node, held, options, onTheWay) : undefined;
    if (task === undefined) continue;
    hands -= 1;
    yield task;
  }
}

/** An assignment goes to whoever is the freest when it has been released; a container knows where it goes. */
function leaveTask(
  view: ClusterView,
  node: KnownNode,
  held: Held,
  options: DrainPlanOptions,
  onTheWay: () => InFlightLoad,
): DrainTask | undefined {
  if (held.kind === 'assignment') return { kind: 'release', node, held, reason: 'drain', to: undefined };
  const to = chooseMoveTarget(view, options.strategy, held, onTheWay());
  return to === undefined ? undefined : { kind: 'move', node, held, cause: 'drain', to };
}

/**
 * From when on a node holds nothing any more. With a state it is the expiry worker who decides: it writes `lost` when
 * the node has certainly stopped and the cluster as a whole was not away. Without one the node has left.
 */
function goneMs({ registered, state, missingMs }: KnownNode, options: DrainPlanOptions): number {
  if (registered !== undefined) return Infinity;
  if (state?.record === undefined) return missingMs + options.regrantDelayMs;
  return state.record.lost ? missingMs : Infinity;
}

/** When something that waits may be given away: who could not be taken by anybody waits longer each time. */
function dueMs({ record, sinceMs }: KnownUnassigned): number {
  return record.attempts === 0 ? sinceMs : sinceMs + Math.min(60_000, 250 * 2 ** Math.min(20, record.attempts));
}

/** When the view will have another task only because time has passed. */
export function nextDrainDueMs(view: ClusterView, nowMs: number, options: DrainPlanOptions): number | undefined {
  const times: number[] = [];
  for (const waiting of view.unassigned.values()) times.push(dueMs(waiting));
  for (const node of view.nodes.values()) {
    const { drain } = node;
    if (node.assignments.size > 0) times.push(goneMs(node, options));
    if (drain !== undefined && !drain.record.overdue) times.push(drain.sinceMs + drain.record.deadlineMs);
    if (node.state?.record?.mode !== 'draining') continue;
    for (const held of node.owned.values()) times.push(moveRetryDueMs(held));
    if (heldCount(node) === 0) times.push(nowMs + workLookMs);
  }
  for (const [text, owner] of view.releasing) {
    const since = view.nodes.get(owner)?.assignments.get(text)?.releasingMs;
    if (since !== undefined) times.push(since + options.releaseTimeoutMs);
  }
  const later = times.filter((atMs) => atMs > nowMs && atMs < Infinity);
  return later.length === 0 ? undefined : later.reduce((a, b) => Math.min(a, b));
}

export function drainTransaction(task: DrainTask, fence: Uint8Array): RegistryTransaction {
  switch (task.kind) {
    case 'reclaim':
      return reclaim(fence, task.node, task.held);
    case 'give':
      return give(fence, task.waiting, task.to);
    case 'release':
      return askToRelease(fence, task.node.id, task.held, { reason: task.reason, to: task.to?.id }, task.to);
    case 'move':
      return startMoveTransaction(fence, task.held, task.to, task.cause);
    case 'keep':
      return keep(fence, task.node.id, task.held);
    case 'drained':
      return endDrainTransaction(fence, task.node, task.state);
    case 'overdue':
      return updateDrainTransaction(fence, task.node, task.node.drain && { ...task.node.drain.record, overdue: true });
    case 'forgetDrain':
      return updateDrainTransaction(fence, task.node, undefined);
    case 'beginSpread':
      return markNewNodeTransaction(fence, task.node);
    case 'endSpread':
      return unmarkNewNodeTransaction(fence, task.node);
    default:
      return unreachable(task);
  }
}
