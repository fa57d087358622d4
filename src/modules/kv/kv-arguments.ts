/**
 * Validates arguments of the key-value module, since calls also come over HTTP. BAD_ARGUMENT before anything is read or
 * written.
 */
import { methodError } from '../../containers/module.ts';

export type KvCondition = {
  /** Only if the key has this version; 0: only if it does not exist. Otherwise PRECONDITION. */
  readonly ifVersion?: number | undefined;
};

export type KvPutOptions = KvCondition & {
  /** The key is gone after so long. Left out: it stays, also if it had a limit before. */
  readonly ttlMs?: number | undefined;
};

export type KvListOptions = {
  readonly prefix?: string | undefined;
  /** The first key that counts; `next` of the page before. */
  readonly from?: string | undefined;
  /** 100 if left out, at most 1,000. */
  readonly limit?: number | undefined;
};

export type KvListRange = { readonly prefix: string; readonly from: string; readonly limit: number };

/** In UTF-8. Below what a state takes as a key, because the name under which a key expires is longer. */
export const kvKeyBytesMax = 1_000;
const limitDefault = 100;
export const kvPageItemsMax = 1_000;
/** Ten years. */
const ttlMsMax = 315_576_000_000;

export function validKey(key: unknown): string {
  if (key === '') throw methodError('BAD_ARGUMENT', 'a key is not empty');
  return checkedText(key, 'a key');
}

export function checkedText(text: unknown, what: string): string {
  if (typeof text !== 'string' || !text.isWellFormed() || bytesOf(text) > kvKeyBytesMax)
    throw methodError('BAD_ARGUMENT', `${what} is a text of at most ${kvKeyBytesMax} bytes`);
  return text;
}

const encoder = new TextEncoder();

/** Three for each unit at most: only long ones are looked at closely. */
function bytesOf(text: string): number {
  return text.length * 3 <= kvKeyBytesMax ? text.length : encoder.encode(text).length;
}

export function checkedRevision(revision: unknown): number {
  return whole(revision, 'the revision', 0, Number.MAX_SAFE_INTEGER);
}

export function checkedCondition(options: unknown): KvCondition {
  const { ifVersion } = fieldsOf(options);
  if (ifVersion === undefined) return {};
  return { ifVersion: whole(ifVersion, 'ifVersion', 0, Number.MAX_SAFE_INTEGER) };
}

export function checkedPut(value: unknown, options: unknown): KvPutOptions {
  if (value === undefined) throw methodError('BAD_ARGUMENT', 'undefined is no value; delete the key instead');
  const { ttlMs } = fieldsOf(options);
  if (ttlMs === undefined) return checkedCondition(options);
  return { ...checkedCondition(options), ttlMs: whole(ttlMs, 'ttlMs', 1, ttlMsMax) };
}

export function checkedList(options: unknown): KvListRange {
  const { prefix = '', from = '', limit = limitDefault } = fieldsOf(options);
  return {
    prefix: checkedText(prefix, 'prefix'),
    from: checkedText(from, 'from'),
    limit: whole(limit, 'limit', 1, kvPageItemsMax),
  };
}

function fieldsOf(options: unknown): Readonly<Record<string, unknown>> {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw methodError('BAD_ARGUMENT', 'the options are an object');
  return options as Readonly<Record<string, unknown>>;
}

function whole(value: unknown, what: string, min: number, max: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < min || (value as number) > max)
    throw methodError('BAD_ARGUMENT', `${what} is a whole number from ${min} to ${max}`);
  return value as number;
}
