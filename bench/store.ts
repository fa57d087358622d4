/** Bench: durable writes per second through the Store port, against SQLite transactions. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { toPromise } from '../src/base/errors.ts';
import type { Store } from '../src/base/ports.ts';
import { openStore } from '../src/io/store/store.ts';
import { type Bench, type BenchRow, compareRow, median, printProgress } from './support/harness.ts';

const valueBytes = 256;
const rounds = 5;
const roundMs = 500;

export const bench: Bench = async () => {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-bench-store-'));
  try {
    const store = await openStore(join(folder, 'remuster'));
    const sqlite = openSqlite(join(folder, 'sqlite'));
    const rows: BenchRow[] = [];
    for (const writers of [1, 64, 1024]) rows.push(await measure(store, sqlite, writers));
    sqlite.close();
    await toPromise<void>((done) => store.close(done));
    return { rows, missing: [] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

let values = 0;

/** A new value each time: SQLite neither writes nor syncs an unchanged one. */
function nextValue(): Uint8Array {
  const value = new Uint8Array(valueBytes);
  new DataView(value.buffer).setUint32(0, values++);
  return value;
}

async function measure(store: Store, sqlite: DatabaseSync, writers: number): Promise<BenchRow> {
  const [storeRates, sqliteRates]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    storeRates.push(await storePerSecond(store, writers));
    sqliteRates.push(sqlitePerSecond(sqlite));
    printProgress(`store: ${writers} writers, round ${round + 1} of ${rounds}`);
  }
  const peer = { name: 'node:sqlite, one commit per write', value: median(sqliteRates) };
  const name = `durable writes of ${valueBytes} B, ${writers} ${writers === 1 ? 'writer' : 'writers'}`;
  return compareRow(name, 'writes/s', 'more', median(storeRates), peer);
}

async function storePerSecond(store: Store, writers: number): Promise<number> {
  const startMs = performance.now();
  let written = 0;
  const writer = async (name: number): Promise<void> => {
    for (let i = 0; performance.now() - startMs < roundMs; i++) {
      const batch = [{ key: `${name}/${i % 100}`, value: nextValue() }];
      await toPromise<void>((done) => store.write(batch, done));
      written += 1;
    }
  };
  await Promise.all(Array.from({ length: writers }, (_, name) => writer(name)));
  return (written / (performance.now() - startMs)) * 1_000;
}

function openSqlite(file: string): DatabaseSync {
  const database = new DatabaseSync(file);
  database.exec(
    'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (key TEXT PRIMARY KEY, value BLOB)',
  );
  return database;
}

function sqlitePerSecond(database: DatabaseSync): number {
  const put = database.prepare('INSERT INTO t VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value');
  const startMs = performance.now();
  let written = 0;
  for (; performance.now() - startMs < roundMs; written++) put.run(`0/${written % 100}`, nextValue());
  return (written / (performance.now() - startMs)) * 1_000;
}
