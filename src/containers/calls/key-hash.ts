/**
 * The hash of a key: 32-bit FNV-1a over its UTF-8 bytes, then the finalizer of MurmurHash3, because FNV-1a mixes the
 * last bytes too little and keys often differ only there. It must never change: keys would go to containers without
 * their state. docs/guides/calls.md describes it for other languages.
 */

const encoder = new TextEncoder();

export function hashOfKey(key: string): number {
  let hash = 0x811c_9dc5;
  for (let at = 0; at < key.length; at++) {
    const code = key.charCodeAt(at);
    if (code >= 0x80) return finalize(fnv1a(encoder.encode(key)));
    hash = Math.imul(hash ^ code, 0x0100_0193);
  }
  return finalize(hash);
}

function fnv1a(bytes: Uint8Array): number {
  let hash = 0x811c_9dc5;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x0100_0193);
  return hash;
}

function finalize(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85eb_ca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2_ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
