/**
 * What the two sides of the store say to each other: store.ts, which holds the queue, and store-thread.ts, which holds
 * the database. A batch travels as one packed buffer that is handed over, not copied a second time; a key travels as
 * UTF-8 so that SQLite compares bytes.
 *
 *   packed batch: { u32 key length, u32 value length or 2^32-1 for none, key, value }*
 */
import type { ErrorCode } from '../base/errors.ts';
import type { StoreEntry, StoreWrite } from '../base/ports.ts';

export type StoreThreadData = {
  readonly file: string;
  readonly sizeBytesMax: number | undefined;
  readonly isLogged: boolean;
};

export type StoreWriteCall = { readonly kind: 'write'; readonly packed: Uint8Array };
export type StoreRead = {
  readonly kind: 'read';
  readonly from: Uint8Array;
  readonly to: Uint8Array;
  readonly limit: number;
};
export type StoreCall = StoreWriteCall | StoreRead;

/**
 * What a database behind a log is asked. `rows`: what the log has up to the group of that number. `turn`: of the log the
 * other file will be written from now on.
 */
export type LoggedCall =
  | StoreRead
  | { readonly kind: 'rows'; readonly number: number; readonly packed: readonly Uint8Array[] }
  | { readonly kind: 'turn' };

export type StoreError = { readonly code: ErrorCode; readonly message: string };

/** `entries` are there for a read, `error` for a failure, neither for a write that is durable. */
export type StoreAnswer = { readonly entries?: readonly StoreEntry[]; readonly error?: StoreError };

export type ToStoreThread<Call> =
  | { readonly kind: 'group'; readonly calls: readonly Call[] }
  | { readonly kind: 'close' };

/** `number`: of the last group of a log that the database has. */
export type FromStoreThread =
  | { readonly kind: 'opened'; readonly number: number }
  | { readonly kind: 'failed'; readonly error: StoreError }
  | { readonly kind: 'answers'; readonly answers: readonly StoreAnswer[] }
  | { readonly kind: 'closed' };

/** Of the log before the database. */
export function logPaths(file: string): readonly [string, string] {
  return [`${file}-log0`, `${file}-log1`];
}

const headerBytes = 8;
const noValue = 0xffff_ffff;
const encoder = new TextEncoder();

export function packedBytes(batch: readonly StoreWrite[]): number {
  let bytes = 0;
  // A character takes at most three bytes of UTF-8 per unit of UTF-16.
  for (const { key, value } of batch) bytes += headerBytes + key.length * 3 + (value?.length ?? 0);
  return bytes;
}

export function packBatch(batch: readonly StoreWrite[]): Uint8Array {
  const packed = new Uint8Array(packedBytes(batch));
  const view = new DataView(packed.buffer);
  let at = 0;
  for (const { key, value } of batch) {
    const keyBytes = encoder.encodeInto(key, packed.subarray(at + headerBytes)).written;
    view.setUint32(at, keyBytes);
    view.setUint32(at + 4, value === null ? noValue : value.length);
    at += headerBytes + keyBytes;
    if (value !== null) packed.set(value, at);
    at += value?.length ?? 0;
  }
  return packed.subarray(0, at);
}

/** Where each of them begins, and its key. */
export function visitBatch(packed: Buffer, visit: (at: number, keyAt: number, keyEnd: number) => void): void {
  for (let at = 0; at < packed.length;) {
    const keyAt = at + headerBytes;
    const keyEnd = keyAt + packed.readUInt32BE(at);
    const valueBytes = packed.readUInt32BE(at + 4);
    visit(at, keyAt, keyEnd);
    at = valueBytes === noValue ? keyEnd : keyEnd + valueBytes;
  }
}

/** The one that begins there; it shares the memory of `packed`. */
export function rowAt(packed: Buffer, at: number): { readonly key: Uint8Array; readonly value: Uint8Array | null } {
  const keyEnd = at + headerBytes + packed.readUInt32BE(at);
  const valueBytes = packed.readUInt32BE(at + 4);
  const key = partOf(packed, at + headerBytes, keyEnd);
  return { key, value: valueBytes === noValue ? null : partOf(packed, keyEnd, keyEnd + valueBytes) };
}

/** No Buffer, of which a slice is no copy. */
function partOf({ buffer, byteOffset }: Buffer, from: number, to: number): Uint8Array {
  return new Uint8Array(buffer, byteOffset + from, to - from);
}

/** The parts share the memory of `packed`. */
export function* unpackBatch(packed: Uint8Array): Generator<{ key: Uint8Array; value: Uint8Array | null }> {
  const buffer = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
  for (let at = 0; at < buffer.length;) {
    const row = rowAt(buffer, at);
    at += headerBytes + row.key.length + (row.value?.length ?? 0);
    yield row;
  }
}
