/**
 * Who owns a container that no node serves. Only a node with its full state gets it; state is never invented, except
 * for lost memory pools and failed `init`. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import { type PlacementContainer, type PlacementNode, isActiveNode } from '../state/placement-view.ts';
import type { ContainerRecord, NodeInstance, ActivationReason, PoolRecord } from '../state/container-records.ts';
import {
  type ContainerUpdate,
  type ContainerPlan,
  type PlanningContext,
  byLoad,
  replicaLoad,
  containerEventOf,
  nextFence,
  eligibleNodes,
  currentGeneration,
  isInSync,
  hasUncertainNodes,
  hasValidLease,
  ownerLoad,
  nothingToDo,
  blockedOnNodes,
} from './planning-context.ts';

/** The lease of the owner is over, or there is none. */
export function planRecovery(situation: PlanningContext, pool: PoolRecord, placed: PlacementContainer): ContainerPlan {
  const { record } = placed;
  const { owner } = record;
  // An owner that ended while it opened the container may have ended because of it.
  const failures = record.phase === 'opening' && owner !== undefined ? record.failures + 1 : 0;
  const dueMs = failures > 1 ? placed.sinceMs + retryMs(situation, failures) : 0;
  if (situation.nowMs < dueMs) return { dueMs };
  if (isNew(record)) return planInit(situation, pool, placed, failures, 'its node is gone');
  const node = bestHolder(situation, pool, placed, failures > 1);
  if (node === undefined) return planWithoutHolder(situation, pool, placed);
  const isBack = node.id === owner?.node;
  const reason = isBack ? `${node.name} is back` : `${nodeName(situation, owner?.node)} is gone`;
  const opening: ActivationReason = isBack && pool.restart ? 'restart' : 'recover';
  const next = given(situation, pool, placed, node, { opening, failures, note: reason });
  const events = [containerEventOf(placed, 'container.recovered', node.id, reason)];
  return { change: { placed, next, receivers: [node.id], previousOwner: owner, isRepair: false, events } };
}

/** Its owner is there, and has not opened it yet. */
export function planOpening(situation: PlanningContext, pool: PoolRecord, placed: PlacementContainer): ContainerPlan {
  const { record, sinceMs } = placed;
  const { options, nowMs } = situation;
  const hasFailed = record.failures > (record.failuresBefore ?? 0);
  const dueMs = sinceMs + (hasFailed ? retryMs(situation, record.failures) : options.openDeadlineMs);
  if (nowMs < dueMs) return { dueMs };
  const failures = hasFailed ? record.failures : record.failures + 1;
  const why = hasFailed ? record.note : `not opened within ${options.openDeadlineMs} ms`;
  const nodes = isNew(record) ? eligibleNodes(situation) : liveHolders(situation, pool, record);
  const node = nextInTurn(nodes, record.owner?.node);
  if (node === undefined || (!hasFailed && node.id === record.owner?.node))
    return isNew(record) ? blockedOnNodes : nothingToDo;
  const isAlarm = failures >= options.failuresAlarm;
  const events = [containerEventOf(placed, 'container.recoveryFailed', node.id, why, isAlarm)];
  const opening = record.opening === 'restart' && node.id !== record.owner?.node ? 'recover' : record.opening;
  const note = `${nodeName(situation, record.owner?.node)} could not open it: ${why}`;
  const next = given(situation, pool, placed, node, { opening, failures, note });
  return { change: { placed, next, receivers: [node.id], previousOwner: undefined, isRepair: false, events } };
}

/** The owner has let go: whoever it was meant for gets it, or else somebody who has its state. */
export function planHandover(situation: PlanningContext, pool: PoolRecord, placed: PlacementContainer): ContainerPlan {
  const { record } = placed;
  const target = situation.view.nodes.get(record.move?.to as NodeId);
  if (target !== undefined && isActiveNode(target) && isInSync(situation, pool, record, target.id)) {
    const standing = situation.leases.status(situation.nowMs, target.id, currentGeneration(situation, target));
    if (standing === 'live') return { change: handOver(situation, pool, placed, target, record.move?.cause ?? '') };
    if (standing === 'unsure') return nothingToDo;
  }
  const node = bestHolder(situation, pool, placed, false);
  if (node === undefined) return planWithoutHolder(situation, pool, placed);
  return { change: handOver(situation, pool, placed, node, `${nodeName(situation, record.move?.to)} is not there`) };
}

