/**
 * Claims still to be gossiped, one per member, least transmitted first (memberlist: TransmitLimitedQueue). Bounded;
 * never decides whether a claim is true. Every message has a place for the oldest claim, whatever its rank: so each one
 * reaches its count, and a death does not starve behind a flow of joins (Y23).
 *
 * The buffer has a bound: what does not fit any more pushes out the claim that was told most, and the owner hears of it
 * (anti-entropy then repairs what was lost). It never judges a claim: see claim.ts.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Claim, ClaimKind } from './claim.ts';

type Item = { readonly claim: Claim; readonly bytes: number; transmits: number };

const urgency: Readonly<Record<ClaimKind, number>> = { join: 0, left: 1, alive: 2, suspect: 3, dead: 4 };
const urgencies = 5;

export class GossipQueue {
  readonly #max: number;
  readonly #overflowed: () => void;
  /** From the oldest to the latest. */
  readonly #items = new Map<NodeId, Item>();
  /** In order of telling: index = times told * 5 + urgency. */
  readonly #shelves: Set<Item>[] = [];

  constructor(max: number, overflowed: () => void) {
    this.#max = max;
    this.#overflowed = overflowed;
  }

  get size(): number {
    return this.#items.size;
  }

  /** Is there something that was told to nobody yet? */
  get hasUnsent(): boolean {
    for (let place = 0; place < urgencies; place++) if ((this.#shelves[place]?.size ?? 0) > 0) return true;
    return false;
  }

  add(claim: Claim): void {
    this.remove(claim.id);
    const item = { claim, bytes: claimBytesBound(claim), transmits: 0 };
    this.#items.set(claim.id, item);
    this.#shelfOf(item).add(item);
    if (this.#items.size <= this.#max) return;
    this.#dropMostTold();
    this.#overflowed();
  }

  /** What was to be told about this member is not news any more. */
  remove(id: NodeId): void {
    const item = this.#items.get(id);
    if (item === undefined) return;
    this.#items.delete(id);
    this.#shelfOf(item).delete(item);
  }

  /** Claims for one message of at most `bytesMax`, each counted as told once more and forgotten after `tellMax` times. */
  take(bytesMax: number, tellMax: number): Claim[] {
    if (this.#items.size === 0) return [];
    const taken = this.#choose(bytesMax);
    for (const item of taken) {
      this.#shelfOf(item).delete(item);
      item.transmits += 1;
      if (item.transmits < tellMax) this.#shelfOf(item).add(item);
      else this.#items.delete(item.claim.id);
    }
    return [...taken].map((item) => item.claim);
  }

  #choose(bytesMax: number): Set<Item> {
    const chosen = new Set<Item>();
    let room = bytesMax;
    const offer = (item: Item): void => {
      if (item.bytes > room || chosen.has(item)) return;
      room -= item.bytes;
      chosen.add(item);
    };
    for (const oldest of this.#items.values()) {
      offer(oldest);
      break;
    }
    for (const shelf of this.#shelves) {
      for (const item of shelf) offer(item);
      if (room < claimBytesMin) break;
    }
    return chosen;
  }

  #shelfOf(item: Item): Set<Item> {
    const place = item.transmits * urgencies + urgency[item.claim.kind];
    while (this.#shelves.length <= place) this.#shelves.push(new Set());
    return this.#shelves[place] as Set<Item>;
  }

  #dropMostTold(): void {
    for (const shelf of this.#shelves.toReversed()) {
      for (const item of shelf) return this.remove(item.claim.id);
    }
  }
}

/** A claim without an entry: two ids, three small numbers, keys and lengths. */
const claimBytesMin = 56;
/** An entry besides its names: an id, two numbers, roles, a mark, keys and lengths. */
const entryBytesMin = 40;
const isPlain = /^[ -~]*$/;

/** An upper bound of what the claim takes on the wire. */
export function claimBytesBound(claim: Claim): number {
  if (claim.entry === undefined) return claimBytesMin;
  const { name, host, dc, watchedBy } = claim.entry;
  const hostBytes = isPlain.test(host) ? host.length : 3 * host.length;
  const watcherBytes = watchedBy === undefined ? 0 : 18;
  return claimBytesMin + entryBytesMin + name.length + hostBytes + dc.length + watcherBytes;
}
