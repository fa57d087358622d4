/**
 * Virtual time: an ordered queue of events. Events with equal times run in insertion order, so a run depends on its
 * inputs alone. Nothing runs unless the owner steps it.
 *
 * Times are multiples of 1/1024 ms. Their sums are exact in floating point, so no delay is short by a rounding error,
 * and all machines print the same digits.
 */
import { assert } from '../../base/assert.ts';
import type { Cancel } from '../../base/ports.ts';

const ticksPerMs = 1024;

/** The smallest multiple of 1/1024 ms that is not below `ms`. */
export function alignToGrid(ms: number): number {
  return Math.ceil(ms * ticksPerMs) / ticksPerMs;
}

/** A queued event; its owner can remove it. */
export type TimelineEvent = { readonly atMs: number; readonly order: number; readonly run: () => void; index: number };

const notQueued = -1;

export class Timeline {
  /** A binary heap; each event knows its index, so that cancelling frees it at once. */
  readonly #heap: TimelineEvent[] = [];
  #nowMs = 0;
  #order = 0;
  #steps = 0;

  get nowMs(): number {
    return this.#nowMs;
  }

  get steps(): number {
    return this.#steps;
  }

  get pending(): number {
    return this.#heap.length;
  }

  after(delayMs: number, run: () => void): Cancel {
    return this.at(this.#nowMs + Math.max(0, delayMs), run);
  }

  at(atMs: number, run: () => void): Cancel {
    const event = this.schedule(atMs, run);
    return () => this.remove(event);
  }

  /** `at` without a closure per event, for callers that schedule many. */
  schedule(atMs: number, run: () => void): TimelineEvent {
    assert(Number.isFinite(atMs), 'an event needs a finite time');
    const event: TimelineEvent = {
      atMs: Math.max(this.#nowMs, alignToGrid(atMs)),
      order: this.#order++,
      run,
      index: notQueued,
    };
    this.#up(event, this.#heap.push(event) - 1);
    return event;
  }

  /** Runs the next event; false if there is none. */
  step(): boolean {
    const event = this.#heap[0];
    if (event === undefined) return false;
    this.remove(event);
    this.#nowMs = event.atMs;
    this.#steps += 1;
    event.run();
    return true;
  }

  /** Time of the next event. */
  nextMs(): number | undefined {
    return this.#heap[0]?.atMs;
  }

  /** Runs all events up to and including `atMs`, and advances the time to it. */
  runUntil(atMs: number): void {
    for (let next = this.#heap[0]; next !== undefined && next.atMs <= atMs; next = this.#heap[0]) this.step();
    this.#nowMs = Math.max(this.#nowMs, alignToGrid(atMs));
  }

  /** Removes an event; does nothing if it has run. */
  remove(event: TimelineEvent): void {
    const at = event.index;
    if (at === notQueued) return;
    event.index = notQueued;
    const last = this.#heap.pop() as TimelineEvent;
    if (last === event) return;
    if (at > 0 && before(last, this.#heap[(at - 1) >> 1] as TimelineEvent)) this.#up(last, at);
    else this.#down(last, at);
  }

  #up(event: TimelineEvent, from: number): void {
    let at = from;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = this.#heap[parentAt] as TimelineEvent;
      if (!before(event, parent)) break;
      this.#put(parent, at);
      at = parentAt;
    }
    this.#put(event, at);
  }

  #down(event: TimelineEvent, from: number): void {
    const heap = this.#heap;
    let at = from;
    for (let childAt = 2 * at + 1; childAt < heap.length; childAt = 2 * at + 1) {
      const right = heap[childAt + 1];
      if (right !== undefined && before(right, heap[childAt] as TimelineEvent)) childAt += 1;
      const child = heap[childAt] as TimelineEvent;
      if (!before(child, event)) break;
      this.#put(child, at);
      at = childAt;
    }
    this.#put(event, at);
  }

  #put(event: TimelineEvent, at: number): void {
    this.#heap[at] = event;
    event.index = at;
  }
}

function before(a: TimelineEvent, b: TimelineEvent): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
