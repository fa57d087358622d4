/**
 * Claims still to be gossiped, one per member, least transmitted first (memberlist: TransmitLimitedQueue). Never
 * decides whether a claim is true. Every message carries the oldest claim whatever its rank, so a death does not starve
 * behind a flow of joins (Y23). A full queue drops the most transmitted claim; anti-entropy repairs the loss.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Claim, ClaimKind } from './claim.ts';

type Item = { readonly claim: Claim; readonly bytes: number; transmits: number };

const urgency: Readonly<Record<ClaimKind, number>> = { join: 0, left: 1, alive: 2, suspect: 3, dead: 4 };
const urgencies = 5;

export class GossipQueue {
  readonly #max: number;
  readonly #onOverflow: () => void;
  /** From the oldest to the latest. */
  readonly #items = new Map<NodeId, Item>();
  /** The same items in order of transmission: index = transmits * 5 + urgency. */
  readonly #buckets: Set<Item>[] = [];

  constructor(max: number, onOverflow: () => void) {
    this.#max = max;
    this.#onOverflow = onOverflow;
  }

  get size(): number {
    return this.#items.size;
  }

  /** True while a claim was not transmitted yet. */
  get hasUnsent(): boolean {
    for (let index = 0; index < urgencies; index++) if ((this.#buckets[index]?.size ?? 0) > 0) return true;
    return false;
  }

  add(claim: Claim): void {
    this.remove(claim.id);
    const item = { claim, bytes: claimBytesBound(claim), transmits: 0 };
    this.#items.set(claim.id, item);
    this.#bucketOf(item).add(item);
    if (this.#items.size <= this.#max) return;
    this.#dropMostTransmitted();
    this.#onOverflow();
  }

  /** Drops the claim about this member, because it is not newer than what the receivers know. */
  remove(id: NodeId): void {
    const item = this.#items.get(id);
    if (item === undefined) return;
    this.#items.delete(id);
    this.#bucketOf(item).delete(item);
  }

  /**
   * Claims for one message of at most `bytesMax`. Each counts as transmitted and is dropped after `transmitMax` times.
   */
  take(bytesMax: number, transmitMax: number): Claim[] {
    if (this.#items.size === 0) return [];
    const taken = this.#choose(bytesMax);
    for (const item of taken) {
      this.#bucketOf(item).delete(item);
      item.transmits += 1;
      if (item.transmits < transmitMax) this.#bucketOf(item).add(item);
      else this.#items.delete(item.claim.id);
    }
    return [...taken].map((item) => item.claim);
  }

  #choose(bytesMax: number): Set<Item> {
    const chosen = new Set<Item>();
    let freeBytes = bytesMax;
    const offer = (item: Item): void => {
      if (item.bytes > freeBytes || chosen.has(item)) return;
      freeBytes -= item.bytes;
      chosen.add(item);
    };
    for (const oldest of this.#items.values()) {
      offer(oldest);
      break;
    }
    for (const bucket of this.#buckets) {
      for (const item of bucket) offer(item);
      if (freeBytes < claimBytesMin) break;
    }
    return chosen;
  }

  #bucketOf(item: Item): Set<Item> {
    const index = item.transmits * urgencies + urgency[item.claim.kind];
    while (this.#buckets.length <= index) this.#buckets.push(new Set());
    return this.#buckets[index] as Set<Item>;
  }

  #dropMostTransmitted(): void {
    for (const bucket of this.#buckets.toReversed()) {
      for (const item of bucket) return this.remove(item.claim.id);
    }
  }
}

/** A claim without an entry: two ids, three small numbers, keys and lengths. */
const claimBytesMin = 56;
/** An entry without its texts: an id, two numbers, roles, keys and lengths. */
const entryBytesMin = 40;
const isPlain = /^[ -~]*$/;

/** An upper bound of the encoded size of the claim. */
export function claimBytesBound(claim: Claim): number {
  if (claim.entry === undefined) return claimBytesMin;
  const { name, host, dc, watchedBy } = claim.entry;
  const hostBytes = isPlain.test(host) ? host.length : 3 * host.length;
  const watcherBytes = watchedBy === undefined ? 0 : 18;
  return claimBytesMin + entryBytesMin + name.length + hostBytes + dc.length + watcherBytes;
}
