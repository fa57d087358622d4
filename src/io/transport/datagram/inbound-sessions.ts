/**
 * Proven datagram sessions of peers, with key, replay window and rate limit. Bounded: an evicted session must be proven
 * again.
 */
import type { KeyObject } from 'node:crypto';

import type { Identity } from '../../../base/ports.ts';
import { BoundedLru } from '../../../base/collections/bounded-lru.ts';
import { type KeyRing } from '../crypto/keys.ts';
import { sessionKey } from './outbound-sessions.ts';
import { ReplayWindow } from '../crypto/replay-window.ts';
import { TokenBucket } from '../shared/token-bucket.ts';

export type InboundSession = {
  readonly keyId: number;
  readonly key: KeyObject;
  readonly identity: Identity;
  readonly window: ReplayWindow;
  readonly bucket: TokenBucket;
};

type Proven = { readonly keyId: number; readonly key: KeyObject; readonly salt: Buffer; readonly floor: number };

type Owner = {
  readonly generation: number;
  readonly salts: readonly string[];
  readonly bucket: TokenBucket;
  /** A session of this generation was evicted. */
  readonly hasEvicted: boolean;
};

/** Previous, current and next session, and one more during a rotation of secrets. */
const saltsPerOwnerMax = 4;

export class InboundSessions {
  readonly #perSecond: number;
  readonly #bySalt: BoundedLru<string, InboundSession>;
  readonly #owners: BoundedLru<string, Owner>;
  /** A session was evicted, for lack of room or with a withdrawn secret, and its owner is no longer known. */
  #hasEvicted = false;

  constructor(sessionsMax: number, perIdentityPerSecond: number) {
    const onEvict = (): void => {
      this.#hasEvicted = true;
    };
    this.#perSecond = perIdentityPerSecond;
    this.#bySalt = new BoundedLru(sessionsMax, onEvict);
    this.#owners = new BoundedLru(sessionsMax, onEvict);
  }

  find(salt: Buffer): InboundSession | undefined {
    return this.#bySalt.get(salt.toString('latin1'));
  }

  /** The generation is older than the latest known one of that node. */
  isStale(id: string, generation: number): boolean {
    const owner = this.#owners.get(id);
    return owner !== undefined && generation < owner.generation;
  }

  /** No session of this generation was evicted: an unknown session of it has never been received before. */
  hasCompleteHistoryOf(id: string, generation: number): boolean {
    const owner = this.#owners.peek(id);
    const hasEvicted = owner?.generation === generation && owner.hasEvicted;
    return !hasEvicted && !this.#hasEvicted;
  }

  /** Counters below `floor` may have been received by an earlier generation of this node. */
  learn(ring: KeyRing, identity: Identity, keyId: number, salt: Buffer, floor: number, nowMs: number): void {
    const master = ring.accepted.get(keyId);
    if (master === undefined || this.#bySalt.peek(salt.toString('latin1')) !== undefined) return;
    this.addProven(identity, { keyId, key: sessionKey(master, salt), salt, floor }, nowMs);
  }

  /** The same with a key that is derived already. */
  addProven(identity: Identity, { keyId, key, salt, floor }: Proven, nowMs: number): void {
    const name = salt.toString('latin1');
    if (this.#bySalt.peek(name) !== undefined || this.isStale(identity.id, identity.generation)) return;
    const bucket = this.#addToOwner(identity, name, nowMs);
    this.#bySalt.set(name, { keyId, key, identity, window: new ReplayWindow(floor), bucket });
  }

  /** Evicts the sessions of withdrawn secrets. */
  keepOnly(ring: KeyRing): void {
    for (const [name, { keyId }] of [...this.#bySalt.entries()]) {
      if (ring.accepted.has(keyId)) continue;
      this.#bySalt.delete(name);
      this.#hasEvicted = true;
    }
  }

  #addToOwner(identity: Identity, name: string, nowMs: number): TokenBucket {
    const known = this.#owners.get(identity.id);
    const salts = known?.generation === identity.generation ? [...known.salts, name] : [name];
    if (known !== undefined && known.generation < identity.generation) this.#evict(known.salts);
    const oldest = salts.splice(0, salts.length - saltsPerOwnerMax);
    this.#evict(oldest);
    const hasEvicted = oldest.length > 0 || (known?.generation === identity.generation && known.hasEvicted);
    const bucket = known?.bucket ?? new TokenBucket(this.#perSecond, this.#perSecond, nowMs);
    this.#owners.set(identity.id, { generation: identity.generation, salts, bucket, hasEvicted });
    return bucket;
  }

  #evict(names: readonly string[]): void {
    for (const name of names) this.#bySalt.delete(name);
  }
}
