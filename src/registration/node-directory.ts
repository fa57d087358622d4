/**
 * Registrations and states of all nodes, fed by an informer. It may lag: a caller that acts on an entry compares its
 * revision in the transaction.
 */
import type { NodeId } from '../base/ids.ts';
import type { RegistryChange, RegistryEntry } from '../base/registry.ts';
import { parseClusterKey } from '../registry/cluster-keys.ts';
import type { NodeMode } from './node-modes.ts';
import type { StoredRecord } from './cluster-snapshot.ts';
import {
  type EpochRecord,
  type RegistrationRecord,
  type NodeStateRecord,
  type StoppingRecord,
  readEpoch,
  readRegistration,
  readNodeState,
  readStopping,
} from './registration-records.ts';

export type NodeDirectoryEntry = {
  readonly id: NodeId;
  readonly registration: StoredRecord<RegistrationRecord> | undefined;
  readonly state: StoredRecord<NodeStateRecord> | undefined;
  readonly stopping: StoredRecord<StoppingRecord> | undefined;
};

export class NodeDirectory {
  readonly #nodes = new Map<NodeId, NodeDirectoryEntry>();
  #epoch: StoredRecord<EpochRecord> | undefined;

  get epoch(): StoredRecord<EpochRecord> | undefined {
    return this.#epoch;
  }

  get(node: NodeId): NodeDirectoryEntry | undefined {
    return this.#nodes.get(node);
  }

  nodes(): readonly NodeDirectoryEntry[] {
    return [...this.#nodes.values()];
  }

  load(entries: readonly RegistryEntry[]): void {
    this.#nodes.clear();
    this.#epoch = undefined;
    for (const entry of entries) this.put(entry);
  }

  apply(changes: readonly RegistryChange[]): void {
    for (const change of changes) {
      if (change.kind === 'put') this.put(change.entry);
      else this.#delete(change.key);
    }
  }

  put(entry: RegistryEntry): void {
    const key = parseClusterKey(entry.key);
    if (key?.kind === 'epoch') this.#epoch = { entry, record: readEpoch(entry.value) };
    if (key?.kind === 'registration')
      this.#set(key.node, { registration: { entry, record: readRegistration(entry.value) } });
    if (key?.kind === 'state') this.#set(key.node, { state: { entry, record: readNodeState(entry.value) } });
    if (key?.kind === 'stopping') this.#set(key.node, { stopping: { entry, record: readStopping(entry.value) } });
  }

  #delete(text: string): void {
    const key = parseClusterKey(text);
    if (key?.kind === 'epoch') this.#epoch = undefined;
    if (key?.kind === 'registration') this.#set(key.node, { registration: undefined });
    if (key?.kind === 'state') this.#set(key.node, { state: undefined });
    if (key?.kind === 'stopping') this.#set(key.node, { stopping: undefined });
  }

  #set(id: NodeId, part: Partial<NodeDirectoryEntry>): void {
    const unknown = { id, registration: undefined, state: undefined, stopping: undefined };
    const node = { ...unknown, ...this.#nodes.get(id), ...part };
    const { registration, state, stopping } = node;
    if ([registration, state, stopping].every((record) => record === undefined)) this.#nodes.delete(id);
    else this.#nodes.set(id, node);
  }
}

/** The process that registered last is stopping. The mark of an earlier process says nothing about it. */
export function isStopping(node: NodeDirectoryEntry | undefined): boolean {
  const generation = node?.stopping?.record?.generation;
  return generation !== undefined && generation >= (node?.registration?.record?.generation ?? 0);
}

/** The status that `members` shows. `unknown` never means active. */
export function registrationStatus(node: NodeDirectoryEntry | undefined): NodeMode | 'lost' | 'unknown' {
  if (node?.state?.record === undefined) return 'unknown';
  return node.registration === undefined ? 'lost' : node.state.record.mode;
}
