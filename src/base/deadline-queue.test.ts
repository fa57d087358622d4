/** The queue returns each key at its deadline, in order, and never one that was moved or deleted. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { DeadlineQueue } from './deadline-queue.ts';

describe('the deadline queue', () => {
  it('returns due keys once, the earliest first', () => {
    const queue = new DeadlineQueue<string>(10);
    queue.set(0, 'late', 27);
    queue.set(0, 'early', 21);
    queue.set(0, 'later', 28);
    assert.equal(queue.nextMs, 21);
    assert.deepEqual(queue.due(20.9), []);
    assert.deepEqual(queue.due(27), ['early', 'late']);
    assert.deepEqual(queue.due(27), []);
    assert.equal(queue.nextMs, 28);
    assert.equal(queue.size, 1);
  });

  it('drops the old deadline of a moved key, and a deleted key', () => {
    const queue = new DeadlineQueue<string>(10);
    queue.set(0, 'moved', 15);
    queue.set(0, 'deleted', 15);
    queue.set(5, 'moved', 95);
    assert.equal(queue.delete('deleted'), true);
    assert.equal(queue.delete('deleted'), false);
    assert.deepEqual(queue.due(94), []);
    assert.deepEqual(queue.due(95), ['moved']);
    assert.equal(queue.nextMs, undefined);
  });

  it('returns a deadline that has already passed at once', () => {
    const queue = new DeadlineQueue<string>(10);
    queue.set(1_000, 'a', 1_050);
    queue.set(1_000, 'past', 3);
    assert.equal(queue.nextMs, 3);
    assert.deepEqual(queue.due(1_000), ['past']);
  });

  it('keeps a deadline exact that is many turns ahead', () => {
    const queue = new DeadlineQueue<string>(10);
    queue.set(0, 'far', 10_003);
    let wakes = 0;
    for (let nowMs = 0; queue.size > 0; wakes++) {
      nowMs = queue.nextMs ?? assert.fail('nothing to wait for');
      const due = queue.due(nowMs);
      assert.deepEqual(due, nowMs < 10_003 ? [] : ['far']);
    }
    assert.ok(wakes > 1 && wakes < 25, `woke ${wakes} times`);
  });

  it('does not wake early because it did not turn while it was empty', () => {
    const queue = new DeadlineQueue<string>(10);
    queue.set(1_000_000, 'a', 1_000_300);
    assert.equal(queue.nextMs, 1_000_300);
  });

  it('agrees with a linear search', () => {
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
          const queue = new DeadlineQueue<number>(slotMs);
          const naive = new Map<number, number>();
          let nowMs = 0;
          for (const one of actions) {
            if (one.kind === 'set') {
              queue.set(nowMs, one.key, nowMs + one.afterMs);
              naive.set(one.key, nowMs + one.afterMs);
            } else if (one.kind === 'delete') {
              assert.equal(queue.delete(one.key), naive.delete(one.key));
            } else {
              nowMs += one.forMs;
              const due = [...naive].filter(([, atMs]) => atMs <= nowMs).toSorted((a, b) => a[1] - b[1]);
              const found = queue.due(nowMs);
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
            assert.equal(queue.size, naive.size);
            if (naive.size === 0) assert.equal(queue.nextMs, undefined);
            else assert.ok((queue.nextMs ?? Infinity) <= Math.min(...naive.values()), 'wakes in time');
          }
        },
      ),
    );
  });
});