function handOver(
  situation: PlanningContext,
  pool: PoolRecord,
  placed: PlacementContainer,
  node: PlacementNode,
  reason: string,
): ContainerUpdate {
  const next = given(situation, pool, placed, node, { opening: 'migrate', failures: 0, note: reason });
  const copies = copiesAfterMove(situation, pool, placed.record, node.id);
  const events = [containerEventOf(placed, 'container.migrated', node.id, reason)];
  const record = { ...next, copies, inSync: next.inSync.filter((holder) => copies.includes(holder.node)) };
  return { placed, next: record, receivers: [node.id], previousOwner: undefined, isRepair: false, events };
}

/** The former owner stays if it is needed. Nobody leaves before there are enough others who have the state. */
function copiesAfterMove(
  situation: PlanningContext,
  pool: PoolRecord,
  record: ContainerRecord,
  owner: NodeId,
): readonly NodeId[] {
  const all = [owner, ...record.copies.filter((id) => id !== owner)];
  const isGood = (id: NodeId): boolean => {
    const node = situation.view.nodes.get(id);
    return (
      node !== undefined &&
      isActiveNode(node) &&
      hasValidLease(situation, node) &&
      isInSync(situation, pool, record, id)
    );
  };
  const rest = all.slice(1).filter(isGood);
  if (1 + rest.length < pool.copies) return all;
  const former = record.owner?.node;
  const inOrder = [...rest.filter((id) => id !== former), ...rest.filter((id) => id === former)];
  return [owner, ...inOrder.slice(0, pool.copies - 1)];
}

/** Looked at again whenever one of those who had it last changes. */
function planWithoutHolder(situation: PlanningContext, pool: PoolRecord, placed: PlacementContainer): ContainerPlan {
  const { record } = placed;
  const { view } = situation;
  const isLost = record.inSync.every((holder) => isLostInMemory(situation, holder));
  if (pool.durability === 'memory' && isLost) {
    return planInit(situation, pool, placed, 0, 'its state was in memory, and all who had it are gone');
  }
  // Said once, also if the next leader would say it in other words.
  if (isWaitingForReplicaNote(record.note)) return nothingToDo;
  const holders = record.inSync.map(({ node }) => view.nameOf(node)).toSorted();
  const note = `waits for its state: ${holders.join(', ')}`;
  const events = [containerEventOf(placed, 'container.waiting', undefined, note)];
  return {
    change: { placed, next: { ...record, note }, receivers: [], previousOwner: undefined, isRepair: false, events },
  };
}

/** A node that is silent for a while still has what it had: it is waited for as long as it stays registered. */
function isLostInMemory({ leases, nowMs, view }: PlanningContext, { node, generation }: NodeInstance): boolean {
  if (leases.status(nowMs, node, generation) !== 'over') return false;
  return leases.hasEnded(node, generation) || view.nodes.get(node)?.registered === undefined;
}

export function isWaitingForReplicaNote(note: string): boolean {
  return note.startsWith('waits for its state');
}

/** Anywhere, because nothing was acknowledged. */
function planInit(
  situation: PlanningContext,
  pool: PoolRecord,
  placed: PlacementContainer,
  failures: number,
  reason: string,
): ContainerPlan {
  if (hasUncertainNodes(situation)) return blockedOnNodes;
  const nodes = eligibleNodes(situation).toSorted(byLoad((node) => ownerLoad(situation, node)));
  const node = failures > 1 ? nextInTurn(nodes, placed.record.owner?.node) : nodes[0];
  if (node === undefined) return blockedOnNodes;
  const others = nodes.filter((one) => one !== node).toSorted(byLoad((one) => replicaLoad(situation, one)));
  const copies = [node, ...others].slice(0, Math.max(1, pool.copies)).map(({ id }) => id);
  const record = given(situation, pool, placed, node, { opening: 'init', failures, note: reason });
  const inSync = [{ node: node.id, generation: currentGeneration(situation, node) }];
  const events = [containerEventOf(placed, 'container.assigned', node.id, reason)];
  const previousOwner = placed.record.owner;
  return {
    change: { placed, next: { ...record, copies, inSync }, receivers: copies, previousOwner, isRepair: false, events },
  };
}

