/**
 * Writes the WAL one group at a time: index, then each pool appended and synced. Reports done only when all is durable;
 * retries a failing disk; compacts.
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
  readonly tell: (event: AddressTableEvent) => void;
};

export type PoolWalWrite = {
  readonly pool: WalPool;
  /** How many entries the pool will have. */
  readonly live: number;
  /** The records to add. */
  readonly added: Uint8Array;
  /** The records of everything that is live, these included. */
  readonly whole: () => Uint8Array;
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
/** Of files at the same time. */
const parallelMax = 16;

export class TableWal {
  readonly #ports: TableWalPorts;
  /** The bytes of each log that is good up to its end; one that is not here is written anew. */
  readonly #goodBytes = new Map<string, number>();
  #failures = 0;
  #retry: Cancel = () => {};
  #isOpen = true;

  constructor(ports: TableWalPorts) {
    this.#ports = ports;
  }

  /** Its log was read and is good, with so many bytes. */
  markGood(pool: WalPool, sizeBytes: number): void {
    this.#goodBytes.set(walPath(pool, this.#ports.self), sizeBytes);
  }

  /** Nothing that was logged before is of use any more. */
  rewriteAll(): void {
    this.#goodBytes.clear();
  }

  /** One group at a time. Never ends in a failure: it is tried until it works, or `stop`. */
  write({ index, pools }: TableWalGroup, done: () => void): void {
    const path = tableIndexPath(this.#ports.self);
    const first: Write[] = index === undefined ? [] : [(ended) => this.#ports.files.replace(path, index, ended)];
    this.#until(first, () => {
      const writes = pools.map((write) => (ended: Done<void>) => this.#writePool(write, ended));
      this.#until(writes, done);
    });
  }

  /** A log that nobody needs any more. If it stays, the next start removes it. */
  removePool(pool: WalPool): void {
    const path = walPath(pool, this.#ports.self);
    this.#goodBytes.delete(path);
    this.#ports.files.remove(path, () => {});
  }

  stop(): void {
    this.#isOpen = false;
    this.#retry();
  }

  #writePool({ pool, live, added, whole }: PoolWalWrite, done: Done<void>): void {
    const { files, self } = this.#ports;
    const path = walPath(pool, self);
    const goodBytes = this.#goodBytes.get(path);
    // Until it has ended well, nobody knows what is behind the good bytes.
    this.#goodBytes.delete(path);
    const ended = (sizeBytes: number) => (outcome: Outcome<void>) => {
      if (outcome.ok) this.#goodBytes.set(path, sizeBytes);
      done(outcome);
    };
    if (goodBytes === undefined || isOvergrown(goodBytes + added.length, live)) {
      const bytes = whole();
      files.replace(path, bytes, ended(bytes.length));
      return;
    }
    files.append(path, added, (outcome) => {
      if (!outcome.ok) done(outcome);
      else files.sync(path, ended(goodBytes + added.length));
    });
  }

  /** Performs them all, a few at a time, and those that failed again and again. */
  #until(writes: readonly Write[], done: () => void): void {
    performAll(writes, (failed, error) => {
      if (!this.#isOpen) return;
      if (error === undefined) {
        if (this.#failures > 0) this.#ports.tell({ kind: 'table.log-works' });
        this.#failures = 0;
        return done();
      }
      if (this.#failures === 0)
        this.#ports.tell({ kind: 'table.log-failing', code: error.code, reason: error.message });
      const delayMs = Math.min(retryMsMax, retryMsMin * 2 ** this.#failures);
      this.#failures += 1;
      this.#retry = this.#ports.clock.schedule(delayMs, () => this.#until(failed, done));
    });
  }
}

function isOvergrown(sizeBytes: number, live: number): boolean {
  return sizeBytes > compactAboveBytes && sizeBytes > compactRatio * live * walRecordBytes;
}

/** Ends with those that failed and the first error. */
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
    more();
  };
  const more = (): void => {
    for (let write = writes[next]; write !== undefined && running < parallelMax; write = writes[next]) {
      next += 1;
      running += 1;
      write(ended(write));
    }
    if (running === 0) done(failed, error);
  };
  more();
}
