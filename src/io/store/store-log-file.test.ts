import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, describe, it } from 'node:test';
import { StoreLogFile, readStoreLogGroups } from './store-log-file.ts';

function place(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-group-log-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'log');
}

async function filled(path: string, first: number, count: number, bytes = 100): Promise<StoreLogFile> {
  const log = new StoreLogFile(path);
  for (let number = first; number < first + count; number++) await append(log, number, bytes);
  return log;
}

function append(log: StoreLogFile, number: number, bytes: number): Promise<void> {
  const payload = new Uint8Array(bytes).fill(number);
  return new Promise((resolve, reject) => {
    log.append(number, payload, (error) => (error === undefined ? resolve() : reject(error)));
  });
}

function numbers(path: string, after = 0): number[] {
  return readStoreLogGroups(path, after).map(({ number, payload }) => {
    assert.ok(payload.every((byte) => byte === (number & 0xff)));
    return number;
  });
}

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at]! ^= 1;
  writeFileSync(path, bytes);
}

describe('a log of groups', () => {
  it('gives back what was appended, in order, after the wanted number', async (t) => {
    const path = place(t);
    (await filled(path, 5, 4, 33)).close();
    assert.deepEqual(numbers(path), [5, 6, 7, 8]);
    assert.deepEqual(numbers(path, 6), [7, 8]);
    assert.deepEqual(numbers(`${path}-missing`), []);
  });

  it('ends at a record that was torn, wherever that was', async (t) => {
    const path = place(t);
    const log = await filled(path, 1, 3);
    const whole = log.bytes;
    await append(log, 4, 100);
    for (let size = log.bytes - 8; size > whole; size -= 8) {
      truncateSync(path, size);
      assert.deepEqual(numbers(path), [1, 2, 3]);
    }
    appendFileSync(path, new Uint8Array(500));
    assert.deepEqual(numbers(path), [1, 2, 3]);
  });

  it('takes nothing from an earlier use of the file, whatever the sizes were', async (t) => {
    for (const bytes of [40, 100, 104, 250]) {
      const path = place(t);
      const log = await filled(path, 1, 20);
      log.reuse(1_000_000);
      for (const number of [21, 22, 23]) await append(log, number, bytes);
      assert.deepEqual(numbers(path, 20), [21, 22, 23]);
    }
  });

  it('tells damage from a torn end', async (t) => {
    const path = place(t);
    (await filled(path, 1, 5)).close();
    flip(path, 150);
    assert.throws(() => readStoreLogGroups(path, 0), { code: 'STORE_CORRUPT' });
    assert.throws(() => readStoreLogGroups(path, 3), { code: 'STORE_CORRUPT' });
    assert.deepEqual(numbers(path, 5), [], 'what is in the database already may be damaged here');
  });

  it('has room for further records, so that a sync seldom makes the file larger', async (t) => {
    const path = place(t);
    const log = await filled(path, 1, 1);
    const before = readFileSync(path).length;
    for (let number = 2; number < 100; number++) await append(log, number, 100);
    assert.equal(readFileSync(path).length, before);
    assert.equal(numbers(path).length, 99);
  });

  it('cuts a file that has become too large, and is gone when it is closed', async (t) => {
    const path = place(t);
    const log = await filled(path, 1, 10, 100_000);
    const before = readFileSync(path).length;
    log.reuse(100);
    await append(log, 11, 50);
    assert.ok(readFileSync(path).length < before / 2);
    log.remove();
    assert.deepEqual(numbers(path), []);
  });
});
