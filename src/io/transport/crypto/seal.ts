/**
 * AES-256-GCM with counter nonces. A Sealer owns key and counter, so no (key, nonce) pair repeats; a key is replaced
 * after 2^20 frames.
 *
 * A datagram is bound to its sender and receiver by additional data. A connection is bound to them by its key, which
 * gives the same guarantee without a cost per frame.
 */
import { type CipherGCM, createCipheriv, createDecipheriv, type DecipherGCM, type KeyObject } from 'node:crypto';

import { assert } from '../../../base/assert.ts';
import { deriveKey } from './keys.ts';

export const tagBytes = 16;
const nonceBytes = 12;
const algorithm = 'aes-256-gcm';
const options = { authTagLength: tagBytes } as const;
const sealsPerKeyMax = 2 ** 20;

export function writeNonce(into: Buffer, counter: number): Buffer {
  into.writeUInt32BE(Math.floor(counter / 2 ** 32), 4);
  into.writeUInt32BE(counter % 2 ** 32, 8);
  return into;
}

/** Low level: the caller must never repeat a nonce. Returns ciphertext and tag. */
export function sealWith(key: KeyObject, nonce: Uint8Array, aad: Uint8Array, plain: Uint8Array): [Buffer, Buffer] {
  const cipher = createCipheriv(algorithm, key, nonce, options);
  cipher.setAAD(aad);
  const text = cipher.update(plain);
  cipher.final();
  return [text, cipher.getAuthTag()];
}

/** Undefined when the bytes are not authentic. */
export function openWith(key: KeyObject, nonce: Uint8Array, aad: Uint8Array, sealed: Uint8Array): Buffer | undefined {
  return openBy(createDecipheriv(algorithm, key, nonce, options).setAAD(aad), sealed);
}

/** Keys and nonces of one direction of a connection. Both ends count frames and replace keys in the same way. */
class Ratchet {
  readonly #nonce = Buffer.alloc(nonceBytes);
  readonly #sealsPerKey: number;
  #key: KeyObject;
  #count = 0;

  constructor(key: KeyObject, sealsPerKey: number) {
    this.#key = key;
    this.#sealsPerKey = sealsPerKey;
  }

  /** Derives a key that only an end with the same binding has. */
  bind(binding: Uint8Array): void {
    this.#key = deriveKey(this.#key, binding, 'bound');
  }

  /** The key and nonce of the next frame; a pair is returned only once. */
  next(): { key: KeyObject; nonce: Buffer } {
    assert(Number.isSafeInteger(this.#count + 1), 'a nonce is never used twice');
    if (this.#count > 0 && this.#count % this.#sealsPerKey === 0)
      this.#key = deriveKey(this.#key, new Uint8Array(0), 'next');
    writeNonce(this.#nonce, this.#count);
    this.#count += 1;
    return { key: this.#key, nonce: this.#nonce };
  }
}

/**
 * The setup of a cipher is half of the cost of a small frame. Key and nonce of the next frame are known in advance, so
 * `prepare` does the setup while the peer processes the last frame.
 */
export class Sealer {
  readonly #ratchet: Ratchet;
  #ready: CipherGCM | undefined;

  constructor(key: KeyObject, sealsPerKey = sealsPerKeyMax) {
    this.#ratchet = new Ratchet(key, sealsPerKey);
  }

  /** Called after the greetings, when both identities are known. */
  bind(binding: Uint8Array): void {
    assert(this.#ready === undefined, 'a key changes only between frames');
    this.#ratchet.bind(binding);
  }

  prepare(): void {
    if (this.#ready === undefined) this.#ready = this.#setUp();
  }

  seal(plain: Uint8Array): [Buffer, Buffer] {
    const cipher = this.#ready ?? this.#setUp();
    this.#ready = undefined;
    const text = cipher.update(plain);
    cipher.final();
    return [text, cipher.getAuthTag()];
  }

  #setUp(): CipherGCM {
    const { key, nonce } = this.#ratchet.next();
    return createCipheriv(algorithm, key, nonce, options);
  }
}

export class Opener {
  readonly #ratchet: Ratchet;
  #ready: DecipherGCM | undefined;

  constructor(key: KeyObject, sealsPerKey = sealsPerKeyMax) {
    this.#ratchet = new Ratchet(key, sealsPerKey);
  }

  bind(binding: Uint8Array): void {
    assert(this.#ready === undefined, 'a key changes only between frames');
    this.#ratchet.bind(binding);
  }

  prepare(): void {
    if (this.#ready === undefined) this.#ready = this.#setUp();
  }

  /** Undefined when the bytes are not authentic. */
  open(sealed: Uint8Array): Buffer | undefined {
    const decipher = this.#ready ?? this.#setUp();
    this.#ready = undefined;
    return openBy(decipher, sealed);
  }

  #setUp(): DecipherGCM {
    const { key, nonce } = this.#ratchet.next();
    return createDecipheriv(algorithm, key, nonce, options);
  }
}

function openBy(decipher: DecipherGCM, sealed: Uint8Array): Buffer | undefined {
  const end = sealed.length - tagBytes;
  if (end < 0) return undefined;
  decipher.setAuthTag(sealed.subarray(end));
  const plain = decipher.update(sealed.subarray(0, end));
  try {
    decipher.final();
  } catch {
    return undefined;
  }
  return plain;
}
