/**
 * All that a placement decision may use: view, leases, fence, tasks in flight, time. A node counts as available only by
 * its serving lease; the opinion of membership is not part of the context.
 */
import { type Fence, fenceOf, fenceParts } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import {
  type PlacementContainer,
  type PlacementNode,
  type PlacementView,
  isActiveNode,
} from '../state/placement-view.ts';
import type { ContainerRecord, NodeInstance, PoolRecord } from '../state/container-records.ts';
import type { ServingLeases, ServingLeaseStatus } from '../state/serving-leases.ts';

export type PlacementOptions = {
  readonly openDeadlineMs: number;
  readonly openRetryMsMin: number;
  readonly openRetryMsMax: number;
  /** Consecutive failures from which on the event needs the attention of an operator. */
  readonly failuresAlarm: number;
  /** How long a replica of an unregistered node is kept before another one replaces it. */
  readonly copyRepairDelayMs: number;
  readonly copyRepairsMax: number;
  /** A replica that lags for longer no longer counts towards `copyRepairsMax`, and gets a substitute. */
  readonly copyRepairStaleMs: number;
  readonly copyingMsMax: number;
  readonly handingMsMax: number;
};

export type RecoveryCandidate = { readonly id: NodeId; readonly name: string; readonly containers: number };

/** The preference of the module: ids or names, best first. Undefined or empty: no preference. */
export type RecoveryRanking = (
  pool: string,
  container: number,
  candidates: readonly RecoveryCandidate[],
) => readonly string[] | undefined;

export type PlanningContext = {
  readonly nowMs: number;
  readonly view: PlacementView;
  readonly leases: ServingLeases;
  /** The fence of this leadership. */
  readonly fence: Fence;
  readonly options: PlacementOptions;
  readonly rank: RecoveryRanking;
  /** Containers and replicas that each node gets by transactions in flight. */
  readonly inFlight: ReadonlyMap<NodeId, number>;
};

/** Reported when the transaction of its update has succeeded. */
export type PlacementContainerEvent = {
  readonly kind:
    | 'container.assigned'
    | 'container.recovered'
    | 'container.recoveryFailed'
    | 'container.waiting'
    | 'container.moving'
    | 'container.moveCancelled'
    | 'container.migrated';
  readonly pool: string;
  readonly container: number;
  /** The new owner, or the destination of a move. */
  readonly node: NodeId | undefined;
  /** The owner before. */
  readonly from: NodeId | undefined;
  readonly reason: string;
  /** An operator should look at the container. */
  readonly needsAttention: boolean;
};

/** One change of the record of one container. */
export type ContainerUpdate = {
  readonly container: PlacementContainer;
  readonly next: ContainerRecord;
  /** Nodes that get the container or a replica: the transaction compares their registration and mode. */
  readonly receivers: readonly NodeId[];
  /** For a takeover: the node instance whose expired lease the update rests on. */
  readonly previousOwner: NodeInstance | undefined;
  /** It adds a replica: at most `copyRepairsMax` at a time. */
  readonly isRepair: boolean;
  readonly events: readonly PlacementContainerEvent[];
};

/** The update, or when to plan again: at `dueMs`, and if it is blocked, when a node has changed. */
export type ContainerPlan = {
  readonly update?: ContainerUpdate;
  readonly dueMs?: number;
  readonly isBlocked?: boolean;
};

export const nothingToDo: ContainerPlan = {};
export const blockedOnNodes: ContainerPlan = { isBlocked: true };

export function currentGeneration({ leases }: PlanningContext, node: PlacementNode): number {
  return Math.max(node.generation, leases.generationOf(node.id) ?? 0);
}

/** Of the present generation of the node. */
export function leaseStatusOf(context: PlanningContext, node: PlacementNode): ServingLeaseStatus {
  return context.leases.status(context.nowMs, node.id, currentGeneration(context, node));
}

export function hasValidLease(context: PlanningContext, node: PlacementNode): boolean {
  return node.isWorker && node.registered !== undefined && leaseStatusOf(context, node) === 'valid';
}

/** Nodes that may get containers and replicas now. */
export function eligibleNodes(context: PlanningContext): readonly PlacementNode[] {
  return [...context.view.nodes.values()].filter((node) => isActiveNode(node) && hasValidLease(context, node));
}

/** Some active node may or may not have a lease: a plan that spreads load waits until that is known. */
export function hasUncertainNodes(context: PlanningContext): boolean {
  return context.view.nodes.values().some((node) => isActiveNode(node) && leaseStatusOf(context, node) === 'uncertain');
}

/** The node has every acknowledged write. State in memory is lost with the generation that had it. */
export function isInSync(context: PlanningContext, pool: PoolRecord, record: ContainerRecord, id: NodeId): boolean {
  const instance = record.inSync.find(({ node }) => node === id);
  const node = context.view.nodes.get(id);
  if (instance === undefined || node === undefined) return false;
  return pool.durability !== 'memory' || instance.generation === currentGeneration(context, node);
}

export function ownerLoad({ inFlight }: PlanningContext, node: PlacementNode): number {
  // Replicas only decide between equals.
  return node.owned.size + (inFlight.get(node.id) ?? 0) + node.replicated.size / 1_000_000;
}

export function replicaLoad({ inFlight }: PlanningContext, node: PlacementNode): number {
  return node.owned.size + node.replicated.size + (inFlight.get(node.id) ?? 0);
}

/** Ties go to the lower id, so that every leader decides alike. */
export function byLoad(load: (node: PlacementNode) => number): (a: PlacementNode, b: PlacementNode) => number {
  return (a, b) => load(a) - load(b) || (a.id < b.id ? -1 : 1);
}

/** Higher than the former fence of the container, whichever leader set it. */
export function nextFence({ fence }: PlanningContext, before: Fence): Fence {
  return ((before > fence ? before : fence) + 1n) as Fence;
}

/**
 * The fence of a new container. Each change costs a revision, so this is higher than any fence of a deleted container
 * with the same name.
 */
export function firstFence({ fence, view }: PlanningContext): Fence {
  const { term, index } = fenceParts(fence);
  return fenceOf(term, index + view.revision + 1);
}

export function containerEventOf(
  container: PlacementContainer,
  kind: PlacementContainerEvent['kind'],
  node: NodeId | undefined,
  reason: string,
  needsAttention = false,
): PlacementContainerEvent {
  const { pool, number, record } = container;
  return { kind, pool, container: number, node, from: record.owner?.node, reason, needsAttention };
}
