import assert from 'node:assert/strict';
import { type TestContext, describe, it } from 'node:test';
import type { StoreLogFile } from './store-log-file.ts';
import { tombstone, type StoreLogRowRef, StoreLogIndex } from './store-log-index.ts';
import { type TemporaryLog, temporaryLog } from '../../../test/support/io/temporary-store.ts';
import { packBatch } from './store-protocol.ts';

function temporaryIndex(t: TestContext): TemporaryLog & { readonly index: StoreLogIndex } {
  const logged = temporaryLog(t);
  return { ...logged, index: new StoreLogIndex(logged.reader, 0) };
}

/** Appends a batch written as `a=1 b=2 c`, where `c` is a tombstone. */
function append(log: StoreLogFile, number: number, text: string): Promise<void> {
  const batch = text.split(' ').map((row) => {
    const [key = '', value] = row.split('=');
    return { key, value: value === undefined ? null : Buffer.from(value) };
  });
  return new Promise((resolve, reject) => {
    log.append(number, packBatch(batch), (error) => (error === undefined ? resolve() : reject(error)));
  });
}

function rowsOf(index: StoreLogIndex): string {
  return [...index.read(index.inOrder())]
    .map(({ key, value }) => (value === null ? String(key) : `${String(key)}=${Buffer.from(value).toString()}`))
    .join(' ');
}

describe('a store log index', () => {
  it('has the last row of each key in file order, tombstones first', async (t) => {
    const { log, index } = temporaryIndex(t);
    await append(log, 1, 'a=1 b=2 c=3');
    await append(log, 2, 'b a=4 d=5 d=6');
    assert.ok(index.isEmpty);
    index.extendTo(2, log.bytes);
    assert.ok(!index.isEmpty);
    assert.equal(rowsOf(index), 'b c=3 a=4 d=6');
    const found = new Map<string, StoreLogRowRef>();
    index.collect(Buffer.from('b'), Buffer.from('d'), found);
    assert.deepEqual([...found.keys()], ['b', 'c']);
    assert.equal(found.get('b')?.position, tombstone);
  });

  it('has after a reset only the later rows of the same file', async (t) => {
    const { log, index } = temporaryIndex(t);
    await append(log, 1, 'a=1 b=2');
    index.extendTo(1, log.bytes);
    assert.equal(rowsOf(index), 'a=1 b=2');
    index.reset();
    assert.ok(index.isEmpty);
    assert.equal(rowsOf(index), '');
    await append(log, 2, 'b=3');
    index.extendTo(2, log.bytes);
    assert.ok(!index.isEmpty);
    assert.equal(rowsOf(index), 'b=3');
  });

  it('rejects records of an earlier use of the file, and a file with a missing group', async (t) => {
    const { log, reader, index } = temporaryIndex(t);
    await append(log, 1, 'a=1');
    index.extendTo(1, log.bytes);
    assert.equal(rowsOf(index), 'a=1');
    const later = new StoreLogIndex(reader, 7);
    later.extendTo(8, log.bytes);
    assert.throws(() => later.update(), { code: 'STORE_CORRUPT' });
    await append(log, 3, 'c=3');
    index.extendTo(3, log.bytes);
    assert.throws(() => index.update(), { code: 'STORE_CORRUPT' });
  });
});
