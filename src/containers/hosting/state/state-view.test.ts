import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { isRemusterError } from '../../../base/errors.ts';
import type { StoreWrite } from '../../../base/ports.ts';
import { Random } from '../../../base/random.ts';
import { ContainerState } from './container-state.ts';
import { hostingLimits } from '../../hosting-limits.ts';
import { ReadStateView, WriteStateView } from './state-view.ts';

const small = { ...hostingLimits, keyBytesMax: 10, valueBytesMax: 20, commitBytesMax: 300, stateBytesMax: 50 };

function stateWith(entries: Readonly<Record<string, unknown>>): ContainerState {
  const state = new ContainerState();
  const view = new WriteStateView(state, hostingLimits);
  for (const [key, value] of Object.entries(entries)) view.set(key, value);
  view.apply();
  return state;
}

function isCode(code: Parameters<typeof isRemusterError>[1]): (error: unknown) => boolean {
  return (error) => isRemusterError(error, code);
}

describe('the view of a writing call', () => {
  it('reads its own writes, which no other view reads before they are applied', () => {
    const state = stateWith({ a: 1, b: 2 });
    const view = new WriteStateView(state, hostingLimits);
    view.set('c', 3);
    assert.equal(view.delete('a'), true);
    assert.equal(view.delete('a'), false);
    assert.deepEqual([view.get('a'), view.has('a'), view.get('c'), view.size], [undefined, false, 3, 2]);
    const reader = new ReadStateView(state);
    assert.deepEqual([reader.get('a'), reader.get('c'), reader.size], [1, undefined, 2]);
    view.apply();
    assert.deepEqual([reader.get('a'), reader.get('c'), reader.size], [undefined, 3, 2]);
    const rows: StoreWrite[] = [];
    view.collectRows(rows);
    assert.deepEqual(
      rows.map(({ key, value }) => [key, value === null]),
      [
        ['sc', false],
        ['sa', true],
      ],
    );
  });

  it('decodes a fresh value on each read', () => {
    const state = stateWith({ a: { list: [1] } });
    const view = new WriteStateView(state, hostingLimits);
    const mine = { list: [2] };
    view.set('b', mine);
    mine.list.push(3);
    view.get<{ list: number[] }>('a')?.list.push(9);
    assert.deepEqual([view.get('a'), view.get('b')], [{ list: [1] }, { list: [2] }]);
  });

  it('merges ranges with its own writes, in both directions, like a plain map', () => {
    const random = new Random('ranges');
    const words = ['', 'a', 'aa', 'ab', 'b', 'ba', '\u00e9', '\uffee', '\u{1f600}', '\u{10ffff}x'];
    for (let round = 0; round < 300; round++) {
      const model = new Map<string, number>();
      const state = new ContainerState();
      const before = new WriteStateView(state, hostingLimits);
      const view = new WriteStateView(state, hostingLimits);
      for (const target of [before, view]) {
        // Some write enough keys for the index.
        for (let n = random.pick([0, 0, 0, -20]); n < 6; n++) {
          const key = random.pick(words) + random.pick(words);
          if (random.chance(0.3)) {
            assert.equal(target.delete(key), model.delete(key));
          } else {
            target.set(key, n);
            model.set(key, n);
          }
        }
        if (target === before) before.apply();
      }
      const prefix = random.pick(words);
      const range = {
        prefix,
        ...(random.chance(0.5) ? { from: random.pick(words) } : {}),
        ...(random.chance(0.5) ? { to: random.pick(words) } : {}),
        limit: 1 + random.below(8),
        reverse: random.chance(0.5),
      };
      const expected = [...model]
        .filter(([key]) => key.startsWith(prefix))
        .filter(([key]) => range.from === undefined || compareUtf8(key, range.from) >= 0)
        .filter(([key]) => range.to === undefined || compareUtf8(key, range.to) < 0)
        .toSorted(([a], [b]) => compareUtf8(a, b));
      if (range.reverse) expected.reverse();
      assert.deepEqual(view.entries(range), expected.slice(0, range.limit), JSON.stringify(range));
      assert.equal(view.size, model.size);
      view.apply();
      assert.deepEqual(new ReadStateView(state).entries(range), expected.slice(0, range.limit));
      assert.equal(state.size, model.size);
    }
  });

  it('copies the bytes it is given, and keeps pinned values unchanged', () => {
    const state = new ContainerState();
    const given = [Uint8Array.of(1, 128), new Uint8Array(100).fill(1), new Uint8Array(5_000).fill(1).subarray(1)];
    for (const [key, value] of given.entries()) state.set(String(key), value);
    const kept = given.map((value) => value.slice());
    for (const value of given) value.fill(9);
    const values = (): unknown[] => ['0', '1', '2'].map((key) => state.get(key));
    assert.deepEqual(values(), kept);
    const giveBack = state.pin();
    const borrowed = values();
    for (const [key, value] of given.entries()) state.set(String(key), value);
    assert.deepEqual([borrowed, values()], [kept, given.map((value) => value.slice())]);
    giveBack();
    giveBack();
    const mine = state.get('1');
    state.set('1', kept[1]!);
    assert.equal(state.get('1'), mine, 'a value of the same size overwrites it');
    assert.deepEqual(mine, kept[1]);
  });

  it('returns 1,000 entries if no limit is given', () => {
    const state = new ContainerState();
    for (let n = 0; n < 1_200; n++) state.set(String(n).padStart(5, '0'), new Uint8Array([1, 128]));
    assert.equal(new ReadStateView(state).entries().length, 1_000);
    assert.deepEqual(new ReadStateView(state).entries({ reverse: true, limit: 1 }), [['01199', 0]]);
    assert.deepEqual(new ReadStateView(state).entries({ limit: 0 }), []);
  });

  it('has limits for keys, values, one call and the whole container', () => {
    const state = stateWith({});
    const view = new WriteStateView(state, small);
    assert.throws(() => view.set('12345678901', 1), isCode('TOO_LARGE'));
    assert.throws(() => view.set('\ud800', 1), isCode('BAD_ARGUMENT'));
    assert.throws(() => view.set('a', 'x'.repeat(30)), isCode('TOO_LARGE'));
    assert.throws(() => view.set('a', () => 1), isCode('BAD_ARGUMENT'));
    view.set('a', 'x'.repeat(15));
    view.set('b', 'x'.repeat(15));
    assert.throws(() => view.set('c', 'x'.repeat(15)), isCode('STORE_FULL'));
    assert.equal(view.has('c'), false);
    view.delete('a');
    view.set('c', 'x'.repeat(15));
    view.apply();
    assert.ok(state.bytes <= 50);
    const next = new WriteStateView(state, { ...small, stateBytesMax: 1_000 });
    for (const key of ['d', 'e', 'd', 'f', 'h']) next.set(key, 'x'.repeat(15));
    assert.throws(() => next.set('g', 'x'.repeat(15)), isCode('TOO_LARGE'));
    const few = new WriteStateView(state, { ...hostingLimits, commitRowsMax: 2 });
    for (const key of ['d', 'e', 'd']) few.set(key, 1);
    assert.throws(() => few.set('f', 1), isCode('TOO_LARGE'));
  });

  it('counts its bytes as if all keys had been written once', () => {
    const state = stateWith({ a: 1 });
    for (const value of ['long value', 2, 'x']) {
      const view = new WriteStateView(state, hostingLimits);
      view.set('a', value);
      view.set('\u00e9', value);
      view.delete('\u00e9');
      view.apply();
    }
    assert.equal(state.bytes, stateWith({ a: 'x' }).bytes);
  });

  it('refuses everything after its end', () => {
    const view = new WriteStateView(stateWith({ a: 1 }), hostingLimits);
    view.end();
    for (const use of [
      () => view.get('a'),
      () => view.set('a', 2),
      () => view.delete('a'),
      () => view.entries(),
      () => view.size,
    ]) {
      assert.throws(use, /the call has ended/);
    }
  });
});

it('a readonly view writes nothing', () => {
  const view = new ReadStateView(stateWith({ a: 1 }));
  assert.throws(() => view.set(), /readonly/);
  assert.throws(() => view.delete(), /readonly/);
  view.end();
  assert.throws(() => view.get('a'), /the call has ended/);
});

function compareUtf8(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
