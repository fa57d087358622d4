import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { alignToGrid, Timeline } from './timeline.ts';

it('a timeline runs events by time, and those of equal times in insertion order', () => {
  const timeline = new Timeline();
  const ran: string[] = [];
  for (const [atMs, label] of [
    [5, 'c'],
    [1, 'a'],
    [5, 'd'],
    [3, 'b'],
  ] as const) {
    timeline.at(atMs, () => ran.push(`${label}@${timeline.nowMs}`));
  }
  timeline.runUntil(4);
  assert.deepEqual(ran, ['a@1', 'b@3']);
  assert.equal(timeline.nowMs, 4);
  timeline.runUntil(5);
  assert.deepEqual(ran, ['a@1', 'b@3', 'c@5', 'd@5']);
  assert.equal(timeline.step(), false);
});

it('a timeline never goes back: an event in the past runs now', () => {
  const timeline = new Timeline();
  timeline.runUntil(10);
  timeline.at(3, () => assert.equal(timeline.nowMs, 10));
  assert.equal(timeline.nextMs(), 10);
  assert.equal(timeline.step(), true);
});

it('a timeline keeps the order of its events, whatever is cancelled', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ atMs: fc.nat(50), keep: fc.boolean() }), { maxLength: 200 }), (entries) => {
      const timeline = new Timeline();
      const ran: number[] = [];
      const cancels = entries.map(({ atMs }, i) => timeline.at(atMs, () => ran.push(i)));
      for (const [i, { keep }] of entries.entries()) if (!keep) cancels[i]?.();
      const kept = entries.map((entry, i) => ({ ...entry, i })).filter(({ keep }) => keep);
      assert.equal(timeline.pending, kept.length);
      timeline.runUntil(100);
      assert.deepEqual(
        ran,
        kept.toSorted((a, b) => a.atMs - b.atMs || a.i - b.i).map(({ i }) => i),
      );
      for (const cancel of cancels) cancel();
    }),
  );
});

it('sums of aligned times are exact', () => {
  let sumMs = 0;
  for (let i = 0; i < 1_000_000; i++) sumMs += alignToGrid(0.1);
  assert.equal(sumMs, 1_000_000 * alignToGrid(0.1));
  assert.ok(alignToGrid(0.1) >= 0.1 && alignToGrid(0.1) < 0.102);
});
