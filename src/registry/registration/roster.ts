/**
 * Who is registered and in which state, as the registry says: a copy that is fed by a mirror and may be late. Whoever
 * acts on it compares what it saw. It holds no more than the registry holds.
 */
import type { NodeId } from '../../base/ids.ts';
import type { RegistryChange, RegistryEntry } from '../../base/registry.ts';
import { parseClusterKey } from '../keys.ts';
import type { NodeMode } from './modes.ts';
import type { Known } from './picture.ts';
import {
  type EpochRecord,
  type RegistrationRecord,
  type StateRecord,
  readEpoch,
  readRegistration,
  readState,
} from './records.ts';

export type RosterNode = {
  readonly id: NodeId;
  readonly registration: Known<RegistrationRecord> | undefined;
  readonly state: Known<StateRecord> | undefined;
};

export class Roster {
  readonly #nodes = new Map<NodeId, RosterNode>();
  #epoch: Known<EpochRecord> | undefined;

  get epoch(): Known<EpochRecord> | undefined {
    return this.#epoch;
  }

  get(node: NodeId): RosterNode | undefined {
    return this.#nodes.get(node);
  }

  nodes(): readonly RosterNode[] {
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
    if (key?.kind === 'state') this.#set(key.node, { state: { entry, record: readState(entry.value) } });
  }

  #delete(text: string): void {
    const key = parseClusterKey(text);
    if (key?.kind === 'epoch') this.#epoch = undefined;
    if (key?.kind === 'registration') this.#set(key.node, { registration: undefined });
    if (key?.kind === 'state') this.#set(key.node, { state: undefined });
  }

  #set(id: NodeId, part: Partial<RosterNode>): void {
    const node = { id, registration: undefined, state: undefined, ...this.#nodes.get(id), ...part };
    if (node.registration === undefined && node.state === undefined) this.#nodes.delete(id);
    else this.#nodes.set(id, node);
  }
}

/** For `members` and for people: `unknown` also means not active. */
export function standingOf(node: RosterNode | undefined): NodeMode | 'lost' | 'unknown' {
  if (node?.state?.record === undefined) return 'unknown';
  return node.registration === undefined ? 'lost' : node.state.record.mode;
}
