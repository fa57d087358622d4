/** How a call of one container finds its owner through everything that can go wrong on the way, and how it ends. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RemusterError, success } from '../../base/errors.ts';
import { formatCallId } from '../../base/ids.ts';
import { type OwnerScript, CallHarness } from '../../../test/support/containers/call-harness.ts';

const names = ['a', 'b', 'c'] as const;
const retryMs = 30_000;

/** Runs only after a while, and knows meanwhile that it does. */
function slow(scene: CallHarness, name: string, ms: number): OwnerScript {
  const { inHand } = scene.seat(name);
  return ({ id }, run, done) => {
    inHand.add(formatCallId(id));
    scene.timeline.after(ms, () => {
      inHand.delete(formatCallId(id));
      done(success(run()));
    });
    return undefined;
  };
}

describe('a call', () => {
  test('of a container of this node is answered without a message', () => {
    const scene = new CallHarness(names, 3);
    const call = scene.call('a', { route: { id: 0 } });
    assert.deepEqual(call.value, { container: 0, method: 'add', times: 1 });
    assert.equal(scene.sent.length, 0);
  });

  test('of another node goes to the owner and back', () => {
    const scene = new CallHarness(names, 3);
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(2);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.deepEqual(scene.ran, [{ container: 1, id: scene.ran[0]?.id, node: 'b' }]);
    assert.equal(scene.sendings(), 1);
  });

  test('of a stale caller is corrected in one step', () => {
    const scene = new CallHarness(names, 3);
    scene.own(1, 'c', ['b', 'c']);
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(10);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.deepEqual(
      scene.sent.map(({ to }) => to),
      ['b', 'c'],
    );
    assert.equal(scene.seat('a').count('calls.corrected'), 1);
  });

  test('S17: nodes that contradict each other are not followed for ever without a pause', () => {
    const scene = new CallHarness(names, 3);
    const [b, c] = [scene.seat('b'), scene.seat('c')];
    b.refuses = 'STALE_TABLE';
    c.refuses = 'STALE_TABLE';
    // Each of the two says, more and more recently, that it is the other one.
    const contradict = (): void => {
      scene.own(1, 'c', ['b']);
      scene.own(1, 'b', ['c']);
      scene.timeline.after(1, contradict);
    };
    contradict();
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(20);
    assert.ok(scene.sendings() <= 5, `sent ${scene.sendings()} times in 20 ms`);
    scene.advance(retryMs + 1_000);
    assert.equal(call.code, 'NETWORK_TIMEOUT');
    assert.ok(scene.sendings() < 500, `sent ${scene.sendings()} times`);
  });

  test('follows an owner that changes again and again, whatever its number', () => {
    // C25: the node with the lowest id there can be is a node like all others.
    const scene = new CallHarness(names, 3);
    scene.own(1, 'b');
    scene.kill('b');
    const call = scene.call('c', { route: { id: 1 } });
    scene.advance(500);
    scene.own(1, 'a');
    scene.advance(5);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.equal(scene.ran[0]?.node, 'a');
  });

  test('C25: is resolved anew for each sending, also after the second change', () => {
    const scene = new CallHarness(names, 3);
    scene.kill('b');
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(1_000);
    scene.kill('c');
    scene.own(1, 'c');
    scene.advance(1_000);
    assert.ok(!call.isOver);
    scene.own(1, 'a');
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.equal(scene.seat('a').table.watched, 0, 'somebody still watches the table');
  });

  test('waits for the table while nobody owns the container', () => {
    const scene = new CallHarness(names, 3);
    scene.own(1, undefined);
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(20_000);
    assert.ok(!call.isOver);
    scene.own(1, 'c');
    scene.advance(5);
    assert.equal(call.code, 'ok');
  });

  test('C27: whose reply was lost with the connection is sent again, and runs once', () => {
    const scene = new CallHarness(names, 3);
    scene.replyMs = 50;
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(10);
    assert.equal(scene.ran.length, 1);
    scene.sever('b');
    scene.advance(200);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.equal(scene.ran.length, 1);
    assert.equal(scene.sendings(), 2);
  });

  test('C30: whose owner died after it ran gets the first answer from the next owner', () => {
    const scene = new CallHarness(names, 3);
    scene.replyMs = 50;
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(10);
    scene.kill('b');
    scene.own(1, 'c');
    scene.advance(200);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.deepEqual(
      scene.ran.map(({ node }) => node),
      ['b'],
    );
  });

  test('to a silent owner is sent to the next one as soon as the table names it', () => {
    const scene = new CallHarness(names, 3);
    scene.seat('b').isFrozen = true;
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(3_000);
    assert.equal(scene.sendings(), 1);
    scene.own(1, 'c');
    scene.advance(5);
    assert.equal(call.code, 'ok');
    assert.equal(scene.ran[0]?.node, 'c');
  });

  test('finds its new owner also when the table takes no more watchers', () => {
    const scene = new CallHarness(names, 3);
    const { table } = scene.seat('a');
    table.watchOwner = () => {
      throw new RemusterError('CAPACITY');
    };
    scene.kill('b');
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(1_000);
    scene.own(1, 'c');
    scene.advance(1_000);
    assert.equal(call.code, 'ok');
  });

  test('survives a table that changes its mind faster than anybody can be asked', () => {
    const scene = new CallHarness(names, 3);
    for (const seat of scene.seats) seat.isFrozen = true;
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(300);
    for (let i = 0; i < 100; i++) {
      scene.own(1, i % 2 === 0 ? 'c' : 'b');
      scene.advance(1);
    }
    assert.ok(!call.isOver);
    assert.ok(scene.sendings() < 30, `sent ${scene.sendings()} times`);
    for (const seat of scene.seats) seat.isFrozen = false;
    scene.own(1, 'c');
    scene.advance(1_000);
    assert.equal(call.code, 'ok');
  });

  test('goes on asking a silent owner when the table names nobody', () => {
    const scene = new CallHarness(names, 3);
    scene.seat('b').manner = slow(scene, 'b', 12_000);
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(100);
    scene.own(1, undefined, ['a']);
    const before = scene.timeline.steps;
    scene.advance(11_000);
    assert.equal(scene.sendings('queryCallStatus'), 2);
    assert.ok(scene.timeline.steps - before < 100, 'somebody wakes up all the time');
    scene.advance(2_000);
    assert.equal(call.code, 'ok');
  });

  test('that finds its owner changed at its first look does not wait for the probe', () => {
    const scene = new CallHarness(names, 3);
    scene.seat('b').isFrozen = true;
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(10);
    scene.own(1, 'c');
    scene.advance(300);
    assert.equal(call.code, 'ok');
  });

  test('#628: whose reply was lost without a sign is found by the probe', () => {
    const scene = new CallHarness(names, 3);
    scene.loses = (kind) => kind === 'callReply';
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(4_000);
    scene.loses = () => false;
    assert.equal(scene.sendings('queryCallStatus'), 0);
    scene.advance(2_000);
    assert.equal(scene.sendings('queryCallStatus'), 1);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.equal(scene.ran.length, 1);
  });

  test('takes the late answer of its first sending when that is the first to come', () => {
    const scene = new CallHarness(names, 3);
    scene.replyMs = 5_005;
    scene.seat('b').manner = (_call, run, done) => {
      done(success(run()));
      return undefined;
    };
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(5_000);
    scene.replyMs = 1;
    scene.advance(3);
    // The owner does not know it any more, so it was sent again; the first answer is on the way all the same.
    assert.equal(scene.sendings(), 2);
    scene.replyMs = 1;
    scene.advance(20);
    assert.equal(call.code, 'ok');
    assert.equal(scene.ran.length, 1);
  });

  test('that runs for long is waited for as long as its owner says so', () => {
    const scene = new CallHarness(names, 3);
    scene.seat('b').manner = slow(scene, 'b', 70_000);
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(69_000);
    assert.ok(!call.isOver);
    assert.equal(scene.sendings(), 1);
    scene.advance(2_000);
    assert.equal(call.code, 'ok');
    assert.ok(scene.sendings('queryCallStatus') > 5);
  });

  test('ends at its own deadline however healthy its owner is', () => {
    const scene = new CallHarness(names, 3);
    scene.seat('b').manner = slow(scene, 'b', 70_000);
    scene.seat('a').manner = slow(scene, 'a', 70_000);
    const there = scene.call('a', { route: { id: 1 }, timeoutMs: 45_000 });
    const here = scene.call('a', { route: { id: 0 }, timeoutMs: 45_000 });
    scene.advance(46_000);
    assert.equal(there.code, 'DEADLINE');
    assert.equal(here.code, 'DEADLINE');
    assert.ok(there.atMs <= 45_010 && here.atMs <= 45_010);
  });

  test('C31: to an owner that is connected and frozen ends all the same', () => {
    const scene = new CallHarness(names, 3);
    scene.seat('b').isFrozen = true;
    const call = scene.call('a', { route: { id: 1 } });
    const sooner = scene.call('a', { route: { id: 1 }, timeoutMs: 7_000 });
    scene.advance(31_000);
    assert.equal(call.code, 'NETWORK_TIMEOUT');
    assert.equal(sooner.code, 'DEADLINE');
    assert.ok(sooner.atMs >= 7_000 && sooner.atMs <= 7_010);
    assert.ok(call.atMs >= retryMs && call.atMs <= 31_000);
    assert.equal(scene.seat('a').calls.open, 0);
  });

  test('S32: ends as completed or NETWORK_TIMEOUT, never as both, whenever the reply comes', () => {
    for (let holdMs = 29_000; holdMs <= 31_000; holdMs += 50) {
      const scene = new CallHarness(names, 3);
      scene.replyMs = holdMs;
      scene.loses = (kind) => kind === 'queryCallStatusReply';
      const call = scene.call('a', { route: { id: 1 } });
      scene.advance(70_000);
      assert.equal(call.endings.length, 1, `held for ${holdMs} ms`);
      assert.equal(call.code, holdMs < 29_999 ? 'ok' : 'NETWORK_TIMEOUT', `held for ${holdMs} ms`);
    }
  });

  test('#871: ends once when answer, new owner, deadline and cancellation come at the same instant', () => {
    const scene = new CallHarness(names, 3);
    scene.replyMs = 999;
    const call = scene.call('a', { route: { id: 1 }, timeoutMs: 1_000 });
    scene.timeline.after(1_000, () => scene.own(1, 'c'));
    scene.timeline.after(1_000, () => scene.sever('b'));
    scene.timeline.after(1_000, () => call.cancel());
    scene.advance(5_000);
    assert.equal(call.endings.length, 1);
    assert.equal(scene.seat('a').calls.open, 0);
  });

  test('C29: an answer that comes twice, or after the end, changes nothing', () => {
    const scene = new CallHarness(names, 3);
    scene.copies = 2;
    const call = scene.call('a', { route: { id: 1 } });
    scene.advance(100);
    assert.equal(call.endings.length, 1);
    assert.equal(scene.seat('a').calls.open, 0);
  });

  test('can be cancelled, here and there, and then ends with CANCELLED at once', () => {
    const scene = new CallHarness(names, 3);
    let cancelled = 0;
    scene.seat('a').manner = () => () => (cancelled += 1);
    scene.seat('b').isFrozen = true;
    const here = scene.call('a', { route: { id: 0 } });
    const there = scene.call('a', { route: { id: 1 } });
    const searching = scene.call('a', { pool: 'nowhere' });
    scene.advance(10);
    for (const call of [here, there, searching]) {
      call.cancel();
      call.cancel();
      assert.equal(call.code, 'CANCELLED');
    }
    assert.equal(cancelled, 1);
    scene.advance(60_000);
    assert.equal(there.endings.length, 1);
    assert.equal(scene.seat('a').calls.open, 0);
  });
});
