/**
 * The owner's side of one container: writes commits to its disk and to all replicas at once, keeps the ISR in the
 * record correct, and acknowledges in order. The first sign of another owner ends it: a replica or the registry that
 * replies FENCED, or a record with another fence. After that it sends, writes and acknowledges nothing.
 */
import { BoundedQueue } from '../../base/collections/bounded-queue.ts';
import { type Done, type ErrorCode, type Outcome, RemusterError, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Clock, StoreRows, StoreWrite } from '../../base/ports.ts';
import { replicationLimits } from '../../messages/replication.ts';
import type { ContainerRecord, NodeInstance } from '../../placement/state/container-records.ts';
import type { ContainerLog, OpenedLog, OwnedContainerChange, StateEntry } from '../contract.ts';
import type { AckPacer } from './ack-pacer.ts';
import { ReplicaSender, type ReplicaSenderPorts } from './replica-sender.ts';
import type { ReplicationCounters, ReplicationOptions } from './replication-types.ts';
import type { ReplicaStore } from './replica-store.ts';
import { type StateSlot, slotPrefix } from './replica-layout.ts';
import { ReplicationLog, type ReplicaReplyEffect } from './replication-log.ts';
import { StateReader } from './state-reader.ts';
import {
  type ReplicatedCommit,
  type LogTailBudget,
  type LogTailShare,
  commitBytes,
  unpackedCommit,
  packedCommit,
  packedRowsOf,
} from './log-tail.ts';

export type ReplicatorPorts = ReplicaSenderPorts & {
  readonly self: NodeInstance;
  readonly clock: Clock;
  readonly options: ReplicationOptions;
  readonly budget: LogTailBudget;
  readonly counters: ReplicationCounters;
  /** Writes the ISR into the record under the fence of this owner; it was decided with the record of that revision. */
  readonly updateIsr: (inSync: readonly NodeInstance[], revision: number, done: Done<ContainerRecord>) => void;
  /** Flushes replicators whose acknowledgements had to wait for the next turn. */
  readonly ackPacer: AckPacer<Replicator>;
  /** Calls `flush` at the end of this turn. */
  readonly scheduleFlush: (container: Replicator) => void;
  /** The replicator has ended, closed or lost. */
  readonly ended: (container: Replicator) => void;
  readonly emit: (what: 'unreadable' | 'lost', reason: string) => void;
};

type PendingAck = {
  readonly seq: number;
  readonly bytes: number;
  readonly error: ErrorCode | undefined;
  readonly done: Done<void>;
};

const pendingAcksMax = 100_000;
const writeBytesMax = 4 * 2 ** 20;
const pageBytesMax = 256 * 2 ** 10;
const readBytesMax = 4 * 2 ** 20;
const isrUpdateRetryTicks = 2;

export class Replicator {
  readonly change: OwnedContainerChange;
  readonly #ports: ReplicatorPorts;
  readonly #localReplica: ReplicaStore;
  readonly #slot: StateSlot;
  readonly #prefix: string;
  readonly #log: ReplicationLog;
  readonly #sender: ReplicaSender;
  readonly #share: LogTailShare;
  readonly #lost: (reason: string) => void;
  #opened: Done<OpenedLog> | undefined;
  #entries: readonly StateEntry[] | undefined;
  readonly #acks = new BoundedQueue<PendingAck>(pendingAcksMax);
  #pendingBytes = 0;
  /** Set until all refused callers have their reply: a commit must not build on one that was refused. */
  #refusal: ErrorCode | undefined;
  #issued: number;
  /** Revision of the last known record. */
  #revision: number;
  #isWriting = false;
  /** Registered with the group commit, which calls back before its next write. */
  #isWriteScheduled = false;
  #failedWrites = 0;
  #isWriteDelayed = false;
  #isrUpdateDelayTicks = 0;
  #closing: { readonly done: Done<void>; ticks: number } | undefined;
  #hasEnded = false;

