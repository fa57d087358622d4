/**
 * Validates the arguments of the key-value module, because calls arrive over HTTP too. Throws BAD_ARGUMENT before the
 * state is read or written.
 */
import { methodError } from '../../containers/module.ts';

export type KvCondition = {
  /** Requires this version of the key, 0: that it does not exist; otherwise PRECONDITION. */
  readonly ifVersion?: number | undefined;
};

export type KvPutOptions = KvCondition & {
  /** Time until the key expires. Left out: the key stays, even if it had an expiry before. */
  readonly ttlMs?: number | undefined;
};

export type KvListOptions = {
  readonly prefix?: string | undefined;
  /** The first key of the page: `next` of the page before. */
  readonly from?: string | undefined;
  /** 100 if left out, at most 1,000. */
  readonly limit?: number | undefined;
};

export type KvListRange = { readonly prefix: string; readonly from: string; readonly limit: number };

/** UTF-8 bytes. Less than the limit of state keys, because the row of an expiry has a longer name. */
export const kvKeyBytesMax = 1_000;
const limitDefault = 100;
export const kvPageItemsMax = 1_000;
/** Ten years. */
const ttlMsMax = 315_576_000_000;

export function validKey(key: unknown): string {
  if (key === '') throw methodError('BAD_ARGUMENT', 'the key is empty: give at least one character');
  return validText(key, 'a key');
}

export function validText(text: unknown, what: string): string {
  if (typeof text !== 'string' || !text.isWellFormed() || bytesOf(text) > kvKeyBytesMax)
    throw methodError('BAD_ARGUMENT', `${what} must be a string of at most ${kvKeyBytesMax} bytes`);
  return text;
}

const encoder = new TextEncoder();

/** UTF-8 has at most three bytes per UTF-16 unit, so only long strings are measured. */
function bytesOf(text: string): number {
  return text.length * 3 <= kvKeyBytesMax ? text.length : encoder.encode(text).length;
}

export function validRevision(revision: unknown): number {
  return wholeNumber(revision, 'the revision', 0, Number.MAX_SAFE_INTEGER);
}

export function validCondition(options: unknown): KvCondition {
  const { ifVersion } = fieldsOf(options);
  if (ifVersion === undefined) return {};
  return { ifVersion: wholeNumber(ifVersion, 'ifVersion', 0, Number.MAX_SAFE_INTEGER) };
}

export function validPut(value: unknown, options: unknown): KvPutOptions {
  if (value === undefined) throw methodError('BAD_ARGUMENT', 'the value is undefined: delete the key instead');
  const { ttlMs } = fieldsOf(options);
  if (ttlMs === undefined) return validCondition(options);
  return { ...validCondition(options), ttlMs: wholeNumber(ttlMs, 'ttlMs', 1, ttlMsMax) };
}

export function validList(options: unknown): KvListRange {
  const { prefix = '', from = '', limit = limitDefault } = fieldsOf(options);
  return {
    prefix: validText(prefix, 'prefix'),
    from: validText(from, 'from'),
    limit: wholeNumber(limit, 'limit', 1, kvPageItemsMax),
  };
}

function fieldsOf(options: unknown): Readonly<Record<string, unknown>> {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw methodError('BAD_ARGUMENT', 'the options must be an object');
  return options as Readonly<Record<string, unknown>>;
}

function wholeNumber(value: unknown, what: string, min: number, max: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max)
    throw methodError('BAD_ARGUMENT', `${what} must be a whole number from ${min} to ${max}`);
  return value as number;
}
