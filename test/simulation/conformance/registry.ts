/**
 * Conformance of Registry: keys, revisions, ranges, arguments. Runs in real and in virtual time, so its leases are
 * short.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ErrorCode, Outcome } from '../../../src/base/errors.ts';
import {
  type KeyRange,
  type RangeOptions,
  type RangeResult,
  type RegistryTransaction,
  type TransactionResult,
  registryLimits,
  withPrefix,
} from '../../../src/base/registry.ts';
import { type OpenHarness, outcomeOf, expectFailure, suiteOptions, utf8Text, utf8, unwrap } from './harness.ts';
import {
  type RegistryHarness,
  allKeys,
  putOp,
  readOp,
  deleteOp,
  openRegistryScene,
  formatEntries,
  buildTransaction,
} from './registry-harness.ts';
import { describeRegistryLeases } from './registry-leases.ts';
import { describeRegistryTransactions } from './registry-transactions.ts';
import { describeRegistryWatches } from './registry-watches.ts';

export type { RegistryHarness } from './registry-harness.ts';

export function describeRegistry(name: string, open: OpenHarness<RegistryHarness>): void {
  describe(`${name} is a Registry`, suiteOptions, () => {
    describeKeys(open);
    describeRanges(open);
    describeArguments(open);
    describeRegistryTransactions(open);
    describeRegistryLeases(open);
    describeRegistryWatches(open);
    describeSilence(open);
  });
}

function describeKeys(open: OpenHarness<RegistryHarness>): void {
  it('records the revisions that created and changed a key, and counts its versions', async (t) => {
    const { here } = await openRegistryScene(t, open);
    assert.equal(await here.contents(), '');
    const first = await here.write(putOp('a', '1'));
    const entry = { createRevision: first.revision, modRevision: first.revision, version: 1, lease: undefined };
    assert.deepEqual(await here.entry('a'), { key: 'a', value: utf8.encode('1'), ...entry });

    const second = await here.write(putOp('a', '2'));
    const changed = { ...entry, modRevision: second.revision, version: 2 };
    assert.deepEqual(await here.entry('a'), { key: 'a', value: utf8.encode('2'), ...changed });

    await here.write(deleteOp('a'));
    assert.equal(await here.entry('a'), undefined);
    const third = await here.write(putOp('a', '3'));
    const again = { createRevision: third.revision, modRevision: third.revision, version: 1, lease: undefined };
    assert.deepEqual(await here.entry('a'), { key: 'a', value: utf8.encode('3'), ...again });
  });

  it('raises the revision by one with each transaction that changes something, and by nothing else', async (t) => {
    const { here } = await openRegistryScene(t, open);
    const { revision } = await here.write(putOp('a'), putOp('b'), putOp('c'));
    const { entries } = await here.range();
    assert.deepEqual(
      entries.map(({ modRevision }) => modRevision),
      [revision, revision, revision],
    );
    assert.equal((await here.write(readOp(allKeys))).revision, revision);
    assert.equal((await here.transact({})).revision, revision);
    assert.equal((await here.range(withPrefix('b'))).revision, revision);
    const { lease } = await here.grant(60_000);
    await here.keepAlive(lease);
    await here.revoke(lease);
    assert.equal((await here.write(deleteOp(allKeys))).revision, revision + 1);
    assert.equal((await here.write(putOp('d'))).revision, revision + 2);
  });

  it('keeps empty values, all byte values and the largest value', async (t) => {
    const { here } = await openRegistryScene(t, open);
    const large = Uint8Array.from({ length: registryLimits.valueBytesMax }, (_, i) => (i * 31) & 0xff);
    await here.write(putOp('empty'));
    await here.write({ kind: 'put', key: 'large', value: large });
    assert.equal((await here.entry('empty'))?.value.length, 0);
    const { value } = (await here.entry('large'))!;
    assert.equal(value.length, large.length);
    assert.ok(value.every((byte, i) => byte === large[i]));
  });

  it('shares no bytes with its caller', async (t) => {
    const { world, here } = await openRegistryScene(t, open);
    const mine = utf8.encode('before');
    const then = [{ kind: 'put', key: 'k', value: mine.subarray(0, 6) } as const];
    const written = outcomeOf<TransactionResult>((done) =>
      here.registry.transact(buildTransaction({ then }), {}, done),
    );
    mine.fill(0x78);
    unwrap(await world.settle(written));
    assert.equal(utf8Text((await here.entry('k'))?.value), 'before');
  });

  it('shows every client the acknowledged writes of any other', async (t) => {
    const { here, there } = await openRegistryScene(t, open);
    for (let i = 0; i < 5; i++) {
      const { revision } = await here.write(putOp('n', String(i)));
      const seen = await there.range();
      assert.deepEqual([formatEntries(seen.entries), seen.revision], [`n=${i}`, revision]);
    }
  });

  it('serves stale reads, which catch up', async (t) => {
    const { here, there, after } = await openRegistryScene(t, open);
    await here.write(putOp('a', '1'));
    let seen = '';
    for (let i = 0; seen !== 'a=1' && i < 100; i++) {
      seen = await there.contents(allKeys, { stale: true });
      assert.ok(seen === '' || seen === 'a=1', seen);
      await after(20);
    }
    assert.equal(seen, 'a=1');
  });
}

function describeRanges(open: OpenHarness<RegistryHarness>): void {
  it('reads from (included) to (excluded), at most limit, and reports if there is more', async (t) => {
    const { here } = await openRegistryScene(t, open);
    await here.write(...['a', 'b', 'b/1', 'b/2', 'c'].map((key) => putOp(key)));
    const keys = async (range: KeyRange, limit = 10): Promise<string> => {
      const { entries, more } = await here.range(range, { limit });
      return entries.map(({ key }) => key).join(' ') + (more ? ' ...' : '');
    };
    assert.equal(await keys({ from: 'b', to: 'c' }), 'b b/1 b/2');
    assert.equal(await keys(withPrefix('b/')), 'b/1 b/2');
    assert.equal(await keys({ from: 'a', to: 'c' }, 2), 'a b ...');
    assert.equal(await keys({ from: 'a', to: 'c' }, 4), 'a b b/1 b/2');
    assert.equal(await keys({ from: '', to: 'z' }, 1), 'a ...');
    for (const empty of ['b', 'a', '']) assert.equal(await keys({ from: 'b', to: empty }), '');
    assert.equal(await keys({ from: 'bb', to: 'bc' }), '');
  });

  it('orders by UTF-8 bytes, which is not the order of JavaScript strings', async (t) => {
    const { here } = await openRegistryScene(t, open);
    const keys = ['\0', 'A', 'Z', 'a', 'a\0b', 'aa', 'z', '\u00e9', '\u20ac', '\ufffd', '\u{1f600}', '\u{10fffe}'];
    const shuffled = keys.toSorted((a, b) => ((a.length * 7) % 5) - ((b.length * 7) % 5)).toReversed();
    await here.write(...shuffled.map((key) => putOp(key, 'v')));
    assert.equal(await here.contents(), keys.map((key) => `${key}=v`).join(' '));
    assert.equal(await here.contents({ from: '\ufffd', to: '\u{1f600}' }), '\ufffd=v');
    assert.equal(await here.contents({ from: 'a', to: 'aa' }), 'a=v a\0b=v');
    assert.equal((await here.write(deleteOp({ from: '\ufffd', to: '\u{1f600}' }))).revision > 0, true);
    assert.equal(
      await here.contents({ from: 'z', to: '\u{10ffff}' }),
      'z=v \u00e9=v \u20ac=v \u{1f600}=v \u{10fffe}=v',
    );
  });

  it('is read page by page, whatever fits into a page', async (t) => {
    const { here } = await openRegistryScene(t, open);
    const keys = Array.from({ length: 1_000 }, (_, i) => `k${String(i).padStart(4, '0')}`);
    for (let i = 0; i < keys.length; i += 100) await here.write(...keys.slice(i, i + 100).map((key) => putOp(key)));
    const seen: string[] = [];
    for (let from = ''; ;) {
      const { entries, more } = await here.range({ from, to: 'l' }, { limit: 300 });
      seen.push(...entries.map(({ key }) => key));
      if (!more) break;
      from = `${seen.at(-1)}\0`;
    }
    assert.deepEqual(seen, keys);
  });
}

function describeArguments(open: OpenHarness<RegistryHarness>): void {
  it('refuses a transaction that is too large or malformed, without an effect', async (t) => {
    const { here } = await openRegistryScene(t, open);
    const { revision } = await here.write(putOp('before'));
    const { keyBytesMax, valueBytesMax, transactionOpsMax } = registryLimits;
    const mega = 'm'.repeat(valueBytesMax);
    const many = Array.from({ length: transactionOpsMax + 1 }, (_, i) => putOp(`k${i}`));
    const cases: [ErrorCode, Partial<RegistryTransaction>][] = [
      ['BAD_ARGUMENT', { then: [putOp('k'.repeat(keyBytesMax + 1))] }],
      ['BAD_ARGUMENT', { then: [putOp('\u20ac'.repeat(keyBytesMax / 2))] }],
      ['BAD_ARGUMENT', { then: [putOp('ok'), putOp('\ud800')] }],
      ['BAD_ARGUMENT', { then: [putOp('')] }],
      ['BAD_ARGUMENT', { then: [readOp(allKeys, 0)] }],
      ['BAD_ARGUMENT', { then: [putOp('twice'), putOp('twice')] }],
      ['BAD_ARGUMENT', { then: [putOp('a/1'), deleteOp(withPrefix('a/'))] }],
      ['TOO_LARGE', { then: [putOp('a', `${mega}m`)] }],
      ['TOO_LARGE', { then: [putOp('a', mega), putOp('b', mega)] }],
      ['TOO_LARGE', { then: many }],
      ['TOO_LARGE', { otherwise: many }],
    ];
    for (const [code, parts] of cases) await here.refuses(code, parts);
    const after = await here.range();
    assert.deepEqual([formatEntries(after.entries), after.revision], ['before=', revision]);
  });

  it('accepts the longest key and the largest number of operations', async (t) => {
    const { here } = await openRegistryScene(t, open);
    const key = 'k'.repeat(registryLimits.keyBytesMax);
    await here.write(putOp(key, 'v'));
    assert.equal(await here.contents(withPrefix(key)), `${key}=v`);
    const many = Array.from({ length: registryLimits.transactionOpsMax }, (_, i) => i);
    const compare = many.map((i) => ({ key: `x${i}`, target: 'version', is: 'equal', than: 0 }) as const);
    const { succeeded, results } = await here.transact({
      compare,
      then: many.map((i) => putOp(`x${i}`)),
      otherwise: many.map((i) => putOp(`y${i}`)),
    });
    assert.deepEqual([succeeded, results.length], [true, many.length]);
    assert.equal((await here.range(withPrefix('x'))).entries.length, many.length);
  });

  it('refuses an invalid limit, and a range that has no UTF-8 form', async (t) => {
    const { world, here } = await openRegistryScene(t, open);
    const refused = (range: KeyRange, options: RangeOptions): Promise<void> =>
      expectFailure<RangeResult>(world, 'BAD_ARGUMENT', (done) => here.registry.range(range, options, done));
    for (const limit of [0, -1, 1.5, Number.NaN, registryLimits.rangeLimitMax + 1]) await refused(allKeys, { limit });
    await refused({ from: '\ud800', to: 'z' }, {});
    assert.throws(() => here.registry.watch(allKeys, { revision: 0 }, { changed: () => {}, compacted: () => {} }));
  });
}

function describeSilence(open: OpenHarness<RegistryHarness>): void {
  it('ends every call within its timeout when the registry does not reply, and works again later', async (t) => {
    const { world, here } = await openRegistryScene(t, open);
    if (world.stopReplying === undefined) {
      t.skip('this implementation cannot stop replying');
      return;
    }
    const { lease } = await here.grant(60_000);
    await here.write(putOp('before'));
    await world.settle(world.stopReplying(true));
    const options = { timeoutMs: 700 };
    const startMs = world.clock.nowMs();
    const calls: Promise<Outcome<unknown>>[] = [
      outcomeOf<RangeResult>((done) => here.registry.range(allKeys, options, done)),
      outcomeOf<TransactionResult>((done) =>
        here.registry.transact(buildTransaction({ then: [putOp('uncertain')] }), options, done),
      ),
      outcomeOf((done) => here.registry.grant(1_000, options, done)),
      outcomeOf((done) => here.registry.keepAlive(lease, options, done)),
      outcomeOf((done) => here.registry.revoke(lease, options, done)),
    ];
    const outcomes = await world.settle(Promise.all(calls));
    const tookMs = world.clock.nowMs() - startMs;
    assert.ok(
      tookMs <= 10 * options.timeoutMs,
      `the calls took ${tookMs} ms, with a timeout of ${options.timeoutMs} ms`,
    );
    for (const outcome of outcomes) {
      const code = outcome.ok ? 'success' : outcome.error.code;
      assert.ok(['DEADLINE', 'NETWORK_TIMEOUT', 'NO_QUORUM'].includes(code), code);
    }

    await world.settle(world.stopReplying(false));
    await here.write(putOp('after'));
    assert.equal((await here.entry('before'))?.version, 1);
    // The write may have taken effect, but not twice.
    assert.ok(((await here.entry('uncertain'))?.version ?? 1) === 1);
  });
}
