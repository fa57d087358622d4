/**
 * Moves, drains and marks of new nodes, each as one guarded transaction. A guard is everything the decision rests on:
 * what was seen of the container, of the target's registration and state, and that the leader who decides is still the
 * one whose fence stands at `/cluster/assigner`. If one of them has passed, nothing happens. So a leader that was
 * superseded is refused, two that race cannot both win, and a transaction that is sent twice is executed once.
 */
import { assert, unreachable } from '../../base/assert.ts';
import { type RegistryCompare, type RegistryOp, type RegistryTransaction, onlyKey } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import { type NodeStateRecord, encodeRegistrationRecord } from '../../registration/registration-records.ts';
import { type ContainerMove, encodeContainer } from '../state/container-records.ts';
import { type KnownNode, isActive } from '../state/cluster-view.ts';
import { type DrainRecord, encodeDrain } from '../state/drain-record.ts';
import type { HeldContainer } from '../state/node-holdings.ts';
import type { DrainTask } from '../plans/drain-plan.ts';

const assignerKey = clusterKey({ kind: 'assigner' });
/** The key says everything. */
const spreadMark = new TextEncoder().encode('{"v":1}');

/** What the leader writes there when it begins, and what all its transactions compare. */
export function claim(fence: Uint8Array, seenRevision: number): RegistryTransaction {
  return guarded([unchanged(assignerKey, seenRevision)], [put(assignerKey, fence)]);
}

/**
 * Begins to move a container: `to` is active, and is to have the state. The rest of the way is between the placer and the
 * owner; the record is the one that was seen, so the container was open and nobody else had begun to move it.
 */
export function startMoveTransaction(
  fence: Uint8Array,
  { name, record, modRevision }: HeldContainer,
  to: KnownNode,
  cause: ContainerMove['cause'],
): RegistryTransaction {
  assert(record.phase === 'serving' && record.move === undefined, 'only what is open and at rest is moved');
  assert(record.owner?.node !== to.id, 'nothing is moved to where it is');
  const key = clusterKey({ kind: 'container', ...name });
  const copies = record.copies.includes(to.id) ? record.copies : [...record.copies, to.id];
  const moved = { ...record, copies, move: { to: to.id, cause, step: 'copying' } as const };
  return guarded([leads(fence), unchanged(key, modRevision), ...activeStill(to)], [put(key, encodeContainer(moved))]);
}

/** From now on the node gets its share of containers, whoever leads. */
export function markNewNodeTransaction(fence: Uint8Array, node: KnownNode): RegistryTransaction {
  const key = clusterKey({ kind: 'spread', node: node.id });
  return guarded([leads(fence), unchanged(key, 0), ...activeStill(node)], [put(key, spreadMark)]);
}

export function unmarkNewNodeTransaction(fence: Uint8Array, { id, spread }: KnownNode): RegistryTransaction {
  const key = clusterKey({ kind: 'spread', node: id });
  return guarded([leads(fence), unchanged(key, spread?.modRevision ?? 0)], [remove(key)]);
}

/** It holds nothing. Nothing can have come meanwhile: every transaction that gives something compares the state as well. */
export function endDrainTransaction(fence: Uint8Array, node: KnownNode, state: NodeStateRecord): RegistryTransaction {
  const key = clusterKey({ kind: 'state', node: node.id });
  return guarded(
    [leads(fence), unchanged(key, node.state?.modRevision ?? 0)],
    [put(key, encodeRegistrationRecord(state)), remove(clusterKey({ kind: 'drain', node: node.id }))],
  );
}

/** Changes what is said about a drain, or forgets it. */
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

/** What carries out a task under the fence of the leader. */
export function drainTransaction(task: DrainTask, fence: Uint8Array): RegistryTransaction {
  switch (task.kind) {
    case 'move':
      return startMoveTransaction(fence, task.held, task.to, task.cause);
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

function guarded(compare: readonly RegistryCompare[], then: readonly RegistryOp[]): RegistryTransaction {
  return { compare, then, otherwise: [] };
}

function leads(fence: Uint8Array): RegistryCompare {
  return { key: assignerKey, target: 'value', is: 'equal', than: fence };
}

/** Zero: there is none. */
function unchanged(key: string, modRevision: number): RegistryCompare {
  return { key, target: 'modRevision', is: 'equal', than: modRevision };
}

function activeStill(node: KnownNode): readonly RegistryCompare[] {
  assert(isActive(node), 'only active nodes are given anything');
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
