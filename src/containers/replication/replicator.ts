/**
 * Owner's side: writes commits to its disk and to all replicas at once, keeps the ISR right, acknowledges in order.
 * Ends at the first sign of another owner.
 *
 * The first sign of another owner ends it: a copy or the registry that answers FENCED, or a record with another fence.
 */
import { BoundedQueue } from '../../base/collections/bounded-queue.ts';
import { type Done, type ErrorCode, type Outcome, RemusterError, failure, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Clock, StoreRows, StoreWrite } from '../../base/ports.ts';
import { replicationLimits } from '../../messages/replication.ts';
import type { ContainerRecord, NodeInstance } from '../../placement/state/container-records.ts';
import type { ContainerChange, ContainerLog, OpenedLog, StateEntry } from '../contract.ts';
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
  /** Changes the record under our fence: whom it names as in sync, decided by the record of that revision. */
  readonly updateIsr: (inSync: readonly NodeInstance[], revision: number, done: Done<ContainerRecord>) => void;
  /** Those who had to wait are flushed. */
  readonly turns: AckPacer<Replicator>;
  /** `flush` is called at the end of this turn. */
  readonly wake: (container: Replicator) => void;
  /** It is over, for whatever reason. */
  readonly ended: (container: Replicator) => void;
  readonly tell: (what: 'unreadable' | 'lost', reason: string) => void;
};

type Waiter = {
  readonly seq: number;
  readonly bytes: number;
  readonly error: ErrorCode | undefined;
  readonly done: Done<void>;
};

const waitersMax = 100_000;
const writeBytesMax = 4 * 2 ** 20;
const pageBytesMax = 256 * 2 ** 10;
const readBytesMax = 4 * 2 ** 20;
const amendPauseTicks = 2;

export class Replicator {
  readonly change: ContainerChange & { readonly record: ContainerRecord };
  readonly #ports: ReplicatorPorts;
  readonly #holding: ReplicaStore;
  readonly #slot: StateSlot;
  readonly #prefix: string;
  readonly #log: ReplicationLog;
  readonly #sender: ReplicaSender;
  readonly #share: LogTailShare;
  readonly #lost: (reason: string) => void;
  #opened: Done<OpenedLog> | undefined;
  #entries: readonly StateEntry[] | undefined;
  readonly #waiters = new BoundedQueue<Waiter>(waitersMax);
  #waitingBytes = 0;
  /** Set until those who were refused have heard of it: what they would have written cannot be built upon. */
  #refusing: ErrorCode | undefined;
  #issued: number;
  /** Of the last record that was seen. */
  #revision: number;
  #isWriting = false;
  /** The journal calls when it begins its next write. */
  #isPreparing = false;
  #storeTries = 0;
  #isStorePaused = false;
  #amendPause = 0;
  #closing: { readonly done: Done<void>; ticks: number } | undefined;
  #isOver = false;

  constructor(
    ports: ReplicatorPorts,
    holding: ReplicaStore,
    change: ContainerChange & { readonly record: ContainerRecord },
    lost: (reason: string) => void,
    opened: Done<OpenedLog>,
  ) {
    const { pool, container, record } = change;
    const { slot, position } = holding.meta;
    this.change = change;
    this.#ports = ports;
    this.#holding = holding;
    this.#slot = slot as StateSlot;
    this.#lost = lost;
    this.#opened = opened;
    this.#issued = position.seq;
    this.#revision = change.revision;
    this.#prefix = slotPrefix(holding.pool, holding.container, this.#slot);
    const { self, options } = ports;
    const { durability, major } = pool.record;
    const { fence } = record;
    const quietTicksMax = options.copyAckTicks + 1;
    this.#log = new ReplicationLog({ self, fence, base: position, durability, quietTicksMax });
    this.#share = ports.budget.join(() => {
      if (!this.#isOver) this.#trim(0);
    });
    const reader = new StateReader(holding.shelf.store, this.#prefix, pageBytesMax);
    const state = { pool: major, container, fence, inMemory: durability === 'memory' };
    const events = {
      ended: (verdict: ReplicaReplyEffect) => this.#answered(verdict),
      issued: () => this.#issued,
      revision: () => this.#revision,
      unreadable: () => ports.tell('unreadable', 'the state cannot be read for a copy'),
    };
    this.#sender = new ReplicaSender(ports, events, state, this.#log, reader);
  }

  get laggingReplicas(): number {
    return this.#log.lagging;
  }

  get waiting(): number {
    return this.#waiters.length;
  }

  /** Reads the state and brings the copies to it. */
  begin(): void {
    this.#log.onRecord(this.change.record, this.#revision);
    new StateReader(this.#holding.shelf.store, this.#prefix, readBytesMax).all((outcome) => {
      if (this.#isOver) return;
      if (!outcome.ok) return this.#end(outcome.error.message, outcome.error);
      this.#entries = outcome.value;
      this.flush();
    });
    this.flush();
  }

