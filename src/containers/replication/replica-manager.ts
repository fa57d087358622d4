/**
 * All container state on this node, as owner and as replica: joins the parts of this folder and knows the records that
 * name this node. Decides nothing about commits.
 *
 *   open --> Replicator --commits--> our disk, and ReplicaSender --requests--> replica-server.ts of other nodes
 *   changed --> records --> who is to have copies, what is to be dropped
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { CompactingSet } from '../../base/collections/compacting-map.ts';
import { type Done, type Outcome, RemusterError, failure, success } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Cancel, Clock, Identity, RowStore, Streams } from '../../base/ports.ts';
import type { Registry } from '../../base/registry.ts';
import type { ReplicationRequest, ReplicaStatus } from '../../messages/replication.ts';
import type { ContainerRecord, NodeInstance } from '../../placement/state/container-records.ts';
import type { ContainerChange, ContainerReplication, HostedContainer, OpenedLog } from '../contract.ts';
import { AckPacer } from './ack-pacer.ts';
import { type RecordUpdatePorts, type RecordUpdate, updateContainerRecord } from './record-update.ts';
import { handleReplication } from './replica-server.ts';
import type { ReplicationEvent } from './copies-event.ts';
import {
  type ReplicationCounters,
  type ReplicationOptions,
  type ReplicationSettings,
  replicationDefaults,
  replicationOptionsOf,
} from './replication-types.ts';
import type { ReplicaProgress } from './replica-progress.ts';
import type { ReplicaStore } from './replica-store.ts';
import { ReplicaCatalog, replicaKey } from './replica-catalog.ts';
import { type IsrUpdatePorts, leaveIsr, updateIsr } from './in-sync-record.ts';
import { GroupCommit } from './group-commit.ts';
import { noFence, emptyMeta } from './replica-layout.ts';
import { createMemoryStore } from './memory-store.ts';
import { Replicator, type ReplicatorPorts } from './replicator.ts';
import { recoveredMeta } from './recovery.ts';
import { LogTailBudget } from './log-tail.ts';

export type ReplicationPorts = {
  readonly self: Pick<Identity, 'id' | 'generation'>;
  readonly store: Pick<RowStore, 'read' | 'write'>;
  readonly streams: Pick<Streams, 'request'>;
  readonly registry: Pick<Registry, 'transact' | 'range'>;
  readonly clock: Clock;
  readonly addressOf: (node: NodeId) => Address | undefined;
  /** That life of the node is surely over: nobody needs to wait for it. */
  readonly isGone?: (node: NodeId, generation: number) => boolean;
  readonly emit: (event: ReplicationEvent) => void;
  readonly halted: (error: unknown) => void;
};

export type ReplicationMetrics = Readonly<ReplicationCounters> & {
  /** Containers that are open here. */
  readonly open: number;
  readonly held: number;
  /** Commits that wait for a disk here or elsewhere. */
  readonly waiting: number;
  /** Copies of open containers that are wanted and not in sync. */
  readonly lagging: number;
  readonly tailBytes: number;
  readonly sweeping: number;
};

type OwnedChange = ContainerChange & { readonly record: ContainerRecord };

const unnamedMax = 10_000;

export class ReplicaManager implements ContainerReplication {
  readonly #ports: ReplicationPorts;
  readonly #self: NodeInstance;
  readonly #options: ReplicationOptions;
  readonly #journals: readonly GroupCommit[];
  readonly #book: ReplicaCatalog;
  readonly #amendPorts: RecordUpdatePorts;
  readonly #inSync: IsrUpdatePorts;
  /** The records that name this node. */
  readonly #records = new Map<string, OwnedChange>();
  /** Of what was ours lately: the revision of the record that did not name us any more. */
  readonly #unnamed = new BoundedLru<string, number>(unnamedMax);
  readonly #open = new Map<string, Replicator>();
  readonly #dirty = new CompactingSet<Replicator>();
  readonly #turns: AckPacer<Replicator>;
  readonly #copying = new Set<ReplicaProgress>();
  readonly #budget: LogTailBudget;
  readonly #counters: ReplicationCounters = { commits: 0, commitBytes: 0, joined: 0, left: 0, lost: 0 };
  #snapshots = 0;
  #isStopped = false;
  #cancelTick: Cancel | undefined;

