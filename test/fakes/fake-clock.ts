/** A fake Clock port on virtual time, which the test advances. */
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import type { Cancel, Clock } from '../../src/base/ports.ts';
import { Timeline } from '../../src/simulation/engine/timeline.ts';

export class FakeClock implements Clock {
  readonly #timeline = new Timeline();

  nowMs(): number {
    return this.#timeline.nowMs;
  }

  wallMs(): number {
    return 1_700_000_000_000 + this.#timeline.nowMs;
  }

  schedule(delayMs: number, run: () => void): Cancel {
    return this.#timeline.after(delayMs, run);
  }

  /** Advances time, event by event, until the work has settled. */
  async during<T>(work: Promise<T>): Promise<T> {
    let isSettled = false;
    const onSettled = (): void => {
      isSettled = true;
    };
    work.then(onSettled, onSettled);
    await setImmediate();
    while (!isSettled) {
      assert.ok(this.#timeline.step(), 'the work waits, but no event is scheduled');
      await setImmediate();
    }
    return work;
  }

  /** Advances time until that moment. */
  async until(atMs: number): Promise<void> {
    const reached = Promise.withResolvers<void>();
    this.schedule(atMs - this.nowMs(), () => reached.resolve());
    await this.during(reached.promise);
  }
}
