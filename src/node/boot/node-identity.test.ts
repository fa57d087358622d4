import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Outcome, failure, isRemusterError, toPromise, success } from '../../base/errors.ts';
import { nodeIdFrom } from '../../base/ids.ts';
import type { Store, StoreEntry } from '../../base/ports.ts';
import { type NodeGeneration, startGeneration } from './node-identity.ts';

const id = nodeIdFrom(new Uint8Array(16).fill(7));

/** A store in memory whose writes end with `written`. */
function storeOf(kept: Map<string, Uint8Array>, written: () => Outcome<void> = () => success(undefined)): Store {
  return {
    write: (batch, done) => {
      const outcome = written();
      if (outcome.ok) for (const { key, value } of batch) if (value !== null) kept.set(key, value);
      queueMicrotask(() => done(outcome));
    },
    read: ({ from, to }, done) => {
      const found: StoreEntry[] = [...kept]
        .filter(([key]) => key >= from && key < to)
        .map(([key, value]) => ({ key, value }));
      queueMicrotask(() => done(success(found)));
    },
    close: (done) => queueMicrotask(() => done(success(undefined))),
  };
}

function raise(store: Store, freshId = () => id): Promise<NodeGeneration> {
  return toPromise((done) => startGeneration(store, freshId, done));
}

test('the id is created once, and each start increments the generation', async () => {
  const kept = new Map<string, Uint8Array>();
  assert.deepEqual(await raise(storeOf(kept)), { id, generation: 1 });
  const another = (): never => assert.fail('asked for a second id');
  assert.deepEqual(await raise(storeOf(kept), another), { id, generation: 2 });
  assert.deepEqual(await raise(storeOf(kept), another), { id, generation: 3 });
});

test('a generation that is not durable is not used', async () => {
  const kept = new Map<string, Uint8Array>();
  await assert.rejects(raise(storeOf(kept, () => failure('STORE_FULL'))), (error) =>
    isRemusterError(error, 'STORE_FULL'),
  );
  assert.deepEqual(await raise(storeOf(kept)), { id, generation: 1 });
});

test('a damaged identity fails the start instead of creating a new node', async () => {
  for (const text of ['', 'null', '{"id":"00","generation":1}', `{"id":"${id}","generation":-1.5}`, `{"id":"${id}"}`]) {
    const kept = new Map([['identity', new TextEncoder().encode(text)]]);
    await assert.rejects(raise(storeOf(kept)), (error) => isRemusterError(error, 'STORE_CORRUPT'), text);
  }
});
