import assert from 'node:assert/strict';
import { type TestContext, describe, it } from 'node:test';
import type { GroupLog } from './group-log.ts';
import { gone, type LoosePlace, LooseRows } from './loose-rows.ts';
import { type TemporaryLog, temporaryLog } from './store-folder.test.ts';
import { packBatch } from './store-messages.ts';

function opened(t: TestContext): TemporaryLog & { readonly rows: LooseRows } {
  const logged = temporaryLog(t);
  return { ...logged, rows: new LooseRows(logged.reader, 0) };
}

/** Of a text like `a=1 b=2 c`, where the last one is to go. */
function append(log: GroupLog, number: number, text: string): Promise<void> {
  const batch = text.split(' ').map((row) => {
    const [key = '', value] = row.split('=');
    return { key, value: value === undefined ? null : Buffer.from(value) };
  });
  return new Promise((resolve, reject) => {
    log.append(number, packBatch(batch), (error) => (error === undefined ? resolve() : reject(error)));
  });
}

function shown(rows: LooseRows): string {
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
    rows.acknowledged(2, log.bytes);
    assert.ok(!rows.isEmpty);
    assert.equal(shown(rows), 'b c=3 a=4 d=6');
    const found = new Map<string, LoosePlace>();
    rows.collect(Buffer.from('b'), Buffer.from('d'), found);
    assert.deepEqual([...found.keys()], ['b', 'c']);
    assert.equal(found.get('b')?.place, gone);
  });

  it('are those that came after the last ones were settled, of the same file', async (t) => {
    const { log, rows } = opened(t);
    await append(log, 1, 'a=1 b=2');
    rows.acknowledged(1, log.bytes);
    assert.equal(shown(rows), 'a=1 b=2');
    rows.settled();
    assert.ok(rows.isEmpty);
    assert.equal(shown(rows), '');
    await append(log, 2, 'b=3');
    rows.acknowledged(2, log.bytes);
    assert.ok(!rows.isEmpty);
    assert.equal(shown(rows), 'b=3');
  });

  it('are not taken from an earlier use of the file, nor from one in which a group is missing', async (t) => {
    const { log, reader, rows } = opened(t);
    await append(log, 1, 'a=1');
    rows.acknowledged(1, log.bytes);
    assert.equal(shown(rows), 'a=1');
    const later = new LooseRows(reader, 7);
    later.acknowledged(8, log.bytes);
    assert.throws(() => later.index(), { code: 'STORE_CORRUPT' });
    await append(log, 3, 'c=3');
    rows.acknowledged(3, log.bytes);
    assert.throws(() => rows.index(), { code: 'STORE_CORRUPT' });
  });
});
