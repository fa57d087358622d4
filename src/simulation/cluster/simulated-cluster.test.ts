import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { module } from '../../containers/module.ts';
import { simulate, type SimulatedPools } from '../testing.ts';

const hookCalls: string[] = [];

/** A module as a user writes it: some methods await promises, one calls another container. */
const counter = module('counter', {
  init: (ctx) => ctx.state.set('n', 0),
  recover: (ctx) => void hookCalls.push(`recover ${ctx.container}`),
  migrate: (ctx, to) => void hookCalls.push(`migrate ${ctx.container} to ${to.name}`),
  methods: {
    add: (ctx, by: number) => {
      const n: number = ctx.state.get('n') + by;
      ctx.state.set('n', n);
      return n;
    },
    addSlowly: async (ctx, by: number) => {
      for (let turns = 0; turns < 100; turns++) await Promise.resolve();
      const n: number = ctx.state.get('n') + by;
      ctx.state.set('n', n);
      return n;
    },
    get: { readonly: true, run: (ctx): number => ctx.state.get('n') ?? 0, aggregate: sum },
    addTo: async (ctx, other: number, by: number) => {
      const total: number = await ctx.call(counter, ctx.pool.name).id(other).add(by);
      ctx.state.set('n', ctx.state.get('n') + by);
      return total;
    },
    count: {
      readonly: true,
      run: async function* (_, to: number) {
        for (let n = 1; n <= to; n++) yield n;
      },
    },
    fail: () => {
      throw new Error('on purpose');
    },
  },
});

function sum(parts: number[]): number {
  return parts.reduce((a, b) => a + b, 0);
}

async function startCluster(seed = 1): Promise<SimulatedPools> {
  const cluster = await simulate({ nodes: 5, modules: [counter], seed });
  await cluster.createPool('visits', counter, { containers: 8 });
  return cluster;
}

describe('a simulated cluster with pools', () => {
  it('runs a module whose methods await', async () => {
    const { pool } = await startCluster();
    const visits = pool(counter, 'visits');
    assert.equal(await visits.hash('a').add(1), 1);
    assert.equal(await visits.hash('a').addSlowly(2), 3);
    assert.equal(await visits.hash('a').get(), 3);
    assert.equal(await visits.id(1).addTo(2, 5), 5);
    const [own, other] = [await visits.id(1).get(), await visits.id(2).get()];
    assert.ok(own >= 5 && other >= 5);
    assert.equal(await visits.broadcast().get(), 13);
    const items: number[] = [];
    for await (const item of visits.id(3).count(4)) items.push(item);
    assert.deepEqual(items, [1, 2, 3, 4]);
    await assert.rejects(visits.id(3).fail(), { code: 'CALL_FAILED', message: /on purpose/ });
  });

  it('keeps the state of a container when its owner is killed, and answers calls that wait', async () => {
    const { pool, kill, ownerOf, advance, restart } = await startCluster();
    const visits = pool(counter, 'visits');
    await visits.id(4).add(7);
    const owner = ownerOf('visits', 4) as string;
    kill(owner);
    const waiting = visits.id(4).add(1);
    assert.equal(await waiting, 8);
    assert.notEqual(ownerOf('visits', 4), owner);
    assert.ok(hookCalls.includes('recover 4'));
    restart(owner);
    await advance('10s');
    assert.equal(await pool(counter, 'visits', owner).id(4).get(), 8);
  });

  it('moves a container while it is called', async () => {
    const { pool, move, names, ownerOf } = await startCluster();
    const visits = pool(counter, 'visits');
    const from = ownerOf('visits', 0);
    const to = names.find((name) => name !== from) as string;
    const adding = Promise.all(Array.from({ length: 20 }, () => visits.id(0).add(1)));
    await Promise.all([move('visits', 0, to), adding]);
    assert.equal(ownerOf('visits', 0), to);
    assert.equal(await visits.id(0).get(), 20);
    assert.ok(hookCalls.includes(`migrate 0 to ${to}`));
  });

  it('serves on the larger side of a partition, and everywhere after it heals', async () => {
    const { pool, partition, heal, advance, ownerOf, names } = await startCluster();
    const visits = pool(counter, 'visits');
    await visits.id(2).add(1);
    const owner = ownerOf('visits', 2) as string;
    partition([owner]);
    const beside = names.find((name) => name !== owner) as string;
    assert.equal(await pool(counter, 'visits', beside).id(2).add(1), 2);
    await assert.rejects(pool(counter, 'visits', owner).with({ timeoutMs: 3_000 }).id(2).get());
    heal();
    await advance('15s');
    assert.equal(await pool(counter, 'visits', owner).id(2).get(), 2);
  });

  it('deletes a pool', async () => {
    const { pool, deletePool } = await startCluster();
    await deletePool('visits');
    await assert.rejects(pool(counter, 'visits').id(0).get(), { code: 'UNKNOWN_POOL' });
  });

  it('gives the same run for the same seed', async () => {
    const run = async (): Promise<string> => {
      const lines: string[] = [];
      const cluster = await simulate({ nodes: 3, modules: [counter], seed: 4, onLine: (line) => lines.push(line) });
      await cluster.createPool('visits', counter);
      await Promise.all(['a', 'b', 'c'].map((key) => cluster.pool(counter, 'visits').hash(key).addSlowly(1)));
      cluster.kill('n3');
      await cluster.advance('8s');
      return lines.join('\n');
    };
    const first = await run();
    assert.ok(first.length > 1_000);
    assert.equal(await run(), first);
  });
});
