import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Clock } from '../../base/ports.ts';
import { type StopStep, runStopSequence } from './stop-sequence.ts';

/** Time passes when the test says so. */
class HandClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Set<{ readonly atMs: number; readonly run: () => void }>();

  nowMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return this.#nowMs;
  }

  schedule(delayMs: number, run: () => void): () => void {
    const timer = { atMs: this.#nowMs + delayMs, run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  runUntil(untilMs: number): void {
    for (;;) {
      const [next] = [...this.#timers].toSorted((a, b) => a.atMs - b.atMs);
      if (next === undefined || next.atMs > untilMs) break;
      this.#timers.delete(next);
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.run();
    }
    this.#nowMs = untilMs;
  }
}

describe('a stop sequence', () => {
  it('runs one step after the other; each may use the time that later steps have not reserved', () => {
    const clock = new HandClock();
    const limits: number[] = [];
    const lasting = (name: string, durationMs: number): StopStep => ({
      ...{ name, share: 0.1 },
      run: (limitMs, done) => {
        limits.push(Math.round(limitMs));
        clock.schedule(durationMs, done);
      },
    });
    let endedMs: number | undefined;
    const hooks = { late: (step: string) => assert.fail(step), ended: () => (endedMs = clock.nowMs()) };
    runStopSequence(clock, 1_000, [lasting('a', 300), lasting('b', 100), lasting('c', 50)], hooks);
    clock.runUntil(2_000);
    assert.deepEqual(limits, [800, 600, 600]);
    assert.equal(endedMs, 450);
  });

  it('names each step that hangs, and the steps after it have their share', () => {
    const clock = new HandClock();
    const late: string[] = [];
    const ran: string[] = [];
    let endedMs: number | undefined;
    const hanging = (name: string): StopStep => ({ name, share: 0.2, run: () => void ran.push(name) });
    const goodbye: StopStep = {
      ...{ name: 'goodbye', share: 0.2 },
      run: (limitMs, done) => {
        ran.push(`goodbye with ${Math.round(limitMs)} ms`);
        done();
      },
    };
    const hooks = { late: (step: string) => void late.push(step), ended: () => (endedMs = clock.nowMs()) };
    runStopSequence(clock, 1_000, [hanging('a'), hanging('b'), goodbye], hooks);
    clock.runUntil(2_000);
    assert.deepEqual(late, ['a', 'b']);
    assert.deepEqual(ran, ['a', 'b', 'goodbye with 200 ms']);
    assert.equal(Math.round(endedMs ?? 0), 800);
  });

  it('ignores the end of a step that comes after its time', () => {
    const clock = new HandClock();
    let ends = 0;
    let endLate: () => void = () => {};
    const steps: readonly StopStep[] = [{ name: 'a', share: 0.1, run: (_limitMs, done) => (endLate = done) }];
    runStopSequence(clock, 100, steps, { late: () => {}, ended: () => (ends += 1) });
    clock.runUntil(200);
    endLate();
    clock.runUntil(300);
    assert.equal(ends, 1);
  });
});
