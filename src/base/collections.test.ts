import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BoundedLru } from './bounded-lru.ts';
import { BoundedQueue } from './bounded-queue.ts';

describe('bounded queue', () => {
  it('behaves as an array that refuses at its bound', () => {
    const command = fc.oneof(
      fc.record({ push: fc.integer() }),
      fc.constant('shift' as const),
      fc.constant('clear' as const),
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.array(command, { maxLength: 200 }), (max, commands) => {
        const queue = new BoundedQueue<number>(max);
        const model: number[] = [];
        for (const step of commands) {
          if (step === 'shift') assert.equal(queue.shift(), model.shift());
          else if (step === 'clear') {
            queue.clear();
            model.splice(0);
          } else {
            assert.equal(queue.push(step.push), model.length < max);
            if (model.length < max) model.push(step.push);
          }
          assert.equal(queue.length, model.length);
          assert.equal(queue.peek(), model[0]);
          assert.deepEqual([...queue], model);
        }
      }),
    );
  });
});

describe('bounded lru', () => {
  it('forgets what was not used for longest, and says so', () => {
    const gone: string[] = [];
    const cache = new BoundedLru<string, number>(2, (key) => gone.push(key));
    cache.set('a', 1);
    cache.set('b', 2);
    assert.equal(cache.get('a'), 1);
    cache.set('c', 3);
    assert.deepEqual(gone, ['b']);
    assert.equal(cache.get('b'), undefined);
  });

  it('does not count a peek as use, nor a delete as eviction', () => {
    const gone: string[] = [];
    const cache = new BoundedLru<string, number>(2, (key) => gone.push(key));
    cache.set('a', 1);
    cache.set('b', 2);
    assert.equal(cache.peek('a'), 1);
    cache.set('c', 3);
    assert.deepEqual(gone, ['a']);
    assert.equal(cache.delete('b'), 2);
    assert.deepEqual([...cache.entries()], [['c', 3]]);
    assert.deepEqual(gone, ['a']);
  });

  it('never exceeds its bound', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.array(fc.integer({ min: 0, max: 20 })), (max, keys) => {
        let evictions = 0;
        const cache = new BoundedLru<number, number>(max, () => (evictions += 1));
        for (const key of keys) cache.set(key, key);
        assert.equal(cache.size, Math.min(max, new Set(keys).size));
        for (const [key] of cache.entries()) assert.ok(keys.includes(key));
        if (new Set(keys).size <= max) assert.equal(evictions, 0);
      }),
    );
  });
});
