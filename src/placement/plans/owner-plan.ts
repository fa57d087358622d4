/**
 * The next owner of a container that no node serves. Only a replica with every acknowledged write becomes owner. A
 * container starts empty only if it never finished `init`, or if it was in memory and its whole ISR is lost. Pure.
 */
import type { NodeId } from '../../base/ids.ts';
import { type PlacementContainer, type PlacementNode, isActiveNode, isStoppingNode } from '../state/placement-view.ts';
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
  leaseStatusOf,
  ownerLoad,
  nothingToDo,
  blockedOnNodes,
} from './planning-context.ts';

/** For a container whose owner has no serving lease, or that has no owner. */
export function planRecovery(context: PlanningContext, pool: PoolRecord, container: PlacementContainer): ContainerPlan {
  const { record } = container;
  const { owner } = record;
  // An owner that dies while it opens the container may have died because of it.
  const failures = record.phase === 'opening' && owner !== undefined ? record.failures + 1 : 0;
  const dueMs = failures > 1 ? container.sinceMs + retryMs(context, failures) : 0;
  if (context.nowMs < dueMs) return { dueMs };
  if (hasNeverServed(record)) return planInit(context, pool, container, failures, 'its node is gone');
  const node = bestReplica(context, pool, container, failures > 1);
  if (node === undefined) return planWithoutReplica(context, pool, container);
  const isBack = node.id === owner?.node;
  const reason = isBack ? `${node.name} is back` : `${nodeName(context, owner?.node)} is gone`;
  const opening: ActivationReason = isBack && pool.restart ? 'restart' : 'recover';
  const next = withOwner(context, pool, container, node, { opening, failures, note: reason });
  const events = [containerEventOf(container, 'container.recovered', node.id, reason)];
  return { update: { container, next, receivers: [node.id], previousOwner: owner, isRepair: false, events } };
}

/** For an owner with a serving lease that has not opened the container yet. */
export function planOpening(context: PlanningContext, pool: PoolRecord, container: PlacementContainer): ContainerPlan {
  const { record, sinceMs } = container;
  const { options, nowMs } = context;
  const hasFailed = record.failures > (record.failuresBefore ?? 0);
  const dueMs = sinceMs + (hasFailed ? retryMs(context, record.failures) : options.openDeadlineMs);
  if (nowMs < dueMs) return { dueMs };
  const failures = hasFailed ? record.failures : record.failures + 1;
  const why = hasFailed ? record.note : `not opened within ${options.openDeadlineMs} ms`;
  const nodes = hasNeverServed(record) ? eligibleNodes(context) : availableReplicas(context, pool, record);
  const node = nextInTurn(nodes, record.owner?.node);
  if (node === undefined || (!hasFailed && node.id === record.owner?.node))
    return hasNeverServed(record) ? blockedOnNodes : nothingToDo;
  const needsAttention = failures >= options.failuresAlarm;
  const events = [containerEventOf(container, 'container.recoveryFailed', node.id, why, needsAttention)];
  const opening = record.opening === 'restart' && node.id !== record.owner?.node ? 'recover' : record.opening;
  const note = `${nodeName(context, record.owner?.node)} could not open it: ${why}`;
  const next = withOwner(context, pool, container, node, { opening, failures, note });
  return { update: { container, next, receivers: [node.id], previousOwner: undefined, isRepair: false, events } };
}

/** For a move at `handed`: the destination becomes owner, or another replica with the state if it is not available. */
export function planHandover(context: PlanningContext, pool: PoolRecord, container: PlacementContainer): ContainerPlan {
  const { record } = container;
  const target = context.view.nodes.get(record.move?.to as NodeId);
  if (target !== undefined && isActiveNode(target) && isInSync(context, pool, record, target.id)) {
    const leaseStatus = leaseStatusOf(context, target);
    if (leaseStatus === 'valid')
      return { update: handOver(context, pool, container, target, record.move?.cause ?? '') };
    if (leaseStatus === 'uncertain') return nothingToDo;
  }
  const node = bestReplica(context, pool, container, false);
  if (node === undefined) return planWithoutReplica(context, pool, container);
  return { update: handOver(context, pool, container, node, `${nodeName(context, record.move?.to)} is not available`) };
}

