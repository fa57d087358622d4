/**
 * Compare-and-swap of a container record by its owner, retried with the record that the registry returns. Ends with
 * FENCED when the record has another owner or fence. Below: the updates of the in-sync replica set (ISR).
 */
import { type Done, type Outcome, type RemusterError, failure, success } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Clock } from '../../base/ports.ts';
import { type Registry, type RegistryEntry, type TransactionResult, onlyKey } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import {
  type ContainerRecord,
  type NodeInstance,
  encodeContainer,
  readContainer,
} from '../../placement/state/container-records.ts';
import type { ContainerChange, OwnedContainerChange } from '../contract.ts';
import type { ReplicationCounters, ReplicationEvent } from './replication-types.ts';

export type VersionedRecord = { readonly record: ContainerRecord; readonly revision: number };

export type RecordUpdatePorts = {
  readonly self: NodeInstance;
  readonly registry: Pick<Registry, 'range' | 'transact'>;
  readonly clock: Clock;
  readonly known: (container: RecordUpdateTarget) => VersionedRecord | undefined;
  /** Called with each record that the registry returns. */
  readonly learned: (container: RecordUpdateTarget, known: VersionedRecord) => void;
};

export type RecordUpdateTarget = Pick<ContainerChange, 'pool' | 'container'>;

export type RecordUpdate = {
  readonly target: RecordUpdateTarget;
  readonly fence: Fence;
  readonly change: (record: ContainerRecord, revision: number) => ContainerRecord | undefined;
  readonly timeoutMs: number;
};

const retryDelayMs = 50;
const callTimeoutMaxMs = 5_000;

export function updateContainerRecord(
  ports: RecordUpdatePorts,
  update: RecordUpdate,
  done: Done<ContainerRecord>,
): void {
  const { clock } = ports;
  const loop = new RecordUpdateLoop(ports, update, done);
  clock.schedule(0, () => loop.start());
}

class RecordUpdateLoop {
  readonly #ports: RecordUpdatePorts;
  readonly #update: RecordUpdate;
  readonly #done: Done<ContainerRecord>;
  readonly #key: string;
  readonly #endMs: number;
  /** The value of the last transaction, and the revision that it compared with. */
  #lastWrite: { readonly value: Uint8Array; readonly overRevision: number } | undefined;

  /** A transaction ended without a reply: a later revision with its value proves that it succeeded. */
  #isLastWriteUnknown = false;

  constructor(ports: RecordUpdatePorts, update: RecordUpdate, done: Done<ContainerRecord>) {
    this.#ports = ports;
    this.#update = update;
    this.#done = done;
    const { pool, container } = update.target;
    this.#key = clusterKey({ kind: 'container', pool: pool.name, container: String(container) });
    this.#endMs = ports.clock.nowMs() + update.timeoutMs;
  }

