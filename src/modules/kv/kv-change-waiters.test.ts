/** Watchers that sleep until a key changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Context } from '../../containers/module.ts';
import { KvChangeWaiters } from './kv-change-waiters.ts';

function context(container: number, signal = new AbortController().signal): Context {
  const pool = { name: 'kv', containers: 4, params: null };
  return { pool, container, signal } as Context;
}

test('a change wakes all waiting watchers of its container, and forgets them', { timeout: 5_000 }, async () => {
  const waiters = new KvChangeWaiters();
  const woken: number[] = [];
  const waiting = [1, 1, 2].map(async (container) => {
    await waiters.next(context(container));
    woken.push(container);
  });
  waiters.wake(context(1));
  await Promise.all(waiting.slice(0, 2));
  assert.deepEqual([woken, waiters.size], [[1, 1], 1]);
  waiters.wake(context(2));
  await waiting[2];
  assert.equal(waiters.size, 0);
});

test('an aborted watcher does not wait, and is forgotten', { timeout: 5_000 }, async () => {
  const waiters = new KvChangeWaiters();
  const leaving = new AbortController();
  const waiting = waiters.next(context(1, leaving.signal));
  leaving.abort();
  await waiting;
  await waiters.next(context(1, leaving.signal));
  assert.equal(waiters.size, 0);
});

test('the number of waiting watchers is bounded', { timeout: 5_000 }, async () => {
  const waiters = new KvChangeWaiters();
  const waiting = Array.from({ length: 1_000 }, () => waiters.next(context(1)));
  await assert.rejects(waiters.next(context(1)), { code: 'CAPACITY' });
  waiters.wake(context(1));
  await Promise.all(waiting);
});
