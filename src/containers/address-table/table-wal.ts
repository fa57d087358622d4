/**
 * Writes the write-ahead log one group at a time: first the index, then the records of each pool, appended and synced.
 * Reports done only when all of it is durable; retries a failing disk; compacts logs that have grown.
 */
import type { Done, Outcome, RemusterError } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock, Files } from '../../base/ports.ts';
import type { AddressTableEvent } from './table-event.ts';
import { tableIndexPath, walPath } from './wal-files.ts';
import { type WalPool, walRecordBytes } from './wal-record.ts';

export type TableWalPorts = {
  readonly files: Pick<Files, 'append' | 'sync' | 'replace' | 'remove'>;
  readonly clock: Clock;
  readonly self: NodeId;
  readonly emit: (event: AddressTableEvent) => void;
};

export type PoolWalWrite = {
  readonly pool: WalPool;
  /** The number of entries of the pool after the write. */
  readonly live: number;
  /** The records to add. */
  readonly added: Uint8Array;
  /** The records of all live entries, `added` included. */
  readonly allRecords: () => Uint8Array;
};

export type TableWalGroup = {
  readonly index: Uint8Array | undefined;
  readonly pools: readonly PoolWalWrite[];
};

type Write = (done: Done<void>) => void;

const retryMsMin = 250;
const retryMsMax = 5_000;
const compactAboveBytes = 1_048_576;
const compactRatio = 4;
/** Files written at the same time. */
const parallelMax = 16;

export class TableWal {
  readonly #ports: TableWalPorts;
  /** The size of each log that is valid to its end; any other log is rewritten. */
  readonly #validBytes = new Map<string, number>();
  #failures = 0;
  #retry: Cancel = () => {};
  #isOpen = true;

  constructor(ports: TableWalPorts) {
    this.#ports = ports;
  }

  /** The log was replayed and is valid up to that size. */
  markValid(pool: WalPool, sizeBytes: number): void {
    this.#validBytes.set(walPath(pool, this.#ports.self), sizeBytes);
  }

  /** Invalidates all logs: the next write rewrites them. */
  rewriteAll(): void {
    this.#validBytes.clear();
  }

  /** One group at a time. Never fails: it is retried until it succeeds or until `stop`. */
  write({ index, pools }: TableWalGroup, done: () => void): void {
    const path = tableIndexPath(this.#ports.self);
    const first: Write[] = index === undefined ? [] : [(ended) => this.#ports.files.replace(path, index, ended)];
    this.#performUntilDone(first, () => {
      const writes = pools.map((write) => (ended: Done<void>) => this.#writePool(write, ended));
      this.#performUntilDone(writes, done);
    });
  }

  /** Removes the log of a deleted pool. If that fails, the next start removes it. */
  removePool(pool: WalPool): void {
    const path = walPath(pool, this.#ports.self);
    this.#validBytes.delete(path);
    this.#ports.files.remove(path, () => {});
  }

  stop(): void {
    this.#isOpen = false;
    this.#retry();
  }

  #writePool({ pool, live, added, allRecords }: PoolWalWrite, done: Done<void>): void {
    const { files, self } = this.#ports;
    const path = walPath(pool, self);
    const validBytes = this.#validBytes.get(path);
    // After a failed append the bytes beyond the valid size are unknown.
    this.#validBytes.delete(path);
    const ended = (sizeBytes: number) => (outcome: Outcome<void>) => {
      if (outcome.ok) this.#validBytes.set(path, sizeBytes);
      done(outcome);
    };
    if (validBytes === undefined || needsCompaction(validBytes + added.length, live)) {
      const bytes = allRecords();
      files.replace(path, bytes, ended(bytes.length));
      return;
    }
    files.append(path, added, (outcome) => {
      if (!outcome.ok) done(outcome);
      else files.sync(path, ended(validBytes + added.length));
    });
  }

  /** Performs all writes, a few at a time, and retries the failed ones. */
  #performUntilDone(writes: readonly Write[], done: () => void): void {
    performAll(writes, (failed, error) => {
      if (!this.#isOpen) return;
      if (error === undefined) {
        if (this.#failures > 0) this.#ports.emit({ kind: 'table.log-works' });
        this.#failures = 0;
        return done();
      }
      if (this.#failures === 0)
        this.#ports.emit({ kind: 'table.log-failing', code: error.code, reason: error.message });
      const delayMs = Math.min(retryMsMax, retryMsMin * 2 ** this.#failures);
      this.#failures += 1;
      this.#retry = this.#ports.clock.schedule(delayMs, () => this.#performUntilDone(failed, done));
    });
  }
}

function needsCompaction(sizeBytes: number, live: number): boolean {
  return sizeBytes > compactAboveBytes && sizeBytes > compactRatio * live * walRecordBytes;
}

/** Ends with the failed writes and the first error. */
function performAll(
  writes: readonly Write[],
  done: (failed: readonly Write[], error: RemusterError | undefined) => void,
): void {
  const failed: Write[] = [];
  let error: RemusterError | undefined;
  let next = 0;
  let running = 0;
  const ended = (write: Write) => (outcome: Outcome<void>) => {
    running -= 1;
    if (!outcome.ok) {
      failed.push(write);
      error ??= outcome.error;
    }
    startNext();
  };
  const startNext = (): void => {
    for (let write = writes[next]; write !== undefined && running < parallelMax; write = writes[next]) {
      next += 1;
      running += 1;
      write(ended(write));
    }
    if (running === 0) done(failed, error);
  };
  startNext();
}