  start(): void {
    const known = this.#ports.known(this.#update.target);
    // The known record may be older than this ownership, but not newer.
    if (known === undefined || known.record.fence < this.#update.fence) this.#read();
    else this.#write(known);
  }

  #read(): void {
    this.#ports.registry.range(onlyKey(this.#key), { limit: 1, timeoutMs: this.#callTimeoutMs }, (outcome) => {
      if (outcome.ok) this.#onRead(outcome.value.entries[0]);
      else this.#retryLater(outcome.error);
    });
  }

  #write({ record, revision }: VersionedRecord): void {
    const { self } = this.#ports;
    const { fence, change, target } = this.#update;
    const { owner } = record;
    if (record.fence !== fence || owner?.node !== self.node || owner.generation !== self.generation) {
      return this.#done(failure('FENCED', `container ${target.pool.name}/${target.container} has another owner`));
    }
    const next = change(record, revision);
    if (next === undefined) return this.#done(success(record));
    const value = encodeContainer(next);
    // As all nodes read it: not every field of a record is stored.
    const written = readContainer(value) ?? next;
    this.#lastWrite = { value, overRevision: revision };
    const transaction = {
      compare: [{ key: this.#key, target: 'modRevision', is: 'equal', than: revision }],
      then: [{ kind: 'put', key: this.#key, value }],
      otherwise: [{ kind: 'read', range: onlyKey(this.#key), limit: 1 }],
    } as const;
    this.#ports.registry.transact(transaction, { timeoutMs: this.#callTimeoutMs }, (outcome) =>
      this.#onTransacted(written, outcome),
    );
  }

  #onTransacted(next: ContainerRecord, outcome: Outcome<TransactionResult>): void {
    if (!outcome.ok) {
      this.#isLastWriteUnknown = true;
      return this.#retryLater(outcome.error);
    }
    const { succeeded, revision, results } = outcome.value;
    if (succeeded) return this.#succeeded({ record: next, revision });
    const [result] = results;
    this.#onRead(result?.kind === 'read' ? result.entries[0] : undefined);
  }

  #onRead(entry: RegistryEntry | undefined): void {
    const record = entry === undefined ? undefined : readContainer(entry.value);
    if (entry === undefined || record === undefined) {
      return this.#done(failure('FENCED', 'the container is deleted'));
    }
    const known = { record, revision: entry.modRevision };
    const lastWrite = this.#isLastWriteUnknown ? this.#lastWrite : undefined;
    if (
      lastWrite !== undefined &&
      entry.modRevision > lastWrite.overRevision &&
      isEqual(lastWrite.value, entry.value)
    ) {
      return this.#succeeded(known);
    }
    this.#ports.learned(this.#update.target, known);
    if (this.#ports.clock.nowMs() < this.#endMs) this.#write(known);
    else {
      const timeoutMs = Math.round(this.#update.timeoutMs);
      this.#done(failure('DEADLINE', `the record changed during each attempt for ${timeoutMs} ms`));
    }
  }

  #succeeded(known: VersionedRecord): void {
    this.#ports.learned(this.#update.target, known);
    this.#done(success(known.record));
  }

  #retryLater(error: RemusterError): void {
    const { clock } = this.#ports;
    if (clock.nowMs() + retryDelayMs >= this.#endMs) return this.#done({ ok: false, error });
    clock.schedule(retryDelayMs, () => (this.#lastWrite === undefined ? this.start() : this.#read()));
  }

  get #callTimeoutMs(): number {
    return Math.max(1, Math.min(callTimeoutMaxMs, this.#endMs - this.#ports.clock.nowMs()));
  }
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

export type IsrUpdatePorts = {
  readonly self: NodeInstance;
  readonly updateRecord: (
    target: RecordUpdateTarget,
    fence: ContainerRecord['fence'],
    change: RecordUpdate['change'],
    done: Done<ContainerRecord>,
  ) => void;
  readonly counters: ReplicationCounters;
  readonly emit: (event: ReplicationEvent) => void;
};

/** The ISR that the record should have, decided with the record of that revision. */
type WantedIsr = { readonly inSync: readonly NodeInstance[]; readonly revision: number };

/** Writes the ISR into the record. Ends as `updateContainerRecord` does. */
export function updateIsr(
  ports: IsrUpdatePorts,
  change: OwnedContainerChange,
  wanted: WantedIsr,
  done: Done<ContainerRecord>,
): void {
  let before: readonly NodeInstance[] = [];
  const next = (record: ContainerRecord, revision: number): ContainerRecord => {
    before = record.inSync;
    const allowed = (replica: NodeInstance): readonly NodeInstance[] => {
      if (replica.node === ports.self.node) return [replica];
      // The leader has removed the replica meanwhile.
      if (!record.copies.includes(replica.node)) return [];
      // The leader may have removed it and assigned it again: then it has to report its position again before it joins.
      return revision === wanted.revision ? [replica] : before.filter(({ node }) => node === replica.node);
    };
    return { ...record, inSync: wanted.inSync.flatMap(allowed) };
  };
  ports.updateRecord(change, change.record.fence, next, (outcome) => {
    if (outcome.ok) reportIsrChange(ports, change, before, outcome.value.inSync);
    done(outcome);
  });
}

function reportIsrChange(
  { self, counters, emit }: IsrUpdatePorts,
  { pool, container }: OwnedContainerChange,
  before: readonly NodeInstance[],
  after: readonly NodeInstance[],
): void {
  const others = (replicas: readonly NodeInstance[]): NodeId[] =>
    replicas.map(({ node }) => node).filter((node) => node !== self.node);
  const [was, nodes] = [others(before), others(after)];
  const left = was.filter((node) => !nodes.includes(node));
  const joined = nodes.filter((node) => !was.includes(node));
  counters.left += left.length;
  counters.joined += joined.length;
  if (left.length + joined.length > 0) emit({ kind: 'inSync', pool: pool.name, container, nodes, left });
}

/** Removes this node from the ISR if other replicas remain. Ends with true when the record is written. */
export function leaveIsr(ports: IsrUpdatePorts, change: OwnedContainerChange, done: (hasLeft: boolean) => void): void {
  const isOther = ({ node }: NodeInstance): boolean => node !== ports.self.node;
  if (!change.record.inSync.some(isOther)) return done(false);
  const without = (now: ContainerRecord): ContainerRecord | undefined =>
    now.inSync.some(isOther) ? { ...now, inSync: now.inSync.filter(isOther) } : undefined;
  ports.updateRecord(change, change.record.fence, without, (outcome) => {
    done(outcome.ok && outcome.value.inSync.every(isOther));
  });
}
