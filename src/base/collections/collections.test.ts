import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { BoundedLru } from './bounded-lru.ts';
import { BoundedQueue } from './bounded-queue.ts';
import { CompactingMap, CompactingSet } from './compacting-map.ts';
import { CounterIndex } from './counter-index.ts';

describe('bounded queue', () => {
  it('behaves like an array that rejects items at its bound', () => {
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
  it('evicts the least recently used entry and reports it', () => {
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

  it('keeps the most recently used entries in the order of their use', () => {
    const key = fc.integer({ min: 0, max: 5 });
    const command = fc.oneof(fc.record({ get: key }), fc.record({ set: key }), fc.record({ drop: key }));
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), fc.array(command, { maxLength: 60 }), (max, commands) => {
        const cache = new BoundedLru<number, number>(max);
        let model: [number, number][] = [];
        for (const [at, step] of commands.entries()) {
          const [used] = Object.values(step) as [number];
          const known = model.find(([one]) => one === used);
          const others = model.filter(([one]) => one !== used);
          if ('set' in step) {
            cache.set(used, at);
            model = [...others, [used, at] as [number, number]].slice(-max);
          } else {
            assert.equal('get' in step ? cache.get(used) : cache.delete(used), known?.[1]);
            model = 'get' in step && known !== undefined ? [...others, known] : others;
          }
          assert.deepEqual([...cache.entries()], model);
        }
      }),
    );
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

describe('compacting collections', () => {
  const key = fc.integer({ min: 0, max: 99 });
  const command = fc.oneof(
    { weight: 20, arbitrary: fc.record({ add: key }) },
    { weight: 20, arbitrary: fc.record({ drop: key }) },
    { weight: 1, arbitrary: fc.constant('clear' as const) },
  );
  const commands = fc.array(command, { maxLength: 400, size: 'max' });

  it('behave like a Set', () => {
    fc.assert(
      fc.property(commands, (steps) => {
        const compacting = new CompactingSet<number>();
        const model = new Set<number>();
        for (const step of steps) {
          if (step === 'clear') {
            compacting.clear();
            model.clear();
          } else if ('add' in step) {
            compacting.add(step.add);
            model.add(step.add);
          } else assert.equal(compacting.delete(step.drop), model.delete(step.drop));
          assert.equal(compacting.size, model.size);
        }
        assert.deepEqual([...compacting], [...model]);
        for (let item = 0; item < 100; item++) assert.equal(compacting.has(item), model.has(item));
      }),
    );
  });

  it('behave like a Map', () => {
    fc.assert(
      fc.property(commands, (steps) => {
        const compacting = new CompactingMap<number, number>();
        const model = new Map<number, number>();
        for (const [at, step] of steps.entries()) {
          if (step === 'clear') {
            compacting.clear();
            model.clear();
          } else if ('add' in step) {
            compacting.set(step.add, at);
            model.set(step.add, at);
          } else assert.equal(compacting.delete(step.drop), model.delete(step.drop));
          assert.equal(compacting.size, model.size);
        }
        assert.deepEqual([...compacting], [...model]);
        assert.deepEqual([[...compacting.keys()], [...compacting.values()]], [[...model.keys()], [...model.values()]]);
        for (let item = 0; item < 100; item++)
          assert.deepEqual([compacting.get(item), compacting.has(item)], [model.get(item), model.has(item)]);
      }),
    );
  });

  it('retain no deleted item', () => {
    const set = new CompactingSet<object>();
    const map = new CompactingMap<number, object>();
    assert.ok(
      retainedBytes(
        ({ item }) => set.add(item),
        ({ item }) => set.delete(item),
      ) <
        addedBytes / 4,
    );
    assert.ok(
      retainedBytes(
        ({ item, at }) => map.set(at, item),
        ({ at }) => map.delete(at),
      ) <
        addedBytes / 4,
    );
  });
});

type Numbered = { readonly counter: number; nextInChain: Numbered | undefined; readonly item: object };

function numbered(counter: number, item: object = {}): Numbered {
  return { counter, nextInChain: undefined, item };
}

describe('the counter index', () => {
  it('finds the latest item with a number, and the earlier ones in its chain', () => {
    // More adds than deletes, so that the index grows; a deleted item may be anywhere in a chain.
    const step = fc.oneof(
      { weight: 3, arbitrary: fc.record({ counter: fc.nat({ max: 100 }) }) },
      { weight: 1, arbitrary: fc.record({ drops: fc.nat() }) },
    );
    fc.assert(
      fc.property(fc.array(step, { minLength: 100, maxLength: 300 }), (steps) => {
        const index = new CounterIndex<Numbered>();
        // The newest first.
        const model: Numbered[] = [];
        for (const one of steps) {
          const [gone] = 'drops' in one ? model.splice(one.drops % Math.max(1, model.length), 1) : [];
          if (gone !== undefined) assert.deepEqual([index.delete(gone), index.delete(gone)], [true, false]);
          if ('counter' in one) {
            model.unshift(numbered(one.counter));
            index.add(model[0] as Numbered);
          }
          assert.equal(index.size, model.length);
        }
        for (let counter = 0; counter <= 100; counter++)
          assert.equal(
            index.find(counter),
            model.find((one) => one.counter === counter),
          );
        // Among equal numbers the newest comes first: the sort is stable.
        assert.ok(index.all().every((one, at) => one === model.toSorted((x, y) => x.counter - y.counter)[at]));
      }),
    );
  });

  it('retains no deleted item', () => {
    const index = new CounterIndex<Numbered>();
    // More than are in the index at once.
    const places = 128;
    const added: Numbered[] = [];
    const retained = retainedBytes(
      ({ item, at }) => {
        const one = numbered(at, item);
        added[(at + places) % places] = one;
        index.add(one);
      },
      ({ at }) => index.delete(added[(at + places) % places] as Numbered),
    );
    assert.ok(retained < addedBytes / 4);
  });
});

type TransientItem = { readonly item: object; readonly at: number };

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void;
const itemNumbers = 1_000;
const transientItems = 4_000;
const addedBytes = itemNumbers * 8 * transientItems;

/** The heap growth after many adds and deletes, with the young generation collected. */
function retainedBytes(add: (one: TransientItem) => void, remove: (one: TransientItem) => void): number {
  add({ item: {}, at: -1 });
  // Moves the collection into the old generation.
  collectGarbage();
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  const present: TransientItem[] = [];
  for (let at = 0; at < transientItems; at++) {
    const one = { item: Array.from({ length: itemNumbers }, () => at), at };
    present.push(one);
    add(one);
    const first = present.length > 64 ? present.shift() : undefined;
    if (first !== undefined) remove(first);
  }
  for (const one of present.splice(0)) remove(one);
  for (let times = 0; times < 3; times++) collectGarbage({ type: 'minor' });
  return process.memoryUsage().heapUsed - before;
}
