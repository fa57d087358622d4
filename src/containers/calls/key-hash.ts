/**
 * Key hash (FNV-1a plus the MurmurHash3 finalizer). Must never change: it would send keys to containers without their
 * state. docs/guides/calls.md writes it down for other languages.
 *
 * 32-bit FNV-1a over the UTF-8 bytes of the key, then the finalizer of MurmurHash3: FNV alone mixes the last bytes too
 * little for a remainder, and keys that people choose differ in their last bytes.
 */

const encoder = new TextEncoder();

export function hashOfKey(key: string): number {
  let hash = 0x811c_9dc5;
  for (let at = 0; at < key.length; at++) {
    const code = key.charCodeAt(at);
    if (code >= 0x80) return finished(overBytes(encoder.encode(key)));
    hash = Math.imul(hash ^ code, 0x0100_0193);
  }
  return finished(hash);
}

function overBytes(bytes: Uint8Array): number {
  let hash = 0x811c_9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x0100_0193);
  return hash;
}

function finished(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
