import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { decodeValue } from '../../messages/codec/value.ts';
import { type Context, module } from '../module.ts';
import { type StartedCall, codeOf, HostingHarness, valueOf } from '../../../test/support/containers/hosting-harness.ts';
import type { TransferRow } from './bulk-transfer.ts';

const definition = module('m', {
  init: (ctx) => {
    ctx.state.set('born', ctx.container);
    ctx.timers.set('tick', 60_000, 'tick', 'own');
  },
  methods: {
    set: (ctx: Context, key: string, value: unknown) => ctx.state.set(key, value),
    later: (ctx: Context, name: string, afterMs: number) => ctx.timers.set(name, afterMs, 'tick', name),
    tick: (ctx: Context, from: string) => ctx.state.set(`ticked ${from}`, true),
    all: { readonly: true, run: (ctx: Context) => Object.fromEntries(ctx.state.entries()) },
  },
});

function opened(container = 0): HostingHarness {
  const harness = new HostingHarness(definition);
  harness.open({}, container);
  return harness;
}

async function exported(started: StartedCall): Promise<TransferRow[]> {
  assert.ok(started.outcome?.ok === true && 'stream' in started.outcome.value);
  const rows: TransferRow[] = [];
  for await (const page of started.outcome.value.stream) rows.push(...(decodeValue(page) as TransferRow[]));
  return rows;
}

function done(harness: HostingHarness, method: string, args: readonly unknown[], session?: string): unknown {
  const started = harness.call(method, args, session === undefined ? {} : { session });
  harness.run();
  return valueOf(started);
}

function refused(harness: HostingHarness, args: readonly unknown[], session = 'importer'): string {
  const started = harness.call('$import', args, { session });
  harness.run();
  return codeOf(started);
}

describe('export', () => {
  it('yields a consistent snapshot of state and timers, without the dedup table', async () => {
    const harness = opened();
    done(harness, 'set', ['a', { deep: [1n, new Date(5), new Uint8Array([7])] }]);
    done(harness, 'later', ['soon', 5_000]);
    const started = harness.call('$export');
    done(harness, 'set', ['b', 'too late']);
    // Of the same size, so that it could be overwritten in place.
    done(harness, 'set', ['a', { deep: [2n, new Date(6), new Uint8Array([8])] }]);
    const rows = await exported(started);
    assert.deepEqual(
      rows.map(([kind, key]) => `${kind} ${key}`),
      ['s a', 's born', 't soon', 't tick'],
    );
    assert.deepEqual(decodeValue(rows[0]![2]), { deep: [1n, new Date(5), new Uint8Array([7])] });
  });

  it('yields a long state in pages, and no page of an empty one', async () => {
    const harness = new HostingHarness(module('m', { methods: { set: (ctx: Context, n: number) => fill(ctx, n) } }));
    function fill(ctx: Context, n: number): void {
      for (let i = 0; i < n; i++) ctx.state.set(`key ${String(i).padStart(5, '0')}`, i);
    }
    harness.open();
    assert.deepEqual(await exported(harness.call('$export')), []);
    done(harness, 'set', [2_500]);
    const started = harness.call('$export');
    assert.ok(started.outcome?.ok === true && 'stream' in started.outcome.value);
    const sizes: number[] = [];
    for await (const page of started.outcome.value.stream) sizes.push((decodeValue(page) as unknown[]).length);
    assert.deepEqual(sizes, [1_000, 1_000, 500]);
  });
});

describe('import', () => {
  it('replaces the initial state of the module, and keeps the due times of timers', async () => {
    const from = opened();
    done(from, 'set', ['a', 'from a']);
    done(from, 'later', ['soon', 5_000]);
    const rows = await exported(from.call('$export'));
    const to = opened(1);
    const state = rows.filter(([kind]) => kind === 's');
    const first = to.call('$import', [true, state.slice(0, 1)], { container: 1, session: 'importer' });
    to.run();
    assert.equal(valueOf(first), 1);
    const rest = to.call('$import', [false, rows.slice(1)], { container: 1, session: 'importer' });
    to.run();
    assert.equal(valueOf(rest), rows.length - 1);
    const all = (): unknown => {
      const started = to.call('all', [], { container: 1 });
      to.run();
      return valueOf(started);
    };
    assert.deepEqual(all(), { a: 'from a', born: 0 });
    to.run(6_000);
    assert.deepEqual(all(), { a: 'from a', born: 0, 'ticked soon': true });
    // An import is durable like all writes of calls.
    assert.ok(to.disk(1).has('sa'));
  });

  it('is refused if another caller has written to the container', () => {
    const harness = opened();
    done(harness, 'all', [], 'reader');
    assert.equal(refused(harness, [true, []]), 'ok');
    assert.equal(refused(harness, [false, []]), 'ok');
    assert.equal(refused(harness, [true, []], 'another importer'), 'PRECONDITION');
    const written = opened();
    done(written, 'set', ['a', 1]);
    assert.equal(refused(written, [true, []]), 'PRECONDITION');
    assert.deepEqual(done(written, 'all', []), { a: 1, born: 0 });
  });

  it('refuses a malformed page', () => {
    const harness = opened();
    for (const page of [[], [true], [true, [['x', 'k', new Uint8Array()]]], [true, [['s', 'k', 'text']]], ['yes', []]])
      assert.equal(refused(harness, page), 'BAD_ARGUMENT', JSON.stringify(page));
    assert.deepEqual(done(harness, 'all', []), { born: 0 });
  });
});

it('a module cannot define methods with the names of bulk transfer', () => {
  assert.throws(() => module('m', { methods: { $export: () => 1 } }), { code: 'BAD_ARGUMENT' });
});
