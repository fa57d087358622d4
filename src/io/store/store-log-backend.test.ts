/** A store with a log reads back every acknowledged write, whether it is in a log file or in the database. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { closeSync, copyFileSync, existsSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { toPromise } from '../../base/errors.ts';
import { packRows } from '../../base/row-codec.ts';
import type { RowStore, StoreEntry, StoreRows, StoreWrite } from '../../base/ports.ts';
import { close, read, temporaryFolder, write } from '../../../test/support/io/temporary-store.ts';

const options = { writeAheadLog: true };
const everything = ['', '\u{10ffff}'] as const;

/** Two values with different `n` differ in nearly every byte. */
function valueOf(n: number, bytes: number): Buffer {
  const value = Buffer.alloc(bytes);
  for (let i = 0; i < bytes; i++) value[i] = i + n * 13;
  return value;
}

function assertEntries(found: readonly StoreEntry[], expected: readonly (readonly [string, Uint8Array])[]): void {
  assert.deepEqual(
    found.map(({ key }) => key),
    expected.map(([key]) => key),
  );
  for (const [i, [key, value]] of expected.entries()) {
    assert.ok(Buffer.from(value).equals(found[i]?.value ?? Buffer.alloc(0)), `the value of ${key}`);
  }
}

/** Changes bytes of a file as a failing disk would, while the store is open. */
function damage(path: string, text: string): void {
  const at = readFileSync(path).indexOf(text);
  assert.ok(at >= 0, `the file has no '${text}' to damage`);
  const descriptor = openSync(path, 'r+');
  writeSync(descriptor, 'X', at);
  closeSync(descriptor);
}

type RowStep = { readonly key: string; readonly bytes: number | null; readonly isPacked: boolean };
type Step =
  | { readonly kind: 'write'; readonly rows: readonly RowStep[] }
  | { readonly kind: 'read'; readonly from: string; readonly to: string; readonly limit: number }
  | { readonly kind: 'await' | 'fill' | 'reopen' | 'crash' };

const key = fc.constantFrom(
  '',
  'a',
  'a/1',
  'a/2',
  'b',
  'b/1',
  'b/2',
  'b/3',
  'c',
  'gr\u00f6\u00dfe',
  '\u{1f600}',
  '\uffee',
);
const bytes = fc.oneof(
  { weight: 4, arbitrary: fc.nat(300) },
  { weight: 2, arbitrary: fc.nat(20_000) },
  { weight: 1, arbitrary: fc.nat(400_000) },
);
const row = fc.record({ key, bytes: fc.option(bytes, { freq: 4 }), isPacked: fc.boolean() });
const steps = fc.array(
  fc.oneof(
    { weight: 12, arbitrary: fc.record({ kind: fc.constant('write'), rows: fc.array(row, { maxLength: 6 }) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('read'), from: key, to: key, limit: fc.nat(8) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('await') }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('fill', 'reopen', 'crash') }) },
  ),
  { minLength: 10, maxLength: 80, size: 'max' },
) as fc.Arbitrary<Step[]>;

/** Compares stores with a model. Calls are made without waiting, so that they overlap and form groups. */
class ModelCheck {
  readonly #model = new Map<string, Buffer>();
  #calls: Promise<void>[] = [];
  #writes = 0;

