/**
 * The 40-byte record of the write-ahead log, and the reader of a whole log, without an object per record. The reader
 * classifies a log as intact, torn or damaged; the caller decides what to do.
 *
 * All numbers are little endian:
 *
 *   timestamp in ns u64 | pool major u32 | pool minor u32 | container u32 |
 *   old node u32 | new node u32 | version u64 | CRC-32C of the 36 bytes before it u32
 *
 * The timestamp is for operators. Version 0: the container is deleted.
 */
import { crc32c } from '../../base/crc.ts';

export const walRecordBytes = 40;
const coveredBytes = 36;
/** In place of a node: no owner, or an owner without a number. */
export const noNodeNumber = 0xffff_ffff;
const high = 2 ** 32;

export type WalPool = { readonly major: number; readonly minor: number };

/** Encodes records of one pool into one buffer. */
export class WalWriter {
  readonly #pool: WalPool;
  readonly #timestamp: bigint;
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #length = 0;

  constructor(pool: WalPool, wallMs: number, recordsExpected: number) {
    this.#pool = pool;
    this.#timestamp = BigInt(Math.floor(wallMs)) * 1_000_000n;
    this.#bytes = new Uint8Array(Math.max(1, recordsExpected) * walRecordBytes);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get records(): number {
    return this.#length / walRecordBytes;
  }

  add(container: number, oldNode: number, newNode: number, version: number): void {
    const at = this.#length;
    if (at === this.#bytes.length) this.#grow();
    const view = this.#view;
    view.setBigUint64(at, this.#timestamp, true);
    view.setUint32(at + 8, this.#pool.major, true);
    view.setUint32(at + 12, this.#pool.minor, true);
    view.setUint32(at + 16, container, true);
    view.setUint32(at + 20, oldNode, true);
    view.setUint32(at + 24, newNode, true);
    view.setUint32(at + 28, version % high, true);
    view.setUint32(at + 32, Math.floor(version / high), true);
    view.setUint32(at + coveredBytes, crc32c(this.#bytes, at, at + coveredBytes), true);
    this.#length = at + walRecordBytes;
  }

  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  #grow(): void {
    const larger = new Uint8Array(this.#bytes.length * 2);
    larger.set(this.#bytes);
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
}

export type WalReadResult = {
  readonly records: number;
  /** Torn: the last write is incomplete, and all before it is valid. Damaged: valid records follow an invalid one. */
  readonly condition: 'intact' | 'torn' | 'damaged';
};

/** Calls `apply` for each record up to the first invalid one. */
export function readWal(
  bytes: Uint8Array,
  pool: WalPool,
  apply: (container: number, newNode: number, version: number) => void,
): WalReadResult {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const recordBytes = bytes.length - (bytes.length % walRecordBytes);
  for (let at = 0; at < recordBytes; at += walRecordBytes) {
    if (!isValid(bytes, view, at)) {
      return {
        records: at / walRecordBytes,
        condition: hasValidAfter(bytes, view, at, recordBytes) ? 'damaged' : 'torn',
      };
    }
    if (view.getUint32(at + 8, true) !== pool.major || view.getUint32(at + 12, true) !== pool.minor) {
      return { records: at / walRecordBytes, condition: 'damaged' };
    }
    const version = view.getUint32(at + 28, true) + view.getUint32(at + 32, true) * high;
    apply(view.getUint32(at + 16, true), view.getUint32(at + 24, true), version);
  }
  return { records: recordBytes / walRecordBytes, condition: recordBytes === bytes.length ? 'intact' : 'torn' };
}

function isValid(bytes: Uint8Array, view: DataView, at: number): boolean {
  return crc32c(bytes, at, at + coveredBytes) === view.getUint32(at + coveredBytes, true);
}

function hasValidAfter(bytes: Uint8Array, view: DataView, from: number, end: number): boolean {
  for (let at = from + walRecordBytes; at < end; at += walRecordBytes) if (isValid(bytes, view, at)) return true;
  return false;
}
