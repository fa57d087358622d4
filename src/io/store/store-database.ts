/**
 * The SQLite file of the store (WAL mode, synchronous=FULL): one table, a CRC per row. Synchronous, hence in a thread
 * of its own. The calls of a group run in order in one transaction with one disk sync. If a call fails, the transaction
 * is rolled back and each call runs in a transaction of its own, so that a bad batch fails alone.
 */
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import type { StoreEntry } from '../../base/ports.ts';
import type { StoreLogRow } from './store-log-index.ts';
import {
  type StoreReply,
  type StoreCall,
  type StoreError,
  type StoreThreadData,
  unpackBatch,
} from './store-protocol.ts';

const pageBytes = 4096;
const synchronousFull = 2;
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

type Row = { readonly key: Uint8Array<ArrayBuffer>; readonly value: Uint8Array<ArrayBuffer>; readonly crc: number };

export class StoreDatabase {
  readonly #database: DatabaseSync;
  readonly #put: StatementSync;
  readonly #delete: StatementSync;
  readonly #setApplied: StatementSync;
  readonly #select: StatementSync;

  constructor({ file, sizeBytesMax }: StoreThreadData) {
    this.#database = new DatabaseSync(file);
    // EXCLUSIVE refuses a second process and needs no shared memory file.
    // With rowids: in a table without them a comparison with the key of a large value reads the whole value.
    this.#database.exec(`
      PRAGMA locking_mode = EXCLUSIVE;
      PRAGMA page_size = ${pageBytes};
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA temp_store = MEMORY;
      PRAGMA journal_size_limit = 16777216;
      CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL, crc INTEGER NOT NULL) STRICT;
      CREATE TABLE IF NOT EXISTS applied (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL) STRICT;
    `);
    if (sizeBytesMax !== undefined) {
      this.#database.exec(`PRAGMA max_page_count = ${Math.ceil(sizeBytesMax / pageBytes)}`);
    }
    // An acknowledged write must be on the disk, so it is an error if SQLite did not accept the setting.
    const settings = { ...this.#database.prepare('PRAGMA synchronous').get() };
    assert(settings['synchronous'] === synchronousFull, 'the store must sync every commit');
    syncDirectoryOf(file);
    this.#put = this.#database.prepare(
      'INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, crc = excluded.crc',
    );
    this.#setApplied = this.#database.prepare(
      'INSERT INTO applied VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET number = excluded.number',
    );
    this.#delete = this.#database.prepare('DELETE FROM entries WHERE key = ?');
    this.#select = this.#database.prepare(
      'SELECT key, value, crc FROM entries WHERE key >= ? AND key < ? ORDER BY key LIMIT ?',
    );
  }

  perform(calls: readonly StoreCall[]): StoreReply[] {
    const replies = this.#transaction(calls);
    if (replies !== undefined) return replies;
    return calls.map((call) => this.#transaction([call])?.[0] ?? { error: this.#lastError });
  }

  /** Number of the last group of the log (checkpointed-database.ts) that is durable in this database. */
  get number(): number {
    const row = this.#database.prepare('SELECT number FROM applied').get() as { readonly number: number } | undefined;
    return row?.number ?? 0;
  }

  /**
   * Writes rows of the log. With `applied`, the number of the last group, these and all earlier rows become durable.
   */
  put(rows: Iterable<StoreLogRow>, applied: number | undefined): void {
    this.#database.exec(`PRAGMA synchronous = ${applied === undefined ? 'NORMAL' : 'FULL'}`);
    try {
      this.#database.exec('BEGIN');
      for (const { key, value } of rows) this.#write(key, value);
      if (applied !== undefined) this.#setApplied.run(applied);
      this.#database.exec('COMMIT');
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  close(): void {
    this.#database.close();
  }

  #lastError: StoreError = { code: 'STORE_FAILED', message: 'the transaction failed' };

  /** Undefined if the transaction was rolled back; `#lastError` is the reason. */
  #transaction(calls: readonly StoreCall[]): StoreReply[] | undefined {
    try {
      this.#database.exec('BEGIN');
      const replies = calls.map((call) => this.#call(call));
      this.#database.exec('COMMIT');
      return replies;
    } catch (error) {
      this.#lastError = storeError(error);
      this.#rollBack();
      return undefined;
    }
  }

  /** SQLite rolls back by itself after most errors. If ROLLBACK fails, the next transaction fails too. */
  #rollBack(): void {
    if (!this.#database.isTransaction) return;
    try {
      this.#database.exec('ROLLBACK');
    } catch (error) {
      this.#lastError = storeError(error);
    }
  }

  #call(call: StoreCall): StoreReply {
    if (call.kind === 'read') return this.#read(call.from, call.to, call.limit);
    for (const { key, value } of unpackBatch(call.packed)) this.#write(key, value);
    return {};
  }

  #write(key: Uint8Array, value: Uint8Array | null): void {
    if (value === null) this.#delete.run(key);
    else this.#put.run(key, value, checksum(key, value));
  }

  #read(from: Uint8Array, to: Uint8Array, limit: number): StoreReply {
    const entries: StoreEntry[] = [];
    for (const row of this.#select.iterate(from, to, limit)) {
      const { key, value, crc } = row as unknown as Row;
      if (checksum(key, value) !== crc) {
        return { error: { code: 'STORE_CORRUPT', message: `the checksum of ${printable(key)} does not match` } };
      }
      entries.push({ key: decoder.decode(key), value });
    }
    return { entries };
  }
}

function checksum(key: Uint8Array, value: Uint8Array): number {
  return crc32(value, crc32(key));
}

function printable(key: Uint8Array): string {
  return JSON.stringify(decoder.decode(key).slice(0, 80));
}

export function syncDirectoryOf(file: string): void {
  if (process.platform === 'win32') return;
  const directory = openSync(dirname(file), 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** Primary result codes of SQLite: the low byte of the extended ones. */
const corrupt = 11;
const full = 13;
const notADatabase = 26;

export function storeError(error: unknown): StoreError {
  if (error instanceof RemusterError) return { code: error.code, message: error.message };
  const result = typeof error === 'object' && error !== null && 'errcode' in error ? Number(error.errcode) & 0xff : 0;
  const text = error instanceof Error ? error.message : 'unexpected failure';
  if (result === full) return { code: 'STORE_FULL', message: 'the disk or the quota of the store is full' };
  if (result === corrupt || result === notADatabase) return { code: 'STORE_CORRUPT', message: text };
  return { code: 'STORE_FAILED', message: text };
}