  constructor(ports: ReplicationPorts, settings: Partial<ReplicationSettings> = {}) {
    const { clock, store, registry, self } = ports;
    const options = replicationOptionsOf({ ...replicationDefaults, ...settings });
    const memory = createMemoryStore(clock);
    const disk = { store, journal: new GroupCommit(store, clock) };
    const shelf = { store: memory, journal: new GroupCommit(memory, clock) };
    this.#ports = ports;
    this.#options = options;
    this.#self = { node: self.id, generation: self.generation };
    this.#journals = [disk.journal, shelf.journal];
    this.#budget = new LogTailBudget(options.tailsBytesMax);
    this.#turns = new AckPacer(clock, (container) => this.#guarded(() => container.flush()));
    this.#book = new ReplicaCatalog({
      clock,
      disk,
      memory: shelf,
      holdingsMax: options.replicasMax,
      isOurs: (key) => this.#records.has(key),
      dropped: ({ pool, container }) => ports.emit({ kind: 'dropped', pool, container }),
    });
    this.#amendPorts = {
      self: this.#self,
      registry,
      clock,
      known: ({ pool, container }) => this.#records.get(replicaKey(pool.record.major, container)),
      learned: (target, told) => {
        const known = this.#records.get(replicaKey(target.pool.record.major, target.container));
        // Answers may come in another order than what they tell of has happened.
        if (known !== undefined && told.revision > known.revision) this.#learn({ ...target, ...told });
      },
    };
    this.#inSync = {
      self: this.#self,
      counters: this.#counters,
      tell: ports.emit,
      amend: (container, fence, change, done) => this.updateRecord(container, fence, change, done),
    };
  }

  open(change: ContainerChange, lost: (reason: string) => void, done: Done<OpenedLog>): void {
    const { pool, container, record } = change;
    const key = replicaKey(pool.record.major, container);
    const holding = this.#book.get(pool.record.major, container, pool.record.durability === 'memory');
    if (record === undefined || holding === undefined || this.#isStopped) {
      this.#ports.clock.schedule(0, () =>
        done(failure(holding === undefined ? 'CAPACITY' : 'FENCED', undefined, 'no')),
      );
      return;
    }
    this.changed(change);
    this.#open.get(key)?.fenced('it is opened again');
    const isTaken = holding.runExclusive((over, error) => {
      if (error !== undefined) {
        over();
        return done({ ok: false, error });
      }
      this.#begin(holding, { ...change, record }, over, lost, done);
    });
    if (!isTaken) this.#ports.clock.schedule(0, () => done(failure('CAPACITY', 'too much waits for this container')));
  }

  changed(change: ContainerChange): void {
    const known = this.#records.get(replicaKey(change.pool.record.major, change.container));
    if (known === undefined || change.revision > known.revision) this.#learn(change);
  }

  updateRecord(
    container: RecordUpdate['target'],
    fence: Fence,
    change: RecordUpdate['change'],
    done: Done<ContainerRecord>,
  ): void {
    const { recordUpdateTimeoutMs: timeoutMs } = this.#options;
    updateContainerRecord(this.#amendPorts, { target: container, fence, change, timeoutMs }, done);
  }

  /** What the owner of a container asks of its copy here. */
  handle(_from: Pick<Identity, 'id'>, request: ReplicationRequest, reply: Done<ReplicaStatus>): void {
    const key = replicaKey(request.pool, request.container);
    const fence = request.fence as Fence;
    const holding = this.#book.get(request.pool, request.container, request.inMemory);
    const known = this.#records.get(key)?.record.fence ?? noFence;
    // An owner that has not heard yet that we are out would fill our disk for nothing.
    const isOut = request.revision <= (this.#unnamed.peek(key) ?? -1);
    if (holding === undefined || known > fence || isOut || this.#isStopped) {
      const refusal = known > fence ? 'fenced' : 'busy';
      const { generation } = this.#self;
      const nothing = { position: undefined, snapshot: undefined, step: undefined };
      const value = { kind: 'replicaStatus', generation, highestFence: known, ...nothing, refusal } as const;
      return reply({ ok: true, value });
    }
    this.#fenceOwner(key, fence);
    holding.namedRevision = Math.max(holding.namedRevision, request.revision);
    const desk = { generation: this.#self.generation, sweep: (one: ReplicaStore) => this.#book.sweep(one) };
    handleReplication(desk, holding, request, reply);
  }

  /** Membership says that it is dead: nobody should wait for it. */
  peerLost(node: NodeId): void {
    for (const container of this.#open.values()) container.peerLost(node);
  }

  /** Membership says that it is back: nobody should wait before trying it again. */
  peerReturned(node: NodeId): void {
    for (const container of this.#open.values()) container.peerReturned(node);
  }

  /** Once, when the registry has confirmed the table: what is on the disk and not ours goes. */
  reconcile(verdict: (pool: number, container: number) => 'mine' | 'notMine'): void {
    this.#book.reconcile(verdict, (error) => {
      if (error !== undefined) this.#ports.emit({ kind: 'unreconciled', reason: error.message });
    });
  }

  hostedReplicas(): readonly HostedContainer[] {
    return [...this.#records.values()].map(({ pool, container, record, revision }) => ({
      pool: pool.name,
      id: container,
      role: this.#isOwner(record) ? 'owner' : 'copy',
      fence: String(record.fence),
      version: revision,
      inSync: record.inSync.some(({ node }) => node === this.#self.node),
    }));
  }

  metrics(): ReplicationMetrics {
    let [waiting, lagging] = [0, 0];
    for (const container of this.#open.values()) {
      waiting += container.waiting;
      lagging += container.laggingReplicas;
    }
    const { bytes: tailBytes } = this.#budget;
    const { size: held, sweeping } = this.#book;
    return { ...this.#counters, open: this.#open.size, held, waiting, lagging, tailBytes, sweeping };
  }

  /** Nothing is sent or acknowledged from now on. */
  stop(): void {
    this.#isStopped = true;
    for (const container of this.#open.values()) container.fenced('this node is stopping');
    this.#cancelTick?.();
  }

  #begin(
    holding: ReplicaStore,
    change: OwnedChange,
    over: () => void,
    lost: (reason: string) => void,
    done: Done<OpenedLog>,
  ): void {
    const { pool, record } = change;
    const meta = recoveredMeta(this.#self, pool.record.durability, record, holding);
    if (meta instanceof RemusterError) {
      over();
      return this.#notOpened(holding, change, meta, done);
    }
    holding.install = undefined;
    holding.write([], 0, meta, (outcome) => {
      if (!outcome.ok || this.#isStopped) {
        over();
        return done(outcome.ok ? failure('FENCED') : outcome);
      }
      const container = this.#openContainer(holding, change, lost, (opened) => {
        if (opened.ok) done(opened);
        else this.#notOpened(holding, change, opened.error, done);
      });
      over();
      this.#book.sweep(holding);
      container.begin();
      const now = this.#records.get(replicaKey(holding.pool, holding.container));
      if (now?.record !== record) container.recordChanged(now?.record, now?.revision ?? change.revision);
    });
  }

  #openContainer(
    holding: ReplicaStore,
    change: OwnedChange,
    lost: (reason: string) => void,
    opened: Done<OpenedLog>,
  ): Replicator {
    const key = replicaKey(holding.pool, holding.container);
    const container = new Replicator(this.#ownerPorts(key, change), holding, change, lost, opened);
    this.#open.set(key, container);
    this.#tickSoon();
    return container;
  }

  #ownerPorts(key: string, change: OwnedChange): ReplicatorPorts {
    const { streams, addressOf, isGone = () => false, clock } = this.#ports;
    const of = { pool: change.pool.name, container: change.container };
    return {
      self: this.#self,
      clock,
      streams,
      addressOf,
      isGone,
      options: this.#options,
      requestTimeoutMs: this.#options.copyAckTimeoutMs * 2,
      budget: this.#budget,
      counters: this.#counters,
      snapshotting: this.#copying,
      copyingMax: this.#options.snapshotsMax,
      nextSnapshot: () => ++this.#snapshots,
      updateIsr: (inSync, revision, done) =>
        updateIsr(this.#inSync, change, { inSync, revision }, (outcome) => done(this.#asKnownNow(key, outcome))),
      turns: this.#turns,
      wake: (container) => this.#wake(container),
      ended: (container) => {
        this.#turns.remove(container);
        this.#dirty.delete(container);
        if (this.#open.get(key) === container) this.#open.delete(key);
      },
      tell: (what, reason) => {
        if (what === 'lost') this.#counters.lost += 1;
        this.#ports.emit({ kind: what === 'lost' ? 'lost' : 'corrupt', ...of, reason });
      },
    };
  }

  /** What is damaged here is taken out of the record, if others have it, and then is nothing: so it is copied anew. */
  #notOpened(holding: ReplicaStore, change: OwnedChange, error: RemusterError, done: Done<OpenedLog>): void {
    const { pool, container, record } = change;
    if (error.code !== 'STORE_CORRUPT') return done({ ok: false, error });
    this.#ports.emit({ kind: 'corrupt', pool: pool.name, container, reason: error.message });
    leaveIsr(this.#inSync, change, (isOut) => {
      if (!isOut || holding.isErased) return done({ ok: false, error });
      holding.runExclusive((over) => {
        holding.write([], 0, { ...emptyMeta, maxFence: record.fence }, () => {
          over();
          this.#book.sweep(holding);
          done({ ok: false, error });
        });
      });
    });
  }

  /** It has happened; the record may have changed again since. */
  #asKnownNow(key: string, outcome: Outcome<ContainerRecord>): Outcome<ContainerRecord> {
    const known = this.#records.get(key);
    return outcome.ok && known !== undefined ? success(known.record) : outcome;
  }

  #learn(change: ContainerChange): void {
    const { pool, container, record } = change;
    const key = replicaKey(pool.record.major, container);
    if (record !== undefined && this.#names(record)) {
      this.#records.set(key, { ...change, record });
      this.#open.get(key)?.recordChanged(record, change.revision);
      return;
    }
    // The table may be behind the owner, who has given us the state already.
    if (record !== undefined && this.#book.isNamedAfter(pool.record.major, container, change.revision)) return;
    // What was ours may lie on the disk, also if nobody has asked for it in this life.
    if (this.#records.delete(key)) {
      this.#book.get(pool.record.major, container, pool.record.durability === 'memory');
      this.#unnamed.set(key, change.revision);
    }
    this.#open.get(key)?.recordChanged(record, change.revision);
    this.#book.drop(key, record?.fence, record === undefined ? Infinity : change.revision);
  }

  /** It counts on us, or will: what is here may be needed. */
  #names({ owner, copies, inSync, move }: ContainerRecord): boolean {
    const { node } = this.#self;
    return (
      owner?.node === node || move?.to === node || copies.includes(node) || inSync.some((one) => one.node === node)
    );
  }

  #isOwner({ owner }: ContainerRecord): boolean {
    return owner?.node === this.#self.node && owner.generation === this.#self.generation;
  }

  /** Somebody else writes under a later fence. */
  #fenceOwner(key: string, fence: Fence): void {
    const container = this.#open.get(key);
    if (container !== undefined && fence > container.change.record.fence) container.fenced('a later owner was here');
  }

  #wake(container: Replicator): void {
    if (this.#dirty.size === 0) this.#ports.clock.schedule(0, () => this.#guarded(() => this.#flush()));
    this.#dirty.add(container);
  }

  #flush(): void {
    const dirty = [...this.#dirty];
    this.#dirty.clear();
    for (const container of dirty) container.flush();
    for (const journal of this.#journals) journal.flush();
  }

  #tickSoon(): void {
    this.#cancelTick ??= this.#ports.clock.schedule(this.#options.tickMs, () => {
      this.#cancelTick = undefined;
      if (this.#isStopped || this.#open.size === 0) return;
      this.#tickSoon();
      this.#guarded(() => {
        for (const container of this.#open.values()) container.tick();
      });
    });
  }

  #guarded(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#ports.halted(error);
    }
  }
}