function handOver(
  context: PlanningContext,
  pool: PoolRecord,
  container: PlacementContainer,
  node: PlacementNode,
  reason: string,
): ContainerUpdate {
  const next = withOwner(context, pool, container, node, { opening: 'migrate', failures: 0, note: reason });
  const copies = replicasAfterMove(context, pool, container.record, node.id);
  const events = [containerEventOf(container, 'container.migrated', node.id, reason)];
  const record = { ...next, copies, inSync: next.inSync.filter((instance) => copies.includes(instance.node)) };
  return { container, next: record, receivers: [node.id], previousOwner: undefined, isRepair: false, events };
}

/** The former owner stays if it is needed. No replica leaves before enough others are in sync. */
function replicasAfterMove(
  context: PlanningContext,
  pool: PoolRecord,
  record: ContainerRecord,
  owner: NodeId,
): readonly NodeId[] {
  const all = [owner, ...record.copies.filter((id) => id !== owner)];
  const canStay = (id: NodeId): boolean => {
    const node = context.view.nodes.get(id);
    return (
      node !== undefined && isActiveNode(node) && hasValidLease(context, node) && isInSync(context, pool, record, id)
    );
  };
  const rest = all.slice(1).filter(canStay);
  if (1 + rest.length < pool.copies) return all;
  const former = record.owner?.node;
  const inOrder = [...rest.filter((id) => id !== former), ...rest.filter((id) => id === former)];
  return [owner, ...inOrder.slice(0, pool.copies - 1)];
}

/** No ISR member is available. The container is reconciled again when one of its nodes changes. */
function planWithoutReplica(context: PlanningContext, pool: PoolRecord, container: PlacementContainer): ContainerPlan {
  const { record } = container;
  const { view } = context;
  const isLost = record.inSync.every((instance) => isLostInMemory(context, instance));
  if (pool.durability === 'memory' && isLost) {
    return planInit(context, pool, container, 0, 'its state was in memory, and all nodes that had it are gone');
  }
  // One event for one wait, also after a change of leader.
  if (isWaitingForReplicaNote(record.note)) return nothingToDo;
  const names = record.inSync.map(({ node }) => view.nameOf(node)).toSorted();
  const note = `${waitingForReplica}${names.join(' or ')}`;
  const events = [containerEventOf(container, 'container.waiting', undefined, note)];
  return {
    update: { container, next: { ...record, note }, receivers: [], previousOwner: undefined, isRepair: false, events },
  };
}

/** A silent node still has its memory: the placer waits for it until its registration ends or its exit is proved. */
function isLostInMemory({ leases, nowMs, view }: PlanningContext, { node, generation }: NodeInstance): boolean {
  if (leases.status(nowMs, node, generation) !== 'expired') return false;
  return leases.hasEnded(node, generation) || view.nodes.get(node)?.registered === undefined;
}

const waitingForReplica = 'no replica with its state is available: waiting for ';

export function isWaitingForReplicaNote(note: string): boolean {
  return note.startsWith(waitingForReplica);
}

/** On any eligible node: no write was acknowledged. */
function planInit(
  context: PlanningContext,
  pool: PoolRecord,
  container: PlacementContainer,
  failures: number,
  reason: string,
): ContainerPlan {
  if (hasUncertainNodes(context)) return blockedOnNodes;
  const nodes = eligibleNodes(context).toSorted(byLoad((node) => ownerLoad(context, node)));
  const node = failures > 1 ? nextInTurn(nodes, container.record.owner?.node) : nodes[0];
  if (node === undefined) return blockedOnNodes;
  const others = nodes.filter((other) => other !== node).toSorted(byLoad((other) => replicaLoad(context, other)));
  const copies = [node, ...others].slice(0, Math.max(1, pool.copies)).map(({ id }) => id);
  const record = withOwner(context, pool, container, node, { opening: 'init', failures, note: reason });
  const inSync = [{ node: node.id, generation: currentGeneration(context, node) }];
  const events = [containerEventOf(container, 'container.assigned', node.id, reason)];
  const previousOwner = container.record.owner;
  return {
    update: {
      container,
      next: { ...record, copies, inSync },
      receivers: copies,
      previousOwner,
      isRepair: false,
      events,
    },
  };
}

