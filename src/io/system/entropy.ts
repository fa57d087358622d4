/**
 * Random bytes of the operating system for ids, salts, tokens and seeds. The only source of randomness; machines get
 * seeded streams.
 */
import { randomFillSync } from 'node:crypto';

/** The bytes own their ArrayBuffer: never a slice of Node's buffer pool. */
export function entropyBytes(count: number): Uint8Array {
  return randomFillSync(new Uint8Array(count));
}

/** The same as text of letters, digits, `-` and `_`: 16 bytes are enough for a seed, 32 for a token. */
export function entropyText(byteCount: number): string {
  return Buffer.from(entropyBytes(byteCount)).toString('base64url');
}
