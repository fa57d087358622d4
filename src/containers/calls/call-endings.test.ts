/** Which errors end a call, which ones cause a retry, and that every call ends in time, whatever its route. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type ErrorCode, success } from '../../base/errors.ts';
import { encodeValue } from '../../messages/codec/value.ts';
import type { Route } from '../module.ts';
import { CallHarness } from '../../../test/support/containers/call-harness.ts';

const names = ['a', 'b', 'c'] as const;
const retryMs = 30_000;

describe('the code of a refusal', () => {
  const retryable = [
    'NO_QUORUM',
    'PLUGGED',
    'CAPACITY',
    'FENCED',
    'DRAINED',
    'STALE_TABLE',
    'UNKNOWN_CONTAINER',
  ] as const;
  for (const code of [...retryable, 'UNKNOWN_POOL', 'STORE_FAILED'] as const) {
    test(`${code}: the call is retried until the owner accepts it`, () => {
      const harness = new CallHarness(names, 3);
      harness.node('b').refusalCode = code;
      const call = harness.call('a', { route: { id: 1 } });
      harness.advance(2_000);
      assert.ok(!call.isOver);
      harness.node('b').refusalCode = undefined;
      harness.advance(1_000);
      assert.equal(call.code, 'ok');
      assert.equal(harness.ran.length, 1);
    });
  }

  const final = ['CALL_FAILED', 'UNKNOWN_METHOD', 'BAD_ARGUMENT', 'TOO_LARGE', 'STORE_FULL', 'PRECONDITION'] as const;
  for (const code of final) {
    test(`${code}: the call ends with it, wherever the owner is`, () => {
      const harness = new CallHarness(names, 3);
      harness.node('a').refusalCode = code;
      harness.node('b').refusalCode = code;
      const there = harness.call('a', { route: { id: 1 } });
      const here = harness.call('a', { route: { id: 0 } });
      harness.advance(5);
      assert.equal(there.code, code);
      assert.equal(there.message, 'not now');
      assert.equal(here.code, code);
      assert.equal(harness.sentCount(), 1);
    });
  }

  test('#722: a call that is refused for 30 s sends a bounded number of messages', () => {
    for (const code of ['CAPACITY', 'PLUGGED', 'STALE_TABLE'] as const satisfies readonly ErrorCode[]) {
      const harness = new CallHarness(names, 3);
      harness.node('b').refusalCode = code;
      const call = harness.call('a', { route: { id: 1 } });
      harness.advance(retryMs + 1_000);
      assert.equal(call.code, 'NETWORK_TIMEOUT');
      assert.match(call.message, new RegExp(code));
      assert.ok(harness.sentCount() < 120, `${harness.sentCount()} messages`);
    }
  });

  test('TOO_LARGE: ends a call whose arguments exceed a message', () => {
    const harness = new CallHarness(names, 3);
    const call = harness.call('a', { route: { id: 1 }, args: new Uint8Array(10_000_001) });
    assert.equal(call.code, 'TOO_LARGE');
    assert.equal(harness.sent.length, 0);
  });

  test('ok: arguments and results of up to 10 MB arrive complete', () => {
    const harness = new CallHarness(names, 3);
    const value = encodeValue(new Uint8Array(9_999_900).fill(7));
    harness.node('b').script = ({ args }, _run, done) => {
      done(success({ value: args }));
      return undefined;
    };
    const call = harness.call('a', { route: { id: 1 }, args: value });
    harness.advance(5);
    assert.deepEqual(call.value, new Uint8Array(9_999_900).fill(7));
  });
});

describe('L4 and #617: every call ends within 31 s, whatever its route', () => {
  const routes: Readonly<Record<string, Route>> = {
    hash: { hash: 'user:42' },
    number: { hash: 42 },
    id: { id: 1 },
    range: { range: [0, 3] },
    broadcast: { broadcast: true },
    node: { node: 'b' },
    local: { local: true },
  };
  const faults: Readonly<Record<string, (harness: CallHarness) => void>> = {
    'all others are dead': (harness) => names.forEach((name) => name !== 'a' && harness.kill(name)),
    'all others are frozen': (harness) => harness.nodes.forEach((node) => (node.isFrozen = node.name !== 'a')),
    'no container has an owner': (harness) => [0, 1, 2].forEach((container) => harness.setOwner(container, undefined)),
    'all owners refuse': (harness) => harness.nodes.forEach((node) => (node.refusalCode = 'PLUGGED')),
    'replies are lost': (harness) => void (harness.losesReply = () => true),
  };
  for (const [mode, route] of Object.entries(routes)) {
    for (const [fault, inject] of Object.entries(faults)) {
      test(`${mode}, when ${fault}`, () => {
        const harness = new CallHarness(names, 3);
        inject(harness);
        const call = harness.call('a', { route });
        harness.advance(retryMs + 1_000);
        assert.equal(call.endings.length, 1);
        assert.equal(harness.node('a').calls.open, 0);
        assert.equal(harness.node('a').table.watched, 0);
      });
    }
  }

  test('a shorter retry limit of a call counts for that call', () => {
    const harness = new CallHarness(names, 3);
    harness.kill('b');
    const call = harness.call('a', { route: { id: 1 }, retryTimeoutMs: 2_000 });
    harness.advance(2_100);
    assert.equal(call.code, 'NETWORK_TIMEOUT');
  });

  test('with a retry limit of 0 a call is sent once, and gets its reply', () => {
    const harness = new CallHarness(names, 3);
    harness.replyMs = 40_000;
    const remote = harness.call('a', { route: { id: 1 }, retryTimeoutMs: 0 });
    const local = harness.call('a', { route: { id: 0 }, retryTimeoutMs: 0 });
    harness.advance(60_000);
    assert.deepEqual([remote.code, local.code, harness.sentCount()], ['ok', 'ok', 1]);
  });

  test('with a retry limit of 0 a refusal is the result of the call', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').refusalCode = 'PLUGGED';
    const refused = harness.call('a', { route: { id: 1 }, retryTimeoutMs: 0 });
    harness.kill('c');
    const unreachable = harness.call('a', { route: { id: 2 }, retryTimeoutMs: 0 });
    harness.setOwner(0, undefined);
    const ownerless = harness.call('a', { route: { id: 0 }, retryTimeoutMs: 0 });
    harness.advance(10);
    assert.deepEqual([refused.code, unreachable.code, ownerless.code], ['PLUGGED', 'UNREACHABLE', 'UNREACHABLE']);
    assert.equal(harness.sentCount(), 2);
  });

  test('with a retry limit of 0 a call without a reply ends at its deadline', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').isFrozen = true;
    const call = harness.call('a', { route: { id: 1 }, retryTimeoutMs: 0, timeoutMs: 5_000 });
    harness.advance(4_900);
    assert.equal(call.isOver, false);
    harness.advance(200);
    assert.deepEqual([call.code, harness.sentCount()], ['DEADLINE', 1]);
  });

  test('calls beyond the maximum are refused before anything runs', () => {
    const harness = new CallHarness(names, 3, { callsMax: 2 });
    harness.node('b').isFrozen = true;
    harness.call('a', { route: { id: 1 } });
    harness.call('a', { route: { id: 1 } });
    const third = harness.call('a', { route: { id: 0 } });
    assert.equal(third.code, 'CAPACITY');
    assert.equal(harness.ran.length, 0);
    harness.advance(31_000);
    assert.equal(harness.call('a', { route: { id: 0 } }).code, 'ok');
  });
});
