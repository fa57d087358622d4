/**
 * What a draining node needs next: a move, the deadline noted, or the end of the drain. Pure: read from the view, so a
 * new leader continues.
 */
import type { NodeId } from '../../base/ids.ts';
import type { ContainerMove } from '../state/container-records.ts';
import type { NodeStateRecord } from '../../registration/registration-records.ts';
import type { ClusterView, KnownNode } from '../state/cluster-view.ts';
import { type HeldContainer, canMove, heldCount, moveRetryDueMs } from '../state/node-holdings.ts';
import type { BalanceStrategy } from './load-score.ts';
import { type InFlightLoad, chooseMoveTarget } from './move-target.ts';

export type DrainTask =
  | {
      readonly kind: 'move';
      readonly node: KnownNode;
      readonly held: HeldContainer;
      readonly cause: ContainerMove['cause'];
      readonly to: KnownNode;
    }
  | { readonly kind: 'drained'; readonly node: KnownNode; readonly state: NodeStateRecord }
  | { readonly kind: 'overdue'; readonly node: KnownNode }
  | { readonly kind: 'forgetDrain'; readonly node: KnownNode }
  | { readonly kind: 'beginSpread'; readonly node: KnownNode }
  | { readonly kind: 'endSpread'; readonly node: KnownNode };

export type DrainPlanOptions = {
  readonly strategy: BalanceStrategy;
  /** Wall time minus ours, for what people read. */
  readonly wallOffsetMs: number;
  /** Work of a node that is not in the view, such as units of jobs that run there: it is drained when there is none. */
  readonly runningUnitsAt: (node: NodeId) => number;
};

/** The end of such work changes nothing in the view, so a node that is draining is looked at again and again. */
const workLookMs = 200;

/** Two tasks with the same name never run at the same time. */
export function drainTaskKey(task: DrainTask): string {
  if (task.kind === 'move') return task.held.text;
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
  for (const node of view.nodes.values()) yield* drainTasksOfNode(view, node, nowMs, options, onTheWay);
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
  // While no other node is active, a draining one goes on serving.
  if (node.registered === undefined || view.activeNodes().length === 0) return;
  let hands = (drain?.record.parallelMax ?? 1) - node.leaving;
  for (const held of node.owned.values()) {
    if (hands <= 0) return;
    if (!canMove(held) || nowMs < moveRetryDueMs(held)) continue;
    const to = chooseMoveTarget(view, options.strategy, held, onTheWay());
    if (to === undefined) continue;
    hands -= 1;
    yield { kind: 'move', node, held, cause: 'drain', to };
  }
}

/** When the view will have another task only because time has passed. */
export function nextDrainDueMs(view: ClusterView, nowMs: number): number | undefined {
  const times: number[] = [];
  for (const node of view.nodes.values()) {
    const { drain } = node;
    if (drain !== undefined && !drain.record.overdue) times.push(drain.sinceMs + drain.record.deadlineMs);
    if (node.state?.record?.mode !== 'draining') continue;
    for (const held of node.owned.values()) times.push(moveRetryDueMs(held));
    if (heldCount(node) === 0) times.push(nowMs + workLookMs);
  }
  const later = times.filter((atMs) => atMs > nowMs && atMs < Infinity);
  return later.length === 0 ? undefined : later.reduce((a, b) => Math.min(a, b));
}
