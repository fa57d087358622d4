/**
 * What the leader knows of one follower: 0 <= match < next, and probe, replicate or snapshot. Limits appends in flight.
 *
 * How far one other member is, as its leader sees it:
 *
 *   probe     one message at a time, until the place is found where both logs are the same
 *   stream    entries follow each other without waiting, within bounds
 *   snapshot  it lacks entries that are no longer kept, and gets the whole state first
 */
import type { ConsensusOptions } from '../state/options.ts';
import type { Snapshot } from '../state/snapshot.ts';

type InFlightAppend = { readonly lastIndex: number; readonly bytes: number };

export class PeerProgress {
  /** Durable there, and the same as here, up to this entry. */
  match = 0;
  /** The next entry to be sent. */
  next: number;
  state: 'probe' | 'stream' | 'snapshot' = 'probe';
  /** A probe is under way. */
  probing = false;
  /** How far it was told that agreement has come; it is told again by each heartbeat. */
  sentCommit = 0;
  ackedRound = 0;
  /** When the last round began that it has answered. */
  ackedMs = -Infinity;
  heardMs = -Infinity;
  health = 0;
  /** It was removed by this entry, and is told so before it is forgotten. */
  removedBy: number | undefined;
  snapshotTransfer: { readonly snapshot: Snapshot; offset: number; idleTicks: number } | undefined;
  readonly #shipments: InFlightAppend[] = [];
  #bytes = 0;

  constructor(next: number) {
    this.next = next;
  }

  get idle(): boolean {
    return this.#shipments.length === 0;
  }

  hasRoom({ appendsInFlightMax, appendBytesInFlightMax }: ConsensusOptions): boolean {
    return this.#shipments.length < appendsInFlightMax && this.#bytes < appendBytesInFlightMax;
  }

  sent(lastIndex: number, bytes: number): void {
    this.#shipments.push({ lastIndex, bytes });
    this.#bytes += bytes;
    this.next = lastIndex + 1;
  }

  matched(index: number): void {
    this.match = Math.max(this.match, index);
    this.next = Math.max(this.next, this.match + 1);
    let arrived = 0;
    for (; arrived < this.#shipments.length; arrived++) {
      const { lastIndex, bytes } = this.#shipments[arrived] as InFlightAppend;
      if (lastIndex > this.match) break;
      this.#bytes -= bytes;
    }
    if (arrived > 0) this.#shipments.splice(0, arrived);
  }

  stream(): void {
    this.state = 'stream';
    this.probing = false;
    this.snapshotTransfer = undefined;
  }

  /** It does not have what we thought: everything under way is in vain. */
  probeFrom(next: number): void {
    this.state = 'probe';
    this.probing = false;
    this.snapshotTransfer = undefined;
    this.#shipments.length = 0;
    this.#bytes = 0;
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
