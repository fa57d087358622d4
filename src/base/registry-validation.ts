/**
 * Checks size and shape of registry requests, the same for every implementation of the port. Each check returns the
 * error or undefined; it never reads the key space.
 */
import { RemusterError } from './errors.ts';
import {
  type KeyRange,
  type LeaseId,
  type RegistryCompare,
  type RegistryOp,
  type RegistryTransaction,
  registryLimits,
} from './registry.ts';

/** A bound may be a whole key and the mark that `onlyKey` or `withPrefix` put behind it. */
const boundBytesMax = registryLimits.keyBytesMax + 4;
const leasePattern = /^[1-9]\d{0,18}$/;

/** The whole transaction; the first thing that is wrong with it, or undefined. */
export function validateTransaction(transaction: RegistryTransaction): RemusterError | undefined {
  const { compare, then, otherwise } = transaction;
  if (Math.max(compare.length, then.length, otherwise.length) > registryLimits.transactionOpsMax)
    return tooLarge(
      `a transaction has at most ${registryLimits.transactionOpsMax} comparisons and operations a branch`,
    );
  for (const one of compare) {
    const fault = compareFault(one);
    if (fault !== undefined) return fault;
  }
  for (const branch of [then, otherwise]) {
    const fault = branchFault(branch);
    if (fault !== undefined) return fault;
  }
  // Most are so small that no character has to be looked at.
  if (transactionBytes(transaction, (text) => text.length * 3) <= registryLimits.transactionBytesMax) return undefined;
  const bytes = transactionBytes(transaction, utf8Length);
  if (bytes <= registryLimits.transactionBytesMax) return undefined;
  return tooLarge(`a transaction of ${bytes} bytes exceeds the limit of ${registryLimits.transactionBytesMax}`);
}

function transactionBytes(
  { compare, then, otherwise }: RegistryTransaction,
  bytesOf: (text: string) => number,
): number {
  let bytes = 0;
  for (const one of compare) bytes += bytesOf(one.key) + (one.target === 'value' ? one.than.length : 0);
  for (const branch of [then, otherwise])
    for (const op of branch)
      bytes += op.kind === 'put' ? bytesOf(op.key) + op.value.length : bytesOf(op.range.from) + bytesOf(op.range.to);
  return bytes;
}

function keyFault(key: string): RemusterError | undefined {
  if (typeof key !== 'string' || key === '') return bad('a key is a text of at least one character');
  return textFault(key, 'a key', registryLimits.keyBytesMax);
}

export function validateRange({ from, to }: KeyRange): RemusterError | undefined {
  if (typeof from !== 'string' || typeof to !== 'string') return bad('a range has a text at both ends');
  return textFault(from, 'a range', boundBytesMax) ?? textFault(to, 'a range', boundBytesMax);
}

export function validateLimit(limit: number): RemusterError | undefined {
  if (Number.isInteger(limit) && limit >= 1 && limit <= registryLimits.rangeLimitMax) return undefined;
  return bad(`a limit is a whole number from 1 to ${registryLimits.rangeLimitMax}`);
}

export function validateTtl(ttlMs: number): RemusterError | undefined {
  const { ttlMsMin, ttlMsMax } = registryLimits;
  if (Number.isInteger(ttlMs) && ttlMs >= ttlMsMin && ttlMs <= ttlMsMax) return undefined;
  return bad(`the time of a lease is a whole number of milliseconds from ${ttlMsMin} to ${ttlMsMax}`);
}

export function validateLease(lease: LeaseId): RemusterError | undefined {
  return typeof lease === 'string' && leasePattern.test(lease)
    ? undefined
    : bad('a lease is a number in decimal digits');
}

export function validateWatchRevision(revision: number): RemusterError | undefined {
  return Number.isSafeInteger(revision) && revision >= 1 ? undefined : bad('a watch begins at revision 1 or later');
}

/** How many bytes a text takes in UTF-8. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // Each half of a pair counts two: four together.
    if (code > 0x7f) bytes += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
  }
  return bytes;
}

function compareFault(compare: RegistryCompare): RemusterError | undefined {
  const fault = keyFault(compare.key);
  if (fault !== undefined) return fault;
  if (compare.target === 'value') return compare.than instanceof Uint8Array ? undefined : bad('a value is bytes');
  return Number.isSafeInteger(compare.than) && compare.than >= 0 ? undefined : bad('a revision is a whole number');
}

function branchFault(ops: readonly RegistryOp[]): RemusterError | undefined {
  for (const op of ops) {
    const fault = opFault(op);
    if (fault !== undefined) return fault;
  }
  return ops.length > 1 && writesTwice(ops) ? bad('a transaction writes a key twice') : undefined;
}

function opFault(op: RegistryOp): RemusterError | undefined {
  if (op.kind !== 'put') return validateRange(op.range) ?? (op.kind === 'read' ? validateLimit(op.limit) : undefined);
  if (!(op.value instanceof Uint8Array)) return bad('a value is bytes');
  const { valueBytesMax } = registryLimits;
  if (op.value.length > valueBytesMax)
    return tooLarge(`a value of ${op.value.length} bytes exceeds the limit of ${valueBytesMax}`);
  return keyFault(op.key) ?? (op.lease === undefined ? undefined : validateLease(op.lease));
}

/** Two puts of one key, or a put of a key that the same branch deletes. */
function writesTwice(ops: readonly RegistryOp[]): boolean {
  const puts = new Set<string>();
  for (const op of ops) {
    if (op.kind !== 'put') continue;
    if (puts.has(op.key)) return true;
    puts.add(op.key);
  }
  // Made with the first deletion: most have none.
  let orders: readonly string[] | undefined;
  for (const op of ops) {
    if (op.kind !== 'delete') continue;
    orders ??= Array.from(puts, utf8SortKey);
    const from = utf8SortKey(op.range.from);
    const to = utf8SortKey(op.range.to);
    for (const order of orders) if (order >= from && order < to) return true;
  }
  return false;
}

/**
 * A text whose order, as JavaScript compares, is the order of the given text's UTF-8 bytes. The two orders differ only
 * where one character is beyond the first 65,536 and the other among the last of them, so nearly all stay as they are.
 */
export function utf8SortKey(text: string): string {
  // A look at each character costs less than the machinery of a replacement that replaces nothing.
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) >= 0xd800) return text.replace(fromSurrogatesOn, swap);
  return text;
}

const fromSurrogatesOn = /[\ud800-\uffff]/g;

function swap(unit: string): string {
  const code = unit.charCodeAt(0);
  return String.fromCharCode(code < 0xe000 ? code + 0x2000 : code - 0x800);
}

function textFault(text: string, what: string, bytesMax: number): RemusterError | undefined {
  if (text.length * 3 > bytesMax && (text.length > bytesMax || utf8Length(text) > bytesMax))
    return bad(`${what} exceeds ${bytesMax} bytes`);
  return text.isWellFormed() ? undefined : bad(`${what} is not well-formed text`);
}

function bad(message: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', message);
}

function tooLarge(message: string): RemusterError {
  return new RemusterError('TOO_LARGE', message);
}
