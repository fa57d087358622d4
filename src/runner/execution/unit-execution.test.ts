import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { startTestUnit } from '../../../test/support/runner/unit-harness.ts';
import { workflow } from '../definition/workflow.ts';

describe('a unit', () => {
  it('runs setup, work and teardown', async () => {
    const seen: string[] = [];
    const all = workflow('all', {
      env: { COLOUR: 'red', SIZE: 'xl' },
      setup: (ctx) => {
        seen.push(`setup ${ctx.env['COLOUR']} ${ctx.env['SIZE']} ${ctx.job} ${ctx.workflow} ${ctx.fence}`);
        return { when: new Date(0) };
      },
      items: 1,
      each: (_item, ctx) => void seen.push(`each ${String(ctx.data.when)}`),
      teardown: (ctx) => {
        seen.push('teardown');
        ctx.log('done');
      },
    });
    const { ended, lines } = startTestUnit(all, { env: new Map([['COLOUR', 'blue']]) });
    assert.equal((await ended()).outcome, 'completed');
    assert.deepEqual(seen, ['setup blue xl j1 all 7', 'each 1970-01-01T00:00:00.000Z', 'teardown']);
    assert.deepEqual(lines, ['info done']);
  });

  it('fails when setup throws, and still runs teardown', async () => {
    let teardowns = 0;
    const bad = workflow('bad', {
      setup: () => {
        throw new RangeError('no room');
      },
      items: 1,
      each: () => undefined,
      teardown: () => void (teardowns += 1),
    });
    const { unit, ended } = startTestUnit(bad);
    const end = await ended();
    assert.deepEqual(end, {
      outcome: 'failed',
      error: { code: 'WORKFLOW_FAILED', message: 'setup: RangeError: no room' },
    });
    assert.equal(teardowns, 1);
    assert.equal(unit.run.summary.iterations, 0);
  });

  it('completes although teardown throws, and logs the error', async () => {
    const untidy = workflow('untidy', {
      items: 1,
      each: () => 1,
      teardown: () => {
        throw new Error('stuck');
      },
    });
    const { unit, ended, lines } = startTestUnit(untidy);
    assert.equal((await ended()).outcome, 'completed');
    assert.deepEqual(lines, ['error teardown: stuck']);
    assert.equal(unit.run.summary.errors, 1);
    const finish = await startTestUnit(untidy, { phase: 'finish' }).ended();
    assert.deepEqual(finish.error, { code: 'WORKFLOW_FAILED', message: 'teardown: stuck' });
  });

  it('fails when the result of setup is too large', async () => {
    const big = workflow('big', { setup: () => 'x'.repeat(2_000_000), items: 1, each: () => 1 });
    assert.equal((await startTestUnit(big).ended()).error?.code, 'TOO_LARGE');
  });

  it('reads the results of earlier workflows', async () => {
    const first = workflow('first', { items: 2, each: (item) => item });
    const second = workflow('second', { items: 1, each: (_item, ctx) => ctx.from(first).concat(ctx.from('other')) });
    const { ended, unit } = startTestUnit(second, { context: '{"first":[0,1],"other":[5]}' });
    assert.equal((await ended()).output, '[[0,1,5]]');
    assert.throws(() => unit.run.from('third'), /"third" is not in `after` of "second"/);
  });

  it('says why a workflow in `after` has no result', async () => {
    const second = workflow('second', { after: ['load'], items: 1, each: () => 1 });
    const { unit, ended } = startTestUnit(second);
    await ended();
    assert.throws(
      () => unit.run.from('load'),
      /workflow "load" has no result: a load test returns the result of its `setup`/,
    );
  });

  it('can use the network only if its definition allows it', async () => {
    const quiet = workflow('quiet', { items: 1, each: async (_item, ctx) => (await ctx.http.get('/200')).status });
    const { unit, ended } = startTestUnit(quiet, { network: false });
    await ended();
    assert.match([...unit.run.summary.errorSamples.values()][0]?.text ?? '', /FORBIDDEN: .* set `network: true`/);
    assert.equal((await startTestUnit(quiet).ended()).output, '[200]');
  });

  it('has context functions that work without their object', async () => {
    const loose = workflow('loose', {
      items: 2,
      each: async (_item, { check, sleep, random, log, range, metrics: { count }, from }) => {
        await sleep(1);
        log(`drawn ${random() < 1}`);
        count('drawn', 2);
        check(from('a'), { 'is one': (value) => value === 1, 'is large': (value) => value > 5 });
        return [...range(3)];
      },
    });
    const { unit, ended, lines } = startTestUnit(loose, { context: '{"a":1}' });
    assert.equal((await ended()).output, '[[0,1,2],[0,1,2]]');
    assert.deepEqual(lines, ['info drawn true', 'info drawn true']);
    assert.deepEqual(unit.run.summary.metrics.get('drawn'), { kind: 'count', total: 4 });
    assert.deepEqual([...unit.run.summary.checks.keys()], ['is one', 'is large']);
    assert.equal(unit.run.summary.failed, 0, 'a failed check does not fail the item');
  });

  it('throws invalid values and too many metrics in the code of the author', async () => {
    const wrong = workflow('wrong', {
      items: 1,
      each: (_item, { metrics, sleep, range, random }) => {
        assert.throws(() => metrics.count('a', 0.5), /counts whole numbers/);
        assert.throws(() => metrics.gauge('a', NaN), /finite number/);
        assert.throws(() => metrics.trend('a', -1), /a duration in milliseconds/);
        assert.throws(() => metrics.rate('a', 1 as never), /true or false/);
        metrics.count('a');
        assert.throws(() => metrics.rate('a', true), /is a count and cannot be used as a rate/);
        for (let i = 0; i < 99; i++) metrics.gauge(`g${i}`, random());
        assert.throws(() => metrics.count('b'), /more than 100 metrics/);
        assert.throws(() => metrics.count('x'.repeat(200)), /more than 100|characters/);
        assert.throws(() => void sleep(NaN), /sleep takes milliseconds/);
        assert.throws(() => range(-1), /range takes a whole number/);
        return 'ok';
      },
    });
    assert.equal((await startTestUnit(wrong).ended()).output, '["ok"]');
  });

  it('logs a bounded number of lines', async () => {
    const chatty = workflow('chatty', { items: 5_000, each: (item, ctx) => ctx.log(`line ${item} \ud800`) });
    const { ended, lines } = startTestUnit(chatty);
    await ended();
    assert.equal(lines.length, 1_000);
    assert.equal(lines.at(-1), 'warn further log lines are dropped: a run may log 1000');
    assert.ok(lines.every((line) => line.isWellFormed()));
  });
});
