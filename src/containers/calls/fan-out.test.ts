/** Calls of many containers: each part counts once and has its own retries; failed containers are named. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RemusterError, success } from '../../base/errors.ts';
import { module } from '../module.ts';
import { CallHarness } from '../../../test/support/containers/call-harness.ts';

const names = ['a', 'b', 'c'] as const;
const counts = (containers: number): unknown[] =>
  Array.from({ length: containers }, (_, container) => ({ container, method: 'add', times: 1 }));

describe('a fan-out', () => {
  test('calls every container once and returns results in the order of their numbers', () => {
    const harness = new CallHarness(names, 100);
    const call = harness.call('a', { route: { broadcast: true } });
    harness.advance(20);
    assert.deepEqual(call.parts, counts(100));
    assert.equal(harness.ran.length, 100);
  });

  test('of a range calls that range, even if it is a single container', () => {
    const harness = new CallHarness(names, 10);
    const some = harness.call('a', { route: { range: [3, 4] } });
    const one = harness.call('a', { route: { range: [9, 1] } });
    harness.advance(10);
    assert.deepEqual(some.parts, counts(10).slice(3, 7));
    assert.deepEqual(one.parts, counts(10).slice(9));
  });

  test('S31: completes only when every part has ended; a reply that arrives twice counts once', () => {
    const harness = new CallHarness(names, 9);
    harness.replyCopies = 3;
    harness.node('c').isFrozen = true;
    const call = harness.call('a', { route: { broadcast: true } });
    harness.advance(1_000);
    assert.ok(!call.isOver, 'the containers of c have not replied');
    harness.node('c').isFrozen = false;
    harness.breakConnections('c');
    harness.advance(1_000);
    assert.deepEqual(call.parts, counts(9));
    assert.equal(harness.ran.length, 9);
  });

  test('C26: sends each container of a range to its own new owner', () => {
    const harness = new CallHarness(names, 9);
    harness.kill('b');
    const range = harness.call('a', { route: { range: [0, 9] } });
    const node = harness.call('c', { route: { node: 'b' } });
    harness.advance(1_000);
    harness.setOwner(1, 'a');
    harness.setOwner(4, 'c');
    harness.setOwner(7, 'c');
    harness.advance(100);
    assert.equal(range.parts.length, 9);
    assert.equal(node.code, 'ok');
    const moved = harness.ran.filter(({ container, id }) => container % 3 === 1 && id === harness.ran[0]?.id);
    assert.deepEqual(moved.map(({ container, node: at }) => `${container} ${at}`).toSorted(), ['1 a', '4 c', '7 c']);
  });

  test('bounds the calls per owner, and a silent owner delays no other owner', () => {
    const harness = new CallHarness(names, 300, { callsPerOwnerMax: 8 });
    harness.node('b').isFrozen = true;
    const call = harness.call('a', { route: { broadcast: true }, retryTimeoutMs: 5_000 });
    harness.advance(1);
    assert.equal(harness.sent.filter(({ to }) => to === 'c').length, 8);
    harness.advance(200);
    assert.equal(harness.ran.length, 200, 'all containers of a and c have replied');
    assert.equal(harness.sent.filter(({ to }) => to === 'b').length, 8);
    harness.node('b').isFrozen = false;
    harness.breakConnections('b');
    harness.advance(2_000);
    assert.deepEqual(call.parts, counts(300));
  });

  test('names the failed containers with their errors; the others have run', () => {
    const harness = new CallHarness(names, 60);
    harness.node('b').refusalCode = 'CALL_FAILED';
    const call = harness.call('a', { route: { broadcast: true } });
    harness.advance(50);
    assert.equal(call.code, 'PARTIAL');
    assert.match(call.message, /^20 of 60 containers failed: 1 \(CALL_FAILED: not now\), 4 \(/);
    assert.ok(call.message.length < 2_000);
    assert.equal(harness.ran.length, 40);
  });

  test('that fails everywhere with one code fails with that code', () => {
    const harness = new CallHarness(names, 6);
    for (const node of harness.nodes) node.refusalCode = 'UNKNOWN_METHOD';
    const call = harness.call('a', { route: { broadcast: true } });
    harness.advance(50);
    assert.equal(call.code, 'UNKNOWN_METHOD');
  });

  test('#871: ends when other owners are dead from the start', () => {
    const harness = new CallHarness(names, 6);
    harness.kill('b');
    harness.kill('c');
    const call = harness.call('a', { route: { broadcast: true }, retryTimeoutMs: 3_000 });
    harness.advance(4_000);
    assert.equal(call.code, 'PARTIAL');
    assert.match(call.message, /4 of 6/);
  });

  test('is cancelled with all its parts', () => {
    const harness = new CallHarness(names, 9);
    harness.node('b').isFrozen = true;
    const call = harness.call('a', { route: { broadcast: true } });
    harness.advance(100);
    call.cancel();
    assert.equal(call.code, 'CANCELLED');
    harness.advance(60_000);
    assert.equal(call.endings.length, 1);
    assert.equal(harness.node('a').table.watched, 0);
  });

  test('fails with TOO_LARGE when its results add up to too much', () => {
    const harness = new CallHarness(names, 9, { resultBytesMax: 50 });
    const call = harness.call('a', { route: { broadcast: true } });
    harness.advance(10);
    assert.equal(call.code, 'TOO_LARGE');
  });

  test('refuses a method that returns a result stream', () => {
    const harness = new CallHarness(names, 3);
    let isReturned = false;
    const stream = {
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.resolve({ done: true as const, value: undefined }),
        return: () => {
          isReturned = true;
          return Promise.resolve({ done: true as const, value: undefined });
        },
      }),
    };
    harness.node('a').script = (_call, _run, done) => {
      done(success({ stream }));
      return undefined;
    };
    const call = harness.call('a', { route: { range: [0, 1] } });
    assert.equal(call.code, 'BAD_ARGUMENT');
    assert.ok(isReturned);
  });
});

describe('aggregation', () => {
  const sum = (parts: { times: number }[]): number => parts.reduce((all, { times }) => all + times, 0);

  function sceneWith(aggregate: (parts: { times: number }[]) => unknown): CallHarness {
    const harness = new CallHarness(names, 6);
    const definition = module('counter', { methods: { add: { run: () => 0, aggregate } } });
    harness.node('a').definitions.set('counter', definition);
    return harness;
  }

  test('runs where the module is loaded; elsewhere the caller gets the parts', () => {
    const harness = sceneWith(sum);
    const here = harness.call('a', { route: { broadcast: true } });
    harness.advance(10);
    const elsewhere = harness.call('b', { route: { broadcast: true } });
    harness.advance(10);
    assert.equal(here.value, 6);
    assert.equal(elsewhere.parts.length, 6);
  });

  test('may be asynchronous, up to the deadline of the call', async () => {
    const harness = sceneWith(async (parts) => await Promise.resolve(sum(parts)));
    const call = harness.call('a', { route: { broadcast: true } });
    harness.advance(10);
    await new Promise(setImmediate);
    assert.equal(call.value, 6);
    const never = sceneWith(async () => await new Promise(() => {}));
    const stuck = never.call('a', { route: { broadcast: true }, timeoutMs: 4_000 });
    const given = never.call('a', { route: { broadcast: true }, timeoutMs: 4_000 });
    never.advance(10);
    given.cancel();
    assert.equal(given.code, 'CANCELLED');
    never.advance(4_000);
    assert.equal(stuck.code, 'DEADLINE');
    assert.equal(never.node('a').calls.open, 0);
  });

  test('that throws fails with CALL_FAILED, or with the code of the error', async () => {
    const harness = sceneWith(() => {
      throw new Error('no sum');
    });
    const call = harness.call('a', { route: { broadcast: true } });
    harness.advance(10);
    assert.equal(call.code, 'CALL_FAILED');
    assert.match(call.message, /no sum/);
    const later = sceneWith(async () => await Promise.reject(new RemusterError('PRECONDITION', 'odd')));
    const coded = later.call('a', { route: { broadcast: true } });
    later.advance(10);
    await new Promise(setImmediate);
    assert.equal(coded.code, 'PRECONDITION');
  });
});
