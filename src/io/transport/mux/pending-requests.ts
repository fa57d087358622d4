/**
 * Requests that wait for replies, in slots with sequence numbers: a reply finds its callback by one array access, and a
 * late reply to a reused slot is ignored.
 */
import { assert } from '../../../base/assert.ts';
import type { Done } from '../../../base/errors.ts';

export const pendingRequestsMax = 65_536;
const slotMask = pendingRequestsMax - 1;
const noId = -1;

export class PendingRequests {
  readonly #max: number;
  readonly #done: (Done<Uint8Array> | undefined)[] = [];
  readonly #ids: number[] = [];
  readonly #deadlines: number[] = [];
  readonly #free: number[] = [];
  #sequence = 0;
  #count = 0;
  #earliestMs = Infinity;

  constructor(max: number) {
    assert(max > 0 && max <= pendingRequestsMax, 'the table of requests has at most 65,536 slots');
    this.#max = max;
  }

  get count(): number {
    return this.#count;
  }

  /** A lower bound of the earliest deadline: a completed request does not change it. */
  get earliestMs(): number {
    return this.#count === 0 ? Infinity : this.#earliestMs;
  }

  get full(): boolean {
    return this.#count === this.#max;
  }

  add(done: Done<Uint8Array>, deadlineMs: number): number {
    assert(!this.full, 'the caller checks `full` first');
    const slot = this.#free.pop() ?? this.#done.length;
    // From 1, so that no id is 0; at most 15 bits, so that V8 stores ids as small integers.
    this.#sequence = (this.#sequence % 0x7fff) + 1;
    const id = (this.#sequence << 16) | slot;
    this.#done[slot] = done;
    this.#ids[slot] = id;
    this.#deadlines[slot] = deadlineMs;
    if (this.#count === 0 || deadlineMs < this.#earliestMs) this.#earliestMs = deadlineMs;
    this.#count += 1;
    return id;
  }

  has(id: number): boolean {
    return this.#ids[id & slotMask] === id;
  }

  /** Frees the slot. Undefined if the request has ended already. */
  take(id: number): Done<Uint8Array> | undefined {
    const slot = id & slotMask;
    if (this.#ids[slot] !== id) return undefined;
    const done = this.#done[slot];
    this.#done[slot] = undefined;
    this.#ids[slot] = noId;
    this.#free.push(slot);
    this.#count -= 1;
    return done;
  }

  /** Ids of requests past their deadline. They stay in the table until `take`. */
  due(nowMs: number): number[] {
    if (nowMs < this.earliestMs) return [];
    const due: number[] = [];
    this.#earliestMs = Infinity;
    for (const [slot, id] of this.#ids.entries()) {
      if (id === noId) continue;
      const deadlineMs = this.#deadlines[slot]!;
      if (deadlineMs <= nowMs) due.push(id);
      else if (deadlineMs < this.#earliestMs) this.#earliestMs = deadlineMs;
    }
    return due;
  }

  ids(): number[] {
    return this.#ids.filter((id) => id !== noId);
  }
}
