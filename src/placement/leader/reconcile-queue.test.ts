import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Random } from '../../base/random.ts';
import { ReconcileQueue, UniqueQueue } from './reconcile-queue.ts';
import { DeadlineHeap } from '../../base/deadline-heap.ts';

describe('a deadline heap', () => {
  test('pops names in order of their deadlines, each once, and honours replacements and deletions', () => {
    const times = new DeadlineHeap();
    times.set('late', 30);
    times.set('soon', 10);
    times.set('moved', 5);
    times.set('moved', 20);
    times.set('gone', 1);
    times.delete('gone');
    assert.equal(times.nextDueMs(), 10);
    assert.equal(times.popDue(9), undefined);
    assert.deepEqual([times.popDue(25), times.popDue(25), times.popDue(25)], ['soon', 'moved', undefined]);
    assert.equal(times.nextDueMs(), 30);
    times.clear();
    assert.equal(times.nextDueMs(), undefined);
  });

  test('pops the same names as a map that is searched', () => {
    const random = new Random('due times');
    const times = new DeadlineHeap();
    const expected = new Map<string, number>();
    for (let round = 0; round < 5_000; round++) {
      const name = `n${random.below(300)}`;
      if (random.chance(0.2)) {
        times.delete(name);
        expected.delete(name);
      } else {
        const atMs = random.below(1_000);
        times.set(name, atMs);
        expected.set(name, atMs);
      }
    }
    assert.equal(times.size, expected.size);
    for (let nowMs = 0; nowMs <= 1_000; nowMs++) {
      const due: string[] = [];
      for (let name = times.popDue(nowMs); name !== undefined; name = times.popDue(nowMs)) due.push(name);
      const wanted = [...expected].filter(([, atMs]) => atMs === nowMs).map(([name]) => name);
      assert.deepEqual(due.toSorted(), wanted.toSorted());
    }
    assert.equal(times.size, 0);
  });
});

describe('a unique queue', () => {
  test('returns each name once, in order, without deleted ones', () => {
    const queue = new UniqueQueue();
    for (const name of ['a', 'b', 'a', 'c']) queue.add(name);
    queue.delete('b');
    assert.equal(queue.size, 2);
    assert.deepEqual([queue.take(), queue.take(), queue.take()], ['a', 'c', undefined]);
  });

  test('loses and repeats nothing under random additions and deletions', () => {
    const random = new Random('once queue');
    const queue = new UniqueQueue();
    const inside = new Set<string>();
    for (let round = 0; round < 20_000; round++) {
      const name = `n${random.below(3_000)}`;
      const kind = random.below(4);
      if (kind < 2) {
        queue.add(name);
        inside.add(name);
      } else if (kind === 2) {
        queue.delete(name);
        inside.delete(name);
      } else {
        const taken = queue.take();
        assert.equal(taken !== undefined, inside.size > 0);
        if (taken !== undefined) assert.ok(inside.delete(taken));
      }
      assert.equal(queue.size, inside.size);
    }
  });
});

describe('the reconcile queue', () => {
  test('keeps the deadlines of pools and containers apart', () => {
    const queue = new ReconcileQueue();
    queue.enqueuePoolAt('p', 20);
    queue.enqueueAt('p/1', 10);
    assert.deepEqual(queue.nextDueMs(), [10, 20]);
    assert.deepEqual([queue.nextPool(15), queue.nextContainer(15)], [undefined, 'p/1']);
    assert.deepEqual([queue.nextContainer(25), queue.nextPool(25), queue.nextPool(25)], [undefined, 'p', undefined]);
    queue.enqueuePoolAt('q', 30);
    queue.clear();
    assert.equal(queue.nextPool(40), undefined);
  });
});
