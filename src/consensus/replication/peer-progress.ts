/**
 * What the leader knows of one follower: 0 <= match < next, and one of three states. Bounds appends in flight.
 *
 *   probe      one message at a time, until the position is found where both logs match
 *   replicate  pipelined appends within bounds
 *   snapshot   the follower lacks compacted entries and gets the whole state first
 */
import type { ConsensusOptions } from '../state/options.ts';
import type { Snapshot } from '../state/snapshot.ts';

type InFlightAppend = { readonly lastIndex: number; readonly bytes: number };

export class PeerProgress {
  /** Up to this index the log of the follower is durable and equal. */
  match = 0;
  /** Index of the next entry to send. */
  next: number;
  state: 'probe' | 'replicate' | 'snapshot' = 'probe';
  /** A probe is in flight. */
  probing = false;
  /** The commit index last sent; each heartbeat repeats it. */
  sentCommit = 0;
  ackedRound = 0;
  /** Start of the last round that it acknowledged. */
  ackedMs = -Infinity;
  lastReplyMs = -Infinity;
  health = 0;
  /** Index of the entry that removes it; it still receives this entry. */
  removedBy: number | undefined;
  snapshotTransfer: { readonly snapshot: Snapshot; offset: number; idleTicks: number } | undefined;
  readonly #inFlight: InFlightAppend[] = [];
  #inFlightBytes = 0;

  constructor(next: number) {
    this.next = next;
  }

  get idle(): boolean {
    return this.#inFlight.length === 0;
  }

  hasRoom({ appendsInFlightMax, appendBytesInFlightMax }: ConsensusOptions): boolean {
    return this.#inFlight.length < appendsInFlightMax && this.#inFlightBytes < appendBytesInFlightMax;
  }

  sent(lastIndex: number, bytes: number): void {
    this.#inFlight.push({ lastIndex, bytes });
    this.#inFlightBytes += bytes;
    this.next = lastIndex + 1;
  }

  acknowledged(index: number): void {
    this.match = Math.max(this.match, index);
    this.next = Math.max(this.next, this.match + 1);
    let acked = 0;
    for (; acked < this.#inFlight.length; acked++) {
      const { lastIndex, bytes } = this.#inFlight[acked] as InFlightAppend;
      if (lastIndex > this.match) break;
      this.#inFlightBytes -= bytes;
    }
    if (acked > 0) this.#inFlight.splice(0, acked);
  }

  replicate(): void {
    this.state = 'replicate';
    this.probing = false;
    this.snapshotTransfer = undefined;
  }

  /** Its log ends earlier than assumed: appends in flight are void. */
  probeFrom(next: number): void {
    this.state = 'probe';
    this.probing = false;
    this.snapshotTransfer = undefined;
    this.#inFlight.length = 0;
    this.#inFlightBytes = 0;
    this.next = next;
    this.match = Math.min(this.match, next - 1);
  }

  install(snapshot: Snapshot): void {
    this.probeFrom(snapshot.index + 1);
    this.match = 0;
    this.state = 'snapshot';
    this.snapshotTransfer = { snapshot, offset: 0, idleTicks: 0 };
  }
}
