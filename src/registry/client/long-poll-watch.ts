/**
 * Client side of one watch: polls a manager from a revision and goes on at another manager when that one fails. It
 * keeps the revision to resume from, so nothing is missed or reported twice, whoever answers.
 */
import type { Cancel, Peer } from '../../base/ports.ts';
import type { KeyRange, WatchEvents } from '../../base/registry.ts';
import { encodeMessage, tryDecodeMessage } from '../../messages/catalogue.ts';
import type { LeaderRequestParts } from './leader-request.ts';
import { type RegistryMessageOf, revisionFromWire } from '../registry-messages.ts';

const waitMs = 20_000;
/** How often it is looked whether the one who was asked is still among those who may be. */
const lookMs = 2_000;
/** What an answer may take beyond the time it waits for something to happen. */
const answerMs = 3_000;
const pauseMsMin = 50;
const pauseMsMax = 2_000;

export class LongPollWatch {
  readonly #parts: LeaderRequestParts;
  readonly #range: KeyRange;
  readonly #events: WatchEvents;
  readonly #ended: () => void;
  #next: number;
  #pauses = 0;
  #over = false;
  #cancel: Cancel = () => {};

  /** `ended` is called when history is gone, not after `cancel`. */
  constructor(
    parts: LeaderRequestParts,
    watch: { readonly range: KeyRange; readonly fromRevision: number; readonly events: WatchEvents },
    ended: () => void,
  ) {
    this.#parts = parts;
    this.#range = watch.range;
    this.#next = watch.fromRevision;
    this.#events = watch.events;
    this.#ended = ended;
    this.#ask();
  }

  cancel(): void {
    this.#over = true;
    this.#cancel();
  }

  #ask(): void {
    // One far away may be cut off in silence, and would be waited for until the end of the question.
    const near = this.#parts.near?.();
    const to = near ?? this.#parts.finder.nextManager();
    if (to === undefined) return this.#pause();
    const question = encodeMessage({ kind: 'registryWatch', ...this.#range, fromRevision: this.#next, waitMs });
    const withdraw = this.#parts.ask(to, question, waitMs + answerMs, (outcome) => {
      stopLooking();
      if (this.#over) return;
      const value = outcome.ok ? outcome.value : undefined;
      const answer = value instanceof Uint8Array ? tryDecodeMessage(value) : value;
      if (answer?.kind === 'registryWatchReply') return this.#told(answer);
      if (near === undefined) this.#parts.finder.avoid(to);
      this.#pause();
    });
    const stopLooking = this.#lookAfter(to, withdraw);
    this.#cancel = () => {
      stopLooking();
      withdraw();
    };
  }

  /** One that was given up as dead may hold the question until its end: a silent cut breaks no connection. */
  #lookAfter(to: Peer, withdraw: Cancel): Cancel {
    let cancel: Cancel = () => {};
    const look = (): void => {
      if (!this.#parts.finder.isCandidate(to)) withdraw();
      else cancel = this.#parts.clock.schedule(lookMs, look);
    };
    cancel = this.#parts.clock.schedule(lookMs, look);
    return () => cancel();
  }

  #told({ revisions, next, oldestRevision }: RegistryMessageOf<'registryWatchReply'>): void {
    this.#pauses = 0;
    if (oldestRevision !== undefined) {
      this.#over = true;
      this.#ended();
      return this.#events.compacted(oldestRevision);
    }
    for (const wire of revisions) {
      if (this.#over) return;
      const { revision, changes } = revisionFromWire(wire);
      if (revision < this.#next) continue;
      this.#next = revision + 1;
      this.#events.changed(changes, revision);
    }
    this.#next = Math.max(this.#next, next);
    if (!this.#over) this.#ask();
  }

  #pause(): void {
    const longestMs = Math.min(pauseMsMax, pauseMsMin * 2 ** this.#pauses);
    this.#pauses += 1;
    const delayMs = longestMs * this.#parts.random.between(0.5, 1);
    this.#cancel = this.#parts.clock.schedule(delayMs, () => this.#ask());
  }
}
