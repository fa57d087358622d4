/**
 * Replies to long-poll watches: on changes, on timeout, or with `compacted`. Keeps no state of a watcher between two
 * requests, so any manager can serve the next one.
 */
import { type Done, RemusterError } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { KeyRange, RegistryEpoch, WatchStart } from '../../base/registry.ts';
import { compareEpochs } from '../../base/registry-epoch.ts';
import type { Keyspace } from '../keyspace/keyspace.ts';
import { type RegistryMessageOf, revisionToWire } from '../registry-messages.ts';

export type WatchRequest = { readonly range: KeyRange; readonly start: WatchStart; readonly waitMs: number };
type Changes = RegistryMessageOf<'registryWatchReply'>;
type WaitingWatch = {
  readonly range: KeyRange;
  readonly epoch: RegistryEpoch | undefined;
  next: number;
  cancel: Cancel;
  readonly done: Done<Changes>;
};

const watchWaitMsMax = 60_000;

export class WatchServer {
  readonly #clock: Clock;
  readonly #keyspace: Keyspace;
  readonly #waitingMax: number;
  readonly #waiting = new Set<WaitingWatch>();
  #isScheduled = false;

  constructor(clock: Clock, keyspace: Keyspace, waitingMax: number) {
    this.#clock = clock;
    this.#keyspace = keyspace;
    this.#waitingMax = waitingMax;
  }

  get size(): number {
    return this.#waiting.size;
  }

  watch({ range, start, waitMs }: WatchRequest, done: Done<Changes>): void {
    const { revision: next, epoch } = start;
    const waiting: WaitingWatch = { range, epoch, next, cancel: () => {}, done };
    const found = this.#read(waiting);
    if (found !== undefined) return done({ ok: true, value: found });
    if (this.#waiting.size >= this.#waitingMax)
      return done({
        ok: false,
        error: new RemusterError('CAPACITY', `this manager has ${this.#waitingMax} waiting watches`),
      });
    this.#waiting.add(waiting);
    waiting.cancel = this.#clock.schedule(Math.min(waitMs, watchWaitMsMax), () => {
      this.#end(waiting, { kind: 'registryWatchReply', revisions: [], next: waiting.next, oldestRevision: undefined });
    });
  }

  /** Coalesces the changes of one loop turn. */
  changed(): void {
    if (this.#isScheduled || this.#waiting.size === 0) return;
    this.#isScheduled = true;
    this.#clock.schedule(0, () => {
      this.#isScheduled = false;
      for (const waiting of [...this.#waiting]) {
        const found = this.#read(waiting);
        if (found !== undefined) this.#end(waiting, found);
      }
    });
  }

  /** Ends all waiting watches with this error; their clients continue at another manager. */
  close(error: RemusterError): void {
    for (const waiting of [...this.#waiting]) {
      this.#remove(waiting);
      waiting.done({ ok: false, error });
    }
  }

  /** Undefined while the range has no changes; `next` then moves past the changes of other ranges. */
  #read(waiting: WaitingWatch): Changes | undefined {
    const { epoch, oldestRevision } = this.#keyspace;
    const order = waiting.epoch === undefined ? 'same' : compareEpochs(waiting.epoch, epoch);
    // This replica lags behind a restore that the watcher has seen.
    if (order === 'newer') return undefined;
    if (order !== 'same') return { kind: 'registryWatchReply', revisions: [], next: oldestRevision, oldestRevision };
    for (;;) {
      const part = this.#keyspace.changesFrom(waiting.range, waiting.next);
      if (part.kind === 'compacted') {
        const { oldestRevision } = part;
        return { kind: 'registryWatchReply', revisions: [], next: oldestRevision, oldestRevision };
      }
      if (part.revisions.length > 0) {
        const revisions = part.revisions.map(revisionToWire);
        return { kind: 'registryWatchReply', revisions, next: part.next, oldestRevision: undefined };
      }
      if (part.next === waiting.next) return undefined;
      waiting.next = part.next;
    }
  }

  #end(waiting: WaitingWatch, changes: Changes): void {
    this.#remove(waiting);
    waiting.done({ ok: true, value: changes });
  }

  #remove(waiting: WaitingWatch): void {
    waiting.cancel();
    this.#waiting.delete(waiting);
  }
}
