/**
 * Client side of one watch: long-polls a manager from a revision and continues at another manager when that one fails.
 * It keeps the revision to resume from, so no change is missed or reported twice.
 */
import type { Cancel, Peer } from '../../base/ports.ts';
import type { KeyRange, RegistryEpoch, WatchEvents, WatchStart } from '../../base/registry.ts';
import { encodeMessage, tryDecodeMessage } from '../../messages/catalogue.ts';
import type { LeaderRequestParts } from './leader-request.ts';
import { type RegistryMessageOf, revisionFromWire } from '../registry-messages.ts';

const waitMs = 20_000;
/** How often the watch checks that its manager is still a known one. */
const checkMs = 2_000;
/** The time for a reply beyond the time that the server waits for changes. */
const replyMarginMs = 3_000;
const backoffMsMin = 50;
const backoffMsMax = 2_000;

export class LongPollWatch {
  readonly #parts: LeaderRequestParts;
  readonly #range: KeyRange;
  readonly #epoch: RegistryEpoch | undefined;
  readonly #events: WatchEvents;
  readonly #onCompacted: () => void;
  #next: number;
  #backoffs = 0;
  #cancelled = false;
  #cancel: Cancel = () => {};

  /** `ended` is called when history is gone, not after `cancel`. */
  constructor(
    parts: LeaderRequestParts,
    watch: { readonly range: KeyRange; readonly start: WatchStart; readonly events: WatchEvents },
    onCompacted: () => void,
  ) {
    this.#parts = parts;
    this.#range = watch.range;
    this.#next = watch.start.revision;
    this.#epoch = watch.start.epoch;
    this.#events = watch.events;
    this.#onCompacted = onCompacted;
    this.#poll();
  }

  cancel(): void {
    this.#cancelled = true;
    this.#cancel();
  }

  #poll(): void {
    // A partition may silence a remote manager without breaking the connection; the own server is always reachable.
    const localManager = this.#parts.localManager?.();
    const to = localManager ?? this.#parts.finder.nextManager();
    if (to === undefined) return this.#backOff();
    const from = { fromRevision: this.#next, epoch: this.#epoch };
    const request = encodeMessage({ kind: 'registryWatch', ...this.#range, ...from, waitMs });
    const cancelRequest = this.#parts.send(to, request, waitMs + replyMarginMs, (outcome) => {
      stopChecking();
      if (this.#cancelled) return;
      const value = outcome.ok ? outcome.value : undefined;
      const reply = value instanceof Uint8Array ? tryDecodeMessage(value) : value;
      if (reply?.kind === 'registryWatchReply') return this.#onReply(reply);
      if (localManager === undefined) this.#parts.finder.avoid(to);
      this.#backOff();
    });
    const stopChecking = this.#watchCandidate(to, cancelRequest);
    this.#cancel = () => {
      stopChecking();
      cancelRequest();
    };
  }

  /** Cancels the request when its manager is no longer a candidate: a silent partition breaks no connection. */
  #watchCandidate(to: Peer, cancelRequest: Cancel): Cancel {
    let cancel: Cancel = () => {};
    const check = (): void => {
      if (!this.#parts.finder.isCandidate(to)) cancelRequest();
      else cancel = this.#parts.clock.schedule(checkMs, check);
    };
    cancel = this.#parts.clock.schedule(checkMs, check);
    return () => cancel();
  }

  #onReply({ revisions, next, oldestRevision }: RegistryMessageOf<'registryWatchReply'>): void {
    this.#backoffs = 0;
    if (oldestRevision !== undefined) {
      this.#cancelled = true;
      this.#onCompacted();
      return this.#events.compacted(oldestRevision);
    }
    for (const wire of revisions) {
      if (this.#cancelled) return;
      const { revision, changes } = revisionFromWire(wire);
      if (revision < this.#next) continue;
      this.#next = revision + 1;
      this.#events.changed(changes, revision);
    }
    this.#next = Math.max(this.#next, next);
    if (!this.#cancelled) this.#poll();
  }

  #backOff(): void {
    const backoffMs = Math.min(backoffMsMax, backoffMsMin * 2 ** this.#backoffs);
    this.#backoffs += 1;
    const delayMs = backoffMs * this.#parts.random.between(0.5, 1);
    this.#cancel = this.#parts.clock.schedule(delayMs, () => this.#poll());
  }
}
