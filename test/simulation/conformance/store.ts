/** Conformance of Store: batches are atomic, order is UTF-8, acknowledged data survives close and crash. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { packRows } from '../../../src/base/row-codec.ts';
import type { RowStore, Store, StoreEntry, StoreRows, StoreWrite } from '../../../src/base/ports.ts';
import {
  type OpenHarness,
  type TestWorld,
  outcomeOf,
  expectFailure,
  expectSuccess,
  suiteOptions,
  utf8Text,
  utf8,
  unwrap,
} from './harness.ts';

export type StoreHarness = TestWorld & {
  readonly store: RowStore;
  /** Opens the closed store again. */
  reopen(): Promise<RowStore>;
  /** Crashes the process (with power loss, if the implementation can simulate it), then opens the store again. */
  crash(): Promise<RowStore>;
  /** Makes the disk full, or frees space. Undefined if the implementation cannot do it. */
  full?(isFull: boolean): Promise<void>;
  /** Corrupts the stored value of a key on the disk. Undefined if the implementation cannot do it. */
  corrupt?(key: string): Promise<void>;
};

const allKeys = { from: '', to: '\u{10ffff}', limit: 10_000 };

function put(key: string, value: string): StoreWrite {
  return { key, value: utf8.encode(value) };
}

function formatEntries(entries: readonly StoreEntry[]): string[] {
  return entries.map(({ key, value }) => `${key}=${utf8Text(value)}`);
}

async function contents(world: TestWorld, store: Store, range = allKeys): Promise<string[]> {
  return formatEntries(await expectSuccess<readonly StoreEntry[]>(world, (done) => store.read(range, done)));
}

function write(world: TestWorld, store: RowStore, ...batch: (StoreWrite | StoreRows)[]): Promise<void> {
  return expectSuccess<void>(world, (done) => store.write(batch, done));
}

export function describeStore(name: string, open: OpenHarness<StoreHarness>): void {
  describe(`${name} is a Store`, suiteOptions, () => {
    describeValues(open);
    describeRanges(open);
    describeArguments(open);
    describeOrder(open);
    describeDurability(open);
    describeClose(open);
    describeFaults(open);
  });
}

function describeValues(open: OpenHarness<StoreHarness>): void {
  it('reads written values; null removes; the last write of a batch wins', async (t) => {
    const harness = await open(t);
    const { store } = harness;
    assert.deepEqual(await contents(harness, store), []);
    await write(harness, store, put('b', '2'), put('a', '1'), put('c', '3'));
    await write(
      harness,
      store,
      { key: 'b', value: null },
      { key: 'missing', value: null },
      put('a', 'x'),
      put('a', 'y'),
    );
    await write(harness, store, put('d', '4'), { key: 'd', value: null });
    await write(harness, store);
    assert.deepEqual(await contents(harness, store), ['a=y', 'c=3']);
  });

  it('writes rows that are packed under a prefix, in the order of the batch', async (t) => {
    const harness = await open(t);
    const { store } = harness;
    const rows = (prefix: string, ...writes: StoreWrite[]): StoreRows => ({ prefix, packed: packRows(writes) });
    const gone = { key: 'gone', value: null };
    await write(harness, store, put('p/gone', '0'), put('p/a', '0'), put('q', '1'));
    await write(harness, store, rows('p/', put('a', '2'), put('b', '3'), gone), rows('', put('q', '4')), put('z', '5'));
    await write(harness, store, rows('p/', put('b', '6')), put('p/b', '7'), rows('p/', put('c', '8')), rows('p/'));
    await write(harness, store, rows('gr\u00f6\u00dfe/', put('\u{1f600}', '9')));
    const expected = ['gr\u00f6\u00dfe/\u{1f600}=9', 'p/a=2', 'p/b=7', 'p/c=8', 'q=4', 'z=5'];
    assert.deepEqual(await contents(harness, store), expected);
    assert.deepEqual(await contents(harness, store, { from: 'p/', to: 'p0', limit: 2 }), ['p/a=2', 'p/b=7']);
    assert.deepEqual(await contents(harness, await harness.settle(harness.crash())), expected);
  });

  it('keeps empty values, all byte values and large values', async (t) => {
    const harness = await open(t);
    const large = Uint8Array.from({ length: 1_000_000 }, (_, i) => (i * 31) & 0xff);
    await expectSuccess<void>(harness, (done) =>
      harness.store.write(
        [
          { key: 'empty', value: new Uint8Array(0) },
          { key: 'large', value: large },
        ],
        done,
      ),
    );
    const entries = await expectSuccess<readonly StoreEntry[]>(harness, (done) => harness.store.read(allKeys, done));
    assert.deepEqual(
      entries.map(({ key }) => key),
      ['empty', 'large'],
    );
    assert.equal(entries[0]?.value.length, 0);
    assert.equal(entries[1]?.value.length, large.length);
    assert.ok(entries[1]?.value.every((byte, i) => byte === large[i]));
  });

  it('shares no bytes with its caller', async (t) => {
    const harness = await open(t);
    const mine = utf8.encode('before');
    const written = outcomeOf<void>((done) => harness.store.write([{ key: 'k', value: mine.subarray(0, 6) }], done));
    mine.fill(0x78);
    unwrap(await harness.settle(written));
    const [entry] = await expectSuccess<readonly StoreEntry[]>(harness, (done) => harness.store.read(allKeys, done));
    assert.equal(utf8Text(entry?.value), 'before');
    entry?.value.fill(0x78);
    assert.deepEqual(await contents(harness, harness.store), ['k=before']);
  });
}

