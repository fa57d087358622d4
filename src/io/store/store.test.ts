import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { copyFileSync, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { toPromise } from '../../base/errors.ts';
import { packRows } from '../../base/row-codec.ts';
import type { StoreRows } from '../../base/ports.ts';
import { realWorld } from '../../../test/simulation/conformance/harness.ts';
import { type StoreHarness, describeStore } from '../../../test/simulation/conformance/store.ts';
import { close, type TemporaryFolder, read, temporaryFolder, write } from '../../../test/support/io/temporary-store.ts';
import { openStore } from './store.ts';

/** A real file system of 8 MB, to fill it; only root may mount one. */
function mountSmallDisk({ path }: TemporaryFolder): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', path], { stdio: 'ignore' });
    writeFileSync(join(path, 'mounted'), '');
    return true;
  } catch {
    return false;
  }
}

/** Changes a value as a failing disk would, while the store is closed. */
function flipByte(file: string, key: string): void {
  const database = new DatabaseSync(file);
  const changed = database
    .prepare('UPDATE entries SET value = CAST(? AS BLOB) WHERE key = CAST(? AS BLOB)')
    .run('not what was written', key);
  database.close();
  assert.equal(changed.changes, 1);
}

for (const [name, options, suffixes] of [
  ['SQLite in a thread', {}, ['', '-wal']],
  ['SQLite with a log', { writeAheadLog: true }, ['', '-wal', '-log0', '-log1']],
] as const) {
  describeStore(name, async (t) => {
    const folder = temporaryFolder(t);
    let store = await folder.open('db', options);
    const harness: StoreHarness = {
      ...realWorld,
      get store() {
        return store;
      },
      reopen: () => folder.open('db', options),
      // Copies the files as they are while the store is open, as a crash would leave them.
      crash: async () => {
        for (const suffix of suffixes)
          copyFileSync(join(folder.path, `db${suffix}`), join(folder.path, `copy${suffix}`));
        return folder.open('copy', options);
      },
      corrupt: async (key) => {
        await close(store);
        flipByte(join(folder.path, 'db'), key);
        store = await folder.open('db', options);
      },
    };
    return harness;
  });
}

