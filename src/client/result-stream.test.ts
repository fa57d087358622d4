/** Flows of items at a client: where they are looked for, and how they end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, failure, isRemusterError, success } from '../base/errors.ts';
import { counter, opened, FakeCluster } from '../../test/fakes/fake-cluster.ts';

const withCode =
  (code: ErrorCode) =>
  (error: unknown): boolean => {
    assert.ok(isRemusterError(error), String(error));
    assert.equal(error.code, code);
    return true;
  };

async function* count(to: number): AsyncGenerator<number> {
  for (let i = 1; i <= to; i++) yield i;
}

/** Gives one item, and nothing after it. */
async function* once(): AsyncGenerator<number> {
  yield 1;
  await new Promise(() => {});
}

async function all(flow: AsyncIterable<number>): Promise<number[]> {
  const items: number[] = [];
  for await (const item of flow) items.push(item);
  return items;
}

test('all items come, in order, and the call is numbered like any other', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  cluster.flow = () => success(count(100));
  const items = await cluster.until(all(session.pool(counter, 'visits').id(0).steps()));
  assert.deepEqual(
    items,
    Array.from({ length: 100 }, (_, i) => i + 1),
  );
  assert.deepEqual(cluster.received, ['n1 steps client-1/1/1']);
});

test('a node that cannot be reached is passed over before the first item', async () => {
  const cluster = new FakeCluster(3);
  const session = await opened(cluster);
  cluster.flow = () => success(count(3));
  cluster.world.crash('n1', 'kept');
  assert.deepEqual(await cluster.until(all(session.pool(counter, 'visits').id(0).steps()), 5_000), [1, 2, 3]);
});

test('a node that stops is passed over, and its error is told when there is no other', async () => {
  const cluster = new FakeCluster(2);
  const session = await opened(cluster, { retryTimeoutMs: 1_000 });
  cluster.flow = (node) => (node === 'n1' ? failure('DRAINED') : success(count(2)));
  assert.deepEqual(await cluster.until(all(session.pool(counter, 'visits').id(0).steps()), 1_000), [1, 2]);
  cluster.flow = () => failure('DRAINED');
  const patient = session.pool(counter, 'visits').with({ timeoutMs: 5_000 });
  await assert.rejects(cluster.until(all(patient.id(0).steps()), 2_000), withCode('DRAINED'));
});

test('a flow begins anew when its container moves before the first item', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  let moves = 2;
  cluster.flow = () => (moves-- > 0 ? failure('PLUGGED') : success(count(2)));
  assert.deepEqual(await cluster.until(all(session.pool(counter, 'visits').id(0).steps()), 1_000), [1, 2]);
});

test('a flow that breaks off after its first item ends with an error', async () => {
  const cluster = new FakeCluster(2);
  const session = await opened(cluster);
  cluster.flow = () => success(once());
  const flow = session.pool(counter, 'visits').id(0).steps()[Symbol.asyncIterator]();
  assert.deepEqual(await cluster.until(flow.next()), { done: false, value: 1 });
  cluster.world.crash('n1', 'kept');
  await assert.rejects(cluster.until(flow.next(), 1_000), withCode('NETWORK_TIMEOUT'));
  assert.equal(cluster.received.length, 1);
});

test('a flow ends at its deadline, when it is cancelled, and with its session', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  const pool = session.pool(counter, 'visits');
  cluster.flow = () => success(once());
  const late = cluster.until(all(pool.with({ timeoutMs: 300 }).id(0).steps()), 1_000);
  await assert.rejects(late, withCode('DEADLINE'));
  const leaving = new AbortController();
  const cancelled = all(pool.with({ signal: leaving.signal }).id(0).steps());
  const closed = all(pool.id(0).steps());
  closed.catch(() => undefined);
  await cluster.pass(100);
  leaving.abort();
  await assert.rejects(cluster.until(cancelled, 100), withCode('CANCELLED'));
  const closing = session.close();
  await assert.rejects(cluster.until(closed, 100), withCode('CANCELLED'));
  await cluster.until(closing, 100);
});

test('who stops reading frees the node', async () => {
  const cluster = new FakeCluster(1);
  const session = await opened(cluster);
  let isOver = false;
  async function* watched(): AsyncGenerator<number> {
    try {
      yield* count(1_000);
    } finally {
      isOver = true;
    }
  }
  cluster.flow = () => success(watched());
  const reading = async (): Promise<void> => {
    for await (const item of session.pool(counter, 'visits').id(0).steps()) if (item === 3) break;
  };
  await cluster.until(reading(), 1_000);
  await cluster.pass(100);
  assert.equal(isOver, true);
});
