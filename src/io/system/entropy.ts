/**
 * Randomness of the operating system: for ids, salts, tokens and the seeds of the machines' own random streams. It is
 * the only source of it; nothing else in the program draws randomness that is not handed in.
 */
import { randomFillSync } from 'node:crypto';

/** Bytes in memory of their own, never a part of a shared pool. */
export function entropyBytes(count: number): Uint8Array {
  return randomFillSync(new Uint8Array(count));
}

/** The same as text of letters, digits, `-` and `_`: 16 bytes are enough for a seed, 32 for a token. */
export function entropyText(byteCount: number): string {
  return Buffer.from(entropyBytes(byteCount)).toString('base64url');
}
