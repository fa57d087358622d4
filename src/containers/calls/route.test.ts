/** Keys and routes to container numbers: the seven modes, and what names no container. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { encodeValue } from '../../messages/codec/value.ts';
import { type Route, module } from '../module.ts';
import { CallHarness } from '../../../test/support/containers/call-harness.ts';
import { hashOfKey } from './key-hash.ts';
import { routeFromWire, routeToWire } from './call-messages.ts';

describe('the hash of a key', () => {
  test('is the same for ever', () => {
    // Computed from the description in docs/guides/calls.md by another program.
    const known = {
      '': 0xab3e_7c0b,
      a: 0x1a80_b1b3,
      'user:42': 0x23bf_9c12,
      'h\u00e9llo \u20ac': 0x97bb_3ae6,
      '\u{1f600}': 0x3303_a80a,
    };
    assert.deepEqual(Object.fromEntries(Object.keys(known).map((key) => [key, hashOfKey(key)])), known);
  });

  test('spreads keys that people choose', () => {
    for (const containers of [2, 3, 7, 16, 64, 1_000]) {
      const found = new Uint32Array(containers);
      const keys = containers * 500;
      for (let i = 0; i < keys; i++) {
        const container = hashOfKey(`user:${i}`) % containers;
        found[container] = (found[container] as number) + 1;
      }
      assert.ok(Math.min(...found) > 380 && Math.max(...found) < 620, `${containers}: ${found.join(' ')}`);
    }
  });
});

describe('routes', () => {
  const routed = (scene: CallHarness, route: Route, more: { readonly args?: Uint8Array } = {}): unknown => {
    const call = scene.call('b', { route, ...more });
    scene.advance(3_000);
    if (call.code !== 'ok') return call.code;
    const outcome = call.endings[0]?.outcome;
    if (outcome?.ok === true && 'parts' in outcome.value)
      return call.parts.map((part) => (part as { container: number }).container);
    return (call.value as { container: number }).container;
  };

  test('all seven find their containers', () => {
    const scene = new CallHarness(['a', 'b', 'c'], 8);
    assert.equal(routed(scene, { hash: 'user:42' }), hashOfKey('user:42') % 8);
    assert.equal(routed(scene, { hash: 0 }), 0);
    assert.equal(routed(scene, { hash: 2 ** 52 + 5 }), 5);
    assert.equal(routed(scene, { id: 7 }), 7);
    assert.deepEqual(routed(scene, { range: [2, 3] }), [2, 3, 4]);
    assert.deepEqual(routed(scene, { broadcast: true }), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert.equal(routed(scene, { node: 'c' }), 2);
    assert.equal(routed(scene, { node: 'b' }), 1);
    assert.equal(routed(scene, { local: true }), 1);
  });

  test('dynamic is what the module says', () => {
    const scene = new CallHarness(['a', 'b', 'c'], 8);
    assert.equal(routed(scene, { dynamic: true }), 'PRECONDITION');
    const chooses = (route?: () => Route): void => {
      const methods = { add: () => 0 };
      scene
        .seat('b')
        .definitions.set('counter', module('counter', route === undefined ? { methods } : { methods, route }));
    };
    chooses();
    assert.equal(routed(scene, { dynamic: true }), 'BAD_ARGUMENT');
    chooses(() => ({ id: 5 }));
    assert.equal(routed(scene, { dynamic: true }), 5);
    chooses(() => ({ dynamic: true }));
    assert.equal(routed(scene, { dynamic: true }), 'CALL_FAILED');
    chooses(() => {
      throw new Error('which?');
    });
    assert.equal(routed(scene, { dynamic: true }), 'CALL_FAILED');
    const seen: unknown[] = [];
    scene.seat('b').definitions.set(
      'counter',
      module('counter', {
        methods: { add: () => 0 },
        route: (method, args, pool) => {
          seen.push(method, args, pool);
          return { hash: args[0] as number };
        },
      }),
    );
    assert.equal(routed(scene, { dynamic: true }, { args: encodeValue([3]) }), 3);
    assert.deepEqual(seen, ['add', [3], { name: 'visits', containers: 8, params: null }]);
  });

  test('what names no container is refused at once', () => {
    const scene = new CallHarness(['a', 'b'], 4);
    scene.own(1, 'a');
    scene.own(3, 'a');
    for (const [route, code] of [
      [{ hash: -1 }, 'BAD_ARGUMENT'],
      [{ hash: 1.5 }, 'BAD_ARGUMENT'],
      [{ hash: Number.NaN }, 'BAD_ARGUMENT'],
      [{ id: 4 }, 'UNKNOWN_CONTAINER'],
      [{ id: -1 }, 'BAD_ARGUMENT'],
      [{ range: [0, 0] }, 'BAD_ARGUMENT'],
      [{ range: [3, 2] }, 'UNKNOWN_CONTAINER'],
      [{ range: [4, 1] }, 'UNKNOWN_CONTAINER'],
      [{ node: 'nobody' }, 'UNKNOWN_CONTAINER'],
      [{ local: true }, 'UNKNOWN_CONTAINER'],
      [{} as Route, 'BAD_ARGUMENT'],
    ] as readonly (readonly [Route, string])[]) {
      const call = scene.call('b', { route });
      assert.equal(call.code, code, JSON.stringify(route));
    }
    assert.equal(scene.sent.length, 0);
  });

  test('of a pool that was created a moment ago wait for it; others end soon', () => {
    const scene = new CallHarness(['a', 'b'], 4);
    const { table } = scene.seat('a');
    table.known.clear();
    const known = scene.call('a', { route: { id: 0 } });
    const unknown = scene.call('a', { pool: 'nowhere' });
    scene.advance(500);
    table.known.set('visits', scene.pool);
    scene.advance(2_000);
    assert.equal(known.code, 'ok');
    assert.equal(unknown.code, 'UNKNOWN_POOL');
    assert.ok(unknown.atMs <= 1_010);
  });

  test('of a node that has just begun wait for its table', () => {
    const scene = new CallHarness(['a', 'b'], 4);
    const { table } = scene.seat('a');
    table.known.clear();
    table.version = 0;
    const call = scene.call('a', { route: { id: 0 } });
    scene.advance(20_000);
    table.known.set('visits', scene.pool);
    scene.advance(300);
    assert.equal(call.code, 'ok');
  });

  test('of a pool that is being deleted, or is gone while the call waits, end', () => {
    const scene = new CallHarness(['a', 'b'], 4);
    const { table } = scene.seat('a');
    scene.own(1, undefined);
    const waiting = scene.call('a', { route: { id: 1 } });
    table.known.set('visits', { ...scene.pool, record: { ...scene.pool.record, state: 'deleting' } });
    const late = scene.call('a', { route: { id: 0 } });
    const toAll = scene.call('a', { route: { broadcast: true } });
    scene.advance(1_010);
    assert.deepEqual([late.code, toAll.code], ['UNKNOWN_POOL', 'UNKNOWN_POOL']);
    table.known.clear();
    scene.advance(1_000);
    assert.equal(waiting.code, 'UNKNOWN_POOL');
  });

  test('of a pool that was created again find it, though this node has only heard that the former one goes', () => {
    const scene = new CallHarness(['a', 'b'], 4);
    const { table } = scene.seat('a');
    table.known.set('visits', { ...scene.pool, record: { ...scene.pool.record, state: 'deleting' } });
    const one = scene.call('a', { route: { id: 0 } });
    const toAll = scene.call('a', { route: { broadcast: true } });
    scene.advance(100);
    table.known.set('visits', scene.pool);
    scene.advance(500);
    assert.deepEqual([one.code, toAll.code], ['ok', 'ok']);
  });

  test('of a pool that this node has told of wait for its table, and reach no former one', () => {
    const scene = new CallHarness(['a', 'b'], 4);
    const { table, calls } = scene.seat('a');
    const { record } = scene.pool;
    table.known.set('visits', { ...scene.pool, record: { ...record, major: record.major - 1, containers: 2 } });
    calls.expectPool('visits', record.major);
    const one = scene.call('a', { route: { id: 0 } });
    const toAll = scene.call('a', { route: { broadcast: true } });
    // The former one has no such container.
    const beyond = scene.call('a', { route: { id: 3 } });
    const short = scene.call('a', { route: { id: 0 }, timeoutMs: 3_000 });
    scene.advance(5_000);
    assert.deepEqual([short.code, scene.ran.length], ['DEADLINE', 0]);
    table.known.set('visits', scene.pool);
    scene.advance(500);
    assert.deepEqual([one.code, toAll.code, beyond.code], ['ok', 'ok', 'ok']);
  });

  test('of a pool that this node has told of, and that never comes, end', () => {
    const scene = new CallHarness(['a', 'b'], 4);
    const { table, calls } = scene.seat('a');
    table.known.clear();
    calls.expectPool('visits', 9);
    scene.advance(29_500);
    const call = scene.call('a', { route: { id: 0 } });
    scene.advance(5_000);
    const later = scene.call('a', { route: { id: 0 } });
    scene.advance(35_000);
    assert.deepEqual([call.code, later.code], ['UNKNOWN_POOL', 'UNKNOWN_POOL']);
    assert.ok(later.atMs <= 35_600);
  });

  test('travel as they are', () => {
    const routes: readonly Route[] = [
      { hash: 'k' },
      { hash: 7 },
      { id: 3 },
      { range: [1, 2] },
      { broadcast: true },
      { node: 'w2' },
      { local: true },
      { dynamic: true },
    ];
    for (const route of routes) assert.deepEqual(routeFromWire(routeToWire(route)), route);
    assert.throws(
      () => routeFromWire({ mode: 'id', key: undefined, number: undefined, count: undefined }),
      (error) => isRemusterError(error, 'BAD_ARGUMENT'),
    );
  });
});
