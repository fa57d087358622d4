/** The limit of the disk: group commit without anything else. A process of its own, because SQLite blocks it. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { appendLog } from '../support/append-log.ts';
import { type SendBenchRequest, type LoadResult, measureLoad } from './load.ts';
import { TwoLogs } from './two-logs.ts';

export const twoLogsName = 'two logs in two processes';
export const diskNames = ['append and fdatasync', 'SQLite (WAL, synchronous=FULL)', twoLogsName] as const;
type DiskName = (typeof diskNames)[number];
type Round = { readonly name: DiskName; readonly concurrency: number; readonly durationMs: number };

const keyBytes = 12;
const valueBytes = 100;
const recordBytes = keyBytes + valueBytes;
const keyCount = 16_000;

export class DiskLimit {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(folder: string): Promise<DiskLimit> {
    const child = fork(import.meta.filename, [folder], { execArgv: [] });
    await once(child, 'message');
    return new DiskLimit(child);
  }

  async measure(name: DiskName, concurrency: number, durationMs: number): Promise<LoadResult> {
    const replied = once(this.#child, 'message');
    this.#child.send({ name, concurrency, durationMs } satisfies Round);
    return ((await replied) as [LoadResult])[0];
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null) return;
    this.#child.disconnect();
    await once(this.#child, 'exit');
  }
}

type Store = TwoLogs['store'];

/** Group commit: requests during a sync join the next one, which begins after completed requests were sent again. */
function groupCommit(store: Store): SendBenchRequest {
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

function appendStore(file: string): Store {
  const log = appendLog(file);
  const record = Buffer.alloc(recordBytes, 7);
  const buffer = Buffer.alloc(1_024 * record.length);
  return (count, done) => {
    for (let i = 0; i < count; i++) record.copy(buffer, i * record.length);
    log(buffer.subarray(0, count * record.length), done);
  };
}

function sqliteStore(file: string): Store {
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
  const twoLogs = await TwoLogs.start(folder, recordBytes);
  const writers: Record<DiskName, SendBenchRequest> = {
    'append and fdatasync': groupCommit(appendStore(join(folder, 'appended'))),
    'SQLite (WAL, synchronous=FULL)': groupCommit(sqliteStore(join(folder, 'rows.db'))),
    'two logs in two processes': groupCommit(twoLogs.store),
  };
  process.on('disconnect', () => {
    twoLogs.stop();
    process.exit(0);
  });
  process.on('message', ({ name, concurrency, durationMs }: Round) => {
    void measureLoad(writers[name], concurrency, durationMs).then((load) => process.send?.(load));
  });
  process.send('ready');
}
