import assert from 'node:assert/strict';
import { readFileSync, renameSync, truncateSync, writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import type { StoreLogFile } from './store-log-file.ts';
import { storeLogRecordBytes } from './store-log-record.ts';
import { type TemporaryLog, temporaryLog } from '../../../test/support/io/temporary-store.ts';

function append(log: StoreLogFile, number: number, bytes: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const payload = payloadOf(number, bytes);
    log.append(number, payload, (error) => (error === undefined ? resolve() : reject(error)));
  });
}

function payloadOf(number: number, bytes: number): Uint8Array {
  return Uint8Array.from({ length: bytes }, (_, i) => (i + number * 13) & 0xff);
}

function assertGroup({ reader, log }: TemporaryLog, at: number, number: number, bytes: number): void {
  const group = reader.group(at, log.bytes);
  assert.equal(group.number, number);
  assert.ok(group.payload.equals(payloadOf(number, bytes)), `the payload of group ${number}`);
}

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at]! ^= 1;
  writeFileSync(path, bytes);
}

const large = 700_000;

describe('a store log reader', () => {
  it('reads records of all sizes in any order while the log grows', async (t) => {
    const logged = temporaryLog(t);
    const sizes = [0, 1, 8, 100, 5_000, large, 3, 130_000, 200, large + 1, 0, 64];
    const offsets: number[] = [];
    for (const [i, bytes] of sizes.entries()) {
      offsets.push(logged.log.bytes);
      await append(logged.log, i + 1, bytes);
      assertGroup(logged, offsets[i]!, i + 1, bytes);
    }
    for (const [i, bytes] of sizes.entries()) assertGroup(logged, offsets[i]!, i + 1, bytes);
    for (const i of [11, 0, 5, 4, 9, 9, 1, 7]) assertGroup(logged, offsets[i]!, i + 1, sizes[i]!);
  });

  it('reads an overwritten record from the file after `forget`', async (t) => {
    for (const size of [100, large]) {
      const logged = temporaryLog(t);
      await append(logged.log, 1, size);
      assertGroup(logged, 0, 1, size);
      logged.log.reuse(1_000);
      logged.reader.forget();
      await append(logged.log, 2, size);
      assertGroup(logged, 0, 2, size);
    }
  });

  it('throws STORE_CORRUPT for every damaged byte of a record, and still reads the others', async (t) => {
    const logged = temporaryLog(t);
    const [first, second] = [40, 24];
    await append(logged.log, 1, first);
    await append(logged.log, 2, second);
    for (let at = 0; at < storeLogRecordBytes(first); at++) {
      logged.reader.forget();
      flip(logged.path, at);
      assert.throws(() => logged.reader.group(0, logged.log.bytes), { code: 'STORE_CORRUPT' }, `byte ${at}`);
      assertGroup(logged, storeLogRecordBytes(first), 2, second);
      flip(logged.path, at);
    }
    logged.reader.forget();
    assertGroup(logged, 0, 1, first);
  });

  it('reads undamaged records after it has found damage', async (t) => {
    const logged = temporaryLog(t);
    await append(logged.log, 1, 200_000);
    await append(logged.log, 2, 200_000);
    assertGroup(logged, 0, 1, 200_000);
    flip(logged.path, 300_000);
    assert.throws(() => logged.reader.group(storeLogRecordBytes(200_000), logged.log.bytes), { code: 'STORE_CORRUPT' });
    assertGroup(logged, 0, 1, 200_000);
  });

  it('reads nothing after the acknowledged end', async (t) => {
    const { log, reader } = temporaryLog(t);
    await append(log, 1, 100);
    const end = log.bytes;
    await append(log, 2, 100);
    assert.equal(reader.group(0, end).number, 1);
    assert.throws(() => reader.group(end, end), { code: 'STORE_CORRUPT' });
    assert.throws(() => reader.group(end, end + 64), { code: 'STORE_CORRUPT' });
    assert.equal(reader.group(end, log.bytes).number, 2);
  });

  it('throws STORE_CORRUPT for a file that became shorter, and STORE_FAILED for a missing one', async (t) => {
    const logged = temporaryLog(t);
    await append(logged.log, 1, 100);
    renameSync(logged.path, `${logged.path}-elsewhere`);
    assert.throws(() => logged.reader.group(0, logged.log.bytes), { code: 'STORE_FAILED' });
    renameSync(`${logged.path}-elsewhere`, logged.path);
    assertGroup(logged, 0, 1, 100);
    logged.reader.forget();
    truncateSync(logged.path, 50);
    assert.throws(() => logged.reader.group(0, logged.log.bytes), { code: 'STORE_CORRUPT' });
  });
});
