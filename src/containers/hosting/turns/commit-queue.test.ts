import assert from 'node:assert/strict';
import { it } from 'node:test';

import { CommitQueue } from './commit-queue.ts';

it('a commit queue releases an item after the commits issued before it, and no others', () => {
  const queue = new CommitQueue<string>(10);
  const out: string[] = [];
  const release = (item: string): number => out.push(item);
  queue.begin(5);
  queue.append('w1');
  queue.append('r1');
  queue.begin(7);
  queue.append('w2');
  assert.deepEqual([queue.bytes, queue.isEmpty], [12, false]);
  queue.complete(1, release);
  assert.deepEqual(out, ['w1', 'r1']);
  queue.append('r2');
  queue.append('gone');
  queue.delete('gone');
  queue.complete(2, release);
  assert.deepEqual(out, ['w1', 'r1', 'w2', 'r2']);
  assert.deepEqual([queue.bytes, queue.isEmpty], [0, true]);
});

it('a commit queue keeps its order while items are deleted and appended', () => {
  const queue = new CommitQueue<string>(10_000);
  const out: string[] = [];
  const expected: string[] = [];
  for (let i = 1; i <= 5_000; i++) {
    queue.begin(1);
    queue.append(`w${i}`);
    queue.append(`gone${i}`);
    queue.delete(`gone${i}`);
    expected.push(`w${i}`);
  }
  for (let i = 1; i <= 5_000; i++) {
    queue.complete(i, (item) => {
      out.push(item);
      if (i % 1_000 === 0 && item.startsWith('w')) queue.append(`late${i}`);
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
  assert.deepEqual([queue.isEmpty, queue.failAll()], [true, []]);
});

it('a commit queue asserts the order of completions and its bound', () => {
  const queue = new CommitQueue<string>(2);
  queue.begin(0);
  queue.begin(0);
  assert.equal(queue.isFull, true);
  assert.throws(() => queue.begin(0), /more commits/);
  assert.throws(() => queue.complete(2, () => {}), /order/);
  queue.append('left');
  assert.deepEqual(queue.failAll(), ['left']);
  assert.deepEqual(queue.failAll(), []);
});