  write(store: RowStore, rows: readonly RowStep[]): void {
    const values: Buffer[] = [];
    const batch = rows.map((step): StoreWrite | StoreRows => {
      this.#writes += 1;
      if (step.bytes === null) this.#model.delete(step.key);
      else this.#model.set(step.key, valueOf(this.#writes, step.bytes));
      const value = step.bytes === null ? null : valueOf(this.#writes, step.bytes);
      if (value !== null) values.push(value);
      if (!step.isPacked) return { key: step.key, value };
      const prefix = step.key.slice(0, step.key.lastIndexOf('/') + 1);
      return { prefix, packed: packRows([{ key: step.key.slice(prefix.length), value }]) };
    });
    this.#calls.push(toPromise<void>((done) => store.write(batch, done)));
    for (const value of values) value.fill(0xee);
  }

  read(store: RowStore, from: string, to: string, limit: number): void {
    const isBefore = (a: string, b: string): boolean => Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;
    const expected = [...this.#model]
      .filter(([name]) => !isBefore(name, from) && isBefore(name, to))
      .toSorted(([a], [b]) => (isBefore(a, b) ? -1 : 1))
      .slice(0, limit);
    this.#calls.push(read(store, from, to, limit).then((found) => assertEntries(found, expected)));
  }

  async allCompleted(): Promise<void> {
    const calls = this.#calls;
    this.#calls = [];
    await Promise.all(calls);
  }
}

describe('a store with a log', { timeout: 120_000 }, () => {
  it('behaves like a map for all sizes and orders of calls, through closing and crashes', async (t) => {
    const { path, open } = temporaryFolder(t);
    let names = 0;
    let switches = 0;
    const run = async (all: readonly Step[]): Promise<void> => {
      let name = `db${names++}`;
      let store = await open(name, options);
      const check = new ModelCheck();
      for (const step of all) {
        if (step.kind === 'write') check.write(store, step.rows);
        else if (step.kind === 'read') check.read(store, step.from, step.to, step.limit);
        else if (step.kind === 'fill') {
          for (let i = 0; i < 24; i++) check.write(store, [{ key: 'c', bytes: 400_000, isPacked: false }]);
        } else await check.allCompleted();
        if (step.kind === 'reopen') {
          await close(store);
          store = await open(name, options);
        } else if (step.kind === 'crash') {
          const copy = `db${names++}`;
          if (statSync(join(path, `${name}-log1`)).size > 0) switches += 1;
          for (const suffix of ['', '-wal', '-log0', '-log1'])
            copyFileSync(join(path, `${name}${suffix}`), join(path, `${copy}${suffix}`));
          await close(store);
          [name, store] = [copy, await open(copy, options)];
        }
      }
      check.read(store, ...everything, 1_000);
      await check.allCompleted();
      if (statSync(join(path, `${name}-log1`)).size > 0) switches += 1;
      await close(store);
      store = await open(name, options);
      check.read(store, ...everything, 1_000);
      await check.allCompleted();
      await close(store);
    };
    await fc.assert(fc.asyncProperty(steps, run), { seed: 20_261_118, numRuns: 20 });
    assert.ok(switches >= 5, `the other log file was in use only ${switches} times`);
  });

  it('reads rows that many groups overwrote and removed before a checkpoint', async (t) => {
    const { path, open } = temporaryFolder(t);
    const store = await open('db', options);
    const expected: [string, Buffer][] = [];
    for (let n = 0; n < 60; n++) {
      await write(store, 'again', valueOf(n, 100 + n));
      await write(store, `k${10 + n}`, valueOf(n, n * 50));
      if (n % 3 === 0) await toPromise<void>((done) => store.write([{ key: `k${10 + n}`, value: null }], done));
      else expected.push([`k${10 + n}`, valueOf(n, n * 50)]);
    }
    assertEntries(await read(store), [['again', valueOf(59, 159)], ...expected]);
    assertEntries(await read(store, 'k', 'l', 3), expected.slice(0, 3));
    assert.equal(statSync(join(path, 'db-log1')).size, 0, 'all groups are in the first file');
    assert.equal(rowCount(join(path, 'db'), path), 0, 'the database has no row');
  });

  it('reads a batch that is larger than the reused memory, and its neighbours', async (t) => {
    const { open } = temporaryFolder(t);
    let store = await open('db', options);
    const rows = Array.from({ length: 40 }, (_, i) => [`k${10 + i}`, valueOf(i, 250_000 + i)] as const);
    await write(store, 'a', 'before');
    await toPromise<void>((done) =>
      store.write(
        rows.map(([name, value]) => ({ key: name, value })),
        done,
      ),
    );
    await write(store, 'z', 'behind');
    const expected = [['a', Buffer.from('before')], ...rows, ['z', Buffer.from('behind')]] as const;
    assertEntries(await read(store), expected);
    assertEntries(await read(store, 'k49', 'k50'), rows.slice(39));
    await write(store, 'z', 'behind');
    assertEntries(await read(store), expected);
    await close(store);
    store = await open('db', options);
    assertEntries(await read(store), expected);
  });

  it('reads a row that was written again after its damage in the database, and later rows', async (t) => {
    const { path, open } = temporaryFolder(t);
    let store = await open('db', options);
    await write(store, 'a', 'soon damaged');
    await close(store);
    const database = new DatabaseSync(join(path, 'db'));
    database.exec("UPDATE entries SET value = CAST('damaged' AS BLOB)");
    database.close();
    store = await open('db', options);
    await assert.rejects(read(store), { code: 'STORE_CORRUPT' });
    for (let n = 0; n < 5; n++) {
      await write(store, 'a', valueOf(n, 100));
      await write(store, `k${n}`, valueOf(n, 300));
      const expected = Array.from({ length: n + 1 }, (_, i) => [`k${i}`, valueOf(i, 300)] as const);
      assertEntries(await read(store), [['a', valueOf(n, 100)], ...expected]);
    }
  });

  it('writes concurrent batches in order when they do not fit into one record', async (t) => {
    const store = await temporaryFolder(t).open('db', options);
    const calls = Array.from({ length: 40 }, (_, n) => write(store, `k${n % 7}`, valueOf(n, 1_000_000)));
    const reading = read(store);
    await Promise.all(calls);
    assertEntries(
      await reading,
      [35, 36, 37, 38, 39, 33, 34].map((n) => [`k${n % 7}`, valueOf(n, 1_000_000)]),
    );
  });
});

/** Number of rows in the database as another process would find it. */
function rowCount(file: string, folder: string): number {
  for (const suffix of ['', '-wal'])
    if (existsSync(`${file}${suffix}`)) copyFileSync(`${file}${suffix}`, join(folder, `counted${suffix}`));
  const database = new DatabaseSync(join(folder, 'counted'));
  const counted = database.prepare('SELECT count(*) AS count FROM entries').get();
  database.close();
  return Number(counted?.['count']);
}

describe('damage in the log of an open store', { timeout: 120_000 }, () => {
  it('fails reads with STORE_CORRUPT when the record was not indexed before, and later writes', async (t) => {
    const { path, open } = temporaryFolder(t);
    const store = await open('db', options);
    await write(store, 'a', 'good');
    await write(store, 'victim', 'a value that will be damaged');
    damage(join(path, 'db-log0'), 'will be damaged');
    await assert.rejects(read(store), { code: 'STORE_CORRUPT' });
    // The keys of the damaged record are unknown, so it might contain this one.
    await assert.rejects(read(store, 'a', 'b'), { code: 'STORE_CORRUPT' });
    await write(store, 'b', 'good');
    // The first switch checkpoints the other file, which is undamaged; the second one needs this file.
    const outcomes: PromiseSettledResult<void>[] = [];
    for (let i = 0; i < 20; i++)
      outcomes.push(...(await Promise.allSettled([write(store, 'c', valueOf(i, 1_000_000))])));
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
    assert.ok(failed.length > 0 && failed.length < 20);
    assert.ok(failed.every(({ reason }) => (reason as { code: string }).code === 'STORE_CORRUPT'));
    await close(store);
    assert.equal(rowCount(join(path, 'db'), path), 0, 'no row of the damaged file is in the database');
    await assert.rejects(open('db', options), { code: 'STORE_CORRUPT' });
  });

  it('fails only reads of damaged rows when the records were indexed before, until they are rewritten', async (t) => {
    const { path, open } = temporaryFolder(t);
    let store = await open('db', options);
    await write(store, 'victim', 'a value that will be damaged');
    for (let n = 0; n < 10; n++) await write(store, `k${n}`, valueOf(n, 100_000));
    assert.equal((await read(store)).length, 11);
    // The block with the victim is no longer in the memory of the reader.
    damage(join(path, 'db-log0'), 'will be damaged');
    await assert.rejects(read(store, 'v', 'w'), { code: 'STORE_CORRUPT' });
    await assert.rejects(read(store), { code: 'STORE_CORRUPT' });
    assertEntries(await read(store, 'k3', 'k4'), [['k3', valueOf(3, 100_000)]]);
    assertEntries(await read(store, '', 'z', 1), [['k0', valueOf(0, 100_000)]]);
    await write(store, 'victim', 'repaired');
    assertEntries(await read(store, 'v', 'w'), [['victim', Buffer.from('repaired')]]);
    await close(store);
    store = await open('db', options);
    assert.equal((await read(store)).length, 11);
    assertEntries(await read(store, 'v', 'w'), [['victim', Buffer.from('repaired')]]);
  });

  it('is left unchanged by close, and found by the next open', async (t) => {
    const { path, open } = temporaryFolder(t);
    const store = await open('db', options);
    await write(store, 'victim', 'a value that will be damaged');
    for (let n = 0; n < 10; n++) await write(store, `k${n}`, valueOf(n, 100_000));
    assert.equal((await read(store)).length, 11);
    damage(join(path, 'db-log0'), 'will be damaged');
    await close(store);
    assert.equal(rowCount(join(path, 'db'), path), 0);
    await assert.rejects(open('db', options), { code: 'STORE_CORRUPT' });
  });
});

/** Writes the same 50 keys forever, 20 at a time, and prints the number of each acknowledged write. */
const writer = `
  const { openStore } = await import(process.argv[1]);
  const store = await openStore(process.argv[2], { writeAheadLog: true });
  let next = 0;
  const writeNext = () => {
    const n = next++;
    const value = new Uint8Array(2000 + n % 999);
    for (let i = 0; i < value.length; i++) value[i] = i + n * 13;
    new DataView(value.buffer).setUint32(0, n);
    store.write([{ key: 'k' + n % 50, value }], (outcome) => {
      if (!outcome.ok) throw outcome.error;
      process.stdout.write(n + '\\n');
      writeNext();
    });
  };
  for (let i = 0; i < 20; i++) writeNext();
`;

describe('a process killed while it overwrites the same keys', { timeout: 120_000 }, () => {
  // 9000 writes fill both files.
  for (const kill of [3_000, 9_000]) {
    it(`leaves each key with its last acknowledged value or a later one, whole (${kill} writes)`, async (t) => {
      const folder = temporaryFolder(t);
      const moduleUrl = new URL('./store.ts', import.meta.url).href;
      const child = spawn(process.execPath, ['--input-type=module', '-e', writer, moduleUrl, join(folder.path, 'db')], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      t.after(() => child.kill('SIGKILL'));
      const acknowledged = new Map<string, number>();
      let count = 0;
      for await (const line of createInterface(child.stdout)) {
        acknowledged.set(`k${Number(line) % 50}`, Number(line));
        count += 1;
        if (count === kill) child.kill('SIGKILL');
      }
      assert.ok(count >= kill && acknowledged.size === 50);
      const found = await read(await folder.open('db', options));
      assert.equal(found.length, 50);
      for (const { key: name, value } of found) {
        const n = Buffer.from(value).readUInt32BE(0);
        assert.ok(n >= (acknowledged.get(name) ?? Infinity) && name === `k${n % 50}`, `${name} is ${n}`);
        const expected = valueOf(n, 2000 + (n % 999));
        expected.writeUInt32BE(n, 0);
        assert.ok(expected.equals(value), `the value of ${name}`);
      }
    });
  }
});
