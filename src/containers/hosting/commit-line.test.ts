import assert from 'node:assert/strict';
import { it } from 'node:test';

import { CommitLine } from './commit-line.ts';

it('lets everybody wait for the commits that were issued before, and for no others', () => {
  const line = new CommitLine<string>(10);
  const out: string[] = [];
  const release = (item: string): number => out.push(item);
  line.issue(5);
  line.append('w1');
  line.append('r1');
  line.issue(7);
  line.append('w2');
  assert.deepEqual([line.bytes, line.isSettled], [12, false]);
  line.ended(1, release);
  assert.deepEqual(out, ['w1', 'r1']);
  line.append('r2');
  line.append('gone');
  line.delete('gone');
  line.ended(2, release);
  assert.deepEqual(out, ['w1', 'r1', 'w2', 'r2']);
  assert.deepEqual([line.bytes, line.isSettled], [0, true]);
});

it('insists on the order of the endings, and on its bound', () => {
  const line = new CommitLine<string>(2);
  line.issue(0);
  line.issue(0);
  assert.equal(line.isFull, true);
  assert.throws(() => line.issue(0), /more commits/);
  assert.throws(() => line.ended(2, () => {}), /order/);
  line.append('left');
  assert.deepEqual(line.abandon(), ['left']);
  assert.deepEqual(line.abandon(), []);
});
