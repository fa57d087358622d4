import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, describe, it } from 'node:test';
import { StoreLogFile, readStoreLogGroups } from './store-log-file.ts';

function temporaryPath(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-store-log-'));
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

describe('a store log file', () => {
  it('returns the groups after a number in order', async (t) => {
    const path = temporaryPath(t);
    (await filled(path, 5, 4, 33)).close();
    assert.deepEqual(numbers(path), [5, 6, 7, 8]);
    assert.deepEqual(numbers(path, 6), [7, 8]);
    assert.deepEqual(numbers(`${path}-missing`), []);
  });

  it('ends at a torn record, wherever it is torn', async (t) => {
    const path = temporaryPath(t);
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

  it('ignores records of an earlier use of the file, for all sizes', async (t) => {
    for (const bytes of [40, 100, 104, 250]) {
      const path = temporaryPath(t);
      const log = await filled(path, 1, 20);
      log.reuse(1_000_000);
      for (const number of [21, 22, 23]) await append(log, number, bytes);
      assert.deepEqual(numbers(path, 20), [21, 22, 23]);
    }
  });

  it('distinguishes damage from a torn end', async (t) => {
    const path = temporaryPath(t);
    (await filled(path, 1, 5)).close();
    flip(path, 150);
    assert.throws(() => readStoreLogGroups(path, 0), { code: 'STORE_CORRUPT' });
    assert.throws(() => readStoreLogGroups(path, 3), { code: 'STORE_CORRUPT' });
    assert.deepEqual(numbers(path, 5), [], 'damage in a group that the database has is ignored');
  });

  it('preallocates space, so that a sync seldom grows the file', async (t) => {
    const path = temporaryPath(t);
    const log = await filled(path, 1, 1);
    const before = readFileSync(path).length;
    for (let number = 2; number < 100; number++) await append(log, number, 100);
    assert.equal(readFileSync(path).length, before);
    assert.equal(numbers(path).length, 99);
  });

  it('is truncated by reuse when it has become too large, and deleted by remove', async (t) => {
    const path = temporaryPath(t);
    const log = await filled(path, 1, 10, 100_000);
    const before = readFileSync(path).length;
    log.reuse(100);
    await append(log, 11, 50);
    assert.ok(readFileSync(path).length < before / 2);
    log.remove();
    assert.deepEqual(numbers(path), []);
  });
});
