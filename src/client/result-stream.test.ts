/** Result streams at a client: which nodes it tries, and how a stream ends. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, failure, isRemusterError, success } from '../base/errors.ts';
import { counter, connectedSession, FakeCluster } from '../../test/fakes/fake-cluster.ts';

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

/** Yields one item, and does not end. */
async function* once(): AsyncGenerator<number> {
  yield 1;
  await new Promise(() => {});
}

async function all(stream: AsyncIterable<number>): Promise<number[]> {
  const items: number[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

test('a result stream yields all items in order, under a call id', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  cluster.stream = () => success(count(100));
  const items = await cluster.until(all(session.pool(counter, 'visits').id(0).steps()));
  assert.deepEqual(
    items,
    Array.from({ length: 100 }, (_, i) => i + 1),
  );
  assert.deepEqual(cluster.received, ['n1 steps client-1/1/1']);
});

test('a result stream skips an unreachable node before its first item', async () => {
  const cluster = new FakeCluster(3);
  const session = await connectedSession(cluster);
  cluster.stream = () => success(count(3));
  cluster.world.crash('n1', 'kept');
  assert.deepEqual(await cluster.until(all(session.pool(counter, 'visits').id(0).steps()), 5_000), [1, 2, 3]);
});

test('a result stream skips a draining node, and ends with its error if there is no other', async () => {
  const cluster = new FakeCluster(2);
  const session = await connectedSession(cluster, { retryTimeoutMs: 1_000 });
  cluster.stream = (node) => (node === 'n1' ? failure('DRAINED') : success(count(2)));
  assert.deepEqual(await cluster.until(all(session.pool(counter, 'visits').id(0).steps()), 1_000), [1, 2]);
  cluster.stream = () => failure('DRAINED');
  const retrying = session.pool(counter, 'visits').with({ timeoutMs: 5_000 });
  await assert.rejects(cluster.until(all(retrying.id(0).steps()), 2_000), withCode('DRAINED'));
});

test('a result stream is retried when its container moves before the first item', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  let moves = 2;
  cluster.stream = () => (moves-- > 0 ? failure('PLUGGED') : success(count(2)));
  assert.deepEqual(await cluster.until(all(session.pool(counter, 'visits').id(0).steps()), 1_000), [1, 2]);
});

test('a result stream that breaks after its first item ends with an error', async () => {
  const cluster = new FakeCluster(2);
  const session = await connectedSession(cluster);
  cluster.stream = () => success(once());
  const stream = session.pool(counter, 'visits').id(0).steps()[Symbol.asyncIterator]();
  assert.deepEqual(await cluster.until(stream.next()), { done: false, value: 1 });
  cluster.world.crash('n1', 'kept');
  await assert.rejects(cluster.until(stream.next(), 1_000), withCode('NETWORK_TIMEOUT'));
  assert.equal(cluster.received.length, 1);
});

test('a result stream ends at its deadline, by cancellation, and with its session', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  const pool = session.pool(counter, 'visits');
  cluster.stream = () => success(once());
  const late = cluster.until(all(pool.with({ timeoutMs: 300 }).id(0).steps()), 1_000);
  await assert.rejects(late, withCode('DEADLINE'));
  const abort = new AbortController();
  const cancelled = all(pool.with({ signal: abort.signal }).id(0).steps());
  const closed = all(pool.id(0).steps());
  closed.catch(() => undefined);
  await cluster.advance(100);
  abort.abort();
  await assert.rejects(cluster.until(cancelled, 100), withCode('CANCELLED'));
  const closing = session.close();
  await assert.rejects(cluster.until(closed, 100), withCode('CANCELLED'));
  await cluster.until(closing, 100);
});

test('a reader that stops closes the stream at the node', async () => {
  const cluster = new FakeCluster(1);
  const session = await connectedSession(cluster);
  let isClosed = false;
  async function* watched(): AsyncGenerator<number> {
    try {
      yield* count(1_000);
    } finally {
      isClosed = true;
    }
  }
  cluster.stream = () => success(watched());
  const reading = async (): Promise<void> => {
    for await (const item of session.pool(counter, 'visits').id(0).steps()) if (item === 3) break;
  };
  await cluster.until(reading(), 1_000);
  await cluster.advance(100);
  assert.equal(isClosed, true);
});
