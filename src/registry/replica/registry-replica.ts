/**
 * Applies log commands to the key space, each numbered request once. Deterministic, without a clock. Tells observers
 * what changed; serves nothing itself.
 */
import { type Outcome, type RemusterError, isRemusterError, withStateChanged } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import type { LeaseId, RegistryTransaction } from '../../base/registry.ts';
import type { AppliedEntry, StateMachine, SnapshotRestore } from '../../consensus/state/state-machine.ts';
import { type RegistryCommand, registryCommandCodec } from '../../messages/registry-log.ts';
import { StagedBackup } from './registry-backup.ts';
import { RegistrySnapshotReader, registrySnapshotParts } from './registry-snapshot.ts';
import { Keyspace, type KeyspaceLimits } from '../keyspace/keyspace.ts';
import { type RequestDedupLimits, RequestDedup } from './request-dedup.ts';
import {
  type RegistryWriteResult,
  registryRefusalOf,
  resultToMessage,
  transactionFromWire,
} from '../registry-messages.ts';

export type RegistryObserver = {
  /** The revision is another one. */
  changed(): void;
  granted(lease: LeaseId, ttlMs: number): void;
  ended(lease: LeaseId): void;
  /** All of it is another: a snapshot was installed, or a backup restored. */
  replaced(): void;
};

type NumberedCommand = Exclude<RegistryCommand, { readonly kind: 'registryExpireLease' | 'registryRestorePart' }>;

/** With the transaction if that was checked here, and its bytes are nobody else's. */
type Expected = { readonly command: NumberedCommand; readonly transaction: RegistryTransaction | undefined };

type ReplicaLimits = { readonly keyspace?: Partial<KeyspaceLimits>; readonly memory?: Partial<RequestDedupLimits> };

const done: RegistryWriteResult = { kind: 'registryRevokeReply' };

export class RegistryReplica implements StateMachine<RegistryWriteResult> {
  readonly keyspace: Keyspace;
  readonly #limits: ReplicaLimits;
  #memory: RequestDedup;
  #staged: StagedBackup;
  readonly #observers = new Set<RegistryObserver>();
  /** Commands on their way through the log that were read here already, by their bytes. */
  readonly #expected = new Map<Uint8Array, Expected>();

  constructor(limits: ReplicaLimits = {}) {
    this.#limits = limits;
    this.keyspace = new Keyspace(limits.keyspace);
    this.#memory = new RequestDedup(limits.memory);
    this.#staged = new StagedBackup();
  }

  observe(observer: RegistryObserver): Cancel {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  /** These very bytes come back as an entry: they need not be read again. Bounded by who proposes them. */
  expectCommand(bytes: Uint8Array, command: NumberedCommand, transaction?: RegistryTransaction): void {
    this.#expected.set(bytes, { command, transaction });
  }

  forgetExpected(bytes: Uint8Array): void {
    this.#expected.delete(bytes);
  }

  apply({ index, command: bytes }: AppliedEntry): RegistryWriteResult {
    const before = this.keyspace.revision;
    const answer = this.#answer(bytes, index);
    if (this.keyspace.revision !== before) for (const observer of this.#observers) observer.changed();
    return answer;
  }

  snapshot(): Iterable<Uint8Array> {
    return registrySnapshotParts({
      keyspace: this.keyspace.snapshot(),
      ...this.#memory.image(),
      staged: this.#staged.image(),
    });
  }

  /** Throws STORE_CORRUPT when the bytes are no snapshot. */
  beginRestore(): SnapshotRestore {
    const keyspace = new Keyspace(this.#limits.keyspace);
    const memory = new RequestDedup(this.#limits.memory);
    const staged = new StagedBackup();
    const reader = new RegistrySnapshotReader((items) => {
      const { revision, lastLease } = items;
      if (revision !== undefined && lastLease !== undefined) keyspace.begin(revision, lastLease);
      keyspace.fill(items);
      memory.fill(items.clients, items.answers);
      staged.fill(items.stagedId, items.staged);
    });
    const finish = (): void => {
      reader.finish();
      this.keyspace.startAtRevision(keyspace);
      this.#memory = memory;
      this.#staged = staged;
      for (const observer of this.#observers) observer.replaced();
    };
    return { add: (part) => reader.add(part), finish };
  }

  #answer(bytes: Uint8Array, index: number): RegistryWriteResult {
    try {
      const expected = this.#expected.get(bytes);
      return this.#execute(expected?.command ?? registryCommandCodec.decode(bytes), index, expected?.transaction);
    } catch (error) {
      // Only what reading a command throws: from there on nothing may.
      if (isRemusterError(error)) return refusalOf(withStateChanged(error, 'no'));
      throw error;
    }
  }

  #execute(command: RegistryCommand, index: number, transaction: RegistryTransaction | undefined): RegistryWriteResult {
    if (command.kind === 'registryExpireLease') return this.#end(command.lease);
    if (command.kind === 'registryRestorePart') return this.#restorePart(command);
    const known = this.#memory.resultOf(command);
    if (known !== undefined) return known;
    const answer = this.#write(command, transaction);
    this.#memory.record(command, index, answer);
    return answer;
  }

  #write(command: NumberedCommand, checked: RegistryTransaction | undefined): RegistryWriteResult {
    if (command.kind === 'registryRevoke') return this.#end(command.lease);
    if (command.kind === 'registryTransact') {
      const outcome =
        checked === undefined
          ? this.keyspace.transact(transactionFromWire(command))
          : this.keyspace.transactChecked(checked);
      return answerOf(outcome, resultToMessage);
    }
    const outcome = this.keyspace.grant(command.ttlMs);
    if (outcome.ok) for (const observer of this.#observers) observer.granted(outcome.value.lease, outcome.value.ttlMs);
    return answerOf(outcome, ({ lease, ttlMs }) => ({ kind: 'registryLeaseReply', lease, ttlMs }));
  }

  #end(lease: LeaseId): RegistryWriteResult {
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

function answerOf<T>(outcome: Outcome<T>, message: (value: T) => RegistryWriteResult): RegistryWriteResult {
  // The key space takes all of a write or nothing.
  return outcome.ok ? message(outcome.value) : refusalOf(withStateChanged(outcome.error, 'no'));
}
