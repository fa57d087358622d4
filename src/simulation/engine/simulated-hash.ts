/**
 * A fast deterministic hash for simulated nodes in place of SHA-256: equal bytes give equal text. Not cryptographic.
 */
import { Random } from '../../base/random.ts';

/** 64 hexadecimal digits. */
export function simulatedHash(bytes: Uint8Array): string {
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul(b + byte, 0x85ebca6b) ^ (b >>> 13);
  }
  const random = new Random(`${a}/${b}/${bytes.length}`);
  return Array.from({ length: 8 }, () => random.uint32().toString(16).padStart(8, '0')).join('');
}
