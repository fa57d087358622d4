/** Pool handles: the calls that they create, and the calls that the compiler refuses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../base/errors.ts';
import { type CallOptions, module } from './module.ts';
import { type HandleCall, type InvokeCall, poolHandle } from './pool-handle.ts';

// The example of the public contract, verbatim.
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

const shop = module('shop', {
  methods: {
    greet: (ctx, name: string, often?: number): string => `${name} ${often ?? 1} ${ctx.container}`,
    stock: { readonly: true, run: (): readonly string[] => ['a'] },
    count: { run: (): number => 1, aggregate: (parts: number[]): { total: number } => ({ total: parts.length }) },
    async *orders(_ctx, from: number): AsyncGenerator<{ order: number }> {
      yield { order: from };
    },
  },
});

type Seen = { readonly call: HandleCall; readonly options: CallOptions };

function recorded(result: ReturnType<InvokeCall> = Promise.resolve('result')): { seen: Seen[]; invoke: InvokeCall } {
  const seen: Seen[] = [];
  return {
    seen,
    invoke: (call, options) => {
      seen.push({ call, options });
      return result;
    },
  };
}

test('each route of a handle turns a method into one plain call', async () => {
  const { seen, invoke } = recorded();
  const pool = poolHandle(shop, 'main', invoke);
  assert.equal(await pool.hash('user:42').greet('Ann', 2), 'result');
  await pool.hash(7).stock();
  await pool.id(3).stock();
  await pool.range(0, 8).stock();
  await pool.broadcast().count();
  await pool.node('w2').stock();
  await pool.local().stock();
  await pool.dynamic().stock();
  assert.deepEqual(
    seen.map(({ call }) => [call.method, call.route, call.isFanOut]),
    [
      ['greet', { hash: 'user:42' }, false],
      ['stock', { hash: 7 }, false],
      ['stock', { id: 3 }, false],
      ['stock', { range: [0, 8] }, true],
      ['count', { broadcast: true }, true],
      ['stock', { node: 'w2' }, false],
      ['stock', { local: true }, false],
      ['stock', { dynamic: true }, false],
    ],
  );
  assert.deepEqual(seen[0]?.call.args, ['Ann', 2]);
  assert.equal(seen[0]?.call.pool, 'main');
});

test('options of a handle are merged, and do not change the original handle', async () => {
  const { seen, invoke } = recorded();
  const pool = poolHandle(shop, 'main', invoke);
  const patient = pool.with({ timeoutMs: 100 });
  await patient.with({ callId: 's/1/1' }).id(0).stock();
  await patient.id(0).stock();
  await pool.id(0).stock();
  assert.deepEqual(
    seen.map(({ options }) => options),
    [{ timeoutMs: 100, callId: 's/1/1' }, { timeoutMs: 100 }, {}],
  );
});

test('an unknown method of a handle is undefined', () => {
  const calls: object = poolHandle(shop, 'main', recorded().invoke).id(0);
  assert.equal(Reflect.get(calls, 'nothing'), undefined);
  assert.equal(Reflect.get(calls, 'then'), undefined);
  assert.equal(typeof Reflect.get(calls, 'greet'), 'function');
});

test('handles of one definition share their methods', () => {
  const { invoke } = recorded();
  const one = poolHandle(shop, 'one', invoke).id(0);
  const two = poolHandle(shop, 'two', invoke).hash('a');
  assert.equal(one.greet, two.greet);
});

test('a generator returns a result stream, directly or in a promise, and starts at the first read', async () => {
  async function* items(): AsyncGenerator<number> {
    yield 1;
    yield 2;
  }
  for (const result of [(): AsyncIterable<number> => items(), async (): Promise<AsyncIterable<number>> => items()]) {
    let calls = 0;
    const pool = poolHandle(shop, 'main', () => ((calls += 1), result()));
    const orders = pool.id(0).orders(1);
    assert.equal(calls, 0);
    const read: unknown[] = [];
    for await (const item of orders) read.push(item);
    assert.deepEqual([read, calls], [[1, 2], 1]);
  }
});

test('a reader that stops ends the result stream', async () => {
  let ended = false;
  async function* items(): AsyncGenerator<number> {
    try {
      yield 1;
      yield 2;
    } finally {
      ended = true;
    }
  }
  for await (const item of poolHandle(shop, 'main', items).id(0).orders(1)) {
    assert.equal(item, 1);
    break;
  }
  assert.equal(ended, true);
});

test('a handle refuses a result stream of several containers, and an invalid pool name', async () => {
  const pool = poolHandle(shop, 'main', recorded().invoke);
  const flow: unknown = pool.broadcast().orders(1);
  await assert.rejects(
    async () => await (flow as AsyncGenerator).next(),
    (error) => isRemusterError(error, 'BAD_ARGUMENT'),
  );
  assert.throws(
    () => poolHandle(shop, 'No Name', recorded().invoke),
    (error) => isRemusterError(error, 'BAD_ARGUMENT'),
  );
});

/** Never runs: the compiler must accept and refuse exactly these calls. */
async function typed(): Promise<void> {
  const { invoke } = recorded();
  const visits = poolHandle(counter, 'visits', invoke);
  const pool = poolHandle(shop, 'main', invoke);

  (await visits.hash('user:42').add(1)) satisfies number;
  (await visits.broadcast().read()) satisfies number;
  (await pool.id(1).greet('Ann')) satisfies string;
  (await pool.id(1).stock()) satisfies readonly string[];
  (await pool.range(0, 2).stock()) satisfies (readonly string[])[];
  (await pool.broadcast().count()) satisfies { total: number };
  (await pool.id(1).count()) satisfies number;
  for await (const { order } of pool.id(1).orders(5)) order satisfies number;

  // @ts-expect-error: there is no such method
  await visits.hash('user:42').sub(1);
  // @ts-expect-error: an argument is missing
  await visits.hash('user:42').add();
  // @ts-expect-error: an argument of the wrong type
  await visits.hash('user:42').add('1');
  // @ts-expect-error: one argument too many
  await visits.hash('user:42').read(1);
  // @ts-expect-error: a caller does not pass the context
  await pool.id(1).greet({}, 'Ann');
  // @ts-expect-error: the result is a text
  (await pool.id(1).greet('Ann')) satisfies number;
  // @ts-expect-error: the result of several containers is that of aggregate
  (await pool.broadcast().count()) satisfies number;
  // @ts-expect-error: a container is a number
  pool.id('1');
  // @ts-expect-error: no such option
  pool.with({ timeout: 1 });
}

test('the compiler has checked the types of calls', () => {
  assert.equal(typeof typed, 'function');
});
