/**
 * Guarded transactions by which a node changes its own records. Each compares what it rests on; sending one twice does
 * no harm.
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

/** Registration, state and epoch appear together: nobody ever sees the node registered in its former state. */
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

/** The node becomes active, if it is still registered as it was and nobody else has changed its state meanwhile. */
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

/** By an operator: the node is still registered, and nobody has changed its state meanwhile. */
export function activateTransaction(
  node: NodeId,
  record: NodeStateRecord,
  registration: RegistryEntry,
  former: RegistryEntry,
): RegistryTransaction {
  return {
    compare: [isStillThere(registration), isUnchanged(former)],
    then: [putState(node, record)],
    otherwise: [],
  };
}

/** What a node says who lived through a change of the leader: the epoch goes on. */
export function continueEpochTransaction(former: RegistryEntry, epoch: EpochRecord): RegistryTransaction {
  return { compare: [isUnchanged(former)], then: [putEpoch(epoch)], otherwise: [] };
}

/** The epoch is another than the one in the node's own records, although the node was here all the time. */
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

/** The node was here, is gone, and leaves nothing behind but what the records of containers say of it. */
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

/** The leader found the node missing while a witness was there: whoever returns in this epoch returns too late. */
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
      isStillThere(witness),
    ],
    then: [putState(node, state.record)],
    otherwise: [],
  };
}

function isUnchanged({ key, modRevision }: RegistryEntry): RegistryCompare {
  return { key, target: 'modRevision', is: 'equal', than: modRevision };
}

/** It has been there without a gap since it was read, whatever was written to it. */
function isStillThere({ key, createRevision }: RegistryEntry): RegistryCompare {
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
