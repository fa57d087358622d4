/**
 * The sessions under which this node sends datagrams. A session is replaced after an hour or 2^24 messages, long before
 * a nonce could repeat; the next one is announced in advance, so that peers know it.
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
  readonly #onRenew: () => void;
  #current: OutboundSession;
  #next: OutboundSession;

  /** `onRenew` is called when there is a new session to announce. */
  constructor(ring: () => KeyRing, limits: { messagesMax: number; msMax: number }, nowMs: number, onRenew: () => void) {
    this.#ring = ring;
    this.#messagesMax = limits.messagesMax;
    this.#msMax = limits.msMax;
    this.#onRenew = onRenew;
    this.#current = this.#create(nowMs);
    this.#next = this.#create(nowMs);
  }

  /** The session and counter for one datagram; a pair is returned only once. */
  take(nowMs: number): { session: OutboundSession; counter: number } {
    if (this.#current.counter >= this.#messagesMax || nowMs - this.#current.bornMs >= this.#msMax) this.#renew(nowMs);
    const session = this.#current;
    assert(session.counter < this.#messagesMax, 'a session sends at most its number of messages');
    return { session, counter: session.counter++ };
  }

  /** Salt of the current session; the same object until it is replaced. */
  get salt(): Buffer {
    return this.#current.salt;
  }

  owns(salt: Uint8Array): boolean {
    return this.#current.salt.equals(salt) || this.#next.salt.equals(salt);
  }

  /** Called after a rotation of secrets. */
  rekey(nowMs: number): void {
    this.#next = this.#create(nowMs);
    this.#renew(nowMs);
  }

  /** Encodes both sessions with a floor: a peer that learns a session now must not accept its earlier datagrams. */
  announcement(): Buffer {
    const writer = new ByteWriter().u8(2);
    for (const { keyId, salt, counter } of [this.#current, this.#next]) writer.u32(keyId).bytes(salt).u64(counter);
    return writer.done();
  }

  #renew(nowMs: number): void {
    this.#current = this.#next;
    this.#current.bornMs = nowMs;
    this.#next = this.#create(nowMs);
    this.#onRenew();
  }

  #create(nowMs: number): OutboundSession {
    const salt = randomBytes(sessionSaltBytes);
    const { current } = this.#ring();
    return { keyId: current.keyId, salt, key: sessionKey(current, salt), bornMs: nowMs, counter: 0 };
  }
}

/** The announcement of a transport without datagrams. */
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
