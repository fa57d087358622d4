/** Conformance of Registry: comparisons, both branches, operation order, races. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type LeaseId, type RegistryCompare, type RegistryOpResult, withPrefix } from '../../../src/base/registry.ts';
import { type OpenHarness, utf8 } from './harness.ts';
import {
  type RegistryCaller,
  type RegistryHarness,
  allKeys,
  keyIsAbsent,
  putOp,
  readOp,
  deleteOp,
  openRegistryScene,
  formatEntries,
} from './registry-harness.ts';

function formatResults(results: readonly RegistryOpResult[]): string[] {
  return results.map((result) => {
    if (result.kind === 'put') return 'put';
    if (result.kind === 'delete') return `deleted ${result.deleted}`;
    return formatEntries(result.entries) + (result.more ? ' ...' : '');
  });
}

export function describeRegistryTransactions(open: OpenHarness<RegistryHarness>): void {
  describeComparisons(open);
  describeBranches(open);
  describeRaces(open);
}

function describeComparisons(open: OpenHarness<RegistryHarness>): void {
  it('compares versions and revisions; a key that does not exist has 0 in all of them', async (t) => {
    const { here } = await openRegistryScene(t, open);
    await here.write(putOp('k'));
    await here.write(putOp('k'));
    const { createRevision, modRevision, version } = (await here.entry('k'))!;
    const actual = { k: { createRevision, modRevision, version } };
    for (const target of ['version', 'createRevision', 'modRevision'] as const) {
      for (const key of ['k', 'missing'] as const) {
        const value = key === 'k' ? actual.k[target] : 0;
        for (const than of value === 0 ? [0, 1] : [0, value - 1, value, value + 1]) {
          const expected = {
            equal: value === than,
            notEqual: value !== than,
            less: value < than,
            greater: value > than,
          };
          for (const is of ['equal', 'notEqual', 'less', 'greater'] as const) {
            const { succeeded } = await here.transact({ compare: [{ key, target, is, than }] });
            assert.equal(succeeded, expected[is], `${target} of ${key} (${value}) ${is} ${than}`);
          }
        }
      }
    }
  });

  it('compares values; a key that does not exist equals none, not even the empty one', async (t) => {
    const { here } = await openRegistryScene(t, open);
    await here.write(putOp('k', 'v'), putOp('empty'));
    const holds = async (key: string, is: 'equal' | 'notEqual', than: string): Promise<boolean> =>
      (await here.transact({ compare: [{ key, target: 'value', is, than: utf8.encode(than) }] })).succeeded;
    const rows: [key: string, than: string, isEqual: boolean][] = [
      ['k', 'v', true],
      ['k', 'w', false],
      ['k', 'v\0', false],
      ['k', '', false],
      ['empty', '', true],
      ['empty', 'v', false],
      ['missing', '', false],
      ['missing', 'v', false],
    ];
    for (const [key, than, isEqual] of rows) {
      assert.equal(await holds(key, 'equal', than), isEqual, `${key} equal ${than}`);
      assert.equal(await holds(key, 'notEqual', than), !isEqual, `${key} notEqual ${than}`);
    }
  });

  it('executes the first branch if all comparisons hold, the other one otherwise', async (t) => {
    const { here } = await openRegistryScene(t, open);
    await here.write(putOp('k', 'v'));
    const yes: RegistryCompare = { key: 'k', target: 'version', is: 'equal', than: 1 };
    const no: RegistryCompare = { key: 'k', target: 'version', is: 'greater', than: 1 };
    const different = (than: string): RegistryCompare => ({
      key: 'k',
      target: 'value',
      is: 'notEqual',
      than: utf8.encode(than),
    });
    const rows: [boolean, RegistryCompare[]][] = [
      [true, []],
      [true, [yes, keyIsAbsent('x')]],
      [false, [yes, no]],
      [false, [no, yes]],
      [true, [different('w'), yes, different('x')]],
      [false, [different('w'), yes, different('v')]],
      [false, [different('v'), different('w')]],
      [false, [different('w'), no]],
    ];
    for (const [index, [expected, compare]] of rows.entries()) {
      const then = [putOp(`then${index}`), readOp('k')];
      const otherwise = [putOp(`otherwise${index}`), readOp(withPrefix('no')), deleteOp('nothing')];
      const { succeeded, results } = await here.transact({ compare, then, otherwise });
      assert.equal(succeeded, expected, `row ${index}`);
      assert.deepEqual(formatResults(results), expected ? ['put', 'k=v'] : ['put', '', 'deleted 0']);
      const written = (await here.range(allKeys)).entries.map(({ key }) => key).filter((key) => key !== 'k');
      assert.deepEqual(written, [expected ? `then${index}` : `otherwise${index}`]);
      await here.write(deleteOp(`then${index}`), deleteOp(`otherwise${index}`));
    }
  });
}

function describeBranches(open: OpenHarness<RegistryHarness>): void {
  it('shows each operation the effects of those before it and none after it', async (t) => {
    const { here } = await openRegistryScene(t, open);
    await here.write(putOp('a', '1'), putOp('b', '1'), putOp('c', '1'));
    const { results, revision } = await here.write(
      readOp(allKeys),
      putOp('b', '2'),
      putOp('d', '2'),
      readOp(allKeys),
      readOp(allKeys, 2),
      deleteOp({ from: 'c', to: 'd' }),
      deleteOp({ from: 'x', to: 'z' }),
      readOp(allKeys),
    );
    assert.deepEqual(formatResults(results), [
      'a=1 b=1 c=1',
      'put',
      'put',
      'a=1 b=2 c=1 d=2',
      'a=1 b=2 ...',
      'deleted 1',
      'deleted 0',
      'a=1 b=2 d=2',
    ]);
    const last = results.at(-1);
    assert.deepEqual(last?.kind === 'read' && last.entries.map(({ modRevision }) => modRevision), [
      revision - 1,
      revision,
      revision,
    ]);
    assert.equal(await here.contents(), 'a=1 b=2 d=2');
  });

  it('deletes ranges and counts the deleted keys', async (t) => {
    const { here } = await openRegistryScene(t, open);
    await here.write(...['a', 'b', 'b/1', 'b/2', 'c'].map((key) => putOp(key)));
    const { results } = await here.write(deleteOp(withPrefix('b')), deleteOp({ from: 'c', to: 'a' }), deleteOp('a'));
    assert.deepEqual(formatResults(results), ['deleted 3', 'deleted 0', 'deleted 1']);
    assert.equal(await here.contents(), 'c=');
  });

  it('leaves no effect of a failed transaction', async (t) => {
    const { here } = await openRegistryScene(t, open);
    const { revision } = await here.write(putOp('a', '1'));
    await here.refuses('LEASE_EXPIRED', {
      then: [putOp('a', '2'), deleteOp('a2'), putOp('b', '2', '987654' as LeaseId)],
    });
    await here.refuses('LEASE_EXPIRED', {
      compare: [keyIsAbsent('a')],
      otherwise: [deleteOp('a'), putOp('b', '2', '987654' as LeaseId)],
    });
    const after = await here.range();
    assert.deepEqual([formatEntries(after.entries), after.revision], ['a=1', revision]);
    // A branch that is not taken may name a lease that does not exist.
    assert.equal((await here.transact({ otherwise: [putOp('b', '2', '987654' as LeaseId)] })).succeeded, true);
  });
}

async function increment(caller: RegistryCaller): Promise<void> {
  for (;;) {
    const entry = await caller.entry('counter');
    const value = entry === undefined ? 0 : Number(new TextDecoder().decode(entry.value));
    const unchanged = {
      key: 'counter',
      target: 'modRevision',
      is: 'equal',
      than: entry?.modRevision ?? 0,
    } as const;
    const then = [putOp('counter', String(value + 1))];
    if ((await caller.transact({ compare: [unchanged], then })).succeeded) return;
  }
}

function describeRaces(open: OpenHarness<RegistryHarness>): void {
  it('lets one of many concurrent creations of a key win', async (t) => {
    const { world, here, there } = await openRegistryScene(t, open);
    const tries = Array.from({ length: 20 }, (_, i) =>
      (i % 2 === 0 ? here : there).transact({
        compare: [keyIsAbsent('k')],
        then: [putOp('k', String(i))],
        otherwise: [readOp('k')],
      }),
    );
    const outcomes = await world.settle(Promise.all(tries));
    const winners = outcomes.flatMap(({ succeeded }, i) => (succeeded ? [i] : []));
    assert.equal(winners.length, 1);
    assert.equal(await here.contents(), `k=${winners[0]}`);
    for (const { succeeded, results } of outcomes)
      assert.deepEqual(formatResults(results), [succeeded ? 'put' : `k=${winners[0]}`]);
  });

  it('loses no increment of concurrent compare-and-swap clients', async (t) => {
    const { world, here, there } = await openRegistryScene(t, open);
    const clients = [here, there, here].map(async (caller) => {
      for (let i = 0; i < 5; i++) await increment(caller);
    });
    await world.settle(Promise.all(clients));
    assert.equal(await here.contents(), 'counter=15');
  });

  it('executes each of many concurrent calls once, each with its own revision', async (t) => {
    const { world, here } = await openRegistryScene(t, open);
    const calls = Array.from({ length: 100 }, (_, i) => here.write(putOp(`k${i}`, String(i))));
    const revisions = (await world.settle(Promise.all(calls))).map(({ revision }) => revision);
    assert.equal(new Set(revisions).size, 100);
    const { entries } = await here.range();
    assert.equal(entries.length, 100);
    for (const { key, version, modRevision } of entries)
      assert.deepEqual([version, modRevision], [1, revisions[Number(key.slice(1))]]);
  });
}
