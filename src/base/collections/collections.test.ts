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

  it('keeps those that were used last, in the order of their use', () => {
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

describe('busy collections', () => {
  const key = fc.integer({ min: 0, max: 99 });
  const command = fc.oneof(
    { weight: 20, arbitrary: fc.record({ add: key }) },
    { weight: 20, arbitrary: fc.record({ drop: key }) },
    { weight: 1, arbitrary: fc.constant('clear' as const) },
  );
  const commands = fc.array(command, { maxLength: 400, size: 'max' });

  it('behave as the set of the language', () => {
    fc.assert(
      fc.property(commands, (steps) => {
        const busy = new CompactingSet<number>();
        const model = new Set<number>();
        for (const step of steps) {
          if (step === 'clear') {
            busy.clear();
            model.clear();
          } else if ('add' in step) {
            busy.add(step.add);
            model.add(step.add);
          } else assert.equal(busy.delete(step.drop), model.delete(step.drop));
          assert.equal(busy.size, model.size);
        }
        assert.deepEqual([...busy], [...model]);
        for (let item = 0; item < 100; item++) assert.equal(busy.has(item), model.has(item));
      }),
    );
  });

  it('behave as the map of the language', () => {
    fc.assert(
      fc.property(commands, (steps) => {
        const busy = new CompactingMap<number, number>();
        const model = new Map<number, number>();
        for (const [at, step] of steps.entries()) {
          if (step === 'clear') {
            busy.clear();
            model.clear();
          } else if ('add' in step) {
            busy.set(step.add, at);
            model.set(step.add, at);
          } else assert.equal(busy.delete(step.drop), model.delete(step.drop));
          assert.equal(busy.size, model.size);
        }
        assert.deepEqual([...busy], [...model]);
        assert.deepEqual([[...busy.keys()], [...busy.values()]], [[...model.keys()], [...model.values()]]);
        for (let item = 0; item < 100; item++)
          assert.deepEqual([busy.get(item), busy.has(item)], [model.get(item), model.has(item)]);
      }),
    );
  });

  it('keep nothing of what is gone', () => {
    const set = new CompactingSet<object>();
    const map = new CompactingMap<number, object>();
    assert.ok(
      keptBytes(
        ({ item }) => set.add(item),
        ({ item }) => set.delete(item),
      ) <
        passedBytes / 4,
    );
    assert.ok(
      keptBytes(
        ({ item, at }) => map.set(at, item),
        ({ at }) => map.delete(at),
      ) <
        passedBytes / 4,
    );
  });
});

type Numbered = { readonly counter: number; nextInChain: Numbered | undefined; readonly item: object };

function numbered(counter: number, item: object = {}): Numbered {
  return { counter, nextInChain: undefined, item };
}

describe('an index of counters', () => {
  it('finds what was added last with a number, and all the others behind it', () => {
    // More come than go, so that it grows on the way; whoever goes may stand anywhere in a chain.
    const step = fc.oneof(
      { weight: 3, arbitrary: fc.record({ counter: fc.nat({ max: 100 }) }) },
      { weight: 1, arbitrary: fc.record({ goes: fc.nat() }) },
    );
    fc.assert(
      fc.property(fc.array(step, { minLength: 100, maxLength: 300 }), (steps) => {
        const index = new CounterIndex<Numbered>();
        // The newest first.
        const model: Numbered[] = [];
        for (const one of steps) {
          const [gone] = 'goes' in one ? model.splice(one.goes % Math.max(1, model.length), 1) : [];
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
        // Of the same number the newest comes first: a sort keeps that order.
        assert.ok(index.all().every((one, at) => one === model.toSorted((x, y) => x.counter - y.counter)[at]));
      }),
    );
  });

  it('keeps nothing of what is gone', () => {
    const index = new CounterIndex<Numbered>();
    // More than are in it at once.
    const places = 128;
    const added: Numbered[] = [];
    const kept = keptBytes(
      ({ item, at }) => {
        const one = numbered(at, item);
        added[(at + places) % places] = one;
        index.add(one);
      },
      ({ at }) => index.delete(added[(at + places) % places] as Numbered),
    );
    assert.ok(kept < passedBytes / 4);
  });
});

type Passing = { readonly item: object; readonly at: number };

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void;
const itemNumbers = 1_000;
const passingItems = 4_000;
const passedBytes = itemNumbers * 8 * passingItems;

/** So much is left after many items have come and gone, and the young ones among what nobody holds were collected. */
function keptBytes(add: (one: Passing) => void, remove: (one: Passing) => void): number {
  add({ item: {}, at: -1 });
  // From now on it is old, with all that belongs to it.
  collectGarbage();
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  const inside: Passing[] = [];
  for (let at = 0; at < passingItems; at++) {
    const one = { item: Array.from({ length: itemNumbers }, () => at), at };
    inside.push(one);
    add(one);
    const first = inside.length > 64 ? inside.shift() : undefined;
    if (first !== undefined) remove(first);
  }
  for (const one of inside.splice(0)) remove(one);
  for (let times = 0; times < 3; times++) collectGarbage({ type: 'minor' });
  return process.memoryUsage().heapUsed - before;
}
