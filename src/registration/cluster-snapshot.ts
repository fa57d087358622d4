/**
 * What a node reads at one revision before it decides about itself. Read from the leader, never from a local copy,
 * which could lag behind its own removal.
 */
import { type Done, success } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import {
  type KeyRange,
  type Registry,
  type RegistryEntry,
  type RegistryOp,
  type TransactionResult,
  onlyKey,
  registryLimits,
} from '../base/registry.ts';
import { type ContainerName, clusterKey, keyRanges, parseClusterKey } from '../registry/cluster-keys.ts';
import {
  type EpochRecord,
  type RegistrationRecord,
  type NodeStateRecord,
  readEpoch,
  readRegistration,
  readNodeState,
} from './registration-records.ts';

/** A key that exists. Its record is undefined when it cannot be read. */
export type StoredRecord<Record> = { readonly entry: RegistryEntry; readonly record: Record | undefined };

export type Assignment = ContainerName & { readonly entry: RegistryEntry };

export type ClusterSnapshot = {
  /** A watch from the next revision misses nothing. */
  readonly revision: number;
  readonly registration: StoredRecord<RegistrationRecord> | undefined;
  readonly state: StoredRecord<NodeStateRecord> | undefined;
  readonly epoch: StoredRecord<EpochRecord> | undefined;
  readonly assignments: readonly Assignment[];
  /** Of all other registrations the one that has been there for longest. */
  readonly oldestPeer: RegistryEntry | undefined;
  /** Of the present leader, as far as this node knows; 0 when it knows nothing. */
  readonly term: number;
  readonly wallMs: number;
};

type Outside = Pick<ClusterSnapshot, 'term' | 'wallMs'>;
type Found = {
  readonly revision: number;
  readonly registrations: readonly RegistryEntry[];
  readonly own: readonly RegistryEntry[];
  readonly epoch: RegistryEntry | undefined;
};

const limit = registryLimits.rangeLimitMax;

export function readClusterSnapshot(
  registry: Pick<Registry, 'range' | 'transact'>,
  self: NodeId,
  timeoutMs: number,
  outside: () => Outside,
  done: Done<ClusterSnapshot>,
): void {
  const ownRegistration = onlyKey(clusterKey({ kind: 'registration', node: self }));
  const reads = [
    keyRanges.registrations,
    keyRanges.ofNode(self),
    onlyKey(clusterKey({ kind: 'epoch' })),
    ownRegistration,
  ];
  const then = reads.map((range): RegistryOp => ({ kind: 'read', range, limit }));
  registry.transact({ compare: [], then, otherwise: [] }, { timeoutMs }, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const [registrations, own, epoch, registration] = outcome.value.results.map(entriesOf);
    const found = {
      revision: outcome.value.revision,
      registrations: [...(registrations ?? []), ...(registration ?? [])],
    };
    const finish = (all: readonly RegistryEntry[]): void =>
      done(success(pictureOf(self, { ...found, own: all, epoch: epoch?.[0] }, outside())));
    if (!isCut(outcome.value, 1)) return finish(own ?? []);
    readOn(registry, keyRanges.ofNode(self), own ?? [], timeoutMs, (all) => (all.ok ? finish(all.value) : done(all)));
  });
}

function pictureOf(self: NodeId, found: Found, outside: Outside): ClusterSnapshot {
  const registration = found.registrations.find(
    (entry) => entry.key === clusterKey({ kind: 'registration', node: self }),
  );
  const state = found.own.find((entry) => entry.key === clusterKey({ kind: 'state', node: self }));
  const others = found.registrations.filter((entry) => entry.key !== registration?.key);
  return {
    ...outside,
    revision: found.revision,
    registration: registration && { entry: registration, record: readRegistration(registration.value) },
    state: state && { entry: state, record: readNodeState(state.value) },
    epoch: found.epoch && { entry: found.epoch, record: readEpoch(found.epoch.value) },
    assignments: found.own.flatMap(assignmentOf),
    oldestPeer: others.toSorted((a, b) => a.createRevision - b.createRevision)[0],
  };
}

export function assignmentOf(entry: RegistryEntry): readonly Assignment[] {
  const key = parseClusterKey(entry.key);
  return key?.kind === 'assignment' ? [{ pool: key.pool, container: key.container, entry }] : [];
}

/** The rest of a range that was cut at the limit. Later pages may be newer: whoever watches from the first hears it again. */
function readOn(
  registry: Pick<Registry, 'range'>,
  range: KeyRange,
  sofar: readonly RegistryEntry[],
  timeoutMs: number,
  done: Done<readonly RegistryEntry[]>,
): void {
  const last = sofar.at(-1);
  const rest = last === undefined ? range : { from: `${last.key}\0`, to: range.to };
  registry.range(rest, { limit, timeoutMs }, (outcome) => {
    if (!outcome.ok) return done(outcome);
    const all = [...sofar, ...outcome.value.entries];
    if (outcome.value.more) readOn(registry, range, all, timeoutMs, done);
    else done(success(all));
  });
}

function entriesOf(result: TransactionResult['results'][number]): readonly RegistryEntry[] {
  return result.kind === 'read' ? result.entries : [];
}

function isCut({ results }: TransactionResult, index: number): boolean {
  const result = results[index];
  return result?.kind === 'read' && result.more;
}
