import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';

import { WalWriter, noNodeNumber, readWal, walRecordBytes } from './wal-record.ts';

const pool = { major: 7, minor: 1 };

function logOf(count: number): Uint8Array {
  const writer = new WalWriter(pool, 1_700_000_000_123, 1);
  for (let i = 0; i < count; i++) writer.add(i, noNodeNumber, i % 3, 1_000 + i);
  return writer.finish();
}

function read(bytes: Uint8Array): { readonly seen: string[]; readonly condition: string; readonly records: number } {
  const seen: string[] = [];
  const reading = readWal(bytes, pool, (...record) => seen.push(record.join(' ')));
  return { seen, ...reading };
}

describe('a WAL record', () => {
  test('has a fixed encoding', () => {
    const writer = new WalWriter({ major: 7, minor: 1 }, 1_700_000_000_123, 1);
    writer.add(42, noNodeNumber, 3, 2 ** 33 + 5);
    const parts = ['c0d47e3dfe9c9717', '07000000', '01000000', '2a000000', 'ffffffff', '03000000', '0500000002000000'];
    assert.equal(Buffer.from(writer.finish()).toString('hex'), [...parts, '3783df9f'].join(''));
    assert.equal(Buffer.from(parts[0] as string, 'hex').readBigUInt64LE(), 1_700_000_000_123_000_000n);
    assert.equal(walRecordBytes, 40);
    assert.equal(writer.records, 1);
  });

  test('decodes to what was written, whatever its numbers', () => {
    const u32 = fc.nat(0xffff_ffff);
    fc.assert(
      fc.property(fc.array(fc.tuple(u32, u32, u32, fc.maxSafeNat()), { maxLength: 30 }), (records) => {
        const writer = new WalWriter(pool, 0, 0);
        for (const record of records) writer.add(...record);
        const { seen, condition } = read(writer.finish());
        assert.deepEqual(
          seen,
          records.map(([container, , owner, version]) => `${container} ${owner} ${version}`),
        );
        assert.equal(condition, 'intact');
      }),
    );
  });
});

describe('a WAL', () => {
  test('that is cut anywhere is valid up to its last complete record', () => {
    const log = logOf(5);
    for (let length = 0; length <= log.length; length++) {
      const { records, condition, seen } = read(log.slice(0, length));
      assert.equal(records, Math.floor(length / walRecordBytes));
      assert.equal(seen.length, records);
      assert.equal(condition, length % walRecordBytes === 0 ? 'intact' : 'torn');
    }
  });

  test('with zeros at its end is torn, however many they are', () => {
    for (let good = 0; good < 5; good++) {
      const log = logOf(5);
      log.fill(0, good * walRecordBytes + 1);
      assert.deepEqual({ ...read(log), seen: 0 }, { records: good, condition: 'torn', seen: 0 });
    }
  });

  test('with a flipped bit before its last record is damaged, and read only up to it', () => {
    const log = logOf(4);
    for (let at = 0; at < 3 * walRecordBytes; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const bad = log.slice();
        bad[at] = (bad[at] as number) ^ (1 << bit);
        const { records, condition, seen } = read(bad);
        assert.equal(condition, 'damaged');
        assert.equal(records, Math.floor(at / walRecordBytes));
        assert.equal(seen.length, records);
      }
    }
  });

  test('of another pool is damaged', () => {
    const other = new WalWriter({ major: 8, minor: 1 }, 0, 1);
    other.add(0, 0, 0, 1);
    assert.equal(read(other.finish()).condition, 'damaged');
  });

  test('may lie anywhere in a larger buffer', () => {
    const log = logOf(3);
    const larger = new Uint8Array(log.length + 7);
    larger.set(log, 3);
    assert.equal(read(larger.subarray(3, 3 + log.length)).condition, 'intact');
  });
});
