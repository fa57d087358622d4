/** Calls of pools through failures: each ends, runs once, and finds a node that can help if there is one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, failure, isRemusterError, success } from '../base/errors.ts';
import { counter, opened, FakeCluster, refusedCall } from '../../test/fakes/fake-cluster.ts';

const withCode =
  (code: ErrorCode) =>
  (error: unknown): boolean => {
    assert.ok(isRemusterError(error), String(error));
    assert.equal(error.code, code);
    return true;
  };

test('a call is numbered, arrives once and its answer comes back', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  const pool = session.pool(counter, 'visits');
  assert.equal(await cluster.until(pool.hash('a').add(2)), 2);
  assert.equal(await cluster.until(pool.hash('a').add(3)), 5);
  assert.deepEqual(cluster.received, ['n1 add client-1/1/1', 'n1 add client-1/1/2']);
  assert.deepEqual(cluster.arrivedLowest, [1, 2]);
});

test('a call tells the lowest number that is still waited for', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  const pool = session.pool(counter, 'visits');
  cluster.injectFault = (_node, call) => (call.counter === 2 ? 'handled' : undefined);
  await cluster.until(pool.id(0).add(1));
  const second = pool.id(0).add(1);
  await cluster.until(pool.id(0).add(1));
  await cluster.until(pool.id(0).add(1));
  assert.deepEqual(cluster.arrivedLowest, [1, 2, 2, 2]);
  const closed = session.close();
  await assert.rejects(cluster.until(second, 100), withCode('CANCELLED'));
  await cluster.until(closed);
});

test('a lost answer: the call is sent again under its id, and has run once', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  let losses = 1;
  cluster.injectFault = (node, call) => {
    if (losses-- <= 0) return undefined;
    cluster.run(call);
    cluster.world.crash(node);
    cluster.world.start(node);
    return 'handled';
  };
  assert.equal(await cluster.until(session.pool(counter, 'visits').hash('a').add(2)), 2);
  assert.deepEqual([cluster.ran, cluster.sum], [['client-1/1/1'], 2]);
  assert.deepEqual(new Set(cluster.received), new Set(['n1 add client-1/1/1']));
  assert.ok(cluster.received.length > 1);
});

test('the node restarts with a call under way, and is back only after a while', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  cluster.injectFault = () => 'handled';
  const answer = session.pool(counter, 'visits').hash('a').add(2);
  await cluster.pass(200);
  cluster.world.crash('n1', 'kept');
  await cluster.pass(5_000);
  cluster.injectFault = () => undefined;
  cluster.world.start('n1');
  assert.equal(await cluster.until(answer, 5_000), 2);
  assert.equal(cluster.sum, 2);
});

test('the node is gone for good: the call goes to another one that the cluster named', async () => {
  const cluster = new FakeCluster(3);
  const session = await opened(cluster);
  const pool = session.pool(counter, 'visits');
  await cluster.until(pool.hash('a').add(1));
  cluster.injectFault = (node) => (node === 'n1' ? 'handled' : undefined);
  const answer = pool.hash('a').add(1);
  await cluster.pass(100);
  cluster.world.crash('n1', 'kept');
  assert.equal(await cluster.until(answer, 2_000), 2);
  cluster.received.length = 0;
  await cluster.until(pool.hash('a').add(1), 100);
  assert.equal(cluster.received.length, 1);
  assert.ok(!cluster.received[0]?.startsWith('n1'), 'later calls go to the other node at once');
});

test('a node that stands still is left in a few seconds, and one that is at work is not', async () => {
  const cluster = new FakeCluster(2);
  const session = await opened(cluster);
  const pool = session.pool(counter, 'visits');
  cluster.injectFault = () => 'handled';
  const busy = pool.hash('a').add(1);
  await cluster.pass(20_000);
  assert.deepEqual(cluster.received, ['n1 add client-1/1/1']);
  cluster.injectFault = () => undefined;
  cluster.world.pauseNode('n1', 60_000);
  assert.equal(await cluster.until(busy, 4_000), 1);
  assert.deepEqual(cluster.received.at(-1), 'n2 add client-1/1/1');
});

test('a node that stops says so, and the call goes elsewhere', async () => {
  for (const [as, code] of [
    ['answer', 'DRAINED'],
    ['answer', 'FENCED'],
    ['failure', 'DRAINED'],
    ['failure', 'CAPACITY'],
  ] as const) {
    const cluster = new FakeCluster(2);
    const session = await opened(cluster);
    cluster.injectFault = (node, _call, reply) => {
      if (node !== 'n1') return undefined;
      reply(as === 'answer' ? success(refusedCall(code)) : failure(code));
      return 'handled';
    };
    assert.equal(await cluster.until(session.pool(counter, 'visits').hash('a').add(2), 1_000), 2, code);
    assert.deepEqual(
      cluster.received.map((line) => line.slice(0, 2)),
      ['n1', 'n2'],
    );
  }
});

test('an error of the call itself is an answer: nobody else is asked', async () => {
  const cluster = new FakeCluster(2);
  const session = await opened(cluster);
  for (const code of ['UNKNOWN_POOL', 'CALL_FAILED', 'BAD_ARGUMENT', 'PARTIAL', 'STORE_FULL', 'CAPACITY'] as const) {
    cluster.injectFault = (_node, _call, reply) => {
      reply(success(refusedCall(code)));
      return 'handled';
    };
    await assert.rejects(cluster.until(session.pool(counter, 'visits').hash('a').add(2), 100), withCode(code));
  }
  assert.equal(cluster.received.length, 6);
});

test('retry 0: the first failure is told at once', async () => {
  const cluster = new FakeCluster(2);
  const session = await opened(cluster, { retryTimeoutMs: 0 });
  cluster.injectFault = () => 'handled';
  const answer = session.pool(counter, 'visits').hash('a').add(2);
  await cluster.pass(100);
  cluster.world.crash('n1', 'kept');
  await assert.rejects(cluster.until(answer, 100), withCode('NETWORK_TIMEOUT'));
  await assert.rejects(cluster.until(session.pool(counter, 'visits').hash('a').add(2), 100), withCode('UNREACHABLE'));
});

test('the cluster is gone: every call ends with the time for retries, and says whom it asked last', async () => {
  const cluster = new FakeCluster(3);
  const session = await opened(cluster);
  for (const name of cluster.names) cluster.world.crash(name, 'kept');
  const began = cluster.world.timeline.nowMs;
  const pool = session.pool(counter, 'visits');
  const calls = [pool.hash('a').add(1), pool.id(3).add(1), pool.broadcast().read()];
  const outcomes = await cluster.until(Promise.allSettled(calls), 62_000);
  for (const outcome of outcomes) {
    assert.equal(outcome.status, 'rejected');
    withCode('NETWORK_TIMEOUT')(outcome.reason);
    assert.match((outcome.reason as Error).message, /10\.0\.0\.\d:1/);
  }
  assert.ok(cluster.world.timeline.nowMs - began >= 59_000);
});

test('a crash loop does not put the end off', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster, { retryTimeoutMs: 10_000 });
  cluster.injectFault = (node) => {
    cluster.world.crash(node, 'kept');
    cluster.world.start(node);
    return 'handled';
  };
  const answer = session.pool(counter, 'visits').hash('a').add(2);
  await assert.rejects(cluster.until(answer, 11_000), withCode('NETWORK_TIMEOUT'));
});

test('a deadline of the call ends it, while a node has it or while none can be reached', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  const pool = session.pool(counter, 'visits').with({ timeoutMs: 3_000 });
  cluster.injectFault = () => 'handled';
  await assert.rejects(cluster.until(pool.hash('a').add(2), 3_100), withCode('DEADLINE'));
  cluster.world.crash('n1', 'kept');
  await assert.rejects(cluster.until(pool.hash('a').add(2), 3_100), withCode('NETWORK_TIMEOUT'));
});

test('retry -1 waits for ever, until it is cancelled or answered', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster, { retryTimeoutMs: -1 });
  const pool = session.pool(counter, 'visits');
  cluster.world.crash('n1', 'kept');
  const leaving = new AbortController();
  const cancelled = pool.with({ signal: leaving.signal }).hash('a').add(1);
  const answered = pool.hash('a').add(2);
  const failed = assert.rejects(cancelled, withCode('CANCELLED'));
  await cluster.pass(600_000);
  leaving.abort();
  await failed;
  cluster.world.start('n1');
  assert.equal(await cluster.until(answered, 5_000), 2);
});

test('a call that may take for ever is not given up while a node works on it', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster, { retryTimeoutMs: -1 });
  cluster.injectFault = () => 'handled';
  const answer = session.pool(counter, 'visits').hash('a').add(2);
  await cluster.pass(130_000);
  cluster.injectFault = () => undefined;
  assert.equal(await cluster.until(answer, 61_000), 2);
});

test('where a route means something else to each node, a call that may have run is not sent again', async () => {
  const cluster = new FakeCluster(2);
  const session = await opened(cluster);
  cluster.injectFault = () => 'handled';
  const answer = session.pool(counter, 'visits').local().add(2);
  await cluster.pass(100);
  cluster.world.crash('n1', 'kept');
  await assert.rejects(cluster.until(answer, 1_000), withCode('NETWORK_TIMEOUT'));
  cluster.injectFault = () => undefined;
  assert.equal(await cluster.until(session.pool(counter, 'visits').local().add(2), 1_000), 2);
  assert.deepEqual(
    cluster.received.map((line) => line.slice(0, 2)),
    ['n1', 'n2'],
  );
});

test('parts are aggregated here if the module says how, else listed; one that is missing is PARTIAL', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
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

test('an id from outside is used as it is, and arguments that cannot travel are refused before anything is sent', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  const pool = session.pool(counter, 'visits');
  const named = pool.with({ callId: 'mine/3/7' });
  assert.equal(await cluster.until(named.hash('a').add(2)), 2);
  assert.equal(await cluster.until(named.hash('a').add(2)), 2);
  assert.deepEqual(cluster.arrivedLowest, [0, 0]);
  await assert.rejects(pool.with({ callId: 'mine' }).hash('a').add(1), withCode('BAD_ARGUMENT'));
  await assert.rejects(pool.with({ timeoutMs: Number.NaN }).hash('a').add(1), withCode('BAD_ARGUMENT'));
  await assert.rejects(pool.hash('a').add((() => 1) as never), withCode('BAD_ARGUMENT'));
  assert.equal(cluster.received.length, 2);
});

test('closing ends what is under way, and leaves no timer and no connection behind', async () => {
  const cluster = new FakeCluster(2);
  const session = await opened(cluster);
  const pool = session.pool(counter, 'visits');
  cluster.injectFault = () => 'handled';
  const calls = [pool.hash('a').add(1), pool.hash('b').add(1), session.members()];
  const outcomes = Promise.allSettled(calls);
  await cluster.pass(1_500);
  const closed = session.close();
  for (const outcome of (await cluster.until(outcomes, 20)).slice(0, 2)) {
    assert.equal(outcome.status, 'rejected');
    withCode('CANCELLED')(outcome.reason);
  }
  await cluster.until(closed, 100);
  const arrived = cluster.received.length;
  await cluster.pass(30_000);
  assert.equal(cluster.received.length, arrived);
  await assert.rejects(pool.hash('a').add(1), withCode('CANCELLED'));
});