function describeRanges(open: OpenHarness<StoreHarness>): void {
  it('reads from (included) to (excluded), at most limit', async (t) => {
    const harness = await open(t);
    await write(harness, harness.store, ...['a', 'b', 'b/1', 'b/2', 'c'].map((key) => put(key, '')));
    const keys = async (from: string, to: string, limit: number): Promise<string> =>
      (await contents(harness, harness.store, { from, to, limit })).map((line) => line.slice(0, -1)).join(' ');
    assert.equal(await keys('b', 'c', 10), 'b b/1 b/2');
    assert.equal(await keys('b/', 'b0', 10), 'b/1 b/2');
    assert.equal(await keys('a', 'c', 2), 'a b');
    assert.equal(await keys('a', 'z', 0), '');
    assert.equal(await keys('b', 'b', 10), '');
    assert.equal(await keys('c', 'a', 10), '');
    assert.equal(await keys('bb', 'bc', 10), '');
  });

  it('orders by UTF-8 bytes, which is not the order of JavaScript strings', async (t) => {
    const harness = await open(t);
    const keys = ['', '\0', 'A', 'Z', 'a', 'a\0b', 'aa', 'z', '\u00e9', '\u20ac', '\ufffd', '\u{1f600}', '\u{10fffe}'];
    const shuffled = keys.toSorted((a, b) => ((a.length * 7) % 5) - ((b.length * 7) % 5)).toReversed();
    await write(harness, harness.store, ...shuffled.map((key) => put(key, 'v')));
    const range = (from: string, to: string) => contents(harness, harness.store, { from, to, limit: 100 });
    assert.deepEqual(
      await range('', '\u{10ffff}'),
      keys.map((key) => `${key}=v`),
    );
    assert.deepEqual(await range('\ufffd', '\u{1f600}'), ['\ufffd=v']);
    assert.deepEqual(await range('a', 'aa'), ['a=v', 'a\0b=v']);
  });
}

function describeArguments(open: OpenHarness<StoreHarness>): void {
  it('refuses a whole batch with a key that has no UTF-8 form, and keeps other batches', async (t) => {
    const harness = await open(t);
    const batches = [[put('1', 'a')], [put('2', 'b'), put('\ud800', 'c')], [put('3', 'd')]];
    const outcomes = await harness.settle(
      Promise.all(batches.map((batch) => outcomeOf<void>((done) => harness.store.write(batch, done)))),
    );
    assert.deepEqual(
      outcomes.map((outcome) => (outcome.ok ? 'ok' : outcome.error.code)),
      ['ok', 'BAD_ARGUMENT', 'ok'],
    );
    assert.deepEqual(await contents(harness, harness.store), ['1=a', '3=d']);
  });

  it('refuses an invalid limit', async (t) => {
    const harness = await open(t);
    for (const limit of [-1, 1.5, Number.NaN]) {
      await expectFailure<readonly StoreEntry[]>(harness, 'BAD_ARGUMENT', (done) =>
        harness.store.read({ from: '', to: 'z', limit }, done),
      );
    }
  });
}

function describeOrder(open: OpenHarness<StoreHarness>): void {
  it('ends calls in their order, and a read sees every write before it', async (t) => {
    const harness = await open(t);
    const { store } = harness;
    const order: string[] = [];
    const calls: Promise<unknown>[] = [];
    for (let i = 0; i < 20; i++) {
      calls.push(
        outcomeOf<void>((done) =>
          store.write([put('n', String(i)), put(`k${String(i).padStart(2, '0')}`, '')], (outcome) => {
            order.push(`w${i}`);
            done(outcome);
          }),
        ),
        outcomeOf<readonly StoreEntry[]>((done) =>
          store.read({ from: 'n', to: 'o', limit: 1 }, (outcome) => {
            order.push(`r${i}:${formatEntries(unwrap(outcome)).join()}`);
            done(outcome);
          }),
        ),
      );
    }
    await harness.settle(Promise.all(calls));
    assert.deepEqual(order, Array.from({ length: 20 }, (_, i) => [`w${i}`, `r${i}:n=${i}`]).flat());
  });
}