/** The record with another owner, or another life of the same one. */
function given(
  situation: PlanningContext,
  pool: PoolRecord,
  { record }: PlacementContainer,
  node: PlacementNode,
  how: { readonly opening: ActivationReason; readonly failures: number; readonly note: string },
): ContainerRecord {
  const owner = { node: node.id, generation: currentGeneration(situation, node) };
  // What could not be opened is tried with what the pool is to run by now: perhaps that is the repair, and counts anew.
  const moduleVersion = how.failures > 0 ? pool.moduleVersion : record.moduleVersion;
  const failures = moduleVersion === record.moduleVersion ? how.failures : 0;
  return {
    ...record,
    ...how,
    owner,
    fence: nextFence(situation, record.fence),
    phase: 'opening',
    copies: [node.id, ...record.copies.filter((id) => id !== node.id)],
    inSync: record.inSync.map((holder) => (holder.node === node.id ? owner : holder)),
    move: undefined,
    ...{ moduleVersion, failures, failuresBefore: failures },
  };
}

function bestHolder(
  situation: PlanningContext,
  pool: PoolRecord,
  { record, pool: name, number }: PlacementContainer,
  inTurn: boolean,
): PlacementNode | undefined {
  const nodes = liveHolders(situation, pool, record);
  if (inTurn) return nextInTurn(nodes, record.owner?.node);
  const wishes = nodes.length < 2 ? [] : (situation.rank(name, number, nodes.map(candidateOf)) ?? []);
  const wish = (node: PlacementNode): number => {
    const index = wishes.findIndex((text) => text === node.id || text === node.name);
    return index === -1 ? wishes.length : index;
  };
  const former = (node: PlacementNode): number => (node.id === record.owner?.node && node.mode !== 'drained' ? 0 : 1);
  const byId = byLoad((node) => ownerLoad(situation, node));
  return nodes.toSorted(
    (a, b) => former(a) - former(b) || modeRank(a) - modeRank(b) || wish(a) - wish(b) || byId(a, b),
  )[0];
}

/** Not only active ones: better served by a node that is to be emptied than by nobody. */
function liveHolders(situation: PlanningContext, pool: PoolRecord, record: ContainerRecord): readonly PlacementNode[] {
  const nodes: PlacementNode[] = [];
  for (const { node: id } of record.inSync) {
    const node = situation.view.nodes.get(id);
    if (node === undefined || !record.copies.includes(id) || !hasValidLease(situation, node)) continue;
    if (isInSync(situation, pool, record, id)) nodes.push(node);
  }
  return nodes;
}

/** Each in its turn, and the same one twice only if there is no other. */
function nextInTurn(nodes: readonly PlacementNode[], before: NodeId | undefined): PlacementNode | undefined {
  const inOrder = nodes.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return inOrder.find(({ id }) => before !== undefined && id > before) ?? inOrder[0];
}

function modeRank({ mode }: PlacementNode): number {
  return mode === 'active' ? 0 : mode === 'joining' ? 1 : mode === 'draining' ? 2 : 3;
}

function candidateOf({ id, name, owned }: PlacementNode): {
  readonly id: NodeId;
  readonly name: string;
  readonly containers: number;
} {
  return { id, name, containers: owned.size };
}

/** It has never been open, so it has no state that anybody was told of. */
function isNew({ phase, opening }: ContainerRecord): boolean {
  return phase === 'opening' && opening === 'init';
}

/** The first failure is followed at once by the next try. */
function retryMs({ options }: PlanningContext, failures: number): number {
  if (failures <= 1) return 0;
  return Math.min(options.openRetryMsMax, options.openRetryMsMin * 2 ** Math.min(20, failures - 2));
}

function nodeName({ view }: PlanningContext, id: NodeId | undefined): string {
  return id === undefined ? 'nobody' : view.nameOf(id);
}
