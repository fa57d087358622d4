/**
 * Proven datagram sessions of peers with key, replay window and rate. Bounded; a forgotten session must prove itself
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
  /** A session of this life was known and is not any more. */
  readonly hasForgotten: boolean;
};

/** Previous, current, next, and one more across a change of secrets. */
const saltsPerOwnerMax = 4;

export class InboundSessions {
  readonly #perSecond: number;
  readonly #bySalt: BoundedLru<string, InboundSession>;
  readonly #owners: BoundedLru<string, Owner>;
  /** For lack of room, or because a secret was withdrawn: of whom, nobody knows any more. */
  #hasForgotten = false;

  constructor(sessionsMax: number, perIdentityPerSecond: number) {
    const forgotten = (): void => {
      this.#hasForgotten = true;
    };
    this.#perSecond = perIdentityPerSecond;
    this.#bySalt = new BoundedLru(sessionsMax, forgotten);
    this.#owners = new BoundedLru(sessionsMax, forgotten);
  }

  find(salt: Buffer): InboundSession | undefined {
    return this.#bySalt.get(salt.toString('latin1'));
  }

  /** An earlier life of a node that has since started again speaks no more. */
  isStale(id: string, generation: number): boolean {
    const owner = this.#owners.get(id);
    return owner !== undefined && generation < owner.generation;
  }

  /** Can an unknown session of this life only be one that we have never heard? */
  hasCompleteHistoryOf(id: string, generation: number): boolean {
    const owner = this.#owners.peek(id);
    const hasForgotten = owner?.generation === generation && owner.hasForgotten;
    return !hasForgotten && !this.#hasForgotten;
  }

  /** Everything below `floor` may have been received before, by this node in an earlier life. */
  learn(ring: KeyRing, identity: Identity, keyId: number, salt: Buffer, floor: number, nowMs: number): void {
    const master = ring.accepted.get(keyId);
    if (master === undefined || this.#bySalt.peek(salt.toString('latin1')) !== undefined) return;
    this.addProven(identity, { keyId, key: sessionKey(master, salt), salt, floor }, nowMs);
  }

  /** The same for one whose key is at hand. */
  addProven(identity: Identity, { keyId, key, salt, floor }: Proven, nowMs: number): void {
    const name = salt.toString('latin1');
    if (this.#bySalt.peek(name) !== undefined || this.isStale(identity.id, identity.generation)) return;
    const bucket = this.#own(identity, name, nowMs);
    this.#bySalt.set(name, { keyId, key, identity, window: new ReplayWindow(floor), bucket });
  }

  /** A secret was withdrawn: what it vouched for is over. */
  keepOnly(ring: KeyRing): void {
    for (const [name, { keyId }] of [...this.#bySalt.entries()]) {
      if (ring.accepted.has(keyId)) continue;
      this.#bySalt.delete(name);
      this.#hasForgotten = true;
    }
  }

  #own(identity: Identity, name: string, nowMs: number): TokenBucket {
    const known = this.#owners.get(identity.id);
    const salts = known?.generation === identity.generation ? [...known.salts, name] : [name];
    if (known !== undefined && known.generation < identity.generation) this.#forget(known.salts);
    const tooMany = salts.splice(0, salts.length - saltsPerOwnerMax);
    this.#forget(tooMany);
    const hasForgotten = tooMany.length > 0 || (known?.generation === identity.generation && known.hasForgotten);
    const bucket = known?.bucket ?? new TokenBucket(this.#perSecond, this.#perSecond, nowMs);
    this.#owners.set(identity.id, { generation: identity.generation, salts, bucket, hasForgotten });
    return bucket;
  }

  #forget(names: readonly string[]): void {
    for (const name of names) this.#bySalt.delete(name);
  }
}
