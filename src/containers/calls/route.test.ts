/** From keys and routes to container numbers: all modes, and routes that name no container. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { encodeValue } from '../../messages/codec/value.ts';
import { type Route, module } from '../module.ts';
import { CallHarness } from '../../../test/support/containers/call-harness.ts';
import { hashOfKey } from './key-hash.ts';
import { routeFromWire, routeToWire } from './call-messages.ts';

describe('the hash of a key', () => {
  test('never changes', () => {
    // Computed by another program from the description in docs/guides/calls.md.
    const known = {
      '': 0xab3e_7c0b,
      a: 0x1a80_b1b3,
      'user:42': 0x23bf_9c12,
      'h\u00e9llo \u20ac': 0x97bb_3ae6,
      '\u{1f600}': 0x3303_a80a,
    };
    assert.deepEqual(Object.fromEntries(Object.keys(known).map((key) => [key, hashOfKey(key)])), known);
  });

  test('spreads similar keys evenly', () => {
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

describe('a route', () => {
  const routed = (harness: CallHarness, route: Route, more: { readonly args?: Uint8Array } = {}): unknown => {
    const call = harness.call('b', { route, ...more });
    harness.advance(3_000);
    if (call.code !== 'ok') return call.code;
    const outcome = call.endings[0]?.outcome;
    if (outcome?.ok === true && 'parts' in outcome.value)
      return call.parts.map((part) => (part as { container: number }).container);
    return (call.value as { container: number }).container;
  };

  test('of each mode finds its containers', () => {
    const harness = new CallHarness(['a', 'b', 'c'], 8);
    assert.equal(routed(harness, { hash: 'user:42' }), hashOfKey('user:42') % 8);
    assert.equal(routed(harness, { hash: 0 }), 0);
    assert.equal(routed(harness, { hash: 2 ** 52 + 5 }), 5);
    assert.equal(routed(harness, { id: 7 }), 7);
    assert.deepEqual(routed(harness, { range: [2, 3] }), [2, 3, 4]);
    assert.deepEqual(routed(harness, { broadcast: true }), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert.equal(routed(harness, { node: 'c' }), 2);
    assert.equal(routed(harness, { node: 'b' }), 1);
    assert.equal(routed(harness, { local: true }), 1);
  });

  test('that is dynamic is chosen by the module', () => {
    const harness = new CallHarness(['a', 'b', 'c'], 8);
    assert.equal(routed(harness, { dynamic: true }), 'PRECONDITION');
    const chooses = (route?: () => Route): void => {
      const methods = { add: () => 0 };
      harness
        .node('b')
        .definitions.set('counter', module('counter', route === undefined ? { methods } : { methods, route }));
    };
    chooses();
    assert.equal(routed(harness, { dynamic: true }), 'BAD_ARGUMENT');
    chooses(() => ({ id: 5 }));
    assert.equal(routed(harness, { dynamic: true }), 5);
    chooses(() => ({ dynamic: true }));
    assert.equal(routed(harness, { dynamic: true }), 'CALL_FAILED');
    chooses(() => {
      throw new Error('which?');
    });
    assert.equal(routed(harness, { dynamic: true }), 'CALL_FAILED');
    const seen: unknown[] = [];
    harness.node('b').definitions.set(
      'counter',
      module('counter', {
        methods: { add: () => 0 },
        route: (method, args, pool) => {
          seen.push(method, args, pool);
          return { hash: args[0] as number };
        },
      }),
    );
    assert.equal(routed(harness, { dynamic: true }, { args: encodeValue([3]) }), 3);
    assert.deepEqual(seen, ['add', [3], { name: 'visits', containers: 8, params: null }]);
  });

  test('that names no container is refused at once', () => {
    const harness = new CallHarness(['a', 'b'], 4);
    harness.setOwner(1, 'a');
    harness.setOwner(3, 'a');
    for (const [route, code] of [
      [{ hash: -1 }, 'BAD_ARGUMENT'],
      [{ hash: 1.5 }, 'BAD_ARGUMENT'],
      [{ hash: Number.NaN }, 'BAD_ARGUMENT'],
      [{ id: 4 }, 'UNKNOWN_CONTAINER'],
      [{ id: -1 }, 'BAD_ARGUMENT'],
      [{ range: [0, 0] }, 'BAD_ARGUMENT'],
      [{ range: [3, 2] }, 'UNKNOWN_CONTAINER'],
      [{ range: [4, 1] }, 'UNKNOWN_CONTAINER'],
      [{ node: 'unknown' }, 'UNKNOWN_CONTAINER'],
      [{ local: true }, 'UNKNOWN_CONTAINER'],
      [{} as Route, 'BAD_ARGUMENT'],
    ] as readonly (readonly [Route, string])[]) {
      const call = harness.call('b', { route });
      assert.equal(call.code, code, JSON.stringify(route));
    }
    assert.equal(harness.sent.length, 0);
  });

  test('of a pool that was just created waits for it; of an unknown pool it ends soon', () => {
    const harness = new CallHarness(['a', 'b'], 4);
    const { table } = harness.node('a');
    table.known.clear();
    const known = harness.call('a', { route: { id: 0 } });
    const unknown = harness.call('a', { pool: 'nowhere' });
    harness.advance(500);
    table.known.set('visits', harness.pool);
    harness.advance(2_000);
    assert.equal(known.code, 'ok');
    assert.equal(unknown.code, 'UNKNOWN_POOL');
    assert.ok(unknown.atMs <= 1_010);
  });

  test('of a call through a node that has just started waits for its table', () => {
    const harness = new CallHarness(['a', 'b'], 4);
    const { table } = harness.node('a');
    table.known.clear();
    table.version = 0;
    const call = harness.call('a', { route: { id: 0 } });
    harness.advance(20_000);
    table.known.set('visits', harness.pool);
    harness.advance(300);
    assert.equal(call.code, 'ok');
  });

  test('of a pool that is being deleted, or is deleted while the call waits, ends', () => {
    const harness = new CallHarness(['a', 'b'], 4);
    const { table } = harness.node('a');
    harness.setOwner(1, undefined);
    const waiting = harness.call('a', { route: { id: 1 } });
    table.known.set('visits', { ...harness.pool, record: { ...harness.pool.record, state: 'deleting' } });
    const late = harness.call('a', { route: { id: 0 } });
    const toAll = harness.call('a', { route: { broadcast: true } });
    harness.advance(1_010);
    assert.deepEqual([late.code, toAll.code], ['UNKNOWN_POOL', 'UNKNOWN_POOL']);
    table.known.clear();
    harness.advance(1_000);
    assert.equal(waiting.code, 'UNKNOWN_POOL');
  });

  test('of a pool that was created again finds it, although the table has only the former one', () => {
    const harness = new CallHarness(['a', 'b'], 4);
    const { table } = harness.node('a');
    table.known.set('visits', { ...harness.pool, record: { ...harness.pool.record, state: 'deleting' } });
    const one = harness.call('a', { route: { id: 0 } });
    const toAll = harness.call('a', { route: { broadcast: true } });
    harness.advance(100);
    table.known.set('visits', harness.pool);
    harness.advance(500);
    assert.deepEqual([one.code, toAll.code], ['ok', 'ok']);
  });

  test('of a pool whose creation this node has confirmed waits for the table, and reaches no former pool', () => {
    const harness = new CallHarness(['a', 'b'], 4);
    const { table, calls } = harness.node('a');
    const { record } = harness.pool;
    table.known.set('visits', { ...harness.pool, record: { ...record, major: record.major - 1, containers: 2 } });
    calls.expectPool('visits', record.major);
    const one = harness.call('a', { route: { id: 0 } });
    const toAll = harness.call('a', { route: { broadcast: true } });
    // The former pool has no such container.
    const beyond = harness.call('a', { route: { id: 3 } });
    const short = harness.call('a', { route: { id: 0 }, timeoutMs: 3_000 });
    harness.advance(5_000);
    assert.deepEqual([short.code, harness.ran.length], ['DEADLINE', 0]);
    table.known.set('visits', harness.pool);
    harness.advance(500);
    assert.deepEqual([one.code, toAll.code, beyond.code], ['ok', 'ok', 'ok']);
  });

  test('of a pool whose creation this node has confirmed ends if the table never has it', () => {
    const harness = new CallHarness(['a', 'b'], 4);
    const { table, calls } = harness.node('a');
    table.known.clear();
    calls.expectPool('visits', 9);
    harness.advance(29_500);
    const call = harness.call('a', { route: { id: 0 } });
    harness.advance(5_000);
    const later = harness.call('a', { route: { id: 0 } });
    harness.advance(35_000);
    assert.deepEqual([call.code, later.code], ['UNKNOWN_POOL', 'UNKNOWN_POOL']);
    assert.ok(later.atMs <= 35_600);
  });

  test('decodes to what it was', () => {
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