/** The record with another owner, or with the present generation of the same owner. */
function withOwner(
  context: PlanningContext,
  pool: PoolRecord,
  { record }: PlacementContainer,
  node: PlacementNode,
  activation: { readonly opening: ActivationReason; readonly failures: number; readonly note: string },
): ContainerRecord {
  const owner = { node: node.id, generation: currentGeneration(context, node) };
  // After a failure the owner uses the pool's version, which may contain the repair; failures then count from 0 again.
  const moduleVersion = activation.failures > 0 ? pool.moduleVersion : record.moduleVersion;
  const failures = moduleVersion === record.moduleVersion ? activation.failures : 0;
  return {
    ...record,
    ...activation,
    owner,
    fence: nextFence(context, record.fence),
    phase: 'opening',
    copies: [node.id, ...record.copies.filter((id) => id !== node.id)],
    inSync: record.inSync.map((instance) => (instance.node === node.id ? owner : instance)),
    move: undefined,
    ...{ moduleVersion, failures, failuresBefore: failures },
  };
}

/** `inTurn`: the next replica after the present owner, because opening has failed repeatedly. */
function bestReplica(
  context: PlanningContext,
  pool: PoolRecord,
  { record, pool: name, number }: PlacementContainer,
  inTurn: boolean,
): PlacementNode | undefined {
  const nodes = availableReplicas(context, pool, record);
  if (inTurn) return nextInTurn(nodes, record.owner?.node);
  const ranking = nodes.length < 2 ? [] : (context.rank(name, number, nodes.map(candidateOf)) ?? []);
  const moduleRank = (node: PlacementNode): number => {
    const index = ranking.findIndex((text) => text === node.id || text === node.name);
    return index === -1 ? ranking.length : index;
  };
  const ownerRank = (node: PlacementNode): number =>
    node.id === record.owner?.node && node.mode !== 'drained' && !isStoppingNode(node) ? 0 : 1;
  const byOwned = byLoad((node) => ownerLoad(context, node));
  return nodes.toSorted(
    (a, b) =>
      ownerRank(a) - ownerRank(b) || modeRank(a) - modeRank(b) || moduleRank(a) - moduleRank(b) || byOwned(a, b),
  )[0];
}

/** In sync and with a serving lease, in any mode: a draining owner is better than none. */
function availableReplicas(
  context: PlanningContext,
  pool: PoolRecord,
  record: ContainerRecord,
): readonly PlacementNode[] {
  const nodes: PlacementNode[] = [];
  for (const { node: id } of record.inSync) {
    const node = context.view.nodes.get(id);
    if (node === undefined || !record.copies.includes(id) || !hasValidLease(context, node)) continue;
    if (isInSync(context, pool, record, id)) nodes.push(node);
  }
  return nodes;
}

/** Round robin by id; the same node again only if there is no other. */
function nextInTurn(nodes: readonly PlacementNode[], before: NodeId | undefined): PlacementNode | undefined {
  const inOrder = nodes.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return inOrder.find(({ id }) => before !== undefined && id > before) ?? inOrder[0];
}

function modeRank(node: PlacementNode): number {
  const { mode } = node;
  if (isStoppingNode(node)) return 4;
  return mode === 'active' ? 0 : mode === 'joining' ? 1 : mode === 'draining' ? 2 : 3;
}

function candidateOf({ id, name, owned }: PlacementNode): {
  readonly id: NodeId;
  readonly name: string;
  readonly containers: number;
} {
  return { id, name, containers: owned.size };
}

/** Its `init` has not finished, so no write was acknowledged. */
function hasNeverServed({ phase, opening }: ContainerRecord): boolean {
  return phase === 'opening' && opening === 'init';
}

/** Backoff; the first failure is retried at once. */
function retryMs({ options }: PlanningContext, failures: number): number {
  if (failures <= 1) return 0;
  return Math.min(options.openRetryMsMax, options.openRetryMsMin * 2 ** Math.min(20, failures - 2));
}

function nodeName({ view }: PlanningContext, id: NodeId | undefined): string {
  return id === undefined ? 'its owner' : view.nameOf(id);
}
