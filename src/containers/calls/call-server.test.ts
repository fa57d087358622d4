/** How a node handles call messages of others, and how callers in a process number their calls. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Outcome, isRemusterError, success } from '../../base/errors.ts';
import type { CallMessageOf } from '../../messages/calls.ts';
import { type Message, decodeMessage, encodeMessage } from '../../messages/catalogue.ts';
import { checkSender } from '../../messages/role-matrix.ts';
import { decodeValue, encodeValue } from '../../messages/codec/value.ts';
import { CallHarness } from '../../../test/support/containers/call-harness.ts';
import {
  callResultOfReply,
  routeCallReplyOf,
  routeToWire,
  truncateErrorText,
  routeCallToMessage,
} from './call-messages.ts';

const names = ['a', 'b', 'c'] as const;
const numbered = { session: 'test', generation: 1, counter: 5, lowestPending: 1 };

function send(harness: CallHarness, at: string, message: Message, ms = 10): Message | undefined {
  let reply: Outcome<Uint8Array> | undefined;
  const { identity } = harness.node('a');
  assert.ok(harness.node(at).calls.handle(identity, message, 10_000, (outcome) => (reply = outcome)));
  harness.advance(ms);
  return reply?.ok === true ? decodeMessage(reply.value) : undefined;
}

function callOf(container: number, more: Partial<CallMessageOf<'call'>> = {}): CallMessageOf<'call'> {
  const rest = { version: 1, method: 'add', args: encodeValue([]) };
  return { kind: 'call', ...numbered, pool: 7, container, ...rest, ...more };
}

function routeCallOf(more: Partial<CallMessageOf<'routeCall'>> = {}): CallMessageOf<'routeCall'> {
  const rest = { retryTimeoutMs: undefined, method: 'add', args: encodeValue([]) };
  return { kind: 'routeCall', ...numbered, pool: 'visits', route: routeToWire({ id: 1 }), ...rest, ...more };
}

describe('a call server', () => {
  test('runs calls of its own containers, and reports the version of its table entry', () => {
    const harness = new CallHarness(names, 3);
    const reply = send(harness, 'b', callOf(1));
    assert.ok(reply?.kind === 'callReply' && reply.value !== undefined);
    assert.deepEqual(decodeValue(reply.value), { container: 1, method: 'add', times: 1 });
    assert.equal(reply.version, harness.node('b').table.versionOf(harness.pool, 1));
  });

  test('names the owner of a container that it does not own, and forwards nothing', () => {
    const harness = new CallHarness(names, 3);
    const reply = send(harness, 'c', callOf(1));
    assert.ok(reply?.kind === 'callError');
    const { table } = harness.node('c');
    const entry = { owner: table.ownerOf(harness.pool, 1), version: table.versionOf(harness.pool, 1) };
    assert.deepEqual({ owner: reply.owner, version: reply.version }, entry);
    assert.equal(reply.code, 'STALE_TABLE');
    assert.equal(harness.sent.length, 0);
  });

  test('refuses unknown pools and ignores other messages', () => {
    const harness = new CallHarness(names, 3);
    const reply = send(harness, 'b', callOf(1, { pool: 8 }));
    assert.ok(reply?.kind === 'callError' && reply.code === 'UNKNOWN_POOL');
    assert.deepEqual(send(harness, 'b', { kind: 'queryCallStatus', ...numbered, pool: 8, container: 1 }), {
      kind: 'queryCallStatusReply',
      status: 'unknown',
    });
    const { identity, calls } = harness.node('a');
    assert.ok(!calls.handle(identity, { kind: 'listMembers' }, 1_000, () => assert.fail('not a call message')));
  });

  test('reports the status of a call', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').pendingCalls.add('test/1/5');
    const query = { kind: 'queryCallStatus', ...numbered, pool: 7, container: 1 } as const;
    assert.deepEqual(send(harness, 'b', query), { kind: 'queryCallStatusReply', status: 'running' });
    assert.deepEqual(send(harness, 'c', query), { kind: 'queryCallStatusReply', status: 'unknown' });
  });

  test('replies TOO_LARGE when a result exceeds a message', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').script = (_call, _run, done) => {
      done(success({ value: new Uint8Array(10_000_001) }));
      return undefined;
    };
    const direct = send(harness, 'b', callOf(1));
    assert.ok(direct?.kind === 'callError' && direct.code === 'TOO_LARGE');
    const routed = send(harness, 'b', routeCallOf());
    assert.ok(routed?.kind === 'routeCallReply' && routed.code === 'TOO_LARGE');
  });

  test('routes calls for clients, with one result, several, or an error', () => {
    const harness = new CallHarness(names, 3);
    const one = send(harness, 'a', routeCallOf());
    assert.ok(one?.kind === 'routeCallReply' && one.value !== undefined);
    assert.deepEqual(decodeValue(one.value), { container: 1, method: 'add', times: 1 });
    const again = send(harness, 'c', routeCallOf());
    assert.deepEqual(again, one);
    assert.equal(harness.ran.length, 1, 'the same call id runs once, whichever node routes it');
    const all = send(harness, 'a', routeCallOf({ counter: 6, route: routeToWire({ broadcast: true }) }));
    assert.ok(all?.kind === 'routeCallReply' && all.parts?.length === 3);
    const none = send(harness, 'a', routeCallOf({ route: routeToWire({ id: 9 }) }));
    assert.ok(none?.kind === 'routeCallReply' && none.code === 'UNKNOWN_CONTAINER');
    const bare = send(
      harness,
      'a',
      routeCallOf({ route: { mode: 'id', key: undefined, number: undefined, count: undefined } }),
    );
    assert.ok(bare?.kind === 'routeCallReply' && bare.code === 'BAD_ARGUMENT');
  });

  test('accepts from clients only the messages of clients', () => {
    const open = { ...numbered, pool: 'visits', route: routeToWire({ id: 1 }), retryTimeoutMs: undefined, method: 'm' };
    const messages: readonly Message[] = [
      routeCallOf(),
      { kind: 'openResultStream', ...open, timeoutMs: 5, hops: 0 },
      callOf(1),
      { kind: 'queryCallStatus', ...numbered, pool: 7, container: 1 },
    ];
    assert.deepEqual(
      messages.map((message) => checkSender('stream', ['client'], encodeMessage(message))),
      [undefined, undefined, 'role', 'role'],
    );
  });

  test('sends results that decode to what they were', () => {
    const part = { container: 3, ok: false, code: 'DEADLINE', message: 'late', stateChanged: 'no' } as const;
    const good = { container: 4, ok: true, value: Uint8Array.of(1) } as const;
    for (const result of [{ value: Uint8Array.of(7) }, { parts: [part, good] }, { parts: [] }]) {
      assert.deepEqual(callResultOfReply(routeCallReplyOf(success(result))), success(result));
    }
    const empty = { ...routeCallReplyOf(success({ parts: [] })), parts: undefined };
    assert.ok(!callResultOfReply(empty).ok);
    const long = truncateErrorText(`${'\u20ac'.repeat(5_000)}\ud800`);
    assert.ok(new TextEncoder().encode(long).length <= 2_048 && long.isWellFormed() && long.length > 600);
  });
});

describe('a caller session', () => {
  const call = { pool: 'visits', method: 'add', args: [1], route: { id: 0 } } as const;

  test('numbers its calls and sends the lowest pending number', async () => {
    const harness = new CallHarness(names, 3);
    const seen: [number, number][] = [];
    const held: (() => void)[] = [];
    harness.node('a').script = ({ id, lowestPending }, run, done) => {
      seen.push([id.counter, lowestPending]);
      held.push(() => done(success(run())));
      return undefined;
    };
    const session = harness.node('a').calls.session('app');
    const calls = [session.call(call, {}), session.call(call, {})];
    held[0]?.();
    await calls[0];
    calls.push(session.call(call, {}));
    held[1]?.();
    await calls[1];
    calls.push(session.call(call, {}));
    held[2]?.();
    held[3]?.();
    await Promise.all(calls);
    assert.deepEqual(seen, [
      [1, 1],
      [2, 1],
      [3, 2],
      [4, 3],
    ]);
  });

  test('C28: shares no call id with another session, node or generation', async () => {
    const harness = new CallHarness(names, 3);
    for (const name of names) {
      const { calls } = harness.node(name);
      for (const session of ['http', 'http', 'A pool of containers with a long name!']) {
        const pending = calls.session(session).call(call, {});
        harness.advance(5);
        await pending;
      }
    }
    assert.equal(new Set(harness.ran.map(({ id }) => id)).size, 9);
    const ends = harness.ran.map(({ id }) => id.slice(id.indexOf('/')));
    assert.deepEqual(new Set(ends), new Set(['/1/1', '/1/2']), 'the call id has the generation of the node');
  });

  test('gets the same result for the same call id from every node', async () => {
    const harness = new CallHarness(names, 3);
    const at = async (name: string, callId: string): Promise<unknown> => {
      const pending = harness.node(name).calls.session('http').call(call, { callId });
      harness.advance(5);
      return await pending;
    };
    const first = await at('a', 'order-7');
    assert.deepEqual(await at('b', 'order-7'), first);
    assert.deepEqual(await at('c', 'order-7/0/0'), first);
    assert.equal(harness.ran.length, 1);
    await assert.rejects(at('a', 'Not A Name!'), (error) => isRemusterError(error, 'BAD_ARGUMENT'));
  });

  test('encodes and decodes values, and lists of them', async () => {
    const harness = new CallHarness(names, 3);
    const when = new Date(0);
    for (const node of harness.nodes) {
      node.script = ({ args }, _run, done) => {
        done(success({ value: args }));
        return undefined;
      };
    }
    const session = harness.node('a').calls.session('app');
    const args = [1n, when, Uint8Array.of(1), undefined, { a: [null] }];
    assert.deepEqual(await session.call({ ...call, args }, {}), args);
    const many = session.call({ ...call, args, route: { broadcast: true } }, {});
    harness.advance(5);
    assert.deepEqual(await many, [args, args, args]);
    await assert.rejects(session.call({ ...call, args: [() => 0] }, {}), (error) =>
      isRemusterError(error, 'BAD_ARGUMENT'),
    );
  });

  test('ends a call when its signal is aborted, before or during the call', async () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').isFrozen = true;
    const session = harness.node('a').calls.session('app');
    const controller = new AbortController();
    const pending = session.call({ ...call, route: { id: 1 } }, { signal: controller.signal });
    harness.advance(10);
    controller.abort();
    await assert.rejects(pending, (error) => isRemusterError(error, 'CANCELLED'));
    const tooLate = session.call(call, { signal: controller.signal });
    await assert.rejects(tooLate, (error) => isRemusterError(error, 'CANCELLED'));
    const here = new AbortController();
    await session.call(call, { signal: here.signal });
    for (const timeoutMs of [0, -1, Number.NaN, Infinity]) {
      await assert.rejects(session.call(call, { timeoutMs }), (error) => isRemusterError(error, 'BAD_ARGUMENT'));
    }
  });

  test('encodes a routed call that decodes to what it was', () => {
    const routed = {
      pool: 'visits',
      method: 'add',
      args: Uint8Array.of(1),
      route: { hash: 'k' },
      lowestPending: 3,
      timeoutMs: 9,
    };
    const id = { session: 'c1', generation: 2, counter: 4 };
    const message = routeCallToMessage({ ...routed, id });
    assert.deepEqual(decodeMessage(encodeMessage(message)), message);
  });
});
