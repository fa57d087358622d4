/**
 * The sessions under which this node sends datagrams; replaced after an hour or 2^24 messages, long before anything
 * could repeat; the next one is announced in advance, so that peers know it.
 */
import { randomBytes } from 'node:crypto';
import type { KeyObject } from 'node:crypto';

import { assert } from '../../../base/assert.ts';
import { sessionSaltBytes } from './datagram-format.ts';
import { ByteReader, ByteWriter } from '../crypto/identity-codec.ts';
import { deriveKey, type KeyRing, type MasterKey } from '../crypto/keys.ts';

export type OutboundSession = {
  readonly keyId: number;
  readonly salt: Buffer;
  readonly key: KeyObject;
  bornMs: number;
  counter: number;
};

export type AnnouncedSession = { readonly keyId: number; readonly salt: Buffer; readonly floor: number };

const announcedMax = 4;

export function sessionKey(master: MasterKey, salt: Uint8Array): KeyObject {
  return deriveKey(master.key, salt, 'datagrams');
}

export class OutboundSessions {
  readonly #ring: () => KeyRing;
  readonly #messagesMax: number;
  readonly #msMax: number;
  readonly #renewed: () => void;
  #current: OutboundSession;
  #next: OutboundSession;

  /** `renewed` is called when there is something new to announce. */
  constructor(ring: () => KeyRing, limits: { messagesMax: number; msMax: number }, nowMs: number, renewed: () => void) {
    this.#ring = ring;
    this.#messagesMax = limits.messagesMax;
    this.#msMax = limits.msMax;
    this.#renewed = renewed;
    this.#current = this.#make(nowMs);
    this.#next = this.#make(nowMs);
  }

  /** The session and counter for one datagram; the pair is never given out again. */
  take(nowMs: number): { session: OutboundSession; counter: number } {
    if (this.#current.counter >= this.#messagesMax || nowMs - this.#current.bornMs >= this.#msMax) this.#renew(nowMs);
    const session = this.#current;
    assert(session.counter < this.#messagesMax, 'a session never sends more than its share');
    return { session, counter: session.counter++ };
  }

  /** Of the session in use; the same object as long as it is. */
  get salt(): Buffer {
    return this.#current.salt;
  }

  owns(salt: Uint8Array): boolean {
    return this.#current.salt.equals(salt) || this.#next.salt.equals(salt);
  }

  /** After a change of secrets. */
  rekey(nowMs: number): void {
    this.#next = this.#make(nowMs);
    this.#renew(nowMs);
  }

  /** What was sent so far is below the floor: whoever learns the session only now must not accept it any more. */
  announcement(): Buffer {
    const writer = new ByteWriter().u8(2);
    for (const { keyId, salt, counter } of [this.#current, this.#next]) writer.u32(keyId).bytes(salt).u64(counter);
    return writer.done();
  }

  #renew(nowMs: number): void {
    this.#current = this.#next;
    this.#current.bornMs = nowMs;
    this.#next = this.#make(nowMs);
    this.#renewed();
  }

  #make(nowMs: number): OutboundSession {
    const salt = randomBytes(sessionSaltBytes);
    const { current } = this.#ring();
    return { keyId: current.keyId, salt, key: sessionKey(current, salt), bornMs: nowMs, counter: 0 };
  }
}

/** What a node says that sends no datagrams from here. */
export function emptySessionAnnouncement(): Buffer {
  return new ByteWriter().u8(0).done();
}

export function readSessionAnnouncement(bytes: Uint8Array): AnnouncedSession[] {
  const reader = new ByteReader(bytes);
  const count = Math.min(announcedMax, reader.u8());
  return Array.from({ length: count }, () => {
    const keyId = reader.u32();
    return { keyId, salt: Buffer.from(reader.bytes(sessionSaltBytes)), floor: reader.u64() };
  });
}
