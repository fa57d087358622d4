/**
 * What the disk can take at most: records of so many writers at once, each durable before its writer goes on, with one
 * sync for all that wait (group commit). Once as plain appends to a file, once as rows of SQLite. A process of its own,
 * because SQLite blocks it.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fdatasync, openSync, write } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { type Ask, type Load, measure } from './containers-load.ts';

export const diskNames = ['append and fdatasync', 'SQLite, WAL and FULL'] as const;
export type DiskName = (typeof diskNames)[number];
type Round = { readonly name: DiskName; readonly concurrency: number; readonly durationMs: number };

const keyBytes = 12;
const valueBytes = 100;
const keyCount = 16_000;

export class DiskSide {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(folder: string): Promise<DiskSide> {
    const child = fork(import.meta.filename, [folder], { execArgv: [] });
    await once(child, 'message');
    return new DiskSide(child);
  }

  async measure(name: DiskName, concurrency: number, durationMs: number): Promise<Load> {
    const answered = once(this.#child, 'message');
    this.#child.send({ name, concurrency, durationMs } satisfies Round);
    return ((await answered) as [Load])[0];
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }
}

type Store = (count: number, done: () => void) => void;

/** What comes while the disk is busy goes with the next sync, which begins after those who were answered have asked. */
function grouped(store: Store): Ask {
  let waiting: (() => void)[] = [];
  let isBusy = false;
  const flush = (): void => {
    const group = waiting;
    waiting = [];
    isBusy = group.length > 0;
    if (!isBusy) return;
    store(group.length, () => {
      for (const done of group) done();
      setImmediate(flush);
    });
  };
  return (done) => {
    waiting.push(done);
    if (isBusy) return;
    isBusy = true;
    setImmediate(flush);
  };
}

function appends(file: string): Store {
  const descriptor = openSync(file, 'a');
  const record = Buffer.alloc(keyBytes + valueBytes, 7);
  const buffer = Buffer.alloc(1_024 * record.length);
  return (count, done) => {
    for (let i = 0; i < count; i++) record.copy(buffer, i * record.length);
    write(descriptor, buffer, 0, count * record.length, null, (error) => {
      if (error !== null) throw error;
      fdatasync(descriptor, (failed) => {
        if (failed !== null) throw failed;
        done();
      });
    });
  };
}

function rows(file: string): Store {
  const database = new DatabaseSync(file);
  database.exec(
    'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t (key BLOB PRIMARY KEY, value BLOB)',
  );
  const put = database.prepare('INSERT INTO t VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value');
  const keys = Array.from({ length: keyCount }, (_, i) => Buffer.from(`key-${String(i).padStart(8, '0')}`));
  const value = Buffer.alloc(valueBytes);
  let written = 0;
  return (count, done) => {
    database.exec('BEGIN');
    for (let i = 0; i < count; i++) {
      value.writeDoubleBE(++written);
      put.run(keys[written % keyCount]!, value);
    }
    database.exec('COMMIT');
    done();
  };
}

const [, file, folder] = process.argv;
if (process.send !== undefined && file === import.meta.filename && folder !== undefined) {
  const asks: Record<DiskName, Ask> = {
    'append and fdatasync': grouped(appends(join(folder, 'appended'))),
    'SQLite, WAL and FULL': grouped(rows(join(folder, 'rows.db'))),
  };
  process.on('disconnect', () => process.exit(0));
  process.on('message', ({ name, concurrency, durationMs }: Round) => {
    void measure(asks[name], concurrency, durationMs).then((load) => process.send?.(load));
  });
  process.send('ready');
}
