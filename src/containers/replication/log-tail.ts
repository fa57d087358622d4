/**
 * The last commits of an owner, kept in memory for replicas that were away for a moment. It has no gaps and one fence;
 * a byte budget trims its start.
 */
import { assert } from '../../base/assert.ts';
import type { Fence } from '../../base/fence.ts';
import { packRows } from '../../base/row-codec.ts';
import type { StoreWrite } from '../../base/ports.ts';
import type { CommitPosition } from './replica-layout.ts';

export type ReplicatedCommit = {
  /** Empty if the commit was packed when it was created. */
  readonly writes: readonly StoreWrite[];
  readonly bytes: number;
  /** See `packedRowsOf`. */
  packed: Uint8Array | undefined;
};

/** For pools on disk. Packing copies the values: their memory may be shared with other buffers. */
export function packedCommit(writes: readonly StoreWrite[], bytes: number): ReplicatedCommit {
  return { writes: noWrites, bytes, packed: packRows(writes) };
}

/** For pools in memory, whose store keeps the values themselves. */
export function unpackedCommit(writes: readonly StoreWrite[], bytes: number): ReplicatedCommit {
  const own = writes.map(({ key, value }) => ({ key, value: value === null ? null : new Uint8Array(value) }));
  return { writes: own, bytes, packed: undefined };
}

const noWrites: readonly StoreWrite[] = [];

/** The form of a commit on disk and on the wire. In a pool in memory it is packed when the first replica needs it. */
export function packedRowsOf(commit: ReplicatedCommit): Uint8Array {
  return (commit.packed ??= packRows(commit.writes));
}

/** Roughly what a write takes on the wire and on disk beside its key and value. */
const writeOverheadBytes = 24;

export function commitBytes(writes: readonly StoreWrite[]): number {
  let bytes = writeOverheadBytes;
  for (const { key, value } of writes) bytes += writeOverheadBytes + key.length * 3 + (value?.length ?? 0);
  return bytes;
}

export class LogTail {
  readonly #fence: Fence;
  #start: CommitPosition;
  #commits: ReplicatedCommit[] = [];
  /** Commits before this index are trimmed. */
  #head = 0;
  #bytes = 0;

  constructor(fence: Fence, start: CommitPosition) {
    this.#fence = fence;
    this.#start = start;
  }

  /** The position before the first commit. */
  get start(): CommitPosition {
    return this.#start;
  }

  get last(): number {
    return this.#start.seq + this.#commits.length - this.#head;
  }

  get bytes(): number {
    return this.#bytes;
  }

  append(commit: ReplicatedCommit): number {
    this.#commits.push(commit);
    this.#bytes += commit.bytes;
    return this.last;
  }

  /** Removes the commits after `seq`; none of them may have left this node. */
  rollBack(seq: number): void {
    while (this.last > seq) this.#bytes -= (this.#commits.pop() as ReplicatedCommit).bytes;
  }

  /** True if the position is in this history and the tail has every commit after it. */
  canContinueFrom({ fence, seq }: CommitPosition): boolean {
    if (seq === this.#start.seq) return fence === this.#start.fence;
    return fence === this.#fence && seq > this.#start.seq && seq <= this.last;
  }

  positionOf(seq: number): CommitPosition {
    assert(seq >= this.#start.seq && seq <= this.last, `commit ${seq} is not in the tail`);
    return seq === this.#start.seq ? this.#start : { fence: this.#fence, seq };
  }

  /** The commits after `seq` up to `until`: as many as fit, but at least one. */
  after(seq: number, until: number, bytesMax: number): readonly ReplicatedCommit[] {
    assert(seq >= this.#start.seq, `the commits after ${seq} are trimmed`);
    const from = this.#head + seq - this.#start.seq;
    const end = Math.min(this.#commits.length, this.#head + until - this.#start.seq);
    let bytes = 0;
    let to = from;
    for (; to < end; to++) {
      bytes += (this.#commits[to] as ReplicatedCommit).bytes;
      if (to > from && bytes > bytesMax) break;
    }
    return this.#commits.slice(from, to);
  }

  /** Drops the oldest commits, at most up to `seq`, while the tail is larger than `bytesMax`. */
  trim(seq: number, bytesMax: number): void {
    let dropped = 0;
    while (this.#bytes > bytesMax && this.#start.seq + dropped < seq) {
      this.#bytes -= (this.#commits[this.#head + dropped] as ReplicatedCommit).bytes;
      dropped += 1;
    }
    if (dropped === 0) return;
    this.#start = { fence: this.#fence, seq: this.#start.seq + dropped };
    this.#commits.fill(undefined as never, this.#head, this.#head + dropped);
    this.#head += dropped;
    if (this.#head < 64 || this.#head * 2 < this.#commits.length) return;
    this.#commits = this.#commits.slice(this.#head);
    this.#head = 0;
  }
}

/** The bytes of one tail; `shed` trims what can be trimmed and reports it with `used`. */
export type LogTailShare = { bytes: number; lastUse: number; readonly shed: () => void };

/** Bounds the tails of all containers on this node: the container that has not written for longest is trimmed first. */
export class LogTailBudget {
  readonly #bytesMax: number;
  readonly #shares = new Set<LogTailShare>();
  #bytes = 0;
  /** A counter that orders the shares by their last write. */
  #uses = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  join(shed: () => void): LogTailShare {
    const share = { bytes: 0, lastUse: 0, shed };
    this.#shares.add(share);
    return share;
  }

  used(share: LogTailShare, bytes: number): void {
    const isGrowing = bytes > share.bytes;
    this.#bytes += bytes - share.bytes;
    share.bytes = bytes;
    if (!isGrowing) return;
    share.lastUse = ++this.#uses;
    if (this.#bytes > this.#bytesMax) this.#shed();
  }

  leave(share: LogTailShare): void {
    if (this.#shares.delete(share)) this.#bytes -= share.bytes;
  }

  #shed(): void {
    for (const oldest of [...this.#shares].toSorted((a, b) => a.lastUse - b.lastUse)) {
      if (this.#bytes <= this.#bytesMax) return;
      if (oldest.bytes > 0) oldest.shed();
    }
  }
}
