import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { NodeLifecycle } from './node-lifecycle.ts';

test('a node becomes ready once and ends once, however often it is stopped', async () => {
  const closed: string[] = [];
  const lifecycle = new NodeLifecycle(async ({ reason }) => void closed.push(reason));
  lifecycle.joined();
  await lifecycle.ready;
  await Promise.all([lifecycle.stop('first'), lifecycle.stop('second')]);
  assert.deepEqual(await lifecycle.ended, { reason: 'first' });
  assert.deepEqual(closed, ['first']);
});

test('a node that ends before it is ready never becomes ready', async () => {
  const lifecycle = new NodeLifecycle(async () => {});
  const error = new Error('internal');
  await lifecycle.stop('halted', error);
  lifecycle.joined();
  await assert.rejects(lifecycle.ready, (reason) => isRemusterError(reason, 'CANCELLED'));
  assert.deepEqual(await lifecycle.ended, { reason: 'halted', error });
});

test('all callers of stop wait for the same shutdown', async () => {
  const shutdown = Promise.withResolvers<void>();
  const lifecycle = new NodeLifecycle(() => shutdown.promise);
  const resolved: string[] = [];
  const stops = ['a', 'b'].map((name) => lifecycle.stop(name).then(() => resolved.push(name)));
  await new Promise(setImmediate);
  assert.deepEqual(resolved, []);
  shutdown.resolve();
  await Promise.all(stops);
  assert.deepEqual(
    resolved.toSorted((a, b) => (a < b ? -1 : 1)),
    ['a', 'b'],
  );
});
