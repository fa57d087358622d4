/**
 * Who is to own a container that nobody serves: after the end of its owner's lease, after an opening that failed, after
 * a move that has let go of it. Only who has its state gets it; state is never invented, except where a pool lives in
 * memory alone and everybody who had it is gone, or where an `init` has not ended and nothing was acknowledged.
 */
import type { NodeId } from '../../base/ids.ts';
import { type PlacedContainer, type PlacedNode, isActive } from './placement-view.ts';
import type { ContainerRecord, Holder, Opening, PoolRecord } from './records.ts';
import {
  type Change,
  type Plan,
  type Situation,
  byLoad,
  copyLoad,
  eventOf,
  fenceAfter,
  fitNodes,
  generationOf,
  holdsState,
  isInDoubt,
  isLive,
  ownerLoad,
  settled,
  stuck,
} from './situation.ts';

/** The lease of the owner is over, or there is none. */
export function planRecovery(situation: Situation, pool: PoolRecord, placed: PlacedContainer): Plan {
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
  const opening: Opening = isBack && pool.restart ? 'restart' : 'recover';
  const next = given(situation, pool, placed, node, { opening, failures, note: reason });
  const events = [eventOf(placed, 'container.recovered', node.id, reason)];
  return { change: { placed, next, given: [node.id], takenFrom: owner, isRepair: false, events } };
}

/** Its owner is there, and has not opened it yet. */
export function planOpening(situation: Situation, pool: PoolRecord, placed: PlacedContainer): Plan {
  const { record, sinceMs } = placed;
  const { options, nowMs } = situation;
  const hasFailed = record.failures > (record.failuresBefore ?? 0);
  const dueMs = sinceMs + (hasFailed ? retryMs(situation, record.failures) : options.openDeadlineMs);
  if (nowMs < dueMs) return { dueMs };
  const failures = hasFailed ? record.failures : record.failures + 1;
  const why = hasFailed ? record.note : `not opened within ${options.openDeadlineMs} ms`;
  const nodes = isNew(record) ? fitNodes(situation) : liveHolders(situation, pool, record);
  const node = nextInTurn(nodes, record.owner?.node);
  if (node === undefined || (!hasFailed && node.id === record.owner?.node)) return isNew(record) ? stuck : settled;
  const isAlarm = failures >= options.failuresAlarm;
  const events = [eventOf(placed, 'container.recoveryFailed', node.id, why, isAlarm)];
  const opening = record.opening === 'restart' && node.id !== record.owner?.node ? 'recover' : record.opening;
  const note = `${nodeName(situation, record.owner?.node)} could not open it: ${why}`;
  const next = given(situation, pool, placed, node, { opening, failures, note });
  return { change: { placed, next, given: [node.id], takenFrom: undefined, isRepair: false, events } };
}

/** The owner has let go: whoever it was meant for gets it, or else somebody who has its state. */
export function planHanded(situation: Situation, pool: PoolRecord, placed: PlacedContainer): Plan {
  const { record } = placed;
  const target = situation.view.nodes.get(record.move?.to as NodeId);
  if (target !== undefined && isActive(target) && holdsState(situation, pool, record, target.id)) {
    const standing = situation.leases.standing(situation.nowMs, target.id, generationOf(situation, target));
    if (standing === 'live') return { change: handOver(situation, pool, placed, target, record.move?.cause ?? '') };
    if (standing === 'unsure') return settled;
  }
  const node = bestHolder(situation, pool, placed, false);
  if (node === undefined) return planWithoutHolder(situation, pool, placed);
  return { change: handOver(situation, pool, placed, node, `${nodeName(situation, record.move?.to)} is not there`) };
}

function handOver(
  situation: Situation,
  pool: PoolRecord,
  placed: PlacedContainer,
  node: PlacedNode,
  reason: string,
): Change {
  const next = given(situation, pool, placed, node, { opening: 'migrate', failures: 0, note: reason });
  const copies = copiesAfterMove(situation, pool, placed.record, node.id);
  const events = [eventOf(placed, 'container.migrated', node.id, reason)];
  const record = { ...next, copies, inSync: next.inSync.filter((holder) => copies.includes(holder.node)) };
  return { placed, next: record, given: [node.id], takenFrom: undefined, isRepair: false, events };
}

/** The former owner stays if it is needed. Nobody leaves before there are enough others who have the state. */
function copiesAfterMove(
  situation: Situation,
  pool: PoolRecord,
  record: ContainerRecord,
  owner: NodeId,
): readonly NodeId[] {
  const all = [owner, ...record.copies.filter((id) => id !== owner)];
  const isGood = (id: NodeId): boolean => {
    const node = situation.view.nodes.get(id);
    return node !== undefined && isActive(node) && isLive(situation, node) && holdsState(situation, pool, record, id);
  };
  const rest = all.slice(1).filter(isGood);
  if (1 + rest.length < pool.copies) return all;
  const former = record.owner?.node;
  const inOrder = [...rest.filter((id) => id !== former), ...rest.filter((id) => id === former)];
  return [owner, ...inOrder.slice(0, pool.copies - 1)];
}

