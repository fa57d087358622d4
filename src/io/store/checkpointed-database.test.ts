import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, describe, it } from 'node:test';
import { StoreLogFile } from './store-log-file.ts';
import { CheckpointedDatabase } from './checkpointed-database.ts';
import { StoreDatabase } from './store-database.ts';
import { logPaths, packBatch, type StoreReply, type StoreRead } from './store-protocol.ts';

/** A checkpointed database, with a log that the test writes in place of the backend. */
class Harness {
  readonly database: StoreDatabase;
  readonly checkpointed: CheckpointedDatabase;
  readonly paths: readonly [string, string];
  #log: StoreLogFile;
  #otherLog: StoreLogFile;
  number = 0;

  constructor(t: TestContext) {
    const folder = mkdtempSync(join(tmpdir(), 'remuster-checkpointed-database-'));
    const file = join(folder, 'db');
    this.paths = logPaths(file);
    this.database = new StoreDatabase({ file, sizeBytesMax: undefined, isLogged: true });
    this.checkpointed = new CheckpointedDatabase(this.database, file);
    this.#log = new StoreLogFile(this.paths[0]);
    this.#otherLog = new StoreLogFile(this.paths[1]);
    t.after(() => {
      this.checkpointed.close();
      this.#log.remove();
      this.#otherLog.remove();
      rmSync(folder, { recursive: true, force: true });
    });
  }

  async write(rows: Readonly<Record<string, string | null>>): Promise<void> {
    const batch = Object.entries(rows).map(([key, value]) => ({
      key,
      value: value === null ? null : Buffer.from(value),
    }));
    this.number += 1;
    await new Promise<void>((resolve, reject) => {
      this.#log.append(this.number, packBatch(batch), (error) => (error === undefined ? resolve() : reject(error)));
    });
    this.checkpointed.perform([{ kind: 'logged', number: this.number, bytes: this.#log.bytes }]);
  }

  switchFile(): StoreReply | undefined {
    const [reply] = this.checkpointed.perform([{ kind: 'switchFile' }]);
    if (reply?.error === undefined) {
      [this.#log, this.#otherLog] = [this.#otherLog, this.#log];
      this.#log.reuse(2 ** 20);
    }
    return reply;
  }
}

function rangeOf(limit: number): StoreRead {
  return { kind: 'read', from: Buffer.from(''), to: Buffer.from('zz'), limit };
}

/** All rows of the checkpointed database, or of the SQLite file alone. */
function rowsOf(database: { perform(calls: readonly StoreRead[]): StoreReply[] }, limit = 10_000): string {
  const [reply] = database.perform([rangeOf(limit)]);
  return reply?.error?.code ?? reply?.entries?.map((entry) => `${entry.key}=${text(entry.value)}`).join(' ') ?? '';
}

function text(value: Uint8Array): string {
  return Buffer.from(value).toString();
}

describe('a checkpointed database', () => {
  it('reads the current log file over the one in the checkpoint over the database', async (t) => {
    const harness = new Harness(t);
    await harness.write({ a: '1', b: '1', c: '1', d: '1' });
    harness.switchFile();
    await harness.write({ b: '2', c: '2', d: null, e: '2' });
    harness.switchFile();
    await harness.write({ c: '3', e: null, f: '3' });
    assert.equal(rowsOf(harness.database), values({ a: '1', b: '1', c: '1', d: '1' }));
    assert.equal(rowsOf(harness.checkpointed), values({ a: '1', b: '2', c: '3', f: '3' }));
    assert.equal(rowsOf(harness.checkpointed, 3), values({ a: '1', b: '2', c: '3' }));
  });

  it('returns as many rows as requested when the log removes the first rows of the database', async (t) => {
    const harness = new Harness(t);
    await harness.write({ a: '1', b: '1', c: '1', d: '1', e: '1' });
    harness.switchFile();
    harness.switchFile();
    await harness.write({ a: null, b: null, c: null });
    assert.equal(rowsOf(harness.checkpointed, 1), values({ d: '1' }));
    assert.equal(rowsOf(harness.checkpointed, 2), values({ d: '1', e: '1' }));
    assert.equal(rowsOf(harness.checkpointed, 0), '');
  });

  it('checkpoints the other file step by step, and stores the group number with the last step', async (t) => {
    const harness = new Harness(t);
    const rows = Object.fromEntries(Array.from({ length: 1_200 }, (_, i) => [`k${i}`, `${i}`]));
    await harness.write(rows);
    assert.equal(harness.checkpointed.checkpointStep(), false, 'there is nothing to checkpoint');
    assert.equal(rowsOf(harness.database), '');
    harness.switchFile();
    assert.deepEqual([harness.checkpointed.checkpointStep(), harness.checkpointed.checkpointStep()], [true, true]);
    assert.equal(harness.database.number, 0);
    assert.equal(harness.checkpointed.checkpointStep(), false);
    assert.equal(harness.database.number, harness.number);
    assert.equal(rowsOf(harness.database), values(rows));
  });

  it('keeps rows that cannot be moved, reports the error, and moves them when that is possible', async (t) => {
    const harness = new Harness(t);
    await harness.write({ a: 'good', b: 'good' });
    harness.switchFile();
    await harness.write({ c: 'good' });
    // The first byte of the record length.
    overwrite(harness.paths[0], 0xff);
    assert.equal(harness.checkpointed.checkpointStep(), false);
    assert.equal(rowsOf(harness.checkpointed), 'STORE_CORRUPT');
    assert.equal(harness.switchFile()?.error?.code, 'STORE_CORRUPT');
    assert.equal(rowsOf(harness.database), '');
    overwrite(harness.paths[0], 0);
    assert.equal(rowsOf(harness.checkpointed), values({ a: 'good', b: 'good', c: 'good' }));
    assert.equal(harness.switchFile()?.error, undefined);
    assert.equal(rowsOf(harness.database), values({ a: 'good', b: 'good' }));
  });
});

function values(rows: Readonly<Record<string, string>>): string {
  const inOrder = Object.entries(rows).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return inOrder.map(([key, value]) => `${key}=${value}`).join(' ');
}

function overwrite(path: string, byte: number): void {
  const descriptor = openSync(path, 'r+');
  writeSync(descriptor, Uint8Array.of(byte), 0, 1, 0);
  closeSync(descriptor);
}
