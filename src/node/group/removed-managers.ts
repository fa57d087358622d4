/** Managers that an operator removed: the autopilot does not add them again. The registry key keeps its spelling. */
import type { NodeId } from '../../base/ids.ts';
import { type RegistryTransaction, onlyKey } from '../../base/registry.ts';
import type { RegistryReplica } from '../../registry/replica/registry-replica.ts';

const encoder = new TextEncoder();

export function removedManagerKey(id: NodeId): string {
  return `/managers/dismissed/${id}`;
}

/** By the local replica, which may lag; the replica of the leader is current. */
export function isRemovedManager({ keyspace }: Pick<RegistryReplica, 'keyspace'>, id: NodeId): boolean {
  return keyspace.range(onlyKey(removedManagerKey(id)), 1).entries.length > 0;
}

/** `note` is for operators who read the key. */
export function recordRemoval(
  id: NodeId,
  note: { readonly name: string; readonly reason: string },
): RegistryTransaction {
  const value = encoder.encode(JSON.stringify(note));
  return { compare: [], then: [{ kind: 'put', key: removedManagerKey(id), value }], otherwise: [] };
}

export function clearRemoval(id: NodeId): RegistryTransaction {
  return { compare: [], then: [{ kind: 'delete', range: onlyKey(removedManagerKey(id)) }], otherwise: [] };
}
