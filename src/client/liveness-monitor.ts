/**
 * Finds unresponsive nodes while requests wait: after 1 s without a reply it sends an echo, and after 1.5 s more it
 * tells the requests. A slow call is not reported.
 */
import { CompactingSet } from '../base/collections/compacting-map.ts';
import type { Address, Cancel, Clock, Streams } from '../base/ports.ts';
import { encodeMessage } from '../messages/catalogue.ts';
import { addressKey } from './server-list.ts';

export type LivenessListener = {
  /** No word from that node; ends the waiting for it. */
  onUnresponsive(address: Address): void;
};

type Watched = {
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
  readonly #watched = new Map<string, Watched>();

  constructor(clock: Clock, streams: Pick<Streams, 'request'>) {
    this.#clock = clock;
    this.#streams = streams;
  }

  /** Nodes of which somebody waits for an answer. */
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
    const watched: Watched = { address, waiting: new CompactingSet(), lastReplyMs, cancel: nothing };
    watched.waiting.add(listener);
    this.#watched.set(key, watched);
    this.#lookAfter(watched, silentAfterMs);
  }

  /** `heard`: an answer came. */
  stopWaiting(address: Address, listener: LivenessListener, heard: boolean): void {
    const watched = this.#watched.get(addressKey(address));
    if (watched === undefined) return;
    if (heard) watched.lastReplyMs = this.#clock.nowMs();
    watched.waiting.delete(listener);
  }

  close(): void {
    for (const { cancel } of this.#watched.values()) cancel();
    this.#watched.clear();
  }

  #lookAfter(watched: Watched, delayMs: number): void {
    watched.cancel = this.#clock.schedule(delayMs, () => this.#check(watched));
  }

  /** The timer runs on while calls come and go, instead of being set for each of them. */
  #check(watched: Watched): void {
    if (watched.waiting.size === 0) {
      this.#watched.delete(addressKey(watched.address));
      return;
    }
    const silentMs = this.#clock.nowMs() - watched.lastReplyMs;
    if (silentMs < silentAfterMs) this.#lookAfter(watched, silentAfterMs - silentMs);
    else this.#ask(watched);
  }

  #ask(watched: Watched): void {
    const body = encodeMessage({ kind: 'echo', payload: new Uint8Array(0) });
    watched.cancel = this.#streams.request(watched.address, body, echoTimeoutMs, (outcome) => {
      // Another one may have taken its place since.
      if (this.#watched.get(addressKey(watched.address)) !== watched) return;
      if (outcome.ok) watched.lastReplyMs = this.#clock.nowMs();
      const isSilent = this.#clock.nowMs() - watched.lastReplyMs >= silentAfterMs;
      if (isSilent) this.#tell(watched);
      this.#lookAfter(watched, silentAfterMs);
    });
  }

  #tell(watched: Watched): void {
    const waiting = [...watched.waiting];
    watched.waiting.clear();
    watched.lastReplyMs = this.#clock.nowMs();
    for (const listener of waiting) listener.onUnresponsive(watched.address);
  }
}