/** Looked at again whenever one of those who had it last changes. */
function planWithoutHolder(situation: Situation, pool: PoolRecord, placed: PlacedContainer): Plan {
  const { record } = placed;
  const { view } = situation;
  const isLost = record.inSync.every((holder) => isLostInMemory(situation, holder));
  if (pool.durability === 'memory' && isLost) {
    return planInit(situation, pool, placed, 0, 'its state was in memory, and all who had it are gone');
  }
  // Said once, also if the next leader would say it in other words.
  if (isWaitingNote(record.note)) return settled;
  const holders = record.inSync.map(({ node }) => view.nameOf(node)).toSorted();
  const note = `waits for its state: ${holders.join(', ')}`;
  const events = [eventOf(placed, 'container.waiting', undefined, note)];
  return { change: { placed, next: { ...record, note }, given: [], takenFrom: undefined, isRepair: false, events } };
}

/** A node that is silent for a while still has what it had: it is waited for as long as it stays registered. */
function isLostInMemory({ leases, nowMs, view }: Situation, { node, generation }: Holder): boolean {
  if (leases.standing(nowMs, node, generation) !== 'over') return false;
  return leases.hasEnded(node, generation) || view.nodes.get(node)?.registered === undefined;
}

export function isWaitingNote(note: string): boolean {
  return note.startsWith('waits for its state');
}

/** Anywhere, because nothing was acknowledged. */
function planInit(
  situation: Situation,
  pool: PoolRecord,
  placed: PlacedContainer,
  failures: number,
  reason: string,
): Plan {
  if (isInDoubt(situation)) return stuck;
  const nodes = fitNodes(situation).toSorted(byLoad((node) => ownerLoad(situation, node)));
  const node = failures > 1 ? nextInTurn(nodes, placed.record.owner?.node) : nodes[0];
  if (node === undefined) return stuck;
  const others = nodes.filter((one) => one !== node).toSorted(byLoad((one) => copyLoad(situation, one)));
  const copies = [node, ...others].slice(0, Math.max(1, pool.copies)).map(({ id }) => id);
  const record = given(situation, pool, placed, node, { opening: 'init', failures, note: reason });
  const inSync = [{ node: node.id, generation: generationOf(situation, node) }];
  const events = [eventOf(placed, 'container.assigned', node.id, reason)];
  const takenFrom = placed.record.owner;
  return { change: { placed, next: { ...record, copies, inSync }, given: copies, takenFrom, isRepair: false, events } };
}

/** The record with another owner, or another life of the same one. */
function given(
  situation: Situation,
  pool: PoolRecord,
  { record }: PlacedContainer,
  node: PlacedNode,
  how: { readonly opening: Opening; readonly failures: number; readonly note: string },
): ContainerRecord {
  const owner = { node: node.id, generation: generationOf(situation, node) };
  // What could not be opened is tried with what the pool is to run by now: perhaps that is the repair, and counts anew.
  const moduleVersion = how.failures > 0 ? pool.moduleVersion : record.moduleVersion;
  const failures = moduleVersion === record.moduleVersion ? how.failures : 0;
  return {
    ...record,
    ...how,
    owner,
    fence: fenceAfter(situation, record.fence),
    phase: 'opening',
    copies: [node.id, ...record.copies.filter((id) => id !== node.id)],
    inSync: record.inSync.map((holder) => (holder.node === node.id ? owner : holder)),
    move: undefined,
    ...{ moduleVersion, failures, failuresBefore: failures },
  };
}

function bestHolder(
  situation: Situation,
  pool: PoolRecord,
  { record, pool: name, number }: PlacedContainer,
  inTurn: boolean,
): PlacedNode | undefined {
  const nodes = liveHolders(situation, pool, record);
  if (inTurn) return nextInTurn(nodes, record.owner?.node);
  const wishes = nodes.length < 2 ? [] : (situation.rank(name, number, nodes.map(candidateOf)) ?? []);
  const wish = (node: PlacedNode): number => {
    const index = wishes.findIndex((text) => text === node.id || text === node.name);
    return index === -1 ? wishes.length : index;
  };
  const former = (node: PlacedNode): number => (node.id === record.owner?.node && node.mode !== 'drained' ? 0 : 1);
  const byId = byLoad((node) => ownerLoad(situation, node));
  return nodes.toSorted(
    (a, b) => former(a) - former(b) || modeRank(a) - modeRank(b) || wish(a) - wish(b) || byId(a, b),
  )[0];
}

/** Not only active ones: better served by a node that is to be emptied than by nobody. */
function liveHolders(situation: Situation, pool: PoolRecord, record: ContainerRecord): readonly PlacedNode[] {
  const nodes: PlacedNode[] = [];
  for (const { node: id } of record.inSync) {
    const node = situation.view.nodes.get(id);
    if (node === undefined || !record.copies.includes(id) || !isLive(situation, node)) continue;
    if (holdsState(situation, pool, record, id)) nodes.push(node);
  }
  return nodes;
}

/** Each in its turn, and the same one twice only if there is no other. */
function nextInTurn(nodes: readonly PlacedNode[], before: NodeId | undefined): PlacedNode | undefined {
  const inOrder = nodes.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return inOrder.find(({ id }) => before !== undefined && id > before) ?? inOrder[0];
}

function modeRank({ mode }: PlacedNode): number {
  return mode === 'active' ? 0 : mode === 'joining' ? 1 : mode === 'draining' ? 2 : 3;
}

function candidateOf({ id, name, owned }: PlacedNode): {
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
function retryMs({ options }: Situation, failures: number): number {
  if (failures <= 1) return 0;
  return Math.min(options.openRetryMsMax, options.openRetryMsMin * 2 ** Math.min(20, failures - 2));
}

function nodeName({ view }: Situation, id: NodeId | undefined): string {
  return id === undefined ? 'nobody' : view.nameOf(id);
}
