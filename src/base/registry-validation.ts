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
  type WatchStart,
  registryLimits,
} from './registry.ts';
import { isRegistryEpoch } from './registry-epoch.ts';

/** A bound may be a whole key plus the character that `onlyKey` or `withPrefix` appends. */
const boundBytesMax = registryLimits.keyBytesMax + 4;
const leasePattern = /^(?:[0-9a-f]{16}\.\d{1,9}:)?[1-9]\d{0,18}$/;

/** The first problem of the transaction, or undefined. */
export function validateTransaction(transaction: RegistryTransaction): RemusterError | undefined {
  const { compare, then, otherwise } = transaction;
  if (Math.max(compare.length, then.length, otherwise.length) > registryLimits.transactionOpsMax)
    return tooLarge(
      `a transaction has at most ${registryLimits.transactionOpsMax} comparisons, and as many operations per branch`,
    );
  for (const one of compare) {
    const problem = compareProblem(one);
    if (problem !== undefined) return problem;
  }
  for (const branch of [then, otherwise]) {
    const problem = branchProblem(branch);
    if (problem !== undefined) return problem;
  }
  // Most are small enough by this upper bound, so their characters need not be counted.
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

function keyProblem(key: string): RemusterError | undefined {
  if (typeof key !== 'string' || key === '') return badArgument('a key must be a string of at least one character');
  return textProblem(key, 'a key', registryLimits.keyBytesMax);
}

export function validateRange({ from, to }: KeyRange): RemusterError | undefined {
  if (typeof from !== 'string' || typeof to !== 'string') return badArgument('both ends of a range must be strings');
  return textProblem(from, 'a range', boundBytesMax) ?? textProblem(to, 'a range', boundBytesMax);
}

export function validateLimit(limit: number): RemusterError | undefined {
  if (Number.isInteger(limit) && limit >= 1 && limit <= registryLimits.rangeLimitMax) return undefined;
  return badArgument(`the limit must be a whole number from 1 to ${registryLimits.rangeLimitMax}, not ${limit}`);
}

export function validateTtl(ttlMs: number): RemusterError | undefined {
  const { ttlMsMin, ttlMsMax } = registryLimits;
  if (Number.isInteger(ttlMs) && ttlMs >= ttlMsMin && ttlMs <= ttlMsMax) return undefined;
  return badArgument(
    `the time to live of a lease must be a whole number of milliseconds from ${ttlMsMin} to ${ttlMsMax}, not ${ttlMs}`,
  );
}

export function validateLease(lease: LeaseId): RemusterError | undefined {
  return typeof lease === 'string' && leasePattern.test(lease)
    ? undefined
    : badArgument('a lease id must be a decimal number, or an epoch, a colon and a number');
}

export function validateWatchStart({ revision, epoch }: WatchStart): RemusterError | undefined {
  if (!Number.isSafeInteger(revision) || revision < 1)
    return badArgument(`a watch must start at revision 1 or later, not ${revision}`);
  return epoch === undefined || isRegistryEpoch(epoch)
    ? undefined
    : badArgument('the epoch of a watch must be the id of a group, a dot and a number');
}

/** How many bytes a text takes in UTF-8. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // Each half of a surrogate pair counts two: four together.
    if (code > 0x7f) bytes += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
  }
  return bytes;
}

function compareProblem(compare: RegistryCompare): RemusterError | undefined {
  const problem = keyProblem(compare.key);
  if (problem !== undefined) return problem;
  if (compare.target === 'value')
    return compare.than instanceof Uint8Array ? undefined : badArgument('a value must be a Uint8Array');
  return Number.isSafeInteger(compare.than) && compare.than >= 0
    ? undefined
    : badArgument('a revision must be a whole number');
}

function branchProblem(ops: readonly RegistryOp[]): RemusterError | undefined {
  for (const op of ops) {
    const problem = opProblem(op);
    if (problem !== undefined) return problem;
  }
  return ops.length > 1 && writesTwice(ops)
    ? badArgument('a transaction must not write a key twice in one branch')
    : undefined;
}

function opProblem(op: RegistryOp): RemusterError | undefined {
  if (op.kind !== 'put') return validateRange(op.range) ?? (op.kind === 'read' ? validateLimit(op.limit) : undefined);
  if (!(op.value instanceof Uint8Array)) return badArgument('a value must be a Uint8Array');
  const { valueBytesMax } = registryLimits;
  if (op.value.length > valueBytesMax)
    return tooLarge(`a value of ${op.value.length} bytes exceeds the limit of ${valueBytesMax}`);
  return keyProblem(op.key) ?? (op.lease === undefined ? undefined : validateLease(op.lease));
}

/** Two puts of one key, or a put of a key that the same branch deletes. */
function writesTwice(ops: readonly RegistryOp[]): boolean {
  const puts = new Set<string>();
  for (const op of ops) {
    if (op.kind !== 'put') continue;
    if (puts.has(op.key)) return true;
    puts.add(op.key);
  }
  // Built at the first deletion: most branches have none.
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
 * A string that JavaScript compares like the UTF-8 bytes of the given text. The two orders differ only between a
 * character beyond U+FFFF and one from U+E000 on, so nearly all texts are returned unchanged.
 */
export function utf8SortKey(text: string): string {
  // Checking each character costs less than a regular expression that replaces nothing.
  for (let i = 0; i < text.length; i++)
    if (text.charCodeAt(i) >= 0xd800) return text.replace(fromSurrogatesOn, swapUnit);
  return text;
}

const fromSurrogatesOn = /[\ud800-\uffff]/g;

function swapUnit(unit: string): string {
  const code = unit.charCodeAt(0);
  return String.fromCharCode(code < 0xe000 ? code + 0x2000 : code - 0x800);
}

function textProblem(text: string, what: string, bytesMax: number): RemusterError | undefined {
  if (text.length * 3 > bytesMax && (text.length > bytesMax || utf8Length(text) > bytesMax))
    return badArgument(`${what} exceeds ${bytesMax} bytes`);
  return text.isWellFormed() ? undefined : badArgument(`${what} is not well-formed Unicode`);
}

function badArgument(message: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', message);
}

/** No registry executes such a request, not even a resent one. */
function tooLarge(message: string): RemusterError {
  return new RemusterError('TOO_LARGE', message, 'no');
}
