/**
 * Anti-entropy of the address table: decides from the digests of peers when to load the whole table again. It first
 * waits for changes in flight, and backs off after each reload.
 */

export type TableDigest = {
  readonly version: number;
  /** Undefined if only the version of one newer entry is known. */
  readonly hash: readonly [number, number] | undefined;
};

const graceMs = 2_000;
const backoffMsMin = 10_000;
const backoffMsMax = 300_000;
const digestLength = 16;

export class TableAntiEntropy {
  #suspectedDigest: TableDigest | undefined;
  #backoffMs = backoffMsMin;
  #notBeforeMs = -Infinity;

  /** When to compare again; undefined if there is no need. */
  digestReceived(nowMs: number, peer: TableDigest, own: TableDigest): number | undefined {
    if (this.#suspectedDigest !== undefined || isCurrent(peer, own)) return undefined;
    this.#suspectedDigest = peer;
    return Math.max(nowMs + graceMs, this.#notBeforeMs);
  }

  /** True: load the whole table now. */
  shouldReload(nowMs: number, own: TableDigest): boolean {
    const digest = this.#suspectedDigest;
    this.#suspectedDigest = undefined;
    if (digest === undefined) return false;
    if (isCurrent(digest, own)) {
      this.#backoffMs = backoffMsMin;
      return false;
    }
    this.#notBeforeMs = nowMs + this.#backoffMs;
    this.#backoffMs = Math.min(backoffMsMax, this.#backoffMs * 2);
    return true;
  }
}

/** The own table has all that the peer has. Equal hashes are enough: after a deletion versions may differ. */
function isCurrent(peer: TableDigest, own: TableDigest): boolean {
  if (peer.version < own.version) return true;
  if (peer.hash === undefined || own.hash === undefined) return peer.version === own.version;
  return peer.hash[0] === own.hash[0] && peer.hash[1] === own.hash[1];
}

export function encodeTableDigest({ version, hash = [0, 0] }: TableDigest): Uint8Array {
  const bytes = new Uint8Array(digestLength);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(version));
  view.setUint32(8, hash[0]);
  view.setUint32(12, hash[1]);
  return bytes;
}

/** Undefined if the bytes are not a digest. */
export function decodeTableDigest(bytes: Uint8Array): TableDigest | undefined {
  if (bytes.length !== digestLength) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const version = Number(view.getBigUint64(0));
  return Number.isSafeInteger(version) ? { version, hash: [view.getUint32(8), view.getUint32(12)] } : undefined;
}
