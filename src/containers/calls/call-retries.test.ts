/** How a call of one container finds its owner through moves, crashes and lost messages, and how it ends. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RemusterError, success } from '../../base/errors.ts';
import { formatCallId } from '../../base/ids.ts';
import { type OwnerScript, CallHarness } from '../../../test/support/containers/call-harness.ts';

const names = ['a', 'b', 'c'] as const;
const retryMs = 30_000;

/** Runs the call after a delay, and reports it as running meanwhile. */
function slow(harness: CallHarness, name: string, ms: number): OwnerScript {
  const { pendingCalls } = harness.node(name);
  return ({ id }, run, done) => {
    pendingCalls.add(formatCallId(id));
    harness.timeline.after(ms, () => {
      pendingCalls.delete(formatCallId(id));
      done(success(run()));
    });
    return undefined;
  };
}

describe('a call', () => {
  test('of a container of this node needs no message', () => {
    const harness = new CallHarness(names, 3);
    const call = harness.call('a', { route: { id: 0 } });
    assert.deepEqual(call.value, { container: 0, method: 'add', times: 1 });
    assert.equal(harness.sent.length, 0);
  });

  test('of a container of another node goes to the owner and back', () => {
    const harness = new CallHarness(names, 3);
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(2);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.deepEqual(harness.ran, [{ container: 1, id: harness.ran[0]?.id, node: 'b' }]);
    assert.equal(harness.sentCount(), 1);
  });

  test('of a stale caller reaches the owner with one hint', () => {
    const harness = new CallHarness(names, 3);
    harness.setOwner(1, 'c', ['b', 'c']);
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(10);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.deepEqual(
      harness.sent.map(({ to }) => to),
      ['b', 'c'],
    );
    assert.equal(harness.node('a').count('calls.corrected'), 1);
  });

  test('S17: backs off when nodes contradict each other about the owner', () => {
    const harness = new CallHarness(names, 3);
    const [b, c] = [harness.node('b'), harness.node('c')];
    b.refusalCode = 'STALE_TABLE';
    c.refusalCode = 'STALE_TABLE';
    // Each of the two names the other one, with ever newer versions.
    const contradict = (): void => {
      harness.setOwner(1, 'c', ['b']);
      harness.setOwner(1, 'b', ['c']);
      harness.timeline.after(1, contradict);
    };
    contradict();
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(20);
    assert.ok(harness.sentCount() <= 5, `sent ${harness.sentCount()} times in 20 ms`);
    harness.advance(retryMs + 1_000);
    assert.equal(call.code, 'NETWORK_TIMEOUT');
    assert.ok(harness.sentCount() < 500, `sent ${harness.sentCount()} times`);
  });

  test('follows an owner that changes repeatedly, whatever its id', () => {
    // C25: the node with the lowest possible id is a node like all others.
    const harness = new CallHarness(names, 3);
    harness.setOwner(1, 'b');
    harness.kill('b');
    const call = harness.call('c', { route: { id: 1 } });
    harness.advance(500);
    harness.setOwner(1, 'a');
    harness.advance(5);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.equal(harness.ran[0]?.node, 'a');
  });

  test('C25: resolves the owner for each attempt, also after the second change', () => {
    const harness = new CallHarness(names, 3);
    harness.kill('b');
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(1_000);
    harness.kill('c');
    harness.setOwner(1, 'c');
    harness.advance(1_000);
    assert.ok(!call.isOver);
    harness.setOwner(1, 'a');
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.equal(harness.node('a').table.watched, 0, 'no watch of the table is left');
  });

  test('waits for the table while the container has no owner', () => {
    const harness = new CallHarness(names, 3);
    harness.setOwner(1, undefined);
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(20_000);
    assert.ok(!call.isOver);
    harness.setOwner(1, 'c');
    harness.advance(5);
    assert.equal(call.code, 'ok');
  });

  test('C27: is sent again when its reply was lost with the connection, and runs once', () => {
    const harness = new CallHarness(names, 3);
    harness.replyMs = 50;
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(10);
    assert.equal(harness.ran.length, 1);
    harness.breakConnections('b');
    harness.advance(200);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.equal(harness.ran.length, 1);
    assert.equal(harness.sentCount(), 2);
  });

  test('C30: gets its first result from the next owner when its owner died after it ran', () => {
    const harness = new CallHarness(names, 3);
    harness.replyMs = 50;
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(10);
    harness.kill('b');
    harness.setOwner(1, 'c');
    harness.advance(200);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.deepEqual(
      harness.ran.map(({ node }) => node),
      ['b'],
    );
  });

  test('to a silent owner is sent to the next one as soon as the table names it', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').isFrozen = true;
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(3_000);
    assert.equal(harness.sentCount(), 1);
    harness.setOwner(1, 'c');
    harness.advance(5);
    assert.equal(call.code, 'ok');
    assert.equal(harness.ran[0]?.node, 'c');
  });

  test('finds its new owner even when the table accepts no more watchers', () => {
    const harness = new CallHarness(names, 3);
    const { table } = harness.node('a');
    table.watchOwner = () => {
      throw new RemusterError('CAPACITY');
    };
    harness.kill('b');
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(1_000);
    harness.setOwner(1, 'c');
    harness.advance(1_000);
    assert.equal(call.code, 'ok');
  });

  test('survives a table whose owner changes faster than a round trip', () => {
    const harness = new CallHarness(names, 3);
    for (const node of harness.nodes) node.isFrozen = true;
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(300);
    for (let i = 0; i < 100; i++) {
      harness.setOwner(1, i % 2 === 0 ? 'c' : 'b');
      harness.advance(1);
    }
    assert.ok(!call.isOver);
    assert.ok(harness.sentCount() < 30, `sent ${harness.sentCount()} times`);
    for (const node of harness.nodes) node.isFrozen = false;
    harness.setOwner(1, 'c');
    harness.advance(1_000);
    assert.equal(call.code, 'ok');
  });

  test('goes on probing a silent owner when the table names no owner', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').script = slow(harness, 'b', 12_000);
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(100);
    harness.setOwner(1, undefined, ['a']);
    const before = harness.timeline.steps;
    harness.advance(11_000);
    assert.equal(harness.sentCount('queryCallStatus'), 2);
    assert.ok(harness.timeline.steps - before < 100, 'a timer fires too often');
    harness.advance(2_000);
    assert.equal(call.code, 'ok');
  });

  test('does not wait for the probe when the table names another owner', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').isFrozen = true;
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(10);
    harness.setOwner(1, 'c');
    harness.advance(300);
    assert.equal(call.code, 'ok');
  });

  test('#628: is recovered by the probe when its reply was lost silently', () => {
    const harness = new CallHarness(names, 3);
    harness.losesReply = (kind) => kind === 'callReply';
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(4_000);
    harness.losesReply = () => false;
    assert.equal(harness.sentCount('queryCallStatus'), 0);
    harness.advance(2_000);
    assert.equal(harness.sentCount('queryCallStatus'), 1);
    assert.deepEqual(call.value, { container: 1, method: 'add', times: 1 });
    assert.equal(harness.ran.length, 1);
  });

  test('takes the late result of its first attempt if that arrives first', () => {
    const harness = new CallHarness(names, 3);
    harness.replyMs = 5_005;
    harness.node('b').script = (_call, run, done) => {
      done(success(run()));
      return undefined;
    };
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(5_000);
    harness.replyMs = 1;
    harness.advance(3);
    // The owner no longer knows the call, so it was sent again; the first reply is still in flight.
    assert.equal(harness.sentCount(), 2);
    harness.replyMs = 1;
    harness.advance(20);
    assert.equal(call.code, 'ok');
    assert.equal(harness.ran.length, 1);
  });

  test('that runs for long goes on as long as its owner confirms it', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').script = slow(harness, 'b', 70_000);
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(69_000);
    assert.ok(!call.isOver);
    assert.equal(harness.sentCount(), 1);
    harness.advance(2_000);
    assert.equal(call.code, 'ok');
    assert.ok(harness.sentCount('queryCallStatus') > 5);
  });

  test('ends at its own deadline even if its owner confirms it', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').script = slow(harness, 'b', 70_000);
    harness.node('a').script = slow(harness, 'a', 70_000);
    const there = harness.call('a', { route: { id: 1 }, timeoutMs: 45_000 });
    const here = harness.call('a', { route: { id: 0 }, timeoutMs: 45_000 });
    harness.advance(46_000);
    assert.equal(there.code, 'DEADLINE');
    assert.equal(here.code, 'DEADLINE');
    assert.ok(there.atMs <= 45_010 && here.atMs <= 45_010);
  });

  test('C31: to a connected but frozen owner ends', () => {
    const harness = new CallHarness(names, 3);
    harness.node('b').isFrozen = true;
    const call = harness.call('a', { route: { id: 1 } });
    const sooner = harness.call('a', { route: { id: 1 }, timeoutMs: 7_000 });
    harness.advance(31_000);
    assert.equal(call.code, 'NETWORK_TIMEOUT');
    assert.equal(sooner.code, 'DEADLINE');
    assert.ok(sooner.atMs >= 7_000 && sooner.atMs <= 7_010);
    assert.ok(call.atMs >= retryMs && call.atMs <= 31_000);
    assert.equal(harness.node('a').calls.open, 0);
  });

  test('S32: ends with its result or NETWORK_TIMEOUT, never both, whenever the reply arrives', () => {
    for (let holdMs = 29_000; holdMs <= 31_000; holdMs += 50) {
      const harness = new CallHarness(names, 3);
      harness.replyMs = holdMs;
      harness.losesReply = (kind) => kind === 'queryCallStatusReply';
      const call = harness.call('a', { route: { id: 1 } });
      harness.advance(70_000);
      assert.equal(call.endings.length, 1, `held for ${holdMs} ms`);
      assert.equal(call.code, holdMs < 29_999 ? 'ok' : 'NETWORK_TIMEOUT', `held for ${holdMs} ms`);
    }
  });

  test('says its deadline in whole milliseconds', () => {
    const harness = new CallHarness(names, 3);
    harness.replyMs = 60_000;
    const call = harness.call('a', { route: { id: 1 }, timeoutMs: 1_999.37 });
    harness.advance(5_000);
    const { outcome } = call.endings[0] ?? assert.fail('it has not ended');
    assert.ok(!outcome.ok);
    assert.match(outcome.error.message, /did not reply within 1999 ms/);
  });

  test('#871: ends once when reply, new owner, deadline and cancellation coincide', () => {
    const harness = new CallHarness(names, 3);
    harness.replyMs = 999;
    const call = harness.call('a', { route: { id: 1 }, timeoutMs: 1_000 });
    harness.timeline.after(1_000, () => harness.setOwner(1, 'c'));
    harness.timeline.after(1_000, () => harness.breakConnections('b'));
    harness.timeline.after(1_000, () => call.cancel());
    harness.advance(5_000);
    assert.equal(call.endings.length, 1);
    assert.equal(harness.node('a').calls.open, 0);
  });

  test('C29: ignores a reply that arrives twice or after the end', () => {
    const harness = new CallHarness(names, 3);
    harness.replyCopies = 2;
    const call = harness.call('a', { route: { id: 1 } });
    harness.advance(100);
    assert.equal(call.endings.length, 1);
    assert.equal(harness.node('a').calls.open, 0);
  });

  test('can be cancelled, local or remote, and ends with CANCELLED at once', () => {
    const harness = new CallHarness(names, 3);
    let cancelled = 0;
    harness.node('a').script = () => () => (cancelled += 1);
    harness.node('b').isFrozen = true;
    const here = harness.call('a', { route: { id: 0 } });
    const there = harness.call('a', { route: { id: 1 } });
    const searching = harness.call('a', { pool: 'nowhere' });
    harness.advance(10);
    for (const call of [here, there, searching]) {
      call.cancel();
      call.cancel();
      assert.equal(call.code, 'CANCELLED');
    }
    assert.equal(cancelled, 1);
    harness.advance(60_000);
    assert.equal(there.endings.length, 1);
    assert.equal(harness.node('a').calls.open, 0);
  });
});