  constructor(
    ports: ReplicatorPorts,
    localReplica: ReplicaStore,
    change: OwnedContainerChange,
    lost: (reason: string) => void,
    opened: Done<OpenedLog>,
  ) {
    const { pool, container, record } = change;
    const { slot, position } = localReplica.meta;
    this.change = change;
    this.#ports = ports;
    this.#localReplica = localReplica;
    this.#slot = slot as StateSlot;
    this.#lost = lost;
    this.#opened = opened;
    this.#issued = position.seq;
    this.#revision = change.revision;
    this.#prefix = slotPrefix(localReplica.pool, localReplica.container, this.#slot);
    const { self, options } = ports;
    const { durability, major } = pool.record;
    const { fence } = record;
    const silentTicksMax = options.copyAckTicks + 1;
    this.#log = new ReplicationLog({ self, fence, base: position, durability, silentTicksMax });
    this.#share = ports.budget.join(() => {
      if (!this.#hasEnded) this.#trim(0);
    });
    const reader = new StateReader(localReplica.storage.store, this.#prefix, pageBytesMax);
    const state = { pool: major, container, fence, inMemory: durability === 'memory' };
    const events = {
      ended: (effect: ReplicaReplyEffect) => this.#onReply(effect),
      issued: () => this.#issued,
      revision: () => this.#revision,
      unreadable: () => ports.emit('unreadable', 'the state cannot be read for a snapshot'),
    };
    this.#sender = new ReplicaSender(ports, events, state, this.#log, reader);
  }

  get laggingReplicas(): number {
    return this.#log.lagging;
  }

  get waiting(): number {
    return this.#acks.length;
  }

  /** Reads the state and brings all required replicas to it. */
  start(): void {
    this.#log.onRecord(this.change.record, this.#revision);
    new StateReader(this.#localReplica.storage.store, this.#prefix, readBytesMax).all((outcome) => {
      if (this.#hasEnded) return;
      if (!outcome.ok) return this.#end(outcome.error.message, outcome.error);
      this.#entries = outcome.value;
      this.flush();
    });
    this.flush();
  }

