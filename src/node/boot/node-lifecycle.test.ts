import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { NodeLifecycle } from './node-lifecycle.ts';

test('it becomes ready and ends once, however often it is stopped', async () => {
  const closed: string[] = [];
  const life = new NodeLifecycle(async ({ reason }) => void closed.push(reason));
  life.joined();
  await life.ready;
  await Promise.all([life.stop('first'), life.stop('second')]);
  assert.deepEqual(await life.ended, { reason: 'first' });
  assert.deepEqual(closed, ['first']);
});

test('who ends before being ready never gets ready', async () => {
  const life = new NodeLifecycle(async () => {});
  const error = new Error('a mistake of ours');
  await life.stop('halted', error);
  life.joined();
  await assert.rejects(life.ready, (reason) => isRemusterError(reason, 'CANCELLED'));
  assert.deepEqual(await life.ended, { reason: 'halted', error });
});

test('everybody who stops it waits for the end of the walk', async () => {
  const walk = Promise.withResolvers<void>();
  const life = new NodeLifecycle(() => walk.promise);
  const over: string[] = [];
  const stops = ['a', 'b'].map((name) => life.stop(name).then(() => over.push(name)));
  await new Promise(setImmediate);
  assert.deepEqual(over, []);
  walk.resolve();
  await Promise.all(stops);
  assert.deepEqual(
    over.toSorted((a, b) => (a < b ? -1 : 1)),
    ['a', 'b'],
  );
});