describe('a store on disk', { timeout: 120_000 }, () => {
  for (const writeAheadLog of [false, true]) {
    it(`applies prefixed rows in their order, ${writeAheadLog ? 'with' : 'without'} a log`, async (t) => {
      const store = await temporaryFolder(t).open('db', { writeAheadLog });
      const prefixed = (prefix: string, ...rows: readonly (readonly [string, number | null])[]): StoreRows => ({
        prefix,
        packed: packRows(rows.map(([key, value]) => ({ key, value: value === null ? null : Uint8Array.of(value) }))),
      });
      const batch = [
        prefixed('a/', ['x', 1], ['y', 1]),
        prefixed('a/', ['x', 2], ['z', 2]),
        { key: 'a/z', value: Uint8Array.of(3) },
        prefixed('b/', ['x', 4]),
        prefixed('a/', ['y', null]),
        prefixed('\u00e9/', ['x', 5]),
      ];
      await toPromise<void>((done) => store.write(batch, done));
      assert.deepEqual(
        (await read(store)).map(({ key, value }) => [key, value[0]]),
        [
          ['a/x', 2],
          ['a/z', 3],
          ['b/x', 4],
          ['\u00e9/x', 5],
        ],
      );
    });

    const log = writeAheadLog ? 'with a log' : 'without a log';
    it(`${log} fails with STORE_FULL on a full disk, still reads, and writes again when there is space`, async (t) => {
      const folder = temporaryFolder(t);
      if (!mountSmallDisk(folder)) {
        t.skip('this user may not mount a file system');
        return;
      }
      const store = await folder.open('db', { writeAheadLog });
      await write(store, 'before', 'x');
      writeFileSync(join(folder.path, 'filler'), new Uint8Array(7_500_000));
      const outcomes = await Promise.allSettled([
        write(store, 'small', 'fits'),
        write(store, 'large', new Uint8Array(2_000_000)),
        write(store, 'tiny', 'fits too'),
      ]);
      assert.deepEqual(
        outcomes.map((outcome) => (outcome.status === 'fulfilled' ? 'ok' : (outcome.reason as { code: string }).code)),
        ['ok', 'STORE_FULL', 'ok'],
      );
      assert.deepEqual(
        (await read(store)).map(({ key }) => key),
        ['before', 'small', 'tiny'],
      );
      rmSync(join(folder.path, 'filler'));
      await write(store, 'large', new Uint8Array(2_000_000));
      assert.equal((await read(store)).length, 4);
    });
  }

  it('fails with STORE_FULL beyond its quota, and accepts writes again after a row was removed', async (t) => {
    const store = await temporaryFolder(t).open('db', { sizeBytesMax: 1_000_000 });
    await write(store, 'large', new Uint8Array(700_000));
    await assert.rejects(write(store, 'second', new Uint8Array(700_000)), { code: 'STORE_FULL' });
    await toPromise<void>((done) => store.write([{ key: 'large', value: null }], done));
    await write(store, 'second', new Uint8Array(700_000));
    assert.deepEqual(
      (await read(store)).map(({ key }) => key),
      ['second'],
    );
  });

  it('refuses calls beyond its queue bound, loses none of the others, and accepts calls again', async (t) => {
    const store = await temporaryFolder(t).open('db', { callsMax: 10 });
    const outcomes = await Promise.allSettled(Array.from({ length: 30 }, (_, i) => write(store, `k${i}`, 'v')));
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
    assert.ok(refused.length >= 19 && refused.every(({ reason }) => (reason as { code: string }).code === 'CAPACITY'));
    assert.equal((await read(store)).length, 30 - refused.length);
    await write(store, 'again', 'v');
  });

  it('bounds its queue by bytes as well', async (t) => {
    const store = await temporaryFolder(t).open('db', { queueBytesMax: 1_000_000 });
    const large = new Uint8Array(400_000);
    const outcomes = await Promise.allSettled(Array.from({ length: 6 }, (_, i) => write(store, `k${i}`, large)));
    assert.ok(outcomes.some((outcome) => outcome.status === 'rejected'));
    assert.ok(outcomes.some((outcome) => outcome.status === 'fulfilled'));
  });

  it('refuses a file that is not a database, and a second store on the same file', async (t) => {
    const folder = temporaryFolder(t);
    writeFileSync(join(folder.path, 'garbage'), 'this is not a database, this is not a database'.repeat(100));
    await assert.rejects(folder.open('garbage'), { code: 'STORE_CORRUPT' });
    const store = await folder.open('db');
    await write(store, 'k', 'v');
    await assert.rejects(folder.open('db'), { code: 'STORE_FAILED' });
    await assert.rejects(openStore(join(folder.path, 'no/such/folder/db')), { code: 'STORE_FAILED' });
  });

  for (const writeAheadLog of [false, true]) {
    const log = writeAheadLog ? 'with a log' : 'without a log';
    it(`${log} fails every outstanding and later call when its thread dies`, async (t) => {
      const started = new Promise<Worker>((resolve) => process.once('worker', resolve));
      const folder = temporaryFolder(t);
      const store = await folder.open('db', { writeAheadLog });
      const calls = [write(store, 'a', 'v'), write(store, 'b', 'v'), read(store)];
      await (await started).terminate();
      const outcomes = await Promise.allSettled(calls);
      for (const outcome of outcomes) {
        assert.ok(outcome.status === 'fulfilled' || (outcome.reason as { code: string }).code === 'STORE_FAILED');
      }
      await assert.rejects(write(store, 'c', 'v'), { code: 'STORE_FAILED' });
      await close(store);
      const found = (await read(await folder.open('db', { writeAheadLog }))).map(({ key }) => key);
      for (const [at, key] of ['a', 'b'].entries())
        assert.ok(outcomes[at]?.status === 'rejected' || found.includes(key), `${key} was acknowledged`);
    });
  }

  it('with a log reads the last value, in whichever log file or database it is', async (t) => {
    const folder = temporaryFolder(t);
    const store = await folder.open('db', { writeAheadLog: true });
    const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    const rounds = 40;
    // More bytes than both files hold.
    for (let round = 1; round <= rounds; round++) {
      const value = new Uint8Array(100_000).fill(round);
      const removed = keys[round % keys.length] as string;
      await Promise.all([
        ...keys.map((key) => write(store, key, value)),
        toPromise<void>((done) => store.write([{ key: removed, value: null }], done)),
      ]);
      if (round % 6 > 0 && round < rounds) continue;
      const found = (await read(store)).map((entry) => `${entry.key}${entry.value[99_999]}`);
      assert.deepEqual(
        found,
        keys.filter((key) => key !== removed).map((key) => `${key}${round}`),
      );
    }
    await close(store);
    assert.ok(!existsSync(join(folder.path, 'db-log0')), 'the log is removed when the database has all rows');
    assert.equal((await read(await folder.open('db'))).length, keys.length - 1);
  });

  it('lets an error of a callback surface as an uncaught exception and completes the other calls', async (t) => {
    const store = await temporaryFolder(t).open('db');
    const errors: unknown[] = [];
    const original = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', (error) => errors.push(error));
    t.after(() => {
      process.removeAllListeners('uncaughtException');
      for (const listener of original) process.on('uncaughtException', listener);
    });
    store.write([], () => {
      throw new Error('thrown by a callback');
    });
    await write(store, 'k', 'v');
    assert.equal(errors.length, 1);
  });
});

