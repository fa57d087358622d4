/**
 * Moves, drains and marks of new nodes, each as one guarded transaction. The guards compare everything the decision
 * rests on: the container record, registration and state of the destination, and the fence of the leader at
 * `/cluster/assigner`. So a superseded leader is refused, of two racing leaders at most one succeeds, and a resent
 * transaction is executed once.
 */
import { assert, unreachable } from '../../base/assert.ts';
import { type RegistryCompare, type RegistryOp, type RegistryTransaction, onlyKey } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import { type NodeStateRecord, encodeRegistrationRecord } from '../../registration/registration-records.ts';
import { type ContainerMove, encodeContainer } from '../state/container-records.ts';
import { type KnownNode, isActive } from '../state/cluster-view.ts';
import { type DrainRecord, encodeDrain } from '../state/drain-record.ts';
import type { HeldContainer } from '../state/node-holdings.ts';
import type { AssignerTask } from '../plans/drain-plan.ts';

const assignerKey = clusterKey({ kind: 'assigner' });
/** The key alone is the mark. */
const newNodeMark = new TextEncoder().encode('{"v":1}');

/** Writes the fence that all later transactions of this leader compare. */
export function claimAssigner(fence: Uint8Array, seenRevision: number): RegistryTransaction {
  return guarded([unchanged(assignerKey, seenRevision)], [put(assignerKey, fence)]);
}

/**
 * Starts a move: adds `to` as replica and destination. Placer and owner do the rest. The record is compared, so the
 * container is still served and does not move yet; `to` is still registered and active.
 */
export function startMoveTransaction(
  fence: Uint8Array,
  { name, record, modRevision }: HeldContainer,
  to: KnownNode,
  cause: ContainerMove['cause'],
): RegistryTransaction {
  assert(
    record.phase === 'serving' && record.move === undefined,
    'a move starts from a served container that does not move',
  );
  assert(record.owner?.node !== to.id, 'the destination of a move is not its owner');
  const key = clusterKey({ kind: 'container', ...name });
  const copies = record.copies.includes(to.id) ? record.copies : [...record.copies, to.id];
  const moved = { ...record, copies, move: { to: to.id, cause, step: 'copying' } as const };
  return guarded([leads(fence), unchanged(key, modRevision), ...stillActive(to)], [put(key, encodeContainer(moved))]);
}

/** Marks the node as new: every leader gives it containers until it has its share. */
export function markNewNodeTransaction(fence: Uint8Array, node: KnownNode): RegistryTransaction {
  const key = clusterKey({ kind: 'spread', node: node.id });
  return guarded([leads(fence), unchanged(key, 0), ...stillActive(node)], [put(key, newNodeMark)]);
}

export function unmarkNewNodeTransaction(fence: Uint8Array, { id, spread }: KnownNode): RegistryTransaction {
  const key = clusterKey({ kind: 'spread', node: id });
  return guarded([leads(fence), unchanged(key, spread?.modRevision ?? 0)], [remove(key)]);
}

/** For an empty node. It is still empty: every transaction that assigns to a node compares its state, too. */
export function endDrainTransaction(fence: Uint8Array, node: KnownNode, state: NodeStateRecord): RegistryTransaction {
  const key = clusterKey({ kind: 'state', node: node.id });
  return guarded(
    [leads(fence), unchanged(key, node.state?.modRevision ?? 0)],
    [put(key, encodeRegistrationRecord(state)), remove(clusterKey({ kind: 'drain', node: node.id }))],
  );
}

/** Writes the record of a drain, or removes it. */
export function updateDrainTransaction(
  fence: Uint8Array,
  node: KnownNode,
  record: DrainRecord | undefined,
): RegistryTransaction {
  const key = clusterKey({ kind: 'drain', node: node.id });
  return guarded(
    [leads(fence), unchanged(key, node.drain?.modRevision ?? 0)],
    [record === undefined ? remove(key) : put(key, encodeDrain(record))],
  );
}

/** The transaction of a task under the fence of the leader. */
export function assignerTransaction(task: AssignerTask, fence: Uint8Array): RegistryTransaction {
  switch (task.kind) {
    case 'move':
      return startMoveTransaction(fence, task.held, task.to, task.cause);
    case 'drained':
      return endDrainTransaction(fence, task.node, task.state);
    case 'overdue':
      return updateDrainTransaction(fence, task.node, task.node.drain && { ...task.node.drain.record, overdue: true });
    case 'removeDrain':
      return updateDrainTransaction(fence, task.node, undefined);
    case 'markNewNode':
      return markNewNodeTransaction(fence, task.node);
    case 'unmarkNewNode':
      return unmarkNewNodeTransaction(fence, task.node);
    default:
      return unreachable(task);
  }
}

function guarded(compare: readonly RegistryCompare[], then: readonly RegistryOp[]): RegistryTransaction {
  return { compare, then, otherwise: [] };
}

function leads(fence: Uint8Array): RegistryCompare {
  return { key: assignerKey, target: 'value', is: 'equal', than: fence };
}

/** `modRevision` 0: the key does not exist. */
function unchanged(key: string, modRevision: number): RegistryCompare {
  return { key, target: 'modRevision', is: 'equal', than: modRevision };
}

function stillActive(node: KnownNode): readonly RegistryCompare[] {
  assert(isActive(node), 'only active nodes get containers');
  const registration = clusterKey({ kind: 'registration', node: node.id });
  return [
    { key: registration, target: 'createRevision', is: 'equal', than: node.registered ?? 0 },
    unchanged(clusterKey({ kind: 'state', node: node.id }), node.state?.modRevision ?? 0),
  ];
}

function put(key: string, value: Uint8Array): RegistryOp {
  return { kind: 'put', key, value };
}

function remove(key: string): RegistryOp {
  return { kind: 'delete', range: onlyKey(key) };
}
