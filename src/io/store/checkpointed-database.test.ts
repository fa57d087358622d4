import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, describe, it } from 'node:test';
import { StoreLogFile } from './store-log-file.ts';
import { CheckpointedDatabase } from './checkpointed-database.ts';
import { StoreDatabase } from './store-database.ts';
import { logPaths, packBatch, type StoreReply, type StoreRead } from './store-protocol.ts';

/** Plays the other side: writes the log and tells the database of it. */
class Played {
  readonly database: StoreDatabase;
  readonly logged: CheckpointedDatabase;
  readonly paths: readonly [string, string];
  #log: StoreLogFile;
  #otherLog: StoreLogFile;
  number = 0;

  constructor(t: TestContext) {
    const folder = mkdtempSync(join(tmpdir(), 'remuster-logged-database-'));
    const file = join(folder, 'db');
    this.paths = logPaths(file);
    this.database = new StoreDatabase({ file, sizeBytesMax: undefined, isLogged: true });
    this.logged = new CheckpointedDatabase(this.database, file);
    this.#log = new StoreLogFile(this.paths[0]);
    this.#otherLog = new StoreLogFile(this.paths[1]);
    t.after(() => {
      this.logged.close();
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
    this.logged.perform([{ kind: 'rows', number: this.number, bytes: this.#log.bytes }]);
  }

  turn(): StoreReply | undefined {
    const [answer] = this.logged.perform([{ kind: 'turn' }]);
    if (answer?.error === undefined) {
      [this.#log, this.#otherLog] = [this.#otherLog, this.#log];
      this.#log.reuse(2 ** 20);
    }
    return answer;
  }
}

function rangeOf(limit: number): StoreRead {
  return { kind: 'read', from: Buffer.from(''), to: Buffer.from('zz'), limit };
}

/** What is asked for a read: the database behind its log, or the one behind that. */
function shown(asked: { perform(calls: readonly StoreRead[]): StoreReply[] }, limit = 10_000): string {
  const [answer] = asked.perform([rangeOf(limit)]);
  return answer?.error?.code ?? answer?.entries?.map((entry) => `${entry.key}=${text(entry.value)}`).join(' ') ?? '';
}

function text(value: Uint8Array): string {
  return Buffer.from(value).toString();
}

describe('a database behind a log', () => {
  it('reads the file that is written, over the one on its way, over the database', async (t) => {
    const played = new Played(t);
    await played.write({ a: '1', b: '1', c: '1', d: '1' });
    played.turn();
    await played.write({ b: '2', c: '2', d: null, e: '2' });
    played.turn();
    await played.write({ c: '3', e: null, f: '3' });
    assert.equal(shown(played.database), values({ a: '1', b: '1', c: '1', d: '1' }));
    assert.equal(shown(played.logged), values({ a: '1', b: '2', c: '3', f: '3' }));
    assert.equal(shown(played.logged, 3), values({ a: '1', b: '2', c: '3' }));
  });

  it('finds as many rows as were asked for when the first ones of the database are removed', async (t) => {
    const played = new Played(t);
    await played.write({ a: '1', b: '1', c: '1', d: '1', e: '1' });
    played.turn();
    played.turn();
    await played.write({ a: null, b: null, c: null });
    assert.equal(shown(played.logged, 1), values({ d: '1' }));
    assert.equal(shown(played.logged, 2), values({ d: '1', e: '1' }));
    assert.equal(shown(played.logged, 0), '');
  });

  it('moves what the other file has piece by piece, and knows then that it has all of it', async (t) => {
    const played = new Played(t);
    const rows = Object.fromEntries(Array.from({ length: 1_200 }, (_, i) => [`k${i}`, `${i}`]));
    await played.write(rows);
    assert.equal(played.logged.checkpointStep(), false, 'there is nothing to move');
    assert.equal(shown(played.database), '');
    played.turn();
    assert.deepEqual([played.logged.checkpointStep(), played.logged.checkpointStep()], [true, true]);
    assert.equal(played.database.number, 0);
    assert.equal(played.logged.checkpointStep(), false);
    assert.equal(played.database.number, played.number);
    assert.equal(shown(played.database), values(rows));
  });

  it('keeps what cannot be moved, says why, and moves it when it can', async (t) => {
    const played = new Played(t);
    await played.write({ a: 'good', b: 'good' });
    played.turn();
    await played.write({ c: 'good' });
    // The first byte of the length of the record.
    overwrite(played.paths[0], 0xff);
    assert.equal(played.logged.checkpointStep(), false);
    assert.equal(shown(played.logged), 'STORE_CORRUPT');
    assert.equal(played.turn()?.error?.code, 'STORE_CORRUPT');
    assert.equal(shown(played.database), '');
    overwrite(played.paths[0], 0);
    assert.equal(shown(played.logged), values({ a: 'good', b: 'good', c: 'good' }));
    assert.equal(played.turn()?.error, undefined);
    assert.equal(shown(played.database), values({ a: 'good', b: 'good' }));
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
