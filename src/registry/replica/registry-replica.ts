/**
 * Applies log commands to the key space, each numbered request once. Deterministic, without a clock. Notifies observers
 * of changes; serves no request itself.
 */
import { type Outcome, type RemusterError, isRemusterError, withStateChanged } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import type { LeaseId, RegistryTransaction } from '../../base/registry.ts';
import type { AppliedEntry, StateMachine, SnapshotRestore } from '../../consensus/state/state-machine.ts';
import { type RegistryCommand, registryCommandCodec } from '../../messages/registry-log.ts';
import { StagedBackup } from './registry-backup.ts';
import { RegistrySnapshotReader, registrySnapshotParts } from './registry-snapshot.ts';
import { Keyspace } from '../keyspace/keyspace.ts';
import { type KeyspaceLimits } from '../keyspace/keyspace-types.ts';
import { type RequestDedupLimits, RequestDedup } from './request-dedup.ts';
import {
  type RegistryWriteResult,
  registryRefusalOf,
  resultToMessage,
  transactionFromWire,
} from '../registry-messages.ts';

export type RegistryObserver = {
  /** The revision has changed. */
  changed(): void;
  granted(lease: LeaseId, ttlMs: number): void;
  ended(lease: LeaseId): void;
  /** A snapshot was installed or a backup restored: the whole state has changed. */
  replaced(): void;
};

type NumberedCommand = Exclude<
  RegistryCommand,
  { readonly kind: 'registryExpireLease' | 'registryRestorePart' | 'registrySetGroupId' }
>;

/** With the transaction if it was validated here and its bytes are not reused. */
type Expected = { readonly command: NumberedCommand; readonly transaction: RegistryTransaction | undefined };

type ReplicaLimits = { readonly keyspace?: Partial<KeyspaceLimits>; readonly dedup?: Partial<RequestDedupLimits> };

const done: RegistryWriteResult = { kind: 'registryRevokeReply' };

export class RegistryReplica implements StateMachine<RegistryWriteResult> {
  readonly keyspace: Keyspace;
  readonly #limits: ReplicaLimits;
  #dedup: RequestDedup;
  #staged: StagedBackup;
  readonly #observers = new Set<RegistryObserver>();
  /** Proposed commands of this node that are decoded already, by their bytes. */
  readonly #expected = new Map<Uint8Array, Expected>();

  constructor(limits: ReplicaLimits = {}) {
    this.#limits = limits;
    this.keyspace = new Keyspace(limits.keyspace);
    this.#dedup = new RequestDedup(limits.dedup);
    this.#staged = new StagedBackup();
  }

  observe(observer: RegistryObserver): Cancel {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  /** The log will apply this same array: it need not be decoded again. The proposer bounds the number of them. */
  expectCommand(bytes: Uint8Array, command: NumberedCommand, transaction?: RegistryTransaction): void {
    this.#expected.set(bytes, { command, transaction });
  }

  forgetExpected(bytes: Uint8Array): void {
    this.#expected.delete(bytes);
  }

  apply({ index, command: bytes }: AppliedEntry): RegistryWriteResult {
    const before = this.keyspace.revision;
    const result = this.#applyCommand(bytes, index);
    if (this.keyspace.revision !== before) for (const observer of this.#observers) observer.changed();
    return result;
  }

  snapshot(): Iterable<Uint8Array> {
    return registrySnapshotParts({
      keyspace: this.keyspace.snapshot(),
      ...this.#dedup.snapshot(),
      staged: this.#staged.snapshot(),
    });
  }

  /** Throws STORE_CORRUPT if the bytes are not a snapshot. */
  beginRestore(): SnapshotRestore {
    const keyspace = new Keyspace(this.#limits.keyspace);
    const dedup = new RequestDedup(this.#limits.dedup);
    const staged = new StagedBackup();
    const reader = new RegistrySnapshotReader((items) => {
      if (items.numbers !== undefined) keyspace.startAt(items.numbers);
      keyspace.fill(items);
      dedup.fill(items.clients, items.answers);
      staged.fill(items.stagedId, items.staged);
    });
    const finish = (): void => {
      reader.finish();
      this.keyspace.adopt(keyspace);
      this.#dedup = dedup;
      this.#staged = staged;
      for (const observer of this.#observers) observer.replaced();
    };
    return { add: (part) => reader.add(part), finish };
  }

  #applyCommand(bytes: Uint8Array, index: number): RegistryWriteResult {
    try {
      const expected = this.#expected.get(bytes);
      return this.#execute(expected?.command ?? registryCommandCodec.decode(bytes), index, expected?.transaction);
    } catch (error) {
      // Only decoding a command throws; nothing after it may.
      if (isRemusterError(error)) return refusalOf(withStateChanged(error, 'no'));
      throw error;
    }
  }

  #execute(command: RegistryCommand, index: number, transaction: RegistryTransaction | undefined): RegistryWriteResult {
    if (command.kind === 'registryExpireLease') return this.#endLease(command.lease);
    if (command.kind === 'registryRestorePart') return this.#restorePart(command);
    if (command.kind === 'registrySetGroupId') {
      this.keyspace.setGroupId(command.groupId);
      return done;
    }
    const known = this.#dedup.resultOf(command);
    if (known !== undefined) return known;
    const result = this.#write(command, transaction);
    this.#dedup.record(command, index, result);
    return result;
  }

  #write(command: NumberedCommand, checked: RegistryTransaction | undefined): RegistryWriteResult {
    if (command.kind === 'registryRevoke') return this.#endLease(command.lease);
    if (command.kind === 'registryTransact') {
      const outcome =
        checked === undefined
          ? this.keyspace.transact(transactionFromWire(command))
          : this.keyspace.transactChecked(checked);
      return resultOfOutcome(outcome, resultToMessage);
    }
    const outcome = this.keyspace.grant(command.ttlMs);
    if (outcome.ok) for (const observer of this.#observers) observer.granted(outcome.value.lease, outcome.value.ttlMs);
    return resultOfOutcome(outcome, ({ lease, ttlMs }) => ({ kind: 'registryLeaseReply', lease, ttlMs }));
  }

  #endLease(lease: LeaseId): RegistryWriteResult {
    if (this.keyspace.revoke(lease)) for (const observer of this.#observers) observer.ended(lease);
    return done;
  }

  #restorePart(part: Extract<RegistryCommand, { readonly kind: 'registryRestorePart' }>): RegistryWriteResult {
    const outcome = this.#staged.add(part);
    if (!outcome.ok) return refusalOf(outcome.error);
    if (outcome.value === undefined) return done;
    const replaced = this.keyspace.replaceWith(outcome.value);
    if (!replaced.ok) return refusalOf(replaced.error);
    for (const observer of this.#observers) observer.replaced();
    return done;
  }
}

function refusalOf({ code, message, stateChanged }: RemusterError): RegistryWriteResult {
  return registryRefusalOf(code, message, stateChanged);
}

function resultOfOutcome<T>(outcome: Outcome<T>, message: (value: T) => RegistryWriteResult): RegistryWriteResult {
  // The key space applies a whole write or nothing.
  return outcome.ok ? message(outcome.value) : refusalOf(withStateChanged(outcome.error, 'no'));
}
