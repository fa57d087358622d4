/** Calls of many containers: each part counted once, each with its own retries, what is missing told by name. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RemusterError, success } from '../../base/errors.ts';
import { module } from '../module.ts';
import { CallHarness } from '../../../test/support/containers/call-harness.ts';

const names = ['a', 'b', 'c'] as const;
const counts = (containers: number): unknown[] =>
  Array.from({ length: containers }, (_, container) => ({ container, method: 'add', times: 1 }));

describe('a fan-out', () => {
  test('asks every container once and answers in the order of their numbers', () => {
    const scene = new CallHarness(names, 100);
    const call = scene.call('a', { route: { broadcast: true } });
    scene.advance(20);
    assert.deepEqual(call.parts, counts(100));
    assert.equal(scene.ran.length, 100);
  });

  test('of a range asks that range, also when it is a single container', () => {
    const scene = new CallHarness(names, 10);
    const some = scene.call('a', { route: { range: [3, 4] } });
    const one = scene.call('a', { route: { range: [9, 1] } });
    scene.advance(10);
    assert.deepEqual(some.parts, counts(10).slice(3, 7));
    assert.deepEqual(one.parts, counts(10).slice(9));
  });

  test('S31: completes only when every part has answered once; an answer that comes twice counts once', () => {
    const scene = new CallHarness(names, 9);
    scene.copies = 3;
    scene.seat('c').isFrozen = true;
    const call = scene.call('a', { route: { broadcast: true } });
    scene.advance(1_000);
    assert.ok(!call.isOver, 'the containers of c have not answered');
    scene.seat('c').isFrozen = false;
    scene.sever('c');
    scene.advance(1_000);
    assert.deepEqual(call.parts, counts(9));
    assert.equal(scene.ran.length, 9);
  });

  test('C26: sends each container of a range to its own new owner', () => {
    const scene = new CallHarness(names, 9);
    scene.kill('b');
    const range = scene.call('a', { route: { range: [0, 9] } });
    const node = scene.call('c', { route: { node: 'b' } });
    scene.advance(1_000);
    scene.own(1, 'a');
    scene.own(4, 'c');
    scene.own(7, 'c');
    scene.advance(100);
    assert.equal(range.parts.length, 9);
    assert.equal(node.code, 'ok');
    const moved = scene.ran.filter(({ container, id }) => container % 3 === 1 && id === scene.ran[0]?.id);
    assert.deepEqual(moved.map(({ container, node: at }) => `${container} ${at}`).toSorted(), ['1 a', '4 c', '7 c']);
  });

  test('asks at most a neighbourhood of each owner at once, and one silent owner holds up nobody else', () => {
    const scene = new CallHarness(names, 300, { neighbourhood: 8 });
    scene.seat('b').isFrozen = true;
    const call = scene.call('a', { route: { broadcast: true }, retryTimeoutMs: 5_000 });
    scene.advance(1);
    assert.equal(scene.sent.filter(({ to }) => to === 'c').length, 8);
    scene.advance(200);
    assert.equal(scene.ran.length, 200, 'all containers of a and c have answered');
    assert.equal(scene.sent.filter(({ to }) => to === 'b').length, 8);
    scene.seat('b').isFrozen = false;
    scene.sever('b');
    scene.advance(2_000);
    assert.deepEqual(call.parts, counts(300));
  });

  test('names the containers that failed and why; the others have run', () => {
    const scene = new CallHarness(names, 60);
    scene.seat('b').refuses = 'CALL_FAILED';
    const call = scene.call('a', { route: { broadcast: true } });
    scene.advance(50);
    assert.equal(call.code, 'PARTIAL');
    assert.match(call.words, /^20 of 60 containers failed: 1 \(CALL_FAILED: not now\), 4 \(/);
    assert.ok(call.words.length < 2_000);
    assert.equal(scene.ran.length, 40);
  });

  test('that fails everywhere for one reason fails for that reason', () => {
    const scene = new CallHarness(names, 6);
    for (const seat of scene.seats) seat.refuses = 'UNKNOWN_METHOD';
    const call = scene.call('a', { route: { broadcast: true } });
    scene.advance(50);
    assert.equal(call.code, 'UNKNOWN_METHOD');
  });

  test('#871: ends when the only owner is dead from the beginning', () => {
    const scene = new CallHarness(names, 6);
    scene.kill('b');
    scene.kill('c');
    const call = scene.call('a', { route: { broadcast: true }, retryTimeoutMs: 3_000 });
    scene.advance(4_000);
    assert.equal(call.code, 'PARTIAL');
    assert.match(call.words, /4 of 6/);
  });

  test('is cancelled with all its parts', () => {
    const scene = new CallHarness(names, 9);
    scene.seat('b').isFrozen = true;
    const call = scene.call('a', { route: { broadcast: true } });
    scene.advance(100);
    call.cancel();
    assert.equal(call.code, 'CANCELLED');
    scene.advance(60_000);
    assert.equal(call.endings.length, 1);
    assert.equal(scene.seat('a').table.watched, 0);
  });

  test('whose answers add up to too much is refused', () => {
    const scene = new CallHarness(names, 9, { gatheredBytesMax: 50 });
    const call = scene.call('a', { route: { broadcast: true } });
    scene.advance(10);
    assert.equal(call.code, 'TOO_LARGE');
  });

  test('of a method that gives flows is refused', () => {
    const scene = new CallHarness(names, 3);
    let isReturned = false;
    const flow = {
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.resolve({ done: true as const, value: undefined }),
        return: () => {
          isReturned = true;
          return Promise.resolve({ done: true as const, value: undefined });
        },
      }),
    };
    scene.seat('a').manner = (_call, _run, done) => {
      done(success({ flow }));
      return undefined;
    };
    const call = scene.call('a', { route: { range: [0, 1] } });
    assert.equal(call.code, 'BAD_ARGUMENT');
    assert.ok(isReturned);
  });
});

describe('aggregation', () => {
  const sum = (parts: { times: number }[]): number => parts.reduce((all, { times }) => all + times, 0);

  function sceneWith(aggregate: (parts: { times: number }[]) => unknown): CallHarness {
    const scene = new CallHarness(names, 6);
    const definition = module('counter', { methods: { add: { run: () => 0, aggregate } } });
    scene.seat('a').definitions.set('counter', definition);
    return scene;
  }

  test('is done by the module where it is loaded; elsewhere the caller gets the parts', () => {
    const scene = sceneWith(sum);
    const here = scene.call('a', { route: { broadcast: true } });
    scene.advance(10);
    const elsewhere = scene.call('b', { route: { broadcast: true } });
    scene.advance(10);
    assert.equal(here.value, 6);
    assert.equal(elsewhere.parts.length, 6);
  });

  test('may take its time, up to the deadline of the call', async () => {
    const scene = sceneWith(async (parts) => await Promise.resolve(sum(parts)));
    const call = scene.call('a', { route: { broadcast: true } });
    scene.advance(10);
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
    assert.equal(never.seat('a').calls.open, 0);
  });

  test('that throws is CALL_FAILED, and what it throws with a code keeps it', async () => {
    const scene = sceneWith(() => {
      throw new Error('no sum');
    });
    const call = scene.call('a', { route: { broadcast: true } });
    scene.advance(10);
    assert.equal(call.code, 'CALL_FAILED');
    assert.match(call.words, /no sum/);
    const later = sceneWith(async () => await Promise.reject(new RemusterError('PRECONDITION', 'odd')));
    const coded = later.call('a', { route: { broadcast: true } });
    later.advance(10);
    await new Promise(setImmediate);
    assert.equal(coded.code, 'PRECONDITION');
  });
});
