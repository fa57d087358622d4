import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Random } from '../../base/random.ts';
import { describeClock } from '../../../test/simulation/conformance/clock.ts';
import { realWorld } from '../../../test/simulation/conformance/harness.ts';
import { systemClock } from './clock.ts';
import { type SystemTimer, SystemTimerHeap } from './timer-heap.ts';

describeClock('the system clock', () => ({ ...realWorld, clock: systemClock() }));

it('a timer never fires early after a long event loop turn', async () => {
  const clock = systemClock();
  const busyUntilMs = clock.nowMs() + 60;
  while (clock.nowMs() < busyUntilMs);
  const startMs = clock.nowMs();
  const firedMs = await new Promise<number>((resolve) => void clock.schedule(30, () => resolve(clock.nowMs())));
  assert.ok(firedMs - startMs >= 30);
});

it('a delay of more than 2^31 ms does not overflow a Node timer', async (t) => {
  const clock = systemClock();
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): void => void warnings.push(name);
  process.on('warning', onWarning);
  t.after(() => process.off('warning', onWarning));
  const cancel = clock.schedule(2 ** 31 + 1_000, () => assert.fail('fired'));
  await new Promise((resolve) => setImmediate(resolve));
  cancel();
  assert.deepEqual(warnings, []);
});

it(
  'an error of a callback is an uncaught exception, and the other timers still fire',
  { timeout: 10_000 },
  async (t) => {
    const clock = systemClock();
    const errors: unknown[] = [];
    const original = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => errors.push(error));
    t.after(() => {
      process.removeAllListeners('uncaughtException');
      for (const listener of original) process.on('uncaughtException', listener);
    });
    clock.schedule(1, () => {
      throw new Error('thrown by a timer');
    });
    await new Promise<void>((resolve) => void clock.schedule(1, resolve));
    assert.deepEqual(
      errors.map((error) => (error as Error).message),
      ['thrown by a timer'],
    );
  },
);

it('a callback that always schedules itself does not starve the event loop', { timeout: 10_000 }, async () => {
  const clock = systemClock();
  let isDone = false;
  const reschedule = (): void => {
    if (!isDone) clock.schedule(0, reschedule);
  };
  reschedule();
  await new Promise((resolve) => setImmediate(resolve));
  isDone = true;
});

it('the timer heap stays in order under random pushes and removals', () => {
  const random = new Random('timer heap');
  const heap = new SystemTimerHeap();
  const model = new Set<SystemTimer>();
  for (let order = 0; order < 5_000; order++) {
    if (random.chance(0.6)) {
      const timer: SystemTimer = { dueMs: random.below(50), order, run: () => undefined, index: -1 };
      heap.push(timer);
      model.add(timer);
    } else {
      const timer = random.chance(0.5) ? heap.peek() : [...model][random.below(Math.max(1, model.size))];
      if (timer === undefined) continue;
      heap.remove(timer);
      heap.remove(timer);
      model.delete(timer);
    }
    const [first] = [...model].toSorted((a, b) => a.dueMs - b.dueMs || a.order - b.order);
    assert.equal(heap.peek(), first);
    assert.equal(heap.size, model.size);
  }
});