function describeDurability(open: OpenHarness<StoreHarness>): void {
  it('has all data after close and open', async (t) => {
    const harness = await open(t);
    await write(harness, harness.store, put('a', '1'), put('b', '2'));
    await expectSuccess<void>(harness, (done) => harness.store.close(done));
    assert.deepEqual(await contents(harness, await harness.settle(harness.reopen())), ['a=1', 'b=2']);
  });

  it('keeps acknowledged writes through a crash, and other batches completely or not at all', async (t) => {
    const harness = await open(t);
    for (let i = 0; i < 10; i++) await write(harness, harness.store, put(`acknowledged${i}`, 'yes'));
    for (let i = 0; i < 10; i++) {
      const parts = Array.from({ length: 5 }, (_, part) => put(`batch${i}/${part}`, 'x'));
      harness.store.write(parts, () => undefined);
    }
    const again = await harness.settle(harness.crash());
    const acknowledged = await contents(harness, again, { from: 'acknowledged', to: 'acknowledgee', limit: 100 });
    assert.equal(acknowledged.length, 10);
    for (let i = 0; i < 10; i++) {
      const parts = await contents(harness, again, { from: `batch${i}/`, to: `batch${i}0`, limit: 100 });
      assert.ok(parts.length === 0 || parts.length === 5, `batch ${i} was torn: ${parts.join(' ')}`);
    }
    await write(harness, again, put('after', 'works'));
  });
}

function describeClose(open: OpenHarness<StoreHarness>): void {
  it('finishes calls made before close, and refuses later ones', async (t) => {
    const harness = await open(t);
    const { store } = harness;
    const order: string[] = [];
    const note = (label: string) => (outcome: { ok: boolean }) => void order.push(`${label} ${outcome.ok}`);
    for (let i = 0; i < 5; i++) store.write([put(`k${i}`, 'v')], note(`write ${i}`));
    const closed = outcomeOf<void>((done) => store.close(done)).then(note('close'));
    const late = outcomeOf<void>((done) => store.write([put('late', 'v')], done));
    const lateRead = outcomeOf<readonly StoreEntry[]>((done) => store.read(allKeys, done));
    const [, lateOutcome, lateReadOutcome] = await harness.settle(Promise.all([closed, late, lateRead]));
    assert.deepEqual([lateOutcome.ok, lateReadOutcome.ok], [false, false]);
    assert.deepEqual(order, [
      'write 0 true',
      'write 1 true',
      'write 2 true',
      'write 3 true',
      'write 4 true',
      'close true',
    ]);
    await expectSuccess<void>(harness, (done) => store.close(done));
    const again = await harness.settle(harness.reopen());
    assert.deepEqual(await contents(harness, again), ['k0=v', 'k1=v', 'k2=v', 'k3=v', 'k4=v']);
  });
}

function describeFaults(open: OpenHarness<StoreHarness>): void {
  it('fails with STORE_FULL, still reads, and writes again when there is space', async (t) => {
    const harness = await open(t);
    if (harness.full === undefined) {
      t.skip('this implementation cannot be made full');
      return;
    }
    await write(harness, harness.store, put('before', '1'));
    await harness.settle(harness.full(true));
    const large = { key: 'large', value: new Uint8Array(3_000_000).fill(7) };
    await expectFailure<void>(harness, 'STORE_FULL', (done) => harness.store.write([put('part', '2'), large], done));
    assert.deepEqual(await contents(harness, harness.store), ['before=1']);
    await harness.settle(harness.full(false));
    await write(harness, harness.store, put('after', '3'), { key: 'large', value: large.value });
    const entries = await expectSuccess<readonly StoreEntry[]>(harness, (done) => harness.store.read(allKeys, done));
    assert.deepEqual(
      entries.map(({ key, value }) => `${key} ${value.length}`),
      ['after 1', 'before 1', 'large 3000000'],
    );
  });

  it('fails with STORE_CORRUPT instead of returning corrupt bytes', async (t) => {
    const harness = await open(t);
    if (harness.corrupt === undefined) {
      t.skip('this implementation cannot be corrupted');
      return;
    }
    await write(harness, harness.store, put('a', 'good'), put('b', 'soon bad'), put('c', 'good'));
    await harness.settle(harness.corrupt('b'));
    await expectFailure<readonly StoreEntry[]>(harness, 'STORE_CORRUPT', (done) => harness.store.read(allKeys, done));
    assert.deepEqual(await contents(harness, harness.store, { from: 'a', to: 'b', limit: 9 }), ['a=good']);
    await write(harness, harness.store, put('b', 'repaired'));
    assert.deepEqual(await contents(harness, harness.store), ['a=good', 'b=repaired', 'c=good']);
  });
}