/** Writes batches of three rows forever, 50 at a time, and prints the number of each acknowledged batch. */
const writer = `
  const { openStore } = await import(process.argv[1]);
  const store = await openStore(process.argv[2], JSON.parse(process.argv[3]));
  let next = 0;
  const writeNext = () => {
    const n = next++;
    const value = new Uint8Array(1000).fill(n & 0xff);
    store.write(['a', 'b', 'c'].map((part) => ({ key: n + '/' + part, value })), (outcome) => {
      if (!outcome.ok) throw outcome.error;
      process.stdout.write(n + '\\n');
      writeNext();
    });
  };
  for (let i = 0; i < 50; i++) writeNext();
`;

describe('a process killed while it writes', { timeout: 120_000 }, () => {
  for (const [kills, options] of [
    [1, {}],
    [2, {}],
    [1, { writeAheadLog: true }],
    // Enough to fill the first log file several times.
    [20, { writeAheadLog: true }],
  ] as const) {
    it(`loses no acknowledged batch and tears none (${700 * kills} batches, ${JSON.stringify(options)})`, async (t) => {
      const folder = temporaryFolder(t);
      const file = join(folder.path, 'db');
      const moduleUrl = new URL('./store.ts', import.meta.url).href;
      const acknowledged: number[] = [];
      const child = spawn(
        process.execPath,
        ['--input-type=module', '-e', writer, moduleUrl, file, JSON.stringify(options)],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      t.after(() => child.kill('SIGKILL'));
      for await (const line of createInterface(child.stdout)) {
        acknowledged.push(Number(line));
        if (acknowledged.length === 700 * kills) child.kill('SIGKILL');
      }
      assert.ok(acknowledged.length >= 700 * kills);
      const found = new Map<string, Uint8Array>();
      for (const { key, value } of await read(await folder.open('db', options))) found.set(key, value);
      for (const n of acknowledged) {
        for (const part of ['a', 'b', 'c'])
          assert.equal(found.get(`${n}/${part}`)?.[999], n & 0xff, `lost ${n}/${part}`);
      }
      assert.equal(found.size % 3, 0, 'a batch was torn');
    });
  }
});
