/** The route of calls: forwarded calls, rejections, and results that JSON cannot express. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import type { CallSession } from '../../containers/contract.ts';
import { callRoutes, toPlainJson } from './call-routes.ts';

type Called = Parameters<CallSession['call']>;

async function invoke(body: unknown, response: (...called: Called) => unknown = () => null): Promise<unknown> {
  const [route] = callRoutes(() => ({ session: () => ({ call: async (...called) => await response(...called) }) }));
  assert.ok(route?.method === 'POST' && route.path === '/v1/call');
  const got = await route.handler({ params: {}, query: {}, body, lastEventId: undefined });
  assert.ok('json' in got && got.status === 200);
  const { schemaVersion, result } = got.json as { schemaVersion: number; result: unknown };
  assert.equal(schemaVersion, 1);
  return result;
}

const basic = { pool: 'visits', method: 'add', args: [1], route: { id: 3 } };

describe('POST /v1/call', () => {
  test('forwards the call with its options', async () => {
    const seen: Called[] = [];
    const note = (...called: Called): number => seen.push(called);
    assert.equal(await invoke({ ...basic, callId: 'order-7', timeoutMs: 500 }, note), 1);
    await invoke({ pool: 'visits', method: 'read', route: { hash: 'k' }, retryTimeoutMs: 9 }, note);
    assert.deepEqual(seen, [
      [basic, { callId: 'order-7', timeoutMs: 500 }],
      [{ pool: 'visits', method: 'read', args: [], route: { hash: 'k' } }, { retryTimeoutMs: 9 }],
    ]);
  });

  test('accepts all seven routes', async () => {
    const routes = [
      { hash: 'a' },
      { hash: 7 },
      { id: 0 },
      { range: [0, 8] },
      { broadcast: true },
      { node: 'w2' },
      { local: true },
      { dynamic: true },
    ];
    for (const route of routes) assert.deepEqual(await invoke({ ...basic, route }, (called) => called.route), route);
  });

  test('rejects malformed calls', async () => {
    const wrong: unknown[] = [
      undefined,
      'x',
      [],
      {},
      { ...basic, pool: 7 },
      { ...basic, args: { a: 1 } },
      { ...basic, callId: 5 },
    ];
    const times = [0, -1, 'x', 200_000, Number.NaN];
    const routes = [
      undefined,
      'x',
      {},
      { id: '3' },
      { id: 3, hash: 'a' },
      { range: [1] },
      { broadcast: false },
      { up: 1 },
    ];
    for (const timeoutMs of times) wrong.push({ ...basic, timeoutMs });
    for (const route of routes) wrong.push({ ...basic, route });
    for (const body of wrong) {
      await assert.rejects(invoke(body), (error) => isRemusterError(error, 'BAD_ARGUMENT'), JSON.stringify(body));
    }
    const [route] = callRoutes(() => undefined);
    const response = route?.handler({ params: {}, query: {}, body: basic, lastEventId: undefined });
    await assert.rejects(response ?? assert.fail('no route'), (error) => isRemusterError(error, 'PRECONDITION'));
  });

  test('returns errors of the call unchanged', async () => {
    const fails = (): never => {
      throw new RemusterError('PARTIAL', '1 of 2');
    };
    await assert.rejects(invoke(basic, fails), (error) => isRemusterError(error, 'PARTIAL'));
  });

  test('collects a result stream up to a limit', async () => {
    const flow = async function* (count: number): AsyncGenerator {
      for (let i = 0; i < count; i++) yield BigInt(i);
    };
    assert.deepEqual(await invoke(basic, () => flow(3)), ['0', '1', '2']);
    await assert.rejects(
      invoke(basic, () => flow(10_001)),
      (error) => isRemusterError(error, 'TOO_LARGE'),
    );
  });

  test('converts values that JSON cannot express', () => {
    const when = new Date(0);
    const value = { big: 2n ** 70n, bytes: Uint8Array.of(1, 2), when, never: new Date(Number.NaN), none: undefined };
    assert.deepEqual(toPlainJson([value, Infinity, { a: ['x', true, 1.5, null] }]), [
      { big: '1180591620717411303424', bytes: 'AQI=', when: '1970-01-01T00:00:00.000Z', never: null, none: null },
      null,
      { a: ['x', true, 1.5, null] },
    ]);
    assert.equal(toPlainJson(undefined), null);
  });
});
