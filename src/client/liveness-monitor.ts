/**
 * Detects unresponsive nodes while requests wait for them: after 1 s without a reply it sends an echo, and if that is
 * not answered within 1.5 s it notifies the requests. A node that answers the echo may take any time for a request.
 */
import { CompactingSet } from '../base/collections/compacting-map.ts';
import type { Address, Cancel, Clock, Streams } from '../base/ports.ts';
import { encodeMessage } from '../messages/catalogue.ts';
import { addressKey } from './server-list.ts';

export type LivenessListener = {
  /** The node does not answer. The listener has stopped waiting for it. */
  onUnresponsive(address: Address): void;
};

type WatchedNode = {
  readonly address: Address;
  readonly waiting: CompactingSet<LivenessListener>;
  lastReplyMs: number;
  cancel: Cancel;
};

const silentAfterMs = 1_000;
const echoTimeoutMs = 1_500;
const nothing: Cancel = () => {};

export class LivenessMonitor {
  readonly #clock: Clock;
  readonly #streams: Pick<Streams, 'request'>;
  readonly #watched = new Map<string, WatchedNode>();

  constructor(clock: Clock, streams: Pick<Streams, 'request'>) {
    this.#clock = clock;
    this.#streams = streams;
  }

  /** Nodes for which requests wait, or have waited less than a second ago. */
  get size(): number {
    return this.#watched.size;
  }

  startWaiting(address: Address, listener: LivenessListener): void {
    const key = addressKey(address);
    const known = this.#watched.get(key);
    if (known !== undefined) {
      known.waiting.add(listener);
      return;
    }
    const lastReplyMs = this.#clock.nowMs();
    const watched: WatchedNode = { address, waiting: new CompactingSet(), lastReplyMs, cancel: nothing };
    watched.waiting.add(listener);
    this.#watched.set(key, watched);
    this.#scheduleCheck(watched, silentAfterMs);
  }

  /** `hasReply`: the request ended with a reply of the node. */
  stopWaiting(address: Address, listener: LivenessListener, hasReply: boolean): void {
    const watched = this.#watched.get(addressKey(address));
    if (watched === undefined) return;
    if (hasReply) watched.lastReplyMs = this.#clock.nowMs();
    watched.waiting.delete(listener);
  }

  close(): void {
    for (const { cancel } of this.#watched.values()) cancel();
    this.#watched.clear();
  }

  #scheduleCheck(watched: WatchedNode, delayMs: number): void {
    watched.cancel = this.#clock.schedule(delayMs, () => this.#check(watched));
  }

  /** One timer per node, which is not reset for each request. */
  #check(watched: WatchedNode): void {
    if (watched.waiting.size === 0) {
      this.#watched.delete(addressKey(watched.address));
      return;
    }
    const silentMs = this.#clock.nowMs() - watched.lastReplyMs;
    if (silentMs < silentAfterMs) this.#scheduleCheck(watched, silentAfterMs - silentMs);
    else this.#probe(watched);
  }

  #probe(watched: WatchedNode): void {
    const body = encodeMessage({ kind: 'echo', payload: new Uint8Array(0) });
    watched.cancel = this.#streams.request(watched.address, body, echoTimeoutMs, (outcome) => {
      // The entry may have been removed, and another added for the same address.
      if (this.#watched.get(addressKey(watched.address)) !== watched) return;
      if (outcome.ok) watched.lastReplyMs = this.#clock.nowMs();
      const isSilent = this.#clock.nowMs() - watched.lastReplyMs >= silentAfterMs;
      if (isSilent) this.#notify(watched);
      this.#scheduleCheck(watched, silentAfterMs);
    });
  }

  #notify(watched: WatchedNode): void {
    const waiting = [...watched.waiting];
    watched.waiting.clear();
    watched.lastReplyMs = this.#clock.nowMs();
    for (const listener of waiting) listener.onUnresponsive(watched.address);
  }
}
