/** What a node answers when others ask it about calls, and how callers inside a process number theirs. */
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

function ask(scene: CallHarness, at: string, message: Message, ms = 10): Message | undefined {
  let answer: Outcome<Uint8Array> | undefined;
  const { identity } = scene.seat('a');
  assert.ok(scene.seat(at).calls.handle(identity, message, 10_000, (outcome) => (answer = outcome)));
  scene.advance(ms);
  return answer?.ok === true ? decodeMessage(answer.value) : undefined;
}

function callOf(container: number, more: Partial<CallMessageOf<'call'>> = {}): CallMessageOf<'call'> {
  const rest = { version: 1, method: 'add', args: encodeValue([]) };
  return { kind: 'call', ...numbered, pool: 7, container, ...rest, ...more };
}

function wantOf(more: Partial<CallMessageOf<'routeCall'>> = {}): CallMessageOf<'routeCall'> {
  const rest = { retryTimeoutMs: undefined, method: 'add', args: encodeValue([]) };
  return { kind: 'routeCall', ...numbered, pool: 'visits', route: routeToWire({ id: 1 }), ...rest, ...more };
}

describe('a node that is asked', () => {
  test('runs what its own containers are to run, and tells the version of its entry', () => {
    const scene = new CallHarness(names, 3);
    const answer = ask(scene, 'b', callOf(1));
    assert.ok(answer?.kind === 'callReply' && answer.value !== undefined);
    assert.deepEqual(decodeValue(answer.value), { container: 1, method: 'add', times: 1 });
    assert.equal(answer.version, scene.seat('b').table.versionOf(scene.pool, 1));
  });

  test('says who owns the container when it does not, and passes nothing on', () => {
    const scene = new CallHarness(names, 3);
    const answer = ask(scene, 'c', callOf(1));
    assert.ok(answer?.kind === 'callError');
    const { table } = scene.seat('c');
    const entry = { owner: table.ownerOf(scene.pool, 1), version: table.versionOf(scene.pool, 1) };
    assert.deepEqual({ owner: answer.owner, version: answer.version }, entry);
    assert.equal(answer.code, 'STALE_TABLE');
    assert.equal(scene.sent.length, 0);
  });

  test('refuses what it does not know', () => {
    const scene = new CallHarness(names, 3);
    const answer = ask(scene, 'b', callOf(1, { pool: 8 }));
    assert.ok(answer?.kind === 'callError' && answer.code === 'UNKNOWN_POOL');
    assert.deepEqual(ask(scene, 'b', { kind: 'queryCallStatus', ...numbered, pool: 8, container: 1 }), {
      kind: 'queryCallStatusReply',
      status: 'unknown',
    });
    const { identity, calls } = scene.seat('a');
    assert.ok(!calls.handle(identity, { kind: 'listMembers' }, 1_000, () => assert.fail('not ours')));
  });

  test('tells what has become of a call', () => {
    const scene = new CallHarness(names, 3);
    scene.seat('b').inHand.add('test/1/5');
    const question = { kind: 'queryCallStatus', ...numbered, pool: 7, container: 1 } as const;
    assert.deepEqual(ask(scene, 'b', question), { kind: 'queryCallStatusReply', status: 'running' });
    assert.deepEqual(ask(scene, 'c', question), { kind: 'queryCallStatusReply', status: 'unknown' });
  });

  test('answers that a result is too large when no message can carry it', () => {
    const scene = new CallHarness(names, 3);
    scene.seat('b').manner = (_call, _run, done) => {
      done(success({ value: new Uint8Array(10_000_001) }));
      return undefined;
    };
    const direct = ask(scene, 'b', callOf(1));
    assert.ok(direct?.kind === 'callError' && direct.code === 'TOO_LARGE');
    const asked = ask(scene, 'b', wantOf());
    assert.ok(asked?.kind === 'routeCallReply' && asked.code === 'TOO_LARGE');
  });

  test('finds the owners for others, with one result, many, or the reason why there is none', () => {
    const scene = new CallHarness(names, 3);
    const one = ask(scene, 'a', wantOf());
    assert.ok(one?.kind === 'routeCallReply' && one.value !== undefined);
    assert.deepEqual(decodeValue(one.value), { container: 1, method: 'add', times: 1 });
    const again = ask(scene, 'c', wantOf());
    assert.deepEqual(again, one);
    assert.equal(scene.ran.length, 1, 'the same call id runs once, whoever is asked');
    const all = ask(scene, 'a', wantOf({ counter: 6, route: routeToWire({ broadcast: true }) }));
    assert.ok(all?.kind === 'routeCallReply' && all.parts?.length === 3);
    const none = ask(scene, 'a', wantOf({ route: routeToWire({ id: 9 }) }));
    assert.ok(none?.kind === 'routeCallReply' && none.code === 'UNKNOWN_CONTAINER');
    const bare = ask(
      scene,
      'a',
      wantOf({ route: { mode: 'id', key: undefined, number: undefined, count: undefined } }),
    );
    assert.ok(bare?.kind === 'routeCallReply' && bare.code === 'BAD_ARGUMENT');
  });

  test('by a client does no more than clients may ask for', () => {
    const open = { ...numbered, pool: 'visits', route: routeToWire({ id: 1 }), retryTimeoutMs: undefined, method: 'm' };
    const messages: readonly Message[] = [
      wantOf(),
      { kind: 'openResultStream', ...open, timeoutMs: 5, hops: 0 },
      callOf(1),
      { kind: 'queryCallStatus', ...numbered, pool: 7, container: 1 },
    ];
    assert.deepEqual(
      messages.map((message) => checkSender('stream', ['client'], encodeMessage(message))),
      [undefined, undefined, 'role', 'role'],
    );
  });

  test('gives results that survive their way', () => {
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

describe('a session', () => {
  const call = { pool: 'visits', method: 'add', args: [1], route: { id: 0 } } as const;

  test('numbers its calls and tells the lowest that waits', async () => {
    const scene = new CallHarness(names, 3);
    const seen: [number, number][] = [];
    const held: (() => void)[] = [];
    scene.seat('a').manner = ({ id, lowestPending }, run, done) => {
      seen.push([id.counter, lowestPending]);
      held.push(() => done(success(run())));
      return undefined;
    };
    const session = scene.seat('a').calls.session('app');
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

  test('C28: no two sessions, nodes or lives share a call id', async () => {
    const scene = new CallHarness(names, 3);
    for (const name of names) {
      const { calls } = scene.seat(name);
      for (const session of ['http', 'http', 'A pool of containers with a long name!']) {
        const pending = calls.session(session).call(call, {});
        scene.advance(5);
        await pending;
      }
    }
    assert.equal(new Set(scene.ran.map(({ id }) => id)).size, 9);
    const ends = scene.ran.map(({ id }) => id.slice(id.indexOf('/')));
    assert.deepEqual(new Set(ends), new Set(['/1/1', '/1/2']), 'the generation of the node is in it');
  });

  test('gives the same answer for the same call id, whoever asks', async () => {
    const scene = new CallHarness(names, 3);
    const at = async (name: string, callId: string): Promise<unknown> => {
      const pending = scene.seat(name).calls.session('http').call(call, { callId });
      scene.advance(5);
      return await pending;
    };
    const first = await at('a', 'order-7');
    assert.deepEqual(await at('b', 'order-7'), first);
    assert.deepEqual(await at('c', 'order-7/0/0'), first);
    assert.equal(scene.ran.length, 1);
    await assert.rejects(at('a', 'Not A Name!'), (error) => isRemusterError(error, 'BAD_ARGUMENT'));
  });

  test('turns values into bytes and back, lists of them too', async () => {
    const scene = new CallHarness(names, 3);
    const when = new Date(0);
    for (const seat of scene.seats) {
      seat.manner = ({ args }, _run, done) => {
        done(success({ value: args }));
        return undefined;
      };
    }
    const session = scene.seat('a').calls.session('app');
    const args = [1n, when, Uint8Array.of(1), undefined, { a: [null] }];
    assert.deepEqual(await session.call({ ...call, args }, {}), args);
    const many = session.call({ ...call, args, route: { broadcast: true } }, {});
    scene.advance(5);
    assert.deepEqual(await many, [args, args, args]);
    await assert.rejects(session.call({ ...call, args: [() => 0] }, {}), (error) =>
      isRemusterError(error, 'BAD_ARGUMENT'),
    );
  });

  test('ends a call when its signal is aborted, before or meanwhile', async () => {
    const scene = new CallHarness(names, 3);
    scene.seat('b').isFrozen = true;
    const session = scene.seat('a').calls.session('app');
    const controller = new AbortController();
    const pending = session.call({ ...call, route: { id: 1 } }, { signal: controller.signal });
    scene.advance(10);
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

  test('asks for what it wants in the words of a client, too', () => {
    const wanted = {
      pool: 'visits',
      method: 'add',
      args: Uint8Array.of(1),
      route: { hash: 'k' },
      lowestPending: 3,
      timeoutMs: 9,
    };
    const id = { session: 'c1', generation: 2, counter: 4 };
    const message = routeCallToMessage({ ...wanted, id });
    assert.deepEqual(decodeMessage(encodeMessage(message)), message);
  });
});
