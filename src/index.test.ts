/** The public door, used as the contract shows it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect, isRemusterError, kv, module, startNode } from './index.ts';

const counter = module('counter', {
  methods: {
    add: async (ctx, by: number) => {
      const n = (ctx.state.get('n') ?? 0) + by;
      ctx.state.set('n', n);
      return n;
    },
    read: {
      readonly: true,
      run: async (ctx) => ctx.state.get('n') ?? 0,
      aggregate: (parts: number[]) => parts.reduce((a, b) => a + b, 0),
    },
  },
});

/** Never runs: it is here for the compiler, which must accept and refuse exactly this. */
async function typed(secret: string): Promise<void> {
  const cluster = await connect({ addr: '127.0.0.1:7400', secret });
  const pool = cluster.pool(counter, 'visits');
  await pool.hash('user:42').add(1);
  (await pool.broadcast().read()) satisfies number;
  // @ts-expect-error: there is no such method
  await pool.hash('user:42').subtract(1);
  // @ts-expect-error: an argument of the wrong type
  await pool.hash('user:42').add('1');

  const store = cluster.pool(kv, 'kv');
  const { version } = await store.hash('a').put('a', { any: 'value' }, { ifVersion: 0, ttlMs: 1_000 });
  (await store.dynamic().get('a'))?.version satisfies number | undefined;
  (await store.dynamic().delete('a', { ifVersion: version })).deleted satisfies boolean;
  for (const { key, value } of (await store.broadcast().list({ prefix: 'a', limit: 10 })).items) void [key, value];
  for await (const change of store.id(0).watch('a', await store.id(0).revision())) {
    if ('compacted' in change) change.revision satisfies number;
    else change.version satisfies number;
  }
  // @ts-expect-error: a key is a text
  await store.hash('a').get(1);
  // @ts-expect-error: no such option
  await store.hash('a').put('a', 1, { ifversion: 0 });
  await cluster.close();
}

test('the public door has what the contract names', () => {
  assert.equal(typeof typed, 'function');
  for (const name of [connect, isRemusterError, module, startNode]) assert.equal(typeof name, 'function');
  assert.deepEqual([kv.name, counter.name], ['kv', 'counter']);
});
