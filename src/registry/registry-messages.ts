/**
 * Converts between registry types and wire messages, and checks that each kind has its fields. Never validates a
 * transaction.
 */
import { errorTable } from '../base/error-table.ts';
import { type ErrorCode, RemusterError, type StateChanged, parseErrorCode } from '../base/errors.ts';
import type {
  RegistryChange,
  RegistryCompare,
  RegistryOp,
  RegistryOpResult,
  RegistryTransaction,
  TransactionResult,
} from '../base/registry.ts';
import type { RegistryMessage, WireCompare, WireOp, WireOpResult, WireRevision } from '../messages/registry.ts';
import type { RevisionChanges } from './keyspace/change-history.ts';

export type RegistryMessageOf<K extends RegistryMessage['kind']> = Extract<RegistryMessage, { readonly kind: K }>;
/** The reply to a write, which the dedup table of each replica keeps. */
export type RegistryWriteResult = RegistryMessageOf<
  'registryTransactReply' | 'registryLeaseReply' | 'registryRevokeReply' | 'registryError'
>;
export type RegistryRefusal = RegistryMessageOf<'registryError'>;

/** A write of this node before it is encoded: validated, with bytes that no other code may change. */
export type LocalWrite = {
  readonly numbered: RegistryMessageOf<'registryTransact'>;
  readonly transaction: RegistryTransaction;
};

const messageCharactersMax = 300;

export function registryRefusalOf(
  code: ErrorCode,
  message: string,
  stateChanged: StateChanged = errorTable[code].stateChanged,
): RegistryRefusal {
  const shortened = message.slice(0, messageCharactersMax).toWellFormed();
  const leader = { leader: undefined, host: undefined, port: undefined };
  return { kind: 'registryError', code, message: shortened, ...leader, stateChanged };
}

export function errorOfRefusal({ code, message, stateChanged }: RegistryRefusal): RemusterError {
  return new RemusterError(parseErrorCode(code), message, stateChanged);
}

type WireTransaction = {
  readonly compare: readonly WireCompare[];
  readonly then: readonly WireOp[];
  readonly otherwise: readonly WireOp[];
};

export function transactionToWire({ compare, then, otherwise }: RegistryTransaction): WireTransaction {
  return { compare: compare.map(compareToWire), then: then.map(opToWire), otherwise: otherwise.map(opToWire) };
}

/** Throws BAD_ARGUMENT if a field is missing. */
export function transactionFromWire({ compare, then, otherwise }: WireTransaction): RegistryTransaction {
  return { compare: compare.map(compareFromWire), then: then.map(opFromWire), otherwise: otherwise.map(opFromWire) };
}

export function resultToMessage({ succeeded, epoch, revision, results }: TransactionResult): RegistryWriteResult {
  return { kind: 'registryTransactReply', succeeded, epoch, revision, results: results.map(resultToWire) };
}

export function resultFromMessage(message: RegistryMessageOf<'registryTransactReply'>): TransactionResult {
  const { succeeded, epoch, revision, results } = message;
  return { succeeded, epoch, revision, results: results.map(resultFromWire) };
}

export function revisionToWire({ revision, changes }: RevisionChanges): WireRevision {
  return {
    revision,
    changes: changes.map((change) =>
      change.kind === 'put' ? { put: change.entry, delete: undefined } : { put: undefined, delete: change.key },
    ),
  };
}

export function revisionFromWire({ revision, changes }: WireRevision): RevisionChanges {
  return {
    revision,
    changes: changes.map((change): RegistryChange => {
      if (change.put !== undefined) return { kind: 'put', entry: change.put };
      return { kind: 'delete', key: required(change.delete), modRevision: revision };
    }),
  };
}

function compareToWire(compare: RegistryCompare): WireCompare {
  const { key, target, is, than } = compare;
  if (typeof than === 'number') return { key, target, is, than, value: undefined };
  return { key, target, is, than: undefined, value: than };
}

function compareFromWire({ key, target, is, than, value }: WireCompare): RegistryCompare {
  if (target !== 'value') return { key, target, is, than: required(than) };
  if (is !== 'equal' && is !== 'notEqual')
    throw new RemusterError('BAD_ARGUMENT', 'a value can only be compared with equal or notEqual');
  return { key, target, is, than: required(value) };
}

function opToWire(op: RegistryOp): WireOp {
  if (op.kind === 'put') {
    const { key, value, lease } = op;
    return { kind: 'put', from: key, to: undefined, value, lease, limit: undefined };
  }
  const limit = op.kind === 'read' ? op.limit : undefined;
  return { kind: op.kind, from: op.range.from, to: op.range.to, value: undefined, lease: undefined, limit };
}

function opFromWire({ kind, from, to, value, lease, limit }: WireOp): RegistryOp {
  if (kind === 'put') {
    const put = { kind, key: from, value: detached(required(value)) };
    return lease === undefined ? put : { ...put, lease };
  }
  const range = { from, to: required(to) };
  return kind === 'delete' ? { kind, range } : { kind, range, limit: required(limit) };
}

/**
 * Decoded bytes of these sizes share a buffer with others (messages/codec/strings.ts), which a stored value would hold.
 */
const sharedBytesMin = 65;
const sharedBytesMax = 1_024;

function detached(bytes: Uint8Array): Uint8Array {
  return bytes.length < sharedBytesMin || bytes.length > sharedBytesMax ? bytes : new Uint8Array(bytes);
}

/** Shared by all put results, because most results are puts. Never changed. */
const wirePut: WireOpResult = { kind: 'put', deleted: undefined, entries: undefined, more: undefined };
const put: RegistryOpResult = { kind: 'put' };

function resultToWire(result: RegistryOpResult): WireOpResult {
  if (result.kind === 'put') return wirePut;
  const deleted = result.kind === 'delete' ? result.deleted : undefined;
  const read = result.kind === 'read' ? result : undefined;
  return { kind: result.kind, deleted, entries: read?.entries, more: read?.more };
}

function resultFromWire({ kind, deleted, entries, more }: WireOpResult): RegistryOpResult {
  if (kind === 'put') return put;
  if (kind === 'delete') return { kind, deleted: required(deleted) };
  return { kind, entries: required(entries), more: required(more) };
}

function required<T>(part: T | undefined): T {
  if (part === undefined) throw new RemusterError('BAD_ARGUMENT', 'a required field of the message is missing');
  return part;
}
