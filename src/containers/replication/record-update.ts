/**
 * Compare-and-swap of a container record by its owner, retried from what the registry returns. Ends FENCED when the
 * record is under another fence.
 */
import { type Done, type Outcome, type RemusterError, failure, success } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { Clock } from '../../base/ports.ts';
import { type Registry, type RegistryEntry, type TransactionResult, onlyKey } from '../../base/registry.ts';
import { clusterKey } from '../../registry/cluster-keys.ts';
import {
  type ContainerRecord,
  type NodeInstance,
  encodeContainer,
  readContainer,
} from '../../placement/state/container-records.ts';
import type { ContainerChange } from '../contract.ts';

export type VersionedRecord = { readonly record: ContainerRecord; readonly revision: number };

export type RecordUpdatePorts = {
  readonly self: NodeInstance;
  readonly registry: Pick<Registry, 'range' | 'transact'>;
  readonly clock: Clock;
  readonly known: (container: ContainerTarget) => VersionedRecord | undefined;
  /** What the registry has answered: newer than what we knew. */
  readonly learned: (container: ContainerTarget, known: VersionedRecord) => void;
};

export type ContainerTarget = Pick<ContainerChange, 'pool' | 'container'>;

export type RecordUpdate = {
  readonly target: ContainerTarget;
  readonly fence: Fence;
  readonly change: (record: ContainerRecord, revision: number) => ContainerRecord | undefined;
  readonly timeoutMs: number;
};

const pauseMs = 50;
const callMsMax = 5_000;

export function updateContainerRecord(
  ports: RecordUpdatePorts,
  amendment: RecordUpdate,
  done: Done<ContainerRecord>,
): void {
  const { clock } = ports;
  const amend = new RecordUpdateLoop(ports, amendment, done);
  clock.schedule(0, () => amend.begin());
}

class RecordUpdateLoop {
  readonly #ports: RecordUpdatePorts;
  readonly #amendment: RecordUpdate;
  readonly #done: Done<ContainerRecord>;
  readonly #key: string;
  readonly #endMs: number;
  /** What we have tried to write over which revision. */
  #tried: { readonly value: Uint8Array; readonly over: number } | undefined;

  /** A try has ended without an answer: if it is found in a later revision, it was us. */
  #isUncertain = false;

  constructor(ports: RecordUpdatePorts, amendment: RecordUpdate, done: Done<ContainerRecord>) {
    this.#ports = ports;
    this.#amendment = amendment;
    this.#done = done;
    const { pool, container } = amendment.target;
    this.#key = clusterKey({ kind: 'container', pool: pool.name, container: String(container) });
    this.#endMs = ports.clock.nowMs() + amendment.timeoutMs;
  }

  begin(): void {
    const known = this.#ports.known(this.#amendment.target);
    // What we know may be older than our ownership, but never newer.
    if (known === undefined || known.record.fence < this.#amendment.fence) this.#read();
    else this.#write(known);
  }

  #read(): void {
    this.#ports.registry.range(onlyKey(this.#key), { limit: 1, timeoutMs: this.#callMs }, (outcome) => {
      if (outcome.ok) this.#found(outcome.value.entries[0]);
      else this.#again(outcome.error);
    });
  }

  #write({ record, revision }: VersionedRecord): void {
    const { self } = this.#ports;
    const { fence, change, target } = this.#amendment;
    const { owner } = record;
    if (record.fence !== fence || owner?.node !== self.node || owner.generation !== self.generation) {
      return this.#done(failure('FENCED', `${target.pool.name}/${target.container} has another owner`));
    }
    const next = change(record, revision);
    if (next === undefined) return this.#done(success(record));
    const value = encodeContainer(next);
    // As everybody else reads it: not all that may stand in a record is written.
    const written = readContainer(value) ?? next;
    this.#tried = { value, over: revision };
    const transaction = {
      compare: [{ key: this.#key, target: 'modRevision', is: 'equal', than: revision }],
      then: [{ kind: 'put', key: this.#key, value }],
      otherwise: [{ kind: 'read', range: onlyKey(this.#key), limit: 1 }],
    } as const;
    this.#ports.registry.transact(transaction, { timeoutMs: this.#callMs }, (outcome) =>
      this.#written(written, outcome),
    );
  }

  #written(next: ContainerRecord, outcome: Outcome<TransactionResult>): void {
    if (!outcome.ok) {
      this.#isUncertain = true;
      return this.#again(outcome.error);
    }
    const { succeeded, revision, results } = outcome.value;
    if (succeeded) return this.#succeeded({ record: next, revision });
    const [result] = results;
    this.#found(result?.kind === 'read' ? result.entries[0] : undefined);
  }

  #found(entry: RegistryEntry | undefined): void {
    const record = entry === undefined ? undefined : readContainer(entry.value);
    if (entry === undefined || record === undefined) {
      return this.#done(failure('FENCED', 'the container is gone'));
    }
    const known = { record, revision: entry.modRevision };
    const tried = this.#isUncertain ? this.#tried : undefined;
    if (tried !== undefined && entry.modRevision > tried.over && isEqual(tried.value, entry.value)) {
      return this.#succeeded(known);
    }
    this.#ports.learned(this.#amendment.target, known);
    if (this.#ports.clock.nowMs() < this.#endMs) this.#write(known);
    else this.#done(failure('DEADLINE', 'the record of the container changes all the time'));
  }

  #succeeded(known: VersionedRecord): void {
    this.#ports.learned(this.#amendment.target, known);
    this.#done(success(known.record));
  }

  #again(error: RemusterError): void {
    const { clock } = this.#ports;
    if (clock.nowMs() + pauseMs >= this.#endMs) return this.#done({ ok: false, error });
    clock.schedule(pauseMs, () => (this.#tried === undefined ? this.begin() : this.#read()));
  }

  get #callMs(): number {
    return Math.max(1, Math.min(callMsMax, this.#endMs - this.#ports.clock.nowMs()));
  }
}

function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}
