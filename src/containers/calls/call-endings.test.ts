/** Which answers end a call, which ones make it try again, and that every call ends in time, whatever its route. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type ErrorCode, success } from '../../base/errors.ts';
import { encodeValue } from '../../messages/codec/value.ts';
import type { Route } from '../module.ts';
import { CallHarness } from '../../../test/support/containers/call-harness.ts';

const names = ['a', 'b', 'c'] as const;
const retryMs = 30_000;

describe('refusals', () => {
  const passing = [
    'NO_QUORUM',
    'PLUGGED',
    'CAPACITY',
    'FENCED',
    'DRAINED',
    'STALE_TABLE',
    'UNKNOWN_CONTAINER',
  ] as const;
  for (const code of [...passing, 'UNKNOWN_POOL', 'STORE_FAILED'] as const) {
    test(`${code}: the call is sent again until the owner takes it`, () => {
      const scene = new CallHarness(names, 3);
      scene.seat('b').refuses = code;
      const call = scene.call('a', { route: { id: 1 } });
      scene.advance(2_000);
      assert.ok(!call.isOver);
      scene.seat('b').refuses = undefined;
      scene.advance(1_000);
      assert.equal(call.code, 'ok');
      assert.equal(scene.ran.length, 1);
    });
  }

  const final = ['CALL_FAILED', 'UNKNOWN_METHOD', 'BAD_ARGUMENT', 'TOO_LARGE', 'STORE_FULL', 'PRECONDITION'] as const;
  for (const code of final) {
    test(`${code}: is the answer, wherever the owner is`, () => {
      const scene = new CallHarness(names, 3);
      scene.seat('a').refuses = code;
      scene.seat('b').refuses = code;
      const there = scene.call('a', { route: { id: 1 } });
      const here = scene.call('a', { route: { id: 0 } });
      scene.advance(5);
      assert.equal(there.code, code);
      assert.equal(there.words, 'not now');
      assert.equal(here.code, code);
      assert.equal(scene.sendings(), 1);
    });
  }

  test('#722: a call that is refused for half a minute costs a bounded number of messages', () => {
    for (const code of ['CAPACITY', 'PLUGGED', 'STALE_TABLE'] as const satisfies readonly ErrorCode[]) {
      const scene = new CallHarness(names, 3);
      scene.seat('b').refuses = code;
      const call = scene.call('a', { route: { id: 1 } });
      scene.advance(retryMs + 1_000);
      assert.equal(call.code, 'NETWORK_TIMEOUT');
      assert.match(call.words, new RegExp(code));
      assert.ok(scene.sendings() < 120, `${scene.sendings()} messages`);
    }
  });

  test('arguments that no message can carry are TOO_LARGE', () => {
    const scene = new CallHarness(names, 3);
    const call = scene.call('a', { route: { id: 1 }, args: new Uint8Array(10_000_001) });
    assert.equal(call.code, 'TOO_LARGE');
    assert.equal(scene.sent.length, 0);
  });

  test('of arguments and results up to 10 MB nothing is lost', () => {
    const scene = new CallHarness(names, 3);
    const value = encodeValue(new Uint8Array(9_999_900).fill(7));
    scene.seat('b').manner = ({ args }, _run, done) => {
      done(success({ value: args }));
      return undefined;
    };
    const call = scene.call('a', { route: { id: 1 }, args: value });
    scene.advance(5);
    assert.deepEqual(call.value, new Uint8Array(9_999_900).fill(7));
  });
});

describe('L4 and #617: every call ends within 30 s and one more, whatever its route', () => {
  const routes: Readonly<Record<string, Route>> = {
    hash: { hash: 'user:42' },
    number: { hash: 42 },
    id: { id: 1 },
    range: { range: [0, 3] },
    broadcast: { broadcast: true },
    node: { node: 'b' },
    local: { local: true },
  };
  const troubles: Readonly<Record<string, (scene: CallHarness) => void>> = {
    'all others are dead': (scene) => names.forEach((name) => name !== 'a' && scene.kill(name)),
    'all others are frozen': (scene) => scene.seats.forEach((seat) => (seat.isFrozen = seat.name !== 'a')),
    'nobody owns anything': (scene) => [0, 1, 2].forEach((container) => scene.own(container, undefined)),
    'everybody refuses': (scene) => scene.seats.forEach((seat) => (seat.refuses = 'PLUGGED')),
    'replies are lost': (scene) => void (scene.loses = () => true),
  };
  for (const [mode, route] of Object.entries(routes)) {
    for (const [trouble, begin] of Object.entries(troubles)) {
      test(`${mode}, when ${trouble}`, () => {
        const scene = new CallHarness(names, 3);
        begin(scene);
        const call = scene.call('a', { route });
        scene.advance(retryMs + 1_000);
        assert.equal(call.endings.length, 1);
        assert.equal(scene.seat('a').calls.open, 0);
        assert.equal(scene.seat('a').table.watched, 0);
      });
    }
  }

  test('a shorter limit of one call counts for that call', () => {
    const scene = new CallHarness(names, 3);
    scene.kill('b');
    const call = scene.call('a', { route: { id: 1 }, retryTimeoutMs: 2_000 });
    scene.advance(2_100);
    assert.equal(call.code, 'NETWORK_TIMEOUT');
  });

  test('more calls than fit are refused before anything is done', () => {
    const scene = new CallHarness(names, 3, { callsMax: 2 });
    scene.seat('b').isFrozen = true;
    scene.call('a', { route: { id: 1 } });
    scene.call('a', { route: { id: 1 } });
    const third = scene.call('a', { route: { id: 0 } });
    assert.equal(third.code, 'CAPACITY');
    assert.equal(scene.ran.length, 0);
    scene.advance(31_000);
    assert.equal(scene.call('a', { route: { id: 0 } }).code, 'ok');
  });
});
