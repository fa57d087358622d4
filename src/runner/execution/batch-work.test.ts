import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { startTestUnit } from '../../../test/support/runner/unit-harness.ts';
import { type UnitFailures, decodeFailures } from '../../jobs/report/item-failures.ts';
import { workflow } from '../definition/workflow.ts';

const failuresOf = (end: { readonly failures?: Uint8Array | undefined }): UnitFailures | undefined =>
  end.failures && decodeFailures(end.failures);
const outputOf = (end: { readonly output?: string | undefined }): unknown => JSON.parse(end.output ?? 'null');

describe('a batch', () => {
  it('keeps the results of its items in order, however long each takes', async () => {
    const slow = workflow('slow', {
      items: 6,
      concurrency: 3,
      each: async (item, ctx) => {
        await ctx.sleep(100 - item * 10);
        return item * 2;
      },
    });
    const { unit, ended } = startTestUnit(slow);
    const end = await ended();
    assert.equal(end.outcome, 'completed');
    assert.deepEqual(outputOf(end), [0, 2, 4, 6, 8, 10]);
    assert.equal(unit.run.summary.iterations, 6);
    assert.equal(unit.run.summary.step('each').durations.count, 6);
  });

  it('processes as many items concurrently as allowed', async () => {
    let now = 0;
    let most = 0;
    const wide = workflow('wide', {
      items: 20,
      concurrency: 4,
      each: async (_item, ctx) => {
        now += 1;
        most = Math.max(most, now);
        await ctx.sleep(10);
        now -= 1;
      },
    });
    const { clock, ended } = startTestUnit(wide);
    const end = await ended();
    assert.equal(most, 4);
    assert.equal(clock.nowMs(), 50);
    assert.equal(end.output, undefined, 'no item returned a value');
  });

  it('counts failed items and checks, and continues', async () => {
    const bad = workflow('bad', {
      items: ['a', 'b', 'c', 'd'],
      each: (item, ctx) => {
        if (item === 'b') throw new TypeError('b is bad');
        if (item === 'c') ctx.check(item, (value) => value === 'x', 'is x');
        return item;
      },
    });
    const { unit, ended } = startTestUnit(bad);
    const end = await ended();
    const { summary } = unit.run;
    assert.deepEqual(outputOf(end), ['a', null, 'c', 'd']);
    assert.deepEqual([summary.iterations, summary.failed, summary.errors], [4, 1, 1]);
    assert.deepEqual(
      [...summary.errorSamples.values()],
      [{ step: 'each', text: 'TypeError: b is bad', place: '', count: 1 }],
    );
    assert.deepEqual([...summary.checks], [['is x', { passed: 0, failed: 1 }]]);
    const failure = { index: 1, error: { name: 'TypeError', message: 'b is bad' } };
    assert.deepEqual(failuresOf(end), { runs: [{ from: 1, count: 1 }], items: [failure] });
  });

  it('lists the first failed items of its unit with truncated errors, and the indexes of all', async () => {
    const bad = workflow('bad', {
      items: 100_000,
      each: (item) => {
        if (item % 10 !== 0) throw new RangeError('x'.repeat(5_000));
        return item;
      },
    });
    const share = { phase: 'work', items: { from: 50_000, count: 2_000, list: undefined } } as const;
    const end = await startTestUnit(bad, share).ended();
    const { runs = [], items = [] } = failuresOf(end) ?? {};
    assert.deepEqual([runs.length, runs[0]], [200, { from: 50_001, count: 9 }]);
    assert.equal(items.length, 1_000);
    const [first] = items;
    assert.deepEqual([first?.index, first?.error.name, first?.error.message.length], [50_001, 'RangeError', 300]);
    assert.ok((end.failures?.length ?? 0) < 1_000_000);
  });

  it('has no indexes of failed items without results, and no list without failures', async () => {
    const fails = (item: number): never => {
      throw new Error(`${item}`);
    };
    const end = await startTestUnit(workflow('none', { items: 3, results: false, each: fails })).ended();
    assert.deepEqual([failuresOf(end)?.runs, failuresOf(end)?.items.length], [[], 3]);
    assert.equal((await startTestUnit(workflow('well', { items: 3, each: () => 1 })).ended()).failures, undefined);
  });

  it('starts no item after the first failure with the policy stop, and finishes those under way', async () => {
    const started: number[] = [];
    const stops = workflow('stops', {
      items: 100,
      concurrency: 3,
      onItemError: 'stop',
      each: async (item, ctx) => {
        started.push(item);
        await ctx.sleep(item === 4 ? 1 : 10);
        if (item === 4) throw new Error('four');
        return item;
      },
    });
    const { unit, ended } = startTestUnit(stops);
    const end = await ended();
    assert.deepEqual(started, [0, 1, 2, 3, 4, 5]);
    assert.deepEqual([end.outcome, unit.run.summary.iterations, unit.run.summary.failed], ['completed', 6, 1]);
    assert.deepEqual(outputOf(end), [0, 1, 2, 3, null, 5], 'items that were not started have no entry');
  });

  it('ends with the first success', async () => {
    const crack = workflow('crack', {
      items: 1_000,
      first: true,
      each: (item) => (item === 41 ? { password: item } : item < 10 ? false : null),
    });
    const { unit, ended } = startTestUnit(crack);
    const end = await ended();
    assert.deepEqual(
      [end.outcome, end.found, outputOf(end)],
      ['completed', true, { index: 41, value: { password: 41 } }],
    );
    assert.equal(unit.run.summary.iterations, 42);
  });

  it('fails an item whose result is not JSON, and no other', async () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    const throws = {
      toJSON: () => {
        throw new RangeError('not me');
      },
    };
    const odd = workflow('odd', {
      items: [1n, cycle, throws, () => 1, 'fine'],
      onItemError: 'continue',
      each: (item) => item,
    });
    const { unit, ended } = startTestUnit(odd);
    const end = await ended();
    assert.equal(end.outcome, 'completed');
    assert.deepEqual(outputOf(end), [null, null, null, null, 'fine']);
    assert.equal(unit.run.summary.failed, 3);
    const { runs, items } = failuresOf(end) ?? assert.fail();
    assert.deepEqual(runs, [{ from: 0, count: 3 }]);
    assert.deepEqual(
      items.map(({ error: { name, message } }) => [name, message]),
      [
        ['TypeError', 'the result of the item is not JSON: TypeError: Do not know how to serialize a BigInt'],
        ['TypeError', 'the result of the item is not JSON: TypeError: Converting circular structure to JSON'],
        ['TypeError', 'the result of the item is not JSON: RangeError: not me'],
      ],
    );
  });

  it('does not find an item whose result is not JSON', async () => {
    const search = workflow('search', { items: 3, first: true, each: (item) => (item === 0 ? 1n : item === 2) });
    const end = await startTestUnit(search).ended();
    assert.deepEqual([end.found, outputOf(end)], [true, { index: 2, value: true }]);
    assert.deepEqual(failuresOf(end)?.items[0]?.index, 0);
  });

  it('ends early when its results are too large', async () => {
    let started = 0;
    const big = workflow('big', {
      items: 1_000,
      each: () => {
        started += 1;
        return 'x'.repeat(1_000_000);
      },
    });
    const end = await startTestUnit(big).ended();
    assert.equal(end.error?.code, 'TOO_LARGE');
    assert.ok(started < 20, `${started} items started`);
  });

  it('has the output null when no item is found', async () => {
    const crack = workflow('crack', { items: 10, first: true, each: () => false });
    const end = await startTestUnit(crack).ended();
    assert.deepEqual([end.outcome, end.found, end.output], ['completed', undefined, 'null']);
  });

  it('processes the items of its unit only', async () => {
    const sum = workflow('sum', { items: 100, each: (item, ctx) => [item, ctx.index] });
    const assigned = { phase: 'work', unit: 3, units: 10, items: { from: 30, count: 2, list: undefined } } as const;
    assert.deepEqual(outputOf(await startTestUnit(sum, assigned).ended()), [
      [30, 30],
      [31, 31],
    ]);
    const named = workflow('named', { items: ['a', 'b', 'c'], each: (item) => item });
    const two = { phase: 'work', items: { from: 1, count: 2, list: undefined } } as const;
    assert.deepEqual(outputOf(await startTestUnit(named, two).ended()), ['b', 'c']);
    const found = workflow('found', { items: () => [1], each: (item) => item });
    const listed = { phase: 'work', items: { from: 7, count: 2, list: '["x","y"]' } } as const;
    assert.deepEqual(outputOf(await startTestUnit(found, listed).ended()), ['x', 'y']);
  });

  it('computes its items after setup', async () => {
    const found = workflow('found', {
      setup: () => ({ names: ['a', 'b'] }),
      items: async (ctx) => ctx.data.names,
      each: (item, ctx) => item + ctx.data.names.length,
    });
    assert.deepEqual(outputOf(await startTestUnit(found).ended()), ['a2', 'b2']);
    const plan = await startTestUnit(found, { phase: 'plan' }).ended();
    assert.deepEqual(outputOf(plan), { data: { names: ['a', 'b'] }, items: { count: 2, list: ['a', 'b'] } });
    const ranged = workflow('ranged', { items: (ctx) => ctx.range(1_000), each: () => undefined });
    assert.deepEqual(outputOf(await startTestUnit(ranged, { phase: 'plan' }).ended()), { items: { count: 1_000 } });
    const none = workflow('none', { items: (() => 'abc') as never, each: () => undefined });
    assert.match((await startTestUnit(none).ended()).error?.message ?? '', /items must return a list or ctx.range/);
  });

  it('refuses results that are too large', async () => {
    const huge = workflow('huge', { items: 11, each: () => 'x'.repeat(1_000_000) });
    assert.equal((await startTestUnit(huge).ended()).error?.code, 'TOO_LARGE');
    let calls = 0;
    const many = workflow('many', { items: 100_000_000, each: () => (calls += 1) });
    assert.equal((await startTestUnit(many).ended()).error?.code, 'TOO_LARGE');
    assert.equal(calls, 1);
    const dropped = workflow('dropped', { items: 11, results: false, each: () => 'x'.repeat(1_000_000) });
    assert.equal((await startTestUnit(dropped).ended()).outcome, 'completed');
  });

  it('draws the same numbers and keys in each attempt', async () => {
    const drawn = workflow('drawn', { items: 5, each: (_item, ctx) => [ctx.random(), ctx.idempotencyKey] });
    const once = await startTestUnit(drawn).ended();
    assert.equal((await startTestUnit(drawn).ended()).output, once.output);
    const share = { phase: 'work', items: { from: 3, count: 1, list: undefined } } as const;
    const [third] = outputOf(await startTestUnit(drawn, share).ended()) as readonly unknown[];
    assert.deepEqual(third, (outputOf(once) as readonly unknown[])[3]);
    assert.notEqual((await startTestUnit(drawn, { seed: 2 }).ended()).output, once.output);
  });

  it('is cancelled when it is stopped, with the reason in its signal', async () => {
    const reasons: unknown[] = [];
    const endless = workflow('endless', {
      items: 1_000,
      each: async (_item, ctx) => {
        ctx.signal.addEventListener('abort', () => reasons.push(ctx.signal.reason.message));
        await ctx.sleep(1_000);
      },
    });
    const { unit, clock } = startTestUnit(endless);
    const ended = unit.execute();
    await clock.until(2_500);
    unit.stop('not wanted');
    assert.deepEqual(await clock.during(ended), { outcome: 'cancelled' });
    assert.deepEqual(reasons, ['not wanted', 'not wanted', 'not wanted']);
    assert.deepEqual([unit.run.summary.iterations, unit.run.summary.failed], [2, 0]);
  });
});
