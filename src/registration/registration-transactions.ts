/**
 * Guarded transactions that change the records of a node. Each compares the records it rests on, so a duplicate changes
 * nothing.
 */
import type { NodeId } from '../base/ids.ts';
import type { Identity } from '../base/ports.ts';
import {
  type LeaseId,
  type RegistryCompare,
  type RegistryEntry,
  type RegistryOp,
  type RegistryTransaction,
  onlyKey,
} from '../base/registry.ts';
import { clusterKey } from '../registry/cluster-keys.ts';
import { type EpochRecord, type NodeStateRecord, encodeRegistrationRecord } from './registration-records.ts';
import type { RegistrationEntry } from './registration-decision.ts';

/** Registration, state and epoch change together: no reader sees the node registered with its previous state. */
export function registerTransaction(
  entry: RegistrationEntry,
  identity: Identity,
  lease: LeaseId,
  wallMs: number,
): RegistryTransaction {
  const { id: node, ...address } = identity;
  const { epoch } = entry.epoch;
  const state: NodeStateRecord = {
    mode: entry.mode,
    reason: entry.reason,
    generation: identity.generation,
    epoch,
    lost: false,
    sinceWallMs: Math.max(0, Math.floor(wallMs)),
    note: entry.note,
  };
  const registration = encodeRegistrationRecord({ ...address, epoch });
  const then: RegistryOp[] = [
    { kind: 'put', key: clusterKey({ kind: 'registration', node }), value: registration, lease },
    putState(node, state),
  ];
  if (entry.beginsEpoch) then.push(putEpoch(entry.epoch));
  return { compare: entry.compare, then, otherwise: [] };
}

/** Makes the node active if its registration and its state are unchanged. */
export function becomeActiveTransaction(
  node: NodeId,
  from: { readonly record: NodeStateRecord; readonly modRevision: number },
  registrationRevision: number,
  wallMs: number,
): RegistryTransaction {
  const state = { ...from.record, mode: 'active', note: '', sinceWallMs: Math.max(0, Math.floor(wallMs)) } as const;
  return {
    compare: [
      { key: clusterKey({ kind: 'state', node }), target: 'modRevision', is: 'equal', than: from.modRevision },
      isRegisteredAs(node, registrationRevision),
    ],
    then: [putState(node, state)],
    otherwise: [],
  };
}

/** Makes the node active for an operator if it has stayed registered and its state is unchanged. */
export function activateTransaction(
  node: NodeId,
  record: NodeStateRecord,
  registration: RegistryEntry,
  previous: RegistryEntry,
): RegistryTransaction {
  return {
    compare: [hasExistedSince(registration), isUnchanged(previous)],
    then: [putState(node, record)],
    otherwise: [],
  };
}

/** A survivor of a leader change confirms that the epoch continues. */
export function continueEpochTransaction(previous: RegistryEntry, epoch: EpochRecord): RegistryTransaction {
  return { compare: [isUnchanged(previous)], then: [putEpoch(epoch)], otherwise: [] };
}

/** A node that stayed registered while others started a new epoch adopts that epoch. */
export function adoptEpochTransaction(
  node: NodeId,
  state: { readonly entry: RegistryEntry; readonly record: NodeStateRecord },
  epoch: { readonly entry: RegistryEntry; readonly record: EpochRecord },
): RegistryTransaction {
  return {
    compare: [isUnchanged(state.entry), isUnchanged(epoch.entry)],
    then: [putState(node, { ...state.record, epoch: epoch.record.epoch })],
    otherwise: [],
  };
}

/** Removes registration and state of a node that leaves; container records may still name it. */
export function deregisterTransaction(node: NodeId, modRevision: number): RegistryTransaction {
  return {
    compare: [isRegisteredAs(node, modRevision)],
    then: [
      { kind: 'delete', range: onlyKey(clusterKey({ kind: 'registration', node })) },
      { kind: 'delete', range: onlyKey(clusterKey({ kind: 'state', node })) },
    ],
    otherwise: [],
  };
}

/** Marks a missing node as lost while a witness has stayed registered: a return in this epoch is a late return. */
export function markLostTransaction(
  node: NodeId,
  state: { readonly entry: RegistryEntry; readonly record: NodeStateRecord },
  witness: RegistryEntry,
): RegistryTransaction {
  const registration = clusterKey({ kind: 'registration', node });
  return {
    compare: [
      { key: registration, target: 'version', is: 'equal', than: 0 },
      isUnchanged(state.entry),
      hasExistedSince(witness),
    ],
    then: [putState(node, state.record)],
    otherwise: [],
  };
}

function isUnchanged({ key, modRevision }: RegistryEntry): RegistryCompare {
  return { key, target: 'modRevision', is: 'equal', than: modRevision };
}

/** The key has existed without a gap since it was read, whatever was written to it. */
function hasExistedSince({ key, createRevision }: RegistryEntry): RegistryCompare {
  return { key, target: 'createRevision', is: 'equal', than: createRevision };
}

function isRegisteredAs(node: NodeId, modRevision: number): RegistryCompare {
  return { key: clusterKey({ kind: 'registration', node }), target: 'modRevision', is: 'equal', than: modRevision };
}

function putState(node: NodeId, state: NodeStateRecord): RegistryOp {
  return { kind: 'put', key: clusterKey({ kind: 'state', node }), value: encodeRegistrationRecord(state) };
}

function putEpoch(epoch: EpochRecord): RegistryOp {
  return { kind: 'put', key: clusterKey({ kind: 'epoch' }), value: encodeRegistrationRecord(epoch) };
}
