/** Stores and logs in a folder that is removed after the test. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { toPromise } from '../../../src/base/errors.ts';
import type { RowStore, Store, StoreEntry } from '../../../src/base/ports.ts';
import { utf8 } from '../../simulation/conformance/harness.ts';
import { StoreLogFile } from '../../../src/io/store/store-log-file.ts';
import { StoreLogReader } from '../../../src/io/store/store-log-reader.ts';
import { type StoreOptions, openStore } from '../../../src/io/store/store.ts';

export type TemporaryFolder = {
  readonly path: string;
  readonly open: (name: string, options?: StoreOptions) => Promise<RowStore>;
};

/** A directory for one test. Everything opened in it is closed before it is removed. */
export function temporaryFolder(t: TestContext): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), 'remuster-store-'));
  const opened: Store[] = [];
  t.after(async () => {
    for (const store of opened) await close(store);
    if (existsSync(join(path, 'mounted'))) execFileSync('umount', [path]);
    rmSync(path, { recursive: true, force: true });
  });
  const open = async (name: string, options?: StoreOptions): Promise<RowStore> => {
    const store = await openStore(join(path, name), options);
    opened.push(store);
    return store;
  };
  return { path, open };
}

export type TemporaryLog = { readonly path: string; readonly log: StoreLogFile; readonly reader: StoreLogReader };

/** A log for one test, and a reader of it. */
export function temporaryLog(t: TestContext): TemporaryLog {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-log-'));
  const path = join(folder, 'log');
  const reader = new StoreLogReader(path);
  const log = new StoreLogFile(path);
  t.after(() => {
    reader.close();
    log.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { path, log, reader };
}

export function close(store: Store): Promise<void> {
  return toPromise<void>((done) => store.close(done));
}

export function write(store: Store, key: string, value: Uint8Array | string): Promise<void> {
  const bytes = typeof value === 'string' ? utf8.encode(value) : value;
  return toPromise<void>((done) => store.write([{ key, value: bytes }], done));
}

export function read(store: Store, from = '', to = '\u{10ffff}', limit = 1_000_000): Promise<readonly StoreEntry[]> {
  return toPromise<readonly StoreEntry[]>((done) => store.read({ from, to, limit }, done));
}