  /** The record as it is now. It is over if that is not ours. */
  recordChanged(record: ContainerRecord | undefined, revision: number): void {
    if (this.#isOver) return;
    this.#revision = revision;
    const { owner, fence } = this.change.record;
    const isOurs = record?.fence === fence && record.owner?.node === owner?.node;
    if (!isOurs || record.owner?.generation !== owner?.generation) return this.fenced('the record names another owner');
    this.#log.onRecord(record, revision);
    this.#ports.wake(this);
  }

  fenced(reason: string): void {
    if (!this.#isOver) this.#end(reason, new RemusterError('FENCED', reason));
  }

  peerLost(node: NodeId): void {
    if (this.#isOver) return;
    this.#sender.abandon(node);
    this.#ports.wake(this);
  }

  peerReturned(node: NodeId): void {
    const link = this.#log.replicas.get(node);
    if (this.#isOver || link === undefined) return;
    link.resetBackoff();
    this.#ports.wake(this);
  }

  tick(): void {
    this.#log.tick();
    this.#sender.abandonGone();
    this.#amendPause = Math.max(0, this.#amendPause - 1);
    this.#isStorePaused = false;
    if (this.#closing !== undefined && ++this.#closing.ticks > this.#ports.options.closeTicks) {
      return this.#end('it was closed while commits were under way', new RemusterError('FENCED'));
    }
    this.flush();
  }

  /** Does everything that can be done now. */
  flush(): void {
    if (this.#isOver) return;
    this.#prepare();
    this.#sender.sendPending();
    this.#amend();
    this.#release();
  }

  #commit(writes: readonly StoreWrite[], done: Done<void>): void {
    const bytes = commitBytes(writes);
    this.#refusing ??= this.#refusalOf(writes, bytes);
    const error = this.#refusing;
    if (error === undefined && writes.length > 0) {
      this.#log.append(this.#isInMemory ? unpackedCommit(writes, bytes) : packedCommit(writes, bytes));
      this.#ports.budget.used(this.#share, this.#log.tail.bytes);
      this.#ports.counters.commits += 1;
      this.#ports.counters.commitBytes += bytes;
    }
    const waiter = { seq: this.#log.tail.last, bytes, error, done };
    if (this.#isOver || !this.#waiters.push(waiter)) {
      const refused = error === undefined ? failure('CAPACITY', undefined, 'maybe') : notWritten(error);
      return void this.#ports.clock.schedule(0, () => done(refused));
    }
    this.#waitingBytes += bytes;
    this.#ports.wake(this);
  }

  #refusalOf(writes: readonly StoreWrite[], bytes: number): ErrorCode | undefined {
    const { commitBytesMax, commitWritesMax, stateKeyCharactersMax } = replicationLimits;
    const { waitingMax, waitingBytesMax } = this.#ports.options;
    if (this.#isOver || this.#closing !== undefined) return 'FENCED';
    if (this.#waiters.length >= waitingMax || this.#waitingBytes + bytes > waitingBytesMax + commitBytesMax) {
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
    if (this.#isOver) {
      this.#ports.clock.schedule(0, () => done(success(undefined)));
      return;
    }
    this.#closing ??= { done, ticks: 0 };
    this.#ports.wake(this);
  }

  /** Nothing is put together before our disk is free: until then more may come. */
  #prepare(): void {
    const hasNothing = this.#issued >= this.#log.tail.last;
    if (this.#isPreparing || this.#isWriting || this.#isStorePaused || hasNothing) return;
    this.#isPreparing = true;
    this.#holding.shelf.journal.beforeWrite(() => {
      this.#isPreparing = false;
      if (this.#isOver) return;
      this.#store();
      this.#sender.sendPending();
    });
  }

  /** Everything that waits goes to the disk together, and to the copies at the same time. */
  #store(): void {
    const { tail } = this.#log;
    if (this.#isWriting || this.#isStorePaused || this.#issued >= tail.last) return;
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
    const isTaken = this.#holding.runExclusive((over, error) => {
      const { meta } = this.#holding;
      const end = (outcome: Outcome<void>): void => {
        over();
        this.#stored(seq, outcome);
      };
      if (this.#isOver || error !== undefined) return end({ ok: false, error: error ?? new RemusterError('FENCED') });
      const { fence } = this.change.record;
      // A later owner has written here between two writes of ours.
      if (meta.maxFence > fence || meta.slot !== this.#slot) return end(failure('FENCED', 'a later owner was here'));
      this.#holding.write(batch, bytes, { slot: this.#slot, position: { fence, seq }, maxFence: fence }, end);
    });
    if (!isTaken) this.#stored(seq, failure('STORE_FAILED', 'too much waits for this container'));
  }

  get #isInMemory(): boolean {
    return this.change.pool.record.durability === 'memory';
  }

  /** What no disk and no wire needs is not packed. */
  #addRows(batch: (StoreWrite | StoreRows)[], commit: ReplicatedCommit): void {
    if (!this.#isInMemory) batch.push({ prefix: this.#prefix, packed: packedRowsOf(commit) });
    else for (const { key, value } of commit.writes) batch.push({ key: this.#prefix + key, value });
  }

  #stored(seq: number, outcome: Outcome<void>): void {
    this.#isWriting = false;
    if (this.#isOver) return;
    if (outcome.ok) {
      this.#storeTries = 0;
      this.#log.onStored(seq);
      // Who is in sync cannot fall behind what all have; whoever is not may still come back for it.
      this.#trim(this.#log.lagging === 0 ? 0 : this.#ports.options.tailBytesMax);
    } else {
      this.#notStored(outcome.error);
    }
    this.flush();
  }

  #notStored(error: RemusterError): void {
    this.#issued = this.#log.durable;
    if (error.code === 'FENCED') return this.fenced(error.message);
    if (!this.#log.hasUnstoredSent && error.code === 'STORE_FULL') return this.#takeBack();
    // A copy may have it, so it can neither be said to have failed nor be forgotten.
    this.#isStorePaused = true;
    this.#storeTries += 1;
    if (this.#storeTries > this.#ports.options.copyAckTicks) this.#end(error.message, error);
  }

  /** Nobody else has seen it: those who wait for it hear that it has not happened, and the container goes on. */
  #takeBack(): void {
    this.#log.rollBack();
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const waiter of waiters) {
      const isStored = waiter.seq <= this.#log.durable;
      this.#waiters.push(isStored ? waiter : { ...waiter, seq: this.#log.durable, error: 'STORE_FULL' });
    }
    this.#refusing = 'STORE_FULL';
  }

  #answered(verdict: ReplicaReplyEffect): void {
    if (verdict === 'fenced') this.fenced('a copy has seen a later owner');
    else this.flush();
  }

  #amend(): void {
    if (this.#amendPause > 0) return;
    const inSync = this.#log.wantedIsr();
    if (inSync === undefined) return;
    this.#log.isrUpdateStarted(inSync);
    this.#ports.updateIsr(inSync, this.#revision, (outcome) => {
      if (this.#isOver) return;
      if (!outcome.ok && outcome.error.code === 'FENCED') return this.fenced(outcome.error.message);
      if (!outcome.ok) this.#amendPause = amendPauseTicks;
      this.#log.isrUpdateEnded(outcome.ok ? outcome.value : undefined);
      this.flush();
    });
  }

  #release(): void {
    const { committed } = this.#log;
    if (committed >= 0) this.#open();
    for (let head = this.#waiters.peek(); head !== undefined && head.seq <= committed; head = this.#waiters.peek()) {
      if (!this.#ports.turns.tryAck(this)) return;
      this.#waiters.shift();
      this.#waitingBytes -= head.bytes;
      if (head.error !== undefined && this.#waiters.peek()?.error === undefined) this.#refusing = undefined;
      head.done(head.error === undefined ? success(undefined) : notWritten(head.error));
    }
    const isIdle = this.#waiters.length === 0 && !this.#isWriting;
    if (this.#closing !== undefined && isIdle && !this.#isOver) this.#end('closed', undefined);
  }

  #open(): void {
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

  /** Nothing is sent, written or acknowledged from now on. Without an error it was wanted, and nothing is under way. */
  #end(reason: string, error: RemusterError | undefined): void {
    this.#isOver = true;
    this.#sender.stop();
    this.#ports.budget.truncated(this.#share);
    if (error !== undefined) this.#holding.usedFence = this.change.record.fence;
    this.#ports.ended(this);
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    // A replica may have it, and the next owner may find it there: it is unknown whether it has happened.
    for (const { error: refused, done } of waiters) done(refused ? notWritten(refused) : failure('FENCED', reason));
    const { opened, closing } = { opened: this.#opened, closing: this.#closing };
    this.#opened = undefined;
    if (opened !== undefined) opened({ ok: false, error: error ?? new RemusterError('FENCED', reason) });
    else if (closing !== undefined) closing.done(success(undefined));
    else this.#lost(reason);
    if (error !== undefined) this.#ports.tell('lost', reason);
  }
}

/** Refused before its rows entered the log, or taken back from it before any replica saw them. */
function notWritten(code: ErrorCode): Outcome<never> {
  return failure(code, undefined, 'no');
}
