import assert from 'node:assert/strict';
import { type TestContext, describe, it } from 'node:test';
import type { StoreLogFile } from './store-log-file.ts';
import { tombstone, type StoreLogRowRef, StoreLogIndex } from './store-log-index.ts';
import { type TemporaryLog, temporaryLog } from '../../../test/support/io/temporary-store.ts';
import { packBatch } from './store-protocol.ts';

function opened(t: TestContext): TemporaryLog & { readonly rows: StoreLogIndex } {
  const logged = temporaryLog(t);
  return { ...logged, rows: new StoreLogIndex(logged.reader, 0) };
}

/** Of a text like `a=1 b=2 c`, where the last one is to go. */
function append(log: StoreLogFile, number: number, text: string): Promise<void> {
  const batch = text.split(' ').map((row) => {
    const [key = '', value] = row.split('=');
    return { key, value: value === undefined ? null : Buffer.from(value) };
  });
  return new Promise((resolve, reject) => {
    log.append(number, packBatch(batch), (error) => (error === undefined ? resolve() : reject(error)));
  });
}

function shown(rows: StoreLogIndex): string {
  return [...rows.read(rows.inOrder())]
    .map(({ key, value }) => (value === null ? String(key) : `${String(key)}=${Buffer.from(value).toString()}`))
    .join(' ');
}

describe('loose rows', () => {
  it('are the last of each key, in the order of the file, those that go first', async (t) => {
    const { log, rows } = opened(t);
    await append(log, 1, 'a=1 b=2 c=3');
    await append(log, 2, 'b a=4 d=5 d=6');
    assert.ok(rows.isEmpty);
    rows.extendTo(2, log.bytes);
    assert.ok(!rows.isEmpty);
    assert.equal(shown(rows), 'b c=3 a=4 d=6');
    const found = new Map<string, StoreLogRowRef>();
    rows.collect(Buffer.from('b'), Buffer.from('d'), found);
    assert.deepEqual([...found.keys()], ['b', 'c']);
    assert.equal(found.get('b')?.offset, tombstone);
  });

  it('are those that came after the last ones were settled, of the same file', async (t) => {
    const { log, rows } = opened(t);
    await append(log, 1, 'a=1 b=2');
    rows.extendTo(1, log.bytes);
    assert.equal(shown(rows), 'a=1 b=2');
    rows.reset();
    assert.ok(rows.isEmpty);
    assert.equal(shown(rows), '');
    await append(log, 2, 'b=3');
    rows.extendTo(2, log.bytes);
    assert.ok(!rows.isEmpty);
    assert.equal(shown(rows), 'b=3');
  });

  it('are not taken from an earlier use of the file, nor from one in which a group is missing', async (t) => {
    const { log, reader, rows } = opened(t);
    await append(log, 1, 'a=1');
    rows.extendTo(1, log.bytes);
    assert.equal(shown(rows), 'a=1');
    const later = new StoreLogIndex(reader, 7);
    later.extendTo(8, log.bytes);
    assert.throws(() => later.index(), { code: 'STORE_CORRUPT' });
    await append(log, 3, 'c=3');
    rows.extendTo(3, log.bytes);
    assert.throws(() => rows.index(), { code: 'STORE_CORRUPT' });
  });
});
