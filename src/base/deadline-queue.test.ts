/** The wheel gives every key at its own deadline, in order, and never one that was moved or dropped. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { DeadlineQueue } from './deadline-queue.ts';

describe('a wheel of deadlines', () => {
  it('gives what is due, the earliest first, once', () => {
    const wheel = new DeadlineQueue<string>(10);
    wheel.set(0, 'late', 27);
    wheel.set(0, 'early', 21);
    wheel.set(0, 'later', 28);
    assert.equal(wheel.nextMs, 21);
    assert.deepEqual(wheel.due(20.9), []);
    assert.deepEqual(wheel.due(27), ['early', 'late']);
    assert.deepEqual(wheel.due(27), []);
    assert.equal(wheel.nextMs, 28);
    assert.equal(wheel.size, 1);
  });

  it('forgets the old deadline of a key that is moved, and a key that is dropped', () => {
    const wheel = new DeadlineQueue<string>(10);
    wheel.set(0, 'moved', 15);
    wheel.set(0, 'dropped', 15);
    wheel.set(5, 'moved', 95);
    assert.equal(wheel.delete('dropped'), true);
    assert.equal(wheel.delete('dropped'), false);
    assert.deepEqual(wheel.due(94), []);
    assert.deepEqual(wheel.due(95), ['moved']);
    assert.equal(wheel.nextMs, undefined);
  });

  it('gives a deadline that has already passed at once', () => {
    const wheel = new DeadlineQueue<string>(10);
    wheel.set(1_000, 'a', 1_050);
    wheel.set(1_000, 'past', 3);
    assert.equal(wheel.nextMs, 3);
    assert.deepEqual(wheel.due(1_000), ['past']);
  });

  it('keeps a deadline exact that lies many rounds ahead', () => {
    const wheel = new DeadlineQueue<string>(10);
    wheel.set(0, 'far', 10_003);
    let wakes = 0;
    for (let nowMs = 0; wheel.size > 0; wakes++) {
      nowMs = wheel.nextMs ?? assert.fail('nothing to wait for');
      const due = wheel.due(nowMs);
      assert.deepEqual(due, nowMs < 10_003 ? [] : ['far']);
    }
    assert.ok(wakes > 1 && wakes < 25, `woke ${wakes} times`);
  });

  it('does not wake early because nobody turned it while it was empty', () => {
    const wheel = new DeadlineQueue<string>(10);
    wheel.set(1_000_000, 'a', 1_000_300);
    assert.equal(wheel.nextMs, 1_000_300);
  });

  it('agrees with a list that is searched from end to end', () => {
    const action = fc.oneof(
      fc.record({ kind: fc.constant('set' as const), key: fc.nat(9), afterMs: fc.integer({ min: -20, max: 2_000 }) }),
      fc.record({ kind: fc.constant('delete' as const), key: fc.nat(9) }),
      fc.record({ kind: fc.constant('wait' as const), forMs: fc.nat(900) }),
    );
    fc.assert(
      fc.property(
        fc.array(action, { maxLength: 60 }),
        fc.double({ min: 0.5, max: 30, noNaN: true }),
        (actions, slotMs) => {
          const wheel = new DeadlineQueue<number>(slotMs);
          const naive = new Map<number, number>();
          let nowMs = 0;
          for (const one of actions) {
            if (one.kind === 'set') {
              wheel.set(nowMs, one.key, nowMs + one.afterMs);
              naive.set(one.key, nowMs + one.afterMs);
            } else if (one.kind === 'delete') {
              assert.equal(wheel.delete(one.key), naive.delete(one.key));
            } else {
              nowMs += one.forMs;
              const due = [...naive].filter(([, atMs]) => atMs <= nowMs).toSorted((a, b) => a[1] - b[1]);
              const found = wheel.due(nowMs);
              assert.deepEqual(
                found.toSorted((a, b) => a - b),
                due.map(([key]) => key).toSorted((a, b) => a - b),
              );
              assert.deepEqual(
                found.map((key) => naive.get(key)),
                due.map(([, atMs]) => atMs),
              );
              for (const [key] of due) naive.delete(key);
            }
            assert.equal(wheel.size, naive.size);
            if (naive.size === 0) assert.equal(wheel.nextMs, undefined);
            else assert.ok((wheel.nextMs ?? Infinity) <= Math.min(...naive.values()), 'wakes in time');
          }
        },
      ),
    );
  });
});
