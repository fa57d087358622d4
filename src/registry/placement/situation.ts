/**
 * Everything a decision about a container may rest on: what the registry says, who may be serving, what is under way,
 * what the time is. And the questions that all decisions ask of it. Pure: it reads, and changes nothing.
 *
 * That a node is live is only known from its asking for the serving lease. What membership believes is not here.
 */
import { type Fence, fenceOf, fenceParts } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import { type PlacedContainer, type PlacedNode, type PlacementView, isActive } from './placement-view.ts';
import type { ContainerEvent } from './placer-event.ts';
import type { ContainerRecord, Holder, PoolRecord } from './records.ts';
import type { ServingLeases, Standing } from './serving-leases.ts';

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

export type RankCandidate = { readonly id: NodeId; readonly name: string; readonly containers: number };

/** The module's wish: ids or names, best first. Undefined or empty: it has none. */
export type Rank = (
  pool: string,
  container: number,
  candidates: readonly RankCandidate[],
) => readonly string[] | undefined;

export type Situation = {
  readonly nowMs: number;
  readonly view: PlacementView;
  readonly leases: ServingLeases;
  /** Of this leadership. */
  readonly fence: Fence;
  readonly options: PlacementOptions;
  readonly rank: Rank;
  /** What nodes are about to be given by transactions under way. */
  readonly onTheWay: ReadonlyMap<NodeId, number>;
};

/** One change of the record of one container. */
export type Change = {
  readonly placed: PlacedContainer;
  readonly next: ContainerRecord;
  /** Who gets something by it: each is still registered, and in the mode in which it was seen. */
  readonly given: readonly NodeId[];
  /** It rests on this lease being over. */
  readonly takenFrom: Holder | undefined;
  /** It makes a copy anew: only so many at a time. */
  readonly isRepair: boolean;
  readonly events: readonly ContainerEvent[];
};

/** `stuck`: to be looked at again when the nodes have changed. */
export type Plan = {
  readonly change?: Change;
  readonly dueMs?: number;
  readonly stuck?: boolean;
};

export const settled: Plan = {};
export const stuck: Plan = { stuck: true };

export function generationOf({ leases }: Situation, node: PlacedNode): number {
  return Math.max(node.generation, leases.generationOf(node.id) ?? 0);
}

/** Of the present life of the node. */
export function standingOf(situation: Situation, node: PlacedNode): Standing {
  return situation.leases.standing(situation.nowMs, node.id, generationOf(situation, node));
}

export function isLive(situation: Situation, node: PlacedNode): boolean {
  return node.works && node.registered !== undefined && standingOf(situation, node) === 'live';
}

/** Nodes that can be given something new. */
export function fitNodes(situation: Situation): readonly PlacedNode[] {
  return [...situation.view.nodes.values()].filter((node) => isActive(node) && isLive(situation, node));
}

/** Of some nodes it is not known yet whether they are live: whoever spreads something should wait for them. */
export function isInDoubt(situation: Situation): boolean {
  return situation.view.nodes.values().some((node) => isActive(node) && standingOf(situation, node) === 'unsure');
}

/** It has every acknowledged write, if it is live. In memory only, that ends with its life. */
export function holdsState(situation: Situation, pool: PoolRecord, record: ContainerRecord, id: NodeId): boolean {
  const holder = record.inSync.find(({ node }) => node === id);
  const node = situation.view.nodes.get(id);
  if (holder === undefined || node === undefined) return false;
  return pool.durability !== 'memory' || holder.generation === generationOf(situation, node);
}

export function ownerLoad({ onTheWay }: Situation, node: PlacedNode): number {
  // Copies only tip the scales.
  return node.owned.size + (onTheWay.get(node.id) ?? 0) + node.copied.size / 1_000_000;
}

export function copyLoad({ onTheWay }: Situation, node: PlacedNode): number {
  return node.owned.size + node.copied.size + (onTheWay.get(node.id) ?? 0);
}

/** Equal loads in the order of the ids, so that every leader decides alike. */
export function byLoad(load: (node: PlacedNode) => number): (a: PlacedNode, b: PlacedNode) => number {
  return (a, b) => load(a) - load(b) || (a.id < b.id ? -1 : 1);
}

/** Higher than every fence before it, whoever gave that. */
export function fenceAfter({ fence }: Situation, before: Fence): Fence {
  return ((before > fence ? before : fence) + 1n) as Fence;
}

/**
 * For a container that is new. Each change costs a revision, so this is above every fence that a deleted container of
 * the same name can have had.
 */
export function firstFence({ fence, view }: Situation): Fence {
  const { term, index } = fenceParts(fence);
  return fenceOf(term, index + view.revision + 1);
}

export function eventOf(
  placed: PlacedContainer,
  kind: ContainerEvent['kind'],
  node: NodeId | undefined,
  reason: string,
  alarm = false,
): ContainerEvent {
  const { pool, number: container, record } = placed;
  return { kind, pool, container, node, from: record.owner?.node, reason, alarm };
}
