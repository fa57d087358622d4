import assert from 'node:assert/strict';
import { it } from 'node:test';

import { TurnDeadlines, type DeadlineEntry } from './call-deadlines.ts';

/** A clock with a single timer. */
class OneTimer {
  now = 0;
  #timer: { readonly atMs: number; readonly run: () => void } | undefined;

  nowMs(): number {
    return this.now;
  }

  wallMs(): number {
    return this.now;
  }

  schedule(delayMs: number, run: () => void): () => void {
    const timer = { atMs: this.now + delayMs, run };
    this.#timer = timer;
    return () => {
      if (this.#timer === timer) this.#timer = undefined;
    };
  }

  advance(toMs: number): void {
    this.now = toMs;
    const timer = this.#timer;
    if (timer === undefined || timer.atMs > toMs) return;
    this.#timer = undefined;
    timer.run();
  }
}

it('expires entries in order of deadline, and no deleted ones', () => {
  const clock = new OneTimer();
  const deadlines = new TurnDeadlines(clock);
  const ended: string[] = [];
  const limited = (name: string, deadlineMs: number, then = (): void => {}): DeadlineEntry => {
    const one = { deadlineMs, listIndex: -1, onExpired: () => (ended.push(name), then()) };
    deadlines.add(one);
    return one;
  };
  const left = limited('left', 10);
  const late = limited('late', 500);
  limited('third', 90);
  const fourth = limited('fourth', 95);
  limited('first', 20);
  limited('second', 50, () => deadlines.delete(fourth));
  deadlines.delete(left);
  deadlines.delete(left);
  assert.equal(deadlines.size, 5);
  clock.advance(100);
  assert.deepEqual([ended, deadlines.size], [['first', 'second', 'third'], 1]);
  clock.advance(499);
  assert.equal(ended.length, 3);
  clock.advance(500);
  assert.deepEqual([ended.at(-1), late.listIndex, deadlines.size], ['late', -1, 0]);
});