  /** A record with another owner or fence ends the replicator. */
  recordChanged(record: ContainerRecord | undefined, revision: number): void {
    if (this.#hasEnded) return;
    this.#revision = revision;
    const { owner, fence } = this.change.record;
    const isOwned = record?.fence === fence && record.owner?.node === owner?.node;
    if (!isOwned || record.owner?.generation !== owner?.generation)
      return this.fenced('the record names another owner');
    this.#log.onRecord(record, revision);
    this.#ports.scheduleFlush(this);
  }

  fenced(reason: string): void {
    if (!this.#hasEnded) this.#end(reason, new RemusterError('FENCED', reason));
  }

  peerLost(node: NodeId): void {
    if (this.#hasEnded) return;
    this.#sender.abandon(node);
    this.#ports.scheduleFlush(this);
  }

  peerReturned(node: NodeId): void {
    const progress = this.#log.replicas.get(node);
    if (this.#hasEnded || progress === undefined) return;
    progress.resetBackoff();
    this.#ports.scheduleFlush(this);
  }

  tick(): void {
    this.#log.tick();
    this.#sender.abandonGone();
    this.#isrUpdateDelayTicks = Math.max(0, this.#isrUpdateDelayTicks - 1);
    this.#isWriteDelayed = false;
    if (this.#closing !== undefined && ++this.#closing.ticks > this.#ports.options.closeTicks) {
      return this.#end('the close timed out with commits pending', new RemusterError('FENCED'));
    }
    this.flush();
  }

  /** Writes, sends and acknowledges all that is possible now. */
  flush(): void {
    if (this.#hasEnded) return;
    this.#scheduleWrite();
    this.#sender.sendPending();
    this.#updateIsr();
    this.#acknowledge();
  }

  #commit(writes: readonly StoreWrite[], done: Done<void>): void {
    const bytes = commitBytes(writes);
    this.#refusal ??= this.#refusalOf(writes, bytes);
    const error = this.#refusal;
    if (error === undefined && writes.length > 0) {
      this.#log.append(this.#isInMemory ? unpackedCommit(writes, bytes) : packedCommit(writes, bytes));
      this.#ports.budget.used(this.#share, this.#log.tail.bytes);
      this.#ports.counters.commits += 1;
      this.#ports.counters.commitBytes += bytes;
    }
    const ack = { seq: this.#log.tail.last, bytes, error, done };
    if (this.#hasEnded || !this.#acks.push(ack)) {
      const refused = error === undefined ? failure('CAPACITY', undefined, 'maybe') : notWritten(error);
      return void this.#ports.clock.schedule(0, () => done(refused));
    }
    this.#pendingBytes += bytes;
    this.#ports.scheduleFlush(this);
  }

  #refusalOf(writes: readonly StoreWrite[], bytes: number): ErrorCode | undefined {
    const { commitBytesMax, commitWritesMax, stateKeyCharactersMax } = replicationLimits;
    const { waitingMax, waitingBytesMax } = this.#ports.options;
    if (this.#hasEnded || this.#closing !== undefined) return 'FENCED';
    if (this.#acks.length >= waitingMax || this.#pendingBytes + bytes > waitingBytesMax + commitBytesMax) {
      return 'CAPACITY';
    }
    if (bytes > commitBytesMax || writes.length > commitWritesMax) return 'TOO_LARGE';
    for (const { key } of writes) {
      if (key.length > stateKeyCharactersMax) return 'TOO_LARGE';
      if (!key.isWellFormed()) return 'BAD_ARGUMENT';
    }
    return undefined;
  }

  #close(done: Done<void>): void {
    if (this.#hasEnded) {
      this.#ports.clock.schedule(0, () => done(success(undefined)));
      return;
    }
    this.#closing ??= { done, ticks: 0 };
    this.#ports.scheduleFlush(this);
  }

  /** Commits gather until the disk is free; then they are written and sent as one batch. */
  #scheduleWrite(): void {
    const hasNothing = this.#issued >= this.#log.tail.last;
    if (this.#isWriteScheduled || this.#isWriting || this.#isWriteDelayed || hasNothing) return;
    this.#isWriteScheduled = true;
    this.#localReplica.storage.groupCommit.beforeWrite(() => {
      this.#isWriteScheduled = false;
      if (this.#hasEnded) return;
      this.#writePending();
      this.#sender.sendPending();
    });
  }

  /** Writes all commits that are not on disk yet as one batch. */
  #writePending(): void {
    const { tail } = this.#log;
    if (this.#isWriting || this.#isWriteDelayed || this.#issued >= tail.last) return;
    const commits = tail.after(this.#issued, tail.last, writeBytesMax);
    const seq = this.#issued + commits.length;
    this.#issued = seq;
    this.#isWriting = true;
    const batch: (StoreWrite | StoreRows)[] = [];
    let bytes = 0;
    for (const commit of commits) {
      this.#addRows(batch, commit);
      bytes += commit.bytes;
    }
    const isAccepted = this.#localReplica.runExclusive((release, error) => {
      const { meta } = this.#localReplica;
      const end = (outcome: Outcome<void>): void => {
        release();
        this.#onWritten(seq, outcome);
      };
      if (this.#hasEnded || error !== undefined) return end({ ok: false, error: error ?? new RemusterError('FENCED') });
      const { fence } = this.change.record;
      // A later owner may write here between two writes of this owner.
      const isSuperseded = meta.maxFence > fence || meta.slot !== this.#slot;
      if (isSuperseded) return end(failure('FENCED', 'a later owner has written here'));
      this.#localReplica.write(batch, bytes, { slot: this.#slot, position: { fence, seq }, maxFence: fence }, end);
    });
    if (!isAccepted) this.#onWritten(seq, failure('STORE_FAILED', 'too many operations wait for the replica'));
  }

  get #isInMemory(): boolean {
    return this.change.pool.record.durability === 'memory';
  }

  /** In a pool in memory commits stay unpacked. */
  #addRows(batch: (StoreWrite | StoreRows)[], commit: ReplicatedCommit): void {
    if (!this.#isInMemory) batch.push({ prefix: this.#prefix, packed: packedRowsOf(commit) });
    else for (const { key, value } of commit.writes) batch.push({ key: this.#prefix + key, value });
  }

  #onWritten(seq: number, outcome: Outcome<void>): void {
    this.#isWriting = false;
    if (this.#hasEnded) return;
    if (outcome.ok) {
      this.#failedWrites = 0;
      this.#log.onStored(seq);
      // A replica in the ISR never needs committed entries; a lagging one may return and need them.
      this.#trim(this.#log.lagging === 0 ? 0 : this.#ports.options.tailBytesMax);
    } else {
      this.#onWriteFailed(outcome.error);
    }
    this.flush();
  }

  #onWriteFailed(error: RemusterError): void {
    this.#issued = this.#log.durable;
    if (error.code === 'FENCED') return this.fenced(error.message);
    if (!this.#log.hasUnstoredSent && error.code === 'STORE_FULL') return this.#rollBack();
    // A replica may have the commit, so the outcome is unknown: the write is retried.
    this.#isWriteDelayed = true;
    this.#failedWrites += 1;
    if (this.#failedWrites > this.#ports.options.copyAckTicks) this.#end(error.message, error);
  }

  /** No replica has the refused commits: their callers get STORE_FULL, and the container goes on. */
  #rollBack(): void {
    this.#log.rollBack();
    const pending = [...this.#acks];
    this.#acks.clear();
    for (const ack of pending) {
      const isStored = ack.seq <= this.#log.durable;
      this.#acks.push(isStored ? ack : { ...ack, seq: this.#log.durable, error: 'STORE_FULL' });
    }
    this.#refusal = 'STORE_FULL';
  }

  #onReply(effect: ReplicaReplyEffect): void {
    if (effect === 'fenced') this.fenced('a replica has seen a later owner');
    else this.flush();
  }

  #updateIsr(): void {
    if (this.#isrUpdateDelayTicks > 0) return;
    const inSync = this.#log.wantedIsr();
    if (inSync === undefined) return;
    this.#log.isrUpdateStarted(inSync);
    this.#ports.updateIsr(inSync, this.#revision, (outcome) => {
      if (this.#hasEnded) return;
      if (!outcome.ok && outcome.error.code === 'FENCED') return this.fenced(outcome.error.message);
      if (!outcome.ok) this.#isrUpdateDelayTicks = isrUpdateRetryTicks;
      this.#log.isrUpdateEnded(outcome.ok ? outcome.value : undefined);
      this.flush();
    });
  }

  #acknowledge(): void {
    const { committed } = this.#log;
    if (committed >= 0) this.#completeOpen();
    for (let head = this.#acks.peek(); head !== undefined && head.seq <= committed; head = this.#acks.peek()) {
      if (!this.#ports.ackPacer.tryAck(this)) return;
      this.#acks.shift();
      this.#pendingBytes -= head.bytes;
      if (head.error !== undefined && this.#acks.peek()?.error === undefined) this.#refusal = undefined;
      head.done(head.error === undefined ? success(undefined) : notWritten(head.error));
    }
    const isIdle = this.#acks.length === 0 && !this.#isWriting;
    if (this.#closing !== undefined && isIdle && !this.#hasEnded) this.#end('closed', undefined);
  }

  #completeOpen(): void {
    const opened = this.#opened;
    if (opened === undefined || this.#entries === undefined) return;
    this.#opened = undefined;
    const entries = this.#entries;
    this.#entries = [];
    const log: ContainerLog = {
      commit: (writes, done) => this.#commit(writes, done),
      close: (done) => this.#close(done),
    };
    opened(success({ log, entries }));
  }

  #trim(bytesMax: number): void {
    this.#log.trim(bytesMax);
    this.#ports.budget.used(this.#share, this.#log.tail.bytes);
  }

  /** Without an error the container was closed, and no commit is pending. */
  #end(reason: string, error: RemusterError | undefined): void {
    this.#hasEnded = true;
    this.#sender.stop();
    this.#ports.budget.leave(this.#share);
    if (error !== undefined) this.#localReplica.usedFence = this.change.record.fence;
    this.#ports.ended(this);
    const pending = [...this.#acks];
    this.#acks.clear();
    // The next owner may find these commits at a replica: their outcome is unknown.
    for (const { error: refused, done } of pending) done(refused ? notWritten(refused) : failure('FENCED', reason));
    const { opened, closing } = { opened: this.#opened, closing: this.#closing };
    this.#opened = undefined;
    if (opened !== undefined) opened({ ok: false, error: error ?? new RemusterError('FENCED', reason) });
    else if (closing !== undefined) closing.done(success(undefined));
    else this.#lost(reason);
    if (error !== undefined) this.#ports.emit('lost', reason);
  }
}

/** Refused before the commit entered the log, or rolled back before any replica got it. */
function notWritten(code: ErrorCode): Outcome<never> {
  return failure(code, undefined, 'no');
}
