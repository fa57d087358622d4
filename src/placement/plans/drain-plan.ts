/**
 * The next tasks of each draining node: moves, the note that the deadline has passed, the end of the drain. They follow
 * from the view alone, so a new leader continues. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import type { ContainerMove } from '../state/container-records.ts';
import type { NodeStateRecord } from '../../registration/registration-records.ts';
import type { ClusterView, KnownNode } from '../state/cluster-view.ts';
import { type HeldContainer, canMove, heldCount, moveRetryDueMs } from '../state/node-holdings.ts';
import type { BalanceStrategy } from './load-score.ts';
import { type InFlightLoad, chooseMoveTarget } from './move-target.ts';

export type AssignerTask =
  | {
      readonly kind: 'move';
      readonly node: KnownNode;
      readonly held: HeldContainer;
      readonly cause: ContainerMove['cause'];
      readonly to: KnownNode;
    }
  | { readonly kind: 'drained'; readonly node: KnownNode; readonly state: NodeStateRecord }
  | { readonly kind: 'overdue'; readonly node: KnownNode }
  | { readonly kind: 'removeDrain'; readonly node: KnownNode }
  | { readonly kind: 'markNewNode'; readonly node: KnownNode }
  | { readonly kind: 'unmarkNewNode'; readonly node: KnownNode };

export type DrainPlanOptions = {
  readonly strategy: BalanceStrategy;
  /** Wall time minus local time, for recorded times. */
  readonly wallOffsetMs: number;
  /** Units of jobs on a node, which the view does not show. A drain ends when there are none. */
  readonly runningUnitsAt: (node: NodeId) => number;
};

/** The end of a unit does not change the view, so draining nodes are polled. */
const unitsPollMs = 200;

/** Two tasks with the same key never run at the same time. */
export function assignerTaskKey(task: AssignerTask): string {
  if (task.kind === 'move') return task.held.fullName;
  const isMark = task.kind === 'markNewNode' || task.kind === 'unmarkNewNode';
  return `${isMark ? 'mark of' : 'drain of'} ${task.node.id}`;
}

/** Lazy: the caller stops when it can start no more tasks. */
export function* drainTasks(
  view: ClusterView,
  nowMs: number,
  options: DrainPlanOptions,
  inFlight: () => InFlightLoad,
): Generator<AssignerTask> {
  for (const node of view.nodes.values()) yield* drainTasksOfNode(view, node, nowMs, options, inFlight);
}

function* drainTasksOfNode(
  view: ClusterView,
  node: KnownNode,
  nowMs: number,
  options: DrainPlanOptions,
  inFlight: () => InFlightLoad,
): Generator<AssignerTask> {
  const { drain } = node;
  const state = node.state?.record;
  if (state?.mode !== 'draining') {
    if (drain !== undefined) yield { kind: 'removeDrain', node };
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
  // While no other node is active, a draining node keeps serving.
  if (node.registered === undefined || view.activeNodes().length === 0) return;
  let freeMoves = (drain?.record.parallelMax ?? 1) - node.leaving;
  for (const held of node.owned.values()) {
    if (freeMoves <= 0) return;
    if (!canMove(held) || nowMs < moveRetryDueMs(held)) continue;
    const to = chooseMoveTarget(view, options.strategy, held, inFlight());
    if (to === undefined) continue;
    freeMoves -= 1;
    yield { kind: 'move', node, held, cause: 'drain', to };
  }
}

/** The next time at which the passing of time alone creates a task. */
export function nextDrainDueMs(view: ClusterView, nowMs: number): number | undefined {
  const times: number[] = [];
  for (const node of view.nodes.values()) {
    const { drain } = node;
    if (drain !== undefined && !drain.record.overdue) times.push(drain.sinceMs + drain.record.deadlineMs);
    if (node.state?.record?.mode !== 'draining') continue;
    for (const held of node.owned.values()) times.push(moveRetryDueMs(held));
    if (heldCount(node) === 0) times.push(nowMs + unitsPollMs);
  }
  const later = times.filter((atMs) => atMs > nowMs && atMs < Infinity);
  return later.length === 0 ? undefined : later.reduce((a, b) => Math.min(a, b));
}
