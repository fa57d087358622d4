/** Conformance of Clock: time moves forward; timers fire once, in order, never early. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Cancel, Clock } from '../../../src/base/ports.ts';
import { type OpenHarness, type TestWorld, suiteOptions } from './harness.ts';

export type ClockHarness = TestWorld & { readonly clock: Clock };

function wait({ clock, settle }: ClockHarness, delayMs: number): Promise<void> {
  return settle(new Promise((resolve) => void clock.schedule(delayMs, resolve)));
}

export function describeClock(name: string, open: OpenHarness<ClockHarness>): void {
  describe(`${name} is a Clock`, suiteOptions, () => {
    describeTime(open);
    describeTimers(open);
    describeCancel(open);
  });
}

function describeTime(open: OpenHarness<ClockHarness>): void {
  it('only moves forward, and wall time is a number', async (t) => {
    const harness = await open(t);
    const seen: number[] = [];
    for (let i = 0; i < 1_000; i++) seen.push(harness.clock.nowMs());
    await wait(harness, 3);
    seen.push(harness.clock.nowMs());
    assert.ok(seen.every((now, i) => Number.isFinite(now) && (i === 0 || now >= (seen[i - 1] as number))));
    assert.ok(Number.isFinite(harness.clock.wallMs()));
  });

  it('never fires early', async (t) => {
    const harness = await open(t);
    const { clock, settle } = harness;
    const delays = [0, 0.4, 1, 1.5, 2, 5, 7.25, 10, 20, 33];
    const early = delays.map(
      (delayMs) =>
        new Promise<number>((resolve) => {
          const startMs = clock.nowMs();
          clock.schedule(delayMs, () => resolve(clock.nowMs() - startMs - delayMs));
        }),
    );
    for (const slack of await settle(Promise.all(early))) assert.ok(slack >= -1e-6, `fired ${-slack} ms early`);
  });
}

function describeTimers(open: OpenHarness<ClockHarness>): void {
  it('fires no timer before schedule returns, not even without delay', async (t) => {
    const { clock, settle } = await open(t);
    let returned = false;
    const sawReturn = settle(new Promise<boolean>((resolve) => void clock.schedule(0, () => resolve(returned))));
    returned = true;
    assert.equal(await sawReturn, true);
  });

  it('fires in order of time, and in order of calls at the same time, each once', async (t) => {
    const harness = await open(t);
    const fired: string[] = [];
    for (const delayMs of [90, 50, 10]) {
      for (const twin of ['a', 'b', 'c']) harness.clock.schedule(delayMs, () => fired.push(`${delayMs}${twin}`));
    }
    await wait(harness, 120);
    assert.deepEqual(fired, ['10a', '10b', '10c', '50a', '50b', '50c', '90a', '90b', '90c']);
  });

  it('runs a timer without delay after the callback that schedules it, not within it', async (t) => {
    const { clock, settle } = await open(t);
    const order: string[] = [];
    await settle(
      new Promise<void>((resolve) => {
        clock.schedule(1, () => {
          clock.schedule(0, () => {
            order.push('inner');
            resolve();
          });
          order.push('outer');
        });
      }),
    );
    assert.deepEqual(order, ['outer', 'inner']);
  });

  it('does not fire a delay of more than 2^31 ms early', async (t) => {
    const harness = await open(t);
    let fired = false;
    const cancel = harness.clock.schedule(2 ** 31 + 1_000, () => {
      fired = true;
    });
    await wait(harness, 25);
    assert.equal(fired, false);
    cancel();
  });
}

function describeCancel(open: OpenHarness<ClockHarness>): void {
  it('does not fire after cancel; cancelling late or twice is harmless', async (t) => {
    const harness = await open(t);
    let fired = 0;
    const never = harness.clock.schedule(5, () => assert.fail('a cancelled timer fired'));
    never();
    never();
    const once = harness.clock.schedule(5, () => {
      fired += 1;
    });
    await wait(harness, 15);
    once();
    once();
    await wait(harness, 5);
    assert.equal(fired, 1);
  });

  it('lets one callback cancel another that is due at the same time', async (t) => {
    const harness = await open(t);
    const { clock } = harness;
    const cancels: Cancel[] = [];
    clock.schedule(5, () => cancels[0]?.());
    cancels.push(clock.schedule(5, () => assert.fail('fired although cancelled before')));
    await wait(harness, 15);
  });

  it('fires the remaining timers when many are cancelled', async (t) => {
    const harness = await open(t);
    const fired: number[] = [];
    const cancels = Array.from({ length: 200 }, (_, i) => harness.clock.schedule(5 + (i % 7), () => fired.push(i)));
    for (const [i, cancel] of cancels.entries()) if (i % 3 !== 0) cancel();
    await wait(harness, 30);
    for (let delay = 0; delay < 7; delay++) {
      const expected = cancels.map((_, i) => i).filter((i) => i % 3 === 0 && i % 7 === delay);
      assert.deepEqual(
        fired.filter((i) => i % 7 === delay),
        expected,
      );
    }
  });
}
