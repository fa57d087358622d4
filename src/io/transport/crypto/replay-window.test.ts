import assert from 'node:assert/strict';
import { test } from 'node:test';

import fc from 'fast-check';

import { ReplayWindow, replayWindowBits } from './replay-window.ts';

test('a counter is fresh once, in any order within the window, and never below it', () => {
  const window = new ReplayWindow();
  for (const counter of [0, 5, 3, 4]) {
    assert.equal(window.check(counter), 'fresh');
    window.mark(counter);
    assert.equal(window.check(counter), 'replayed');
  }
  window.mark(5_000);
  assert.equal(window.check(1), 'tooOld');
  assert.equal(window.check(5_000 - replayWindowBits), 'tooOld');
  assert.equal(window.check(5_000 - replayWindowBits + 1), 'fresh');
});

test('a counter below the floor is never fresh', () => {
  const window = new ReplayWindow(100);
  assert.notEqual(window.check(99), 'fresh');
  assert.notEqual(window.check(0), 'fresh');
  assert.equal(window.check(100), 'fresh');
});

test('checking a forged counter does not advance the window', () => {
  const window = new ReplayWindow();
  assert.equal(window.check(2 ** 40), 'fresh');
  assert.equal(window.check(1), 'fresh');
});

test('the window agrees with a plain set of seen counters', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 4_000 }), { maxLength: 300 }), (counters) => {
      const window = new ReplayWindow();
      const seen = new Set<number>();
      let highest = -1;
      for (const counter of counters) {
        const expected = counter <= highest - replayWindowBits ? 'tooOld' : seen.has(counter) ? 'replayed' : 'fresh';
        assert.equal(window.check(counter), expected);
        if (expected !== 'fresh') continue;
        window.mark(counter);
        seen.add(counter);
        highest = Math.max(highest, counter);
      }
    }),
  );
});
