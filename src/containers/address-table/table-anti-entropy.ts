/**
 * Decides from peers' digests when to read the whole table again. Waits for news under way, and backs off after a
 * reload that changed nothing.
 */

export type TableDigest = {
  readonly version: number;
  /** Unknown when all that was heard of is one newer entry. */
  readonly hash: readonly [number, number] | undefined;
};

const graceMs = 2_000;
const pauseMsMin = 10_000;
const pauseMsMax = 300_000;
const digestLength = 16;

export class TableAntiEntropy {
  #suspicion: TableDigest | undefined;
  #pauseMs = pauseMsMin;
  #notBeforeMs = -Infinity;

  /** When to look again; undefined if there is no need. */
  digestReceived(nowMs: number, theirs: TableDigest, ours: TableDigest): number | undefined {
    if (this.#suspicion !== undefined || agrees(theirs, ours)) return undefined;
    this.#suspicion = theirs;
    return Math.max(nowMs + graceMs, this.#notBeforeMs);
  }

  /** Whether to read everything again now. */
  shouldReload(nowMs: number, ours: TableDigest): boolean {
    const suspicion = this.#suspicion;
    this.#suspicion = undefined;
    if (suspicion === undefined) return false;
    if (agrees(suspicion, ours)) {
      this.#pauseMs = pauseMsMin;
      return false;
    }
    this.#notBeforeMs = nowMs + this.#pauseMs;
    this.#pauseMs = Math.min(pauseMsMax, this.#pauseMs * 2);
    return true;
  }
}

/** We know as much as they do. Equal entries are enough: a deletion at the end can leave versions apart. */
function agrees(theirs: TableDigest, ours: TableDigest): boolean {
  if (theirs.version < ours.version) return true;
  if (theirs.hash === undefined || ours.hash === undefined) return theirs.version === ours.version;
  return theirs.hash[0] === ours.hash[0] && theirs.hash[1] === ours.hash[1];
}

export function encodeTableDigest({ version, hash = [0, 0] }: TableDigest): Uint8Array {
  const bytes = new Uint8Array(digestLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(version));
  view.setUint32(8, hash[0]);
  view.setUint32(12, hash[1]);
  return bytes;
}

/** Undefined for what is no digest. */
export function decodeTableDigest(bytes: Uint8Array): TableDigest | undefined {
  if (bytes.length !== digestLength) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const version = Number(view.getBigUint64(0));
  return Number.isSafeInteger(version) ? { version, hash: [view.getUint32(8), view.getUint32(12)] } : undefined;
}
