import assert from 'node:assert/strict';
import { it } from 'node:test';

import { CommitQueue } from './commit-queue.ts';

it('a commit queue releases an item after the commits issued before it, and no others', () => {
  const line = new CommitQueue<string>(10);
  const out: string[] = [];
  const release = (item: string): number => out.push(item);
  line.begin(5);
  line.append('w1');
  line.append('r1');
  line.begin(7);
  line.append('w2');
  assert.deepEqual([line.bytes, line.isEmpty], [12, false]);
  line.complete(1, release);
  assert.deepEqual(out, ['w1', 'r1']);
  line.append('r2');
  line.append('gone');
  line.delete('gone');
  line.complete(2, release);
  assert.deepEqual(out, ['w1', 'r1', 'w2', 'r2']);
  assert.deepEqual([line.bytes, line.isEmpty], [0, true]);
});

it('a commit queue keeps its order while items are deleted and appended', () => {
  const line = new CommitQueue<string>(10_000);
  const out: string[] = [];
  const expected: string[] = [];
  for (let i = 1; i <= 5_000; i++) {
    line.begin(1);
    line.append(`w${i}`);
    line.append(`gone${i}`);
    line.delete(`gone${i}`);
    expected.push(`w${i}`);
  }
  for (let i = 1; i <= 5_000; i++) {
    line.complete(i, (item) => {
      out.push(item);
      if (i % 1_000 === 0 && item.startsWith('w')) line.append(`late${i}`);
    });
  }
  assert.deepEqual(
    out.filter((item) => item.startsWith('w')),
    expected,
  );
  assert.deepEqual(
    out.filter((item) => !item.startsWith('w')),
    ['late1000', 'late2000', 'late3000', 'late4000', 'late5000'],
  );
  assert.deepEqual([line.isEmpty, line.failAll()], [true, []]);
});

it('a commit queue asserts the order of completions and its bound', () => {
  const line = new CommitQueue<string>(2);
  line.begin(0);
  line.begin(0);
  assert.equal(line.isFull, true);
  assert.throws(() => line.begin(0), /more commits/);
  assert.throws(() => line.complete(2, () => {}), /order/);
  line.append('left');
  assert.deepEqual(line.failAll(), ['left']);
  assert.deepEqual(line.failAll(), []);
});
