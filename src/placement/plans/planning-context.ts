/**
 * What a placement decision may rest on: view, leases, fence, tasks in flight, time. A node has a valid lease only if
 * it asked for one; gossip does not count.
 *
 * That a node is live is only known from its asking for the serving lease. What membership believes is not here.
 */
import { type Fence, fenceOf, fenceParts } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import {
  type PlacementContainer,
  type PlacementNode,
  type PlacementView,
  isActiveNode,
} from '../state/placement-view.ts';
import type { PlacementContainerEvent } from '../leader/placer-types.ts';
import type { ContainerRecord, NodeInstance, PoolRecord } from '../state/container-records.ts';
import type { ServingLeases, ServingLeaseStatus } from '../state/serving-leases.ts';

export type PlacementOptions = {
  readonly openDeadlineMs: number;
  readonly openRetryMsMin: number;
  readonly openRetryMsMax: number;
  /** From so many failures in a row on, somebody should look at it. */
  readonly failuresAlarm: number;
  readonly copyRepairDelayMs: number;
  readonly copyRepairsMax: number;
  /** One that takes longer does not keep others from beginning. */
  readonly copyRepairStaleMs: number;
  readonly copyingMsMax: number;
  readonly handingMsMax: number;
};

export type RecoveryCandidate = { readonly id: NodeId; readonly name: string; readonly containers: number };

/** The module's wish: ids or names, best first. Undefined or empty: it has none. */
export type RecoveryRanking = (
  pool: string,
  container: number,
  candidates: readonly RecoveryCandidate[],
) => readonly string[] | undefined;

export type PlanningContext = {
  readonly nowMs: number;
  readonly view: PlacementView;
  readonly leases: ServingLeases;
  /** Of this leadership. */
  readonly fence: Fence;
  readonly options: PlacementOptions;
  readonly rank: RecoveryRanking;
  /** What nodes are about to be given by transactions under way. */
  readonly inFlight: ReadonlyMap<NodeId, number>;
};

/** One change of the record of one container. */
export type ContainerUpdate = {
  readonly placed: PlacementContainer;
  readonly next: ContainerRecord;
  /** Who gets something by it: each is still registered, and in the mode in which it was seen. */
  readonly receivers: readonly NodeId[];
  /** It rests on this lease being over. */
  readonly previousOwner: NodeInstance | undefined;
  /** It makes a copy anew: only so many at a time. */
  readonly isRepair: boolean;
  readonly events: readonly PlacementContainerEvent[];
};

/** `stuck`: to be looked at again when the nodes have changed. */
export type ContainerPlan = {
  readonly change?: ContainerUpdate;
  readonly dueMs?: number;
  readonly stuck?: boolean;
};

export const nothingToDo: ContainerPlan = {};
export const blockedOnNodes: ContainerPlan = { stuck: true };

export function currentGeneration({ leases }: PlanningContext, node: PlacementNode): number {
  return Math.max(node.generation, leases.generationOf(node.id) ?? 0);
}

/** Of the present life of the node. */
export function leaseStatusOf(situation: PlanningContext, node: PlacementNode): ServingLeaseStatus {
  return situation.leases.status(situation.nowMs, node.id, currentGeneration(situation, node));
}

export function hasValidLease(situation: PlanningContext, node: PlacementNode): boolean {
  return node.isWorker && node.registered !== undefined && leaseStatusOf(situation, node) === 'live';
}

/** Nodes that can be given something new. */
export function eligibleNodes(situation: PlanningContext): readonly PlacementNode[] {
  return [...situation.view.nodes.values()].filter((node) => isActiveNode(node) && hasValidLease(situation, node));
}

/** Of some nodes it is not known yet whether they are live: whoever spreads something should wait for them. */
export function hasUncertainNodes(situation: PlanningContext): boolean {
  return situation.view.nodes
    .values()
    .some((node) => isActiveNode(node) && leaseStatusOf(situation, node) === 'unsure');
}

/** It has every acknowledged write, if it is live. In memory only, that ends with its life. */
export function isInSync(situation: PlanningContext, pool: PoolRecord, record: ContainerRecord, id: NodeId): boolean {
  const holder = record.inSync.find(({ node }) => node === id);
  const node = situation.view.nodes.get(id);
  if (holder === undefined || node === undefined) return false;
  return pool.durability !== 'memory' || holder.generation === currentGeneration(situation, node);
}

export function ownerLoad({ inFlight }: PlanningContext, node: PlacementNode): number {
  // Copies only tip the scales.
  return node.owned.size + (inFlight.get(node.id) ?? 0) + node.replicated.size / 1_000_000;
}

export function replicaLoad({ inFlight }: PlanningContext, node: PlacementNode): number {
  return node.owned.size + node.replicated.size + (inFlight.get(node.id) ?? 0);
}

/** Equal loads in the order of the ids, so that every leader decides alike. */
export function byLoad(load: (node: PlacementNode) => number): (a: PlacementNode, b: PlacementNode) => number {
  return (a, b) => load(a) - load(b) || (a.id < b.id ? -1 : 1);
}

/** Higher than every fence before it, whoever gave that. */
export function nextFence({ fence }: PlanningContext, before: Fence): Fence {
  return ((before > fence ? before : fence) + 1n) as Fence;
}

/**
 * For a container that is new. Each change costs a revision, so this is above every fence that a deleted container of
 * the same name can have had.
 */
export function firstFence({ fence, view }: PlanningContext): Fence {
  const { term, index } = fenceParts(fence);
  return fenceOf(term, index + view.revision + 1);
}

export function containerEventOf(
  placed: PlacementContainer,
  kind: PlacementContainerEvent['kind'],
  node: NodeId | undefined,
  reason: string,
  needsAttention = false,
): PlacementContainerEvent {
  const { pool, number: container, record } = placed;
  return { kind, pool, container, node, from: record.owner?.node, reason, needsAttention };
}
