/** Pool calls through failures: each ends, is executed once, and reaches an available node if there is one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, failure, isRemusterError, success } from '../base/errors.ts';
import { counter, connectedSession, FakeCluster, refusedCall } from '../../test/fakes/fake-cluster.ts';

const withCode =
  (code: ErrorCode) =>
  (error: unknown): boolean => {
    assert.ok(isRemusterError(error), String(error));
    assert.equal(error.code, code);
    return true;
  };

test('a call has a number, arrives once, and returns its result', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  const pool = session.pool(counter, 'visits');
  assert.equal(await cluster.until(pool.hash('a').add(2)), 2);
  assert.equal(await cluster.until(pool.hash('a').add(3)), 5);
  assert.deepEqual(cluster.received, ['n1 add client-1/1/1', 'n1 add client-1/1/2']);
  assert.deepEqual(cluster.lowestPending, [1, 2]);
});

test('a call carries the lowest pending call number', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  const pool = session.pool(counter, 'visits');
  cluster.injectFault = (_node, call) => (call.counter === 2 ? 'handled' : undefined);
  await cluster.until(pool.id(0).add(1));
  const second = pool.id(0).add(1);
  await cluster.until(pool.id(0).add(1));
  await cluster.until(pool.id(0).add(1));
  assert.deepEqual(cluster.lowestPending, [1, 2, 2, 2]);
  const closed = session.close();
  await assert.rejects(cluster.until(second, 100), withCode('CANCELLED'));
  await cluster.until(closed);
});

test('a call with a lost reply is resent with its id and executed once', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  let losses = 1;
  cluster.injectFault = (node, call) => {
    if (losses-- <= 0) return undefined;
    cluster.run(call);
    cluster.world.crash(node);
    cluster.world.start(node);
    return 'handled';
  };
  assert.equal(await cluster.until(session.pool(counter, 'visits').hash('a').add(2)), 2);
  assert.deepEqual([cluster.executed, cluster.sum], [['client-1/1/1'], 2]);
  assert.deepEqual(new Set(cluster.received), new Set(['n1 add client-1/1/1']));
  assert.ok(cluster.received.length > 1);
});

test('a call survives a restart of its node', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  cluster.injectFault = () => 'handled';
  const reply = session.pool(counter, 'visits').hash('a').add(2);
  await cluster.advance(200);
  cluster.world.crash('n1', 'kept');
  await cluster.advance(5_000);
  cluster.injectFault = () => undefined;
  cluster.world.start('n1');
  assert.equal(await cluster.until(reply, 5_000), 2);
  assert.equal(cluster.sum, 2);
});

test('a call goes to another member when its node is lost', async () => {
  const cluster = new FakeCluster(3);
  const session = await connectedSession(cluster);
  const pool = session.pool(counter, 'visits');
  await cluster.until(pool.hash('a').add(1));
  cluster.injectFault = (node) => (node === 'n1' ? 'handled' : undefined);
  const reply = pool.hash('a').add(1);
  await cluster.advance(100);
  cluster.world.crash('n1', 'kept');
  assert.equal(await cluster.until(reply, 2_000), 2);
  cluster.received.length = 0;
  await cluster.until(pool.hash('a').add(1), 100);
  assert.equal(cluster.received.length, 1);
  assert.ok(!cluster.received[0]?.startsWith('n1'), 'later calls go to the other node first');
});

test('a call leaves an unresponsive node within seconds, and stays with a busy one', async () => {
  const cluster = new FakeCluster(2);
  const session = await connectedSession(cluster);
  const pool = session.pool(counter, 'visits');
  cluster.injectFault = () => 'handled';
  const busy = pool.hash('a').add(1);
  await cluster.advance(20_000);
  assert.deepEqual(cluster.received, ['n1 add client-1/1/1']);
  cluster.injectFault = () => undefined;
  cluster.world.pauseNode('n1', 60_000);
  assert.equal(await cluster.until(busy, 4_000), 1);
  assert.deepEqual(cluster.received.at(-1), 'n2 add client-1/1/1');
});

test('a call goes to another node when one is draining or full', async () => {
  for (const [as, code] of [
    ['reply', 'DRAINED'],
    ['reply', 'FENCED'],
    ['failure', 'DRAINED'],
    ['failure', 'CAPACITY'],
  ] as const) {
    const cluster = new FakeCluster(2);
    const session = await connectedSession(cluster);
    cluster.injectFault = (node, _call, reply) => {
      if (node !== 'n1') return undefined;
      reply(as === 'reply' ? success(refusedCall(code)) : failure(code));
      return 'handled';
    };
    assert.equal(await cluster.until(session.pool(counter, 'visits').hash('a').add(2), 1_000), 2, code);
    assert.deepEqual(
      cluster.received.map((line) => line.slice(0, 2)),
      ['n1', 'n2'],
    );
  }
});

test('an error of the call itself is not retried', async () => {
  const cluster = new FakeCluster(2);
  const session = await connectedSession(cluster);
  for (const code of ['UNKNOWN_POOL', 'CALL_FAILED', 'BAD_ARGUMENT', 'PARTIAL', 'STORE_FULL', 'CAPACITY'] as const) {
    cluster.injectFault = (_node, _call, reply) => {
      reply(success(refusedCall(code)));
      return 'handled';
    };
    await assert.rejects(cluster.until(session.pool(counter, 'visits').hash('a').add(2), 100), withCode(code));
  }
  assert.equal(cluster.received.length, 6);
});

test('a call with retryTimeoutMs 0 ends with its first failure', async () => {
  const cluster = new FakeCluster(2);
  const session = await connectedSession(cluster, { retryTimeoutMs: 0 });
  cluster.injectFault = () => 'handled';
  const reply = session.pool(counter, 'visits').hash('a').add(2);
  await cluster.advance(100);
  cluster.world.crash('n1', 'kept');
  await assert.rejects(cluster.until(reply, 100), withCode('NETWORK_TIMEOUT'));
  await assert.rejects(cluster.until(session.pool(counter, 'visits').hash('a').add(2), 100), withCode('UNREACHABLE'));
});

test('without a cluster every call ends after its retry timeout and names the last address', async () => {
  const cluster = new FakeCluster(3);
  const session = await connectedSession(cluster);
  for (const name of cluster.names) cluster.world.crash(name, 'kept');
  const startMs = cluster.world.timeline.nowMs;
  const pool = session.pool(counter, 'visits');
  const calls = [pool.hash('a').add(1), pool.id(3).add(1), pool.broadcast().read()];
  const outcomes = await cluster.until(Promise.allSettled(calls), 62_000);
  for (const outcome of outcomes) {
    assert.equal(outcome.status, 'rejected');
    withCode('NETWORK_TIMEOUT')(outcome.reason);
    assert.match((outcome.reason as Error).message, /10\.0\.0\.\d:1/);
  }
  assert.ok(cluster.world.timeline.nowMs - startMs >= 59_000);
});

test('a crash loop does not extend the retry timeout', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster, { retryTimeoutMs: 10_000 });
  cluster.injectFault = (node) => {
    cluster.world.crash(node, 'kept');
    cluster.world.start(node);
    return 'handled';
  };
  const reply = session.pool(counter, 'visits').hash('a').add(2);
  await assert.rejects(cluster.until(reply, 11_000), withCode('NETWORK_TIMEOUT'));
});

test('a call ends at its deadline, while it is executed or no node is reachable', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  const pool = session.pool(counter, 'visits').with({ timeoutMs: 3_000 });
  cluster.injectFault = () => 'handled';
  await assert.rejects(cluster.until(pool.hash('a').add(2), 3_100), withCode('DEADLINE'));
  cluster.world.crash('n1', 'kept');
  await assert.rejects(cluster.until(pool.hash('a').add(2), 3_100), withCode('NETWORK_TIMEOUT'));
});

test('a call with retryTimeoutMs -1 waits until it is cancelled or answered', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster, { retryTimeoutMs: -1 });
  const pool = session.pool(counter, 'visits');
  cluster.world.crash('n1', 'kept');
  const abort = new AbortController();
  const cancelled = pool.with({ signal: abort.signal }).hash('a').add(1);
  const answered = pool.hash('a').add(2);
  const failed = assert.rejects(cancelled, withCode('CANCELLED'));
  await cluster.advance(600_000);
  abort.abort();
  await failed;
  cluster.world.start('n1');
  assert.equal(await cluster.until(answered, 5_000), 2);
});

test('a call without a deadline waits for a node that executes it', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster, { retryTimeoutMs: -1 });
  cluster.injectFault = () => 'handled';
  const reply = session.pool(counter, 'visits').hash('a').add(2);
  await cluster.advance(130_000);
  cluster.injectFault = () => undefined;
  assert.equal(await cluster.until(reply, 61_000), 2);
});

test('a call with a route bound to its node is not resent if it may have been executed', async () => {
  const cluster = new FakeCluster(2);
  const session = await connectedSession(cluster);
  cluster.injectFault = () => 'handled';
  const reply = session.pool(counter, 'visits').local().add(2);
  await cluster.advance(100);
  cluster.world.crash('n1', 'kept');
  await assert.rejects(cluster.until(reply, 1_000), withCode('NETWORK_TIMEOUT'));
  cluster.injectFault = () => undefined;
  assert.equal(await cluster.until(session.pool(counter, 'visits').local().add(2), 1_000), 2);
  assert.deepEqual(
    cluster.received.map((line) => line.slice(0, 2)),
    ['n1', 'n2'],
  );
});

test('parts of a call are aggregated or listed, and a failed part is PARTIAL', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  const pool = session.pool(counter, 'visits');
  let values: readonly (number | 'lost')[] = [1, 2, 3];
  cluster.injectFault = (_node, _call, reply) => {
    reply(success(cluster.parts(values)));
    return 'handled';
  };
  assert.equal(await cluster.until(pool.broadcast().read()), 6);
  assert.deepEqual(await cluster.until(pool.range(0, 3).each()), [1, 2, 3]);
  values = [1, 'lost', 3];
  await assert.rejects(cluster.until(pool.broadcast().read()), (error: unknown) => {
    withCode('PARTIAL')(error);
    return (error as Error).message.includes('1 (NETWORK_TIMEOUT)');
  });
});

test('a call uses the call id of its caller, and invalid arguments send nothing', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  const pool = session.pool(counter, 'visits');
  const named = pool.with({ callId: 'mine/3/7' });
  assert.equal(await cluster.until(named.hash('a').add(2)), 2);
  assert.equal(await cluster.until(named.hash('a').add(2)), 2);
  assert.deepEqual(cluster.lowestPending, [0, 0]);
  assert.equal(await cluster.until(pool.with({ callId: 'mine' }).hash('a').add(3)), 5);
  await assert.rejects(pool.with({ callId: 'not a name' }).hash('a').add(1), withCode('BAD_ARGUMENT'));
  await assert.rejects(pool.with({ timeoutMs: Number.NaN }).hash('a').add(1), withCode('BAD_ARGUMENT'));
  await assert.rejects(pool.hash('a').add((() => 1) as never), withCode('BAD_ARGUMENT'));
  assert.equal(cluster.received.length, 3);
});

test('closing a session cancels its calls and leaves no timer or connection', async () => {
  const cluster = new FakeCluster(2);
  const session = await connectedSession(cluster);
  const pool = session.pool(counter, 'visits');
  cluster.injectFault = () => 'handled';
  const calls = [pool.hash('a').add(1), pool.hash('b').add(1), session.members()];
  const outcomes = Promise.allSettled(calls);
  await cluster.advance(1_500);
  const closed = session.close();
  for (const outcome of (await cluster.until(outcomes, 20)).slice(0, 2)) {
    assert.equal(outcome.status, 'rejected');
    withCode('CANCELLED')(outcome.reason);
  }
  await cluster.until(closed, 100);
  const arrived = cluster.received.length;
  await cluster.advance(30_000);
  assert.equal(cluster.received.length, arrived);
  await assert.rejects(pool.hash('a').add(1), withCode('CANCELLED'));
});
