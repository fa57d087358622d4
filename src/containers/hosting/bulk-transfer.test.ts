import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { decodeValue } from '../../messages/codec/value.ts';
import { type Context, module } from '../module.ts';
import { type PendingCall, codeOf, HostingHarness, valueOf } from '../../../test/support/containers/hosting-harness.ts';
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
  const scene = new HostingHarness(definition);
  scene.open({}, container);
  return scene;
}

async function exported(asked: PendingCall): Promise<TransferRow[]> {
  assert.ok(asked.outcome?.ok === true && 'stream' in asked.outcome.value);
  const rows: TransferRow[] = [];
  for await (const page of asked.outcome.value.stream) rows.push(...(decodeValue(page) as TransferRow[]));
  return rows;
}

function done(scene: HostingHarness, method: string, args: readonly unknown[], session?: string): unknown {
  const asked = scene.call(method, args, session === undefined ? {} : { session });
  scene.run();
  return valueOf(asked);
}

function refused(scene: HostingHarness, args: readonly unknown[], session = 'importer'): string {
  const asked = scene.call('$import', args, { session });
  scene.run();
  return codeOf(asked);
}

describe('export', () => {
  it('gives state and timers of one instant, whatever is written meanwhile, and nothing of what calls answered', async () => {
    const scene = opened();
    done(scene, 'set', ['a', { deep: [1n, new Date(5), new Uint8Array([7])] }]);
    done(scene, 'later', ['soon', 5_000]);
    const asked = scene.call('$export');
    done(scene, 'set', ['b', 'too late']);
    // Of the same size, so it could be written over the other one.
    done(scene, 'set', ['a', { deep: [2n, new Date(6), new Uint8Array([8])] }]);
    const rows = await exported(asked);
    assert.deepEqual(
      rows.map(([kind, key]) => `${kind} ${key}`),
      ['s a', 's born', 't soon', 't tick'],
    );
    assert.deepEqual(decodeValue(rows[0]![2]), { deep: [1n, new Date(5), new Uint8Array([7])] });
  });

  it('gives long states in pages, and nothing of an empty one', async () => {
    const scene = new HostingHarness(module('m', { methods: { set: (ctx: Context, n: number) => fill(ctx, n) } }));
    function fill(ctx: Context, n: number): void {
      for (let i = 0; i < n; i++) ctx.state.set(`key ${String(i).padStart(5, '0')}`, i);
    }
    scene.open();
    assert.deepEqual(await exported(scene.call('$export')), []);
    done(scene, 'set', [2_500]);
    const asked = scene.call('$export');
    assert.ok(asked.outcome?.ok === true && 'stream' in asked.outcome.value);
    const sizes: number[] = [];
    for await (const page of asked.outcome.value.stream) sizes.push((decodeValue(page) as unknown[]).length);
    assert.deepEqual(sizes, [1_000, 1_000, 500]);
  });
});

describe('import', () => {
  it('takes the place of what the module began with; timers run when they were to run', async () => {
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
      const asked = to.call('all', [], { container: 1 });
      to.run();
      return valueOf(asked);
    };
    assert.deepEqual(all(), { a: 'from a', born: 0 });
    to.run(6_000);
    assert.deepEqual(all(), { a: 'from a', born: 0, 'ticked soon': true });
    // It is durable like everything else that calls write.
    assert.ok(to.disk(1).has('sa'));
  });

  it('is only for a container to which nobody else has written', () => {
    const scene = opened();
    done(scene, 'all', [], 'reader');
    assert.equal(refused(scene, [true, []]), 'ok');
    assert.equal(refused(scene, [false, []]), 'ok');
    assert.equal(refused(scene, [true, []], 'another importer'), 'PRECONDITION');
    const written = opened();
    done(written, 'set', ['a', 1]);
    assert.equal(refused(written, [true, []]), 'PRECONDITION');
    assert.deepEqual(done(written, 'all', []), { a: 1, born: 0 });
  });

  it('refuses what is no page', () => {
    const scene = opened();
    for (const page of [[], [true], [true, [['x', 'k', new Uint8Array()]]], [true, [['s', 'k', 'text']]], ['yes', []]])
      assert.equal(refused(scene, page), 'BAD_ARGUMENT', JSON.stringify(page));
    assert.deepEqual(done(scene, 'all', []), { born: 0 });
  });
});

it('no module has methods of these names', () => {
  assert.throws(() => module('m', { methods: { $export: () => 1 } }), { code: 'BAD_ARGUMENT' });
});
