/**
 * What a node reads at one revision before it decides about its registration, and what watched changes of its own keys
 * mean. Read through the leader, never from a local copy, which could lag behind the removal of the node.
 */
import { type Done, success } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import {
  type Registry,
  type RegistryChange,
  type RegistryEntry,
  type RegistryOp,
  type TransactionResult,
  onlyKey,
  registryLimits,
  type RegistryEpoch,
} from '../base/registry.ts';
import { clusterKey, keyRanges, parseClusterKey } from '../registry/cluster-keys.ts';
import {
  type EpochRecord,
  type RegistrationRecord,
  type NodeStateRecord,
  readEpoch,
  readRegistration,
  readNodeState,
} from './registration-records.ts';

/** An existing key. Its record is undefined if it is malformed. */
export type StoredRecord<Record> = { readonly entry: RegistryEntry; readonly record: Record | undefined };

export type ClusterSnapshot = {
  /** A watch from the next revision misses nothing. */
  readonly revision: number;
  readonly registryEpoch: RegistryEpoch;
  readonly registration: StoredRecord<RegistrationRecord> | undefined;
  readonly state: StoredRecord<NodeStateRecord> | undefined;
  readonly epoch: StoredRecord<EpochRecord> | undefined;
  /** The oldest registration of another node. */
  readonly oldestPeer: RegistryEntry | undefined;
  /** Term of the leader, as far as this node knows; 0 if it knows of none. */
  readonly term: number;
  readonly wallMs: number;
};

type Environment = Pick<ClusterSnapshot, 'term' | 'wallMs'>;
type RawSnapshot = {
  readonly revision: number;
  readonly registryEpoch: RegistryEpoch;
  readonly registrations: readonly RegistryEntry[];
  readonly state: RegistryEntry | undefined;
  readonly epoch: RegistryEntry | undefined;
};

const limit = registryLimits.rangeLimitMax;

export function readClusterSnapshot(
  registry: Pick<Registry, 'range' | 'transact'>,
  self: NodeId,
  timeoutMs: number,
  environment: () => Environment,
  done: Done<ClusterSnapshot>,
): void {
  const reads = [
    keyRanges.registrations,
    onlyKey(clusterKey({ kind: 'state', node: self })),
    onlyKey(clusterKey({ kind: 'epoch' })),
    onlyKey(clusterKey({ kind: 'registration', node: self })),
  ];
  const then = reads.map((range): RegistryOp => ({ kind: 'read', range, limit }));
  registry.transact({ compare: [], then, otherwise: [] }, { timeoutMs }, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const [registrations, state, epoch, registration] = outcome.value.results.map(entriesOf);
    const found = {
      revision: outcome.value.revision,
      registryEpoch: outcome.value.epoch,
      registrations: [...(registrations ?? []), ...(registration ?? [])],
      state: state?.[0],
      epoch: epoch?.[0],
    };
    done(success(snapshotOf(self, found, environment())));
  });
}

function snapshotOf(self: NodeId, found: RawSnapshot, environment: Environment): ClusterSnapshot {
  const registration = found.registrations.find(
    (entry) => entry.key === clusterKey({ kind: 'registration', node: self }),
  );
  const { state } = found;
  const others = found.registrations.filter((entry) => entry.key !== registration?.key);
  return {
    ...environment,
    revision: found.revision,
    registryEpoch: found.registryEpoch,
    registration: registration && { entry: registration, record: readRegistration(registration.value) },
    state: state && { entry: state, record: readNodeState(state.value) },
    epoch: found.epoch && { entry: found.epoch, record: readEpoch(found.epoch.value) },
    oldestPeer: others.toSorted((a, b) => a.createRevision - b.createRevision)[0],
  };
}

function entriesOf(result: TransactionResult['results'][number]): readonly RegistryEntry[] {
  return result.kind === 'read' ? result.entries : [];
}

export type OwnKeyChanges = {
  /**
   * Another process has changed the registration, or the state is malformed or lost: the snapshot must be read again.
   */
  readonly needsReread: boolean;
  readonly state: { readonly record: NodeStateRecord; readonly modRevision: number } | undefined;
};

/** Interprets changes of the node's own keys. Skips revisions that the node has written or seen. */
export function ownKeyChanges(
  changes: readonly RegistryChange[],
  known: { readonly registration: number; readonly state: number },
): OwnKeyChanges {
  let needsReread = false;
  let state: OwnKeyChanges['state'];
  for (const change of changes) {
    const key = parseClusterKey(change.kind === 'put' ? change.entry.key : change.key);
    if (key?.kind === 'registration') needsReread ||= revisionOf(change) > known.registration;
    if (key?.kind !== 'state' || revisionOf(change) <= known.state) continue;
    const record = change.kind === 'put' ? readNodeState(change.entry.value) : undefined;
    if (record === undefined || record.lost) needsReread = true;
    else state = { record, modRevision: revisionOf(change) };
  }
  return { needsReread, state };
}

function revisionOf(change: RegistryChange): number {
  return change.kind === 'put' ? change.entry.modRevision : change.modRevision;
}
