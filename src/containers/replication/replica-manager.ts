/**
 * All container state on this node, as owner and as replica: connects the parts of this folder and keeps the records
 * that name this node. Decides nothing about commits.
 *
 *   open    --> Replicator --commits--> own disk, and ReplicaSender --requests--> replica-server.ts of other nodes
 *   changed --> records    --> which replicas an owner feeds, which replicas this node drops
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import { CompactingSet } from '../../base/collections/compacting-map.ts';
import { type Done, type Outcome, RemusterError, failure, success } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Identity } from '../../base/ports.ts';
import type { ReplicationRequest, ReplicaStatus } from '../../messages/replication.ts';
import type { ContainerRecord, NodeInstance } from '../../placement/state/container-records.ts';
import type {
  ContainerChange,
  ContainerReplication,
  HostedContainer,
  OpenedLog,
  OwnedContainerChange,
} from '../contract.ts';
import { AckPacer } from './ack-pacer.ts';
import {
  type IsrUpdatePorts,
  type RecordUpdate,
  type RecordUpdatePorts,
  leaveIsr,
  updateContainerRecord,
  updateIsr,
} from './record-update.ts';
import { handleReplication } from './replica-server.ts';
import {
  type ReplicationCounters,
  type ReplicationMetrics,
  type ReplicationOptions,
  type ReplicationPorts,
  type ReplicationSettings,
  replicationDefaults,
  replicationOptionsOf,
} from './replication-types.ts';
import type { ReplicaProgress } from './replica-progress.ts';
import type { ReplicaStore } from './replica-store.ts';
import { ReplicaCatalog, replicaKey } from './replica-catalog.ts';
import { GroupCommit } from './group-commit.ts';
import { noFence, emptyMeta } from './replica-layout.ts';
import { createMemoryStore } from './memory-store.ts';
import { Replicator, type ReplicatorPorts } from './replicator.ts';
import { recoveredMeta } from './recovery.ts';
import { LogTailBudget } from './log-tail.ts';

const removedRevisionsMax = 10_000;

export class ReplicaManager implements ContainerReplication {
  readonly #ports: ReplicationPorts;
  readonly #self: NodeInstance;
  readonly #options: ReplicationOptions;
  readonly #groupCommits: readonly GroupCommit[];
  readonly #catalog: ReplicaCatalog;
  readonly #recordUpdatePorts: RecordUpdatePorts;
  readonly #isrUpdatePorts: IsrUpdatePorts;
  /** The records that name this node. */
  readonly #records = new Map<string, OwnedContainerChange>();
  /** Of replicas removed lately: the revision of the record that no longer named this node. */
  readonly #removedRevisions = new BoundedLru<string, number>(removedRevisionsMax);
  readonly #open = new Map<string, Replicator>();
  readonly #dirty = new CompactingSet<Replicator>();
  readonly #ackPacer: AckPacer<Replicator>;
  readonly #snapshotting = new Set<ReplicaProgress>();
  readonly #budget: LogTailBudget;
  readonly #counters: ReplicationCounters = { commits: 0, commitBytes: 0, joined: 0, left: 0, lost: 0 };
  #snapshots = 0;
  #isStopped = false;
  #cancelTick: Cancel | undefined;

  constructor(ports: ReplicationPorts, settings: Partial<ReplicationSettings> = {}) {
    const { clock, store, registry, self } = ports;
    const options = replicationOptionsOf({ ...replicationDefaults, ...settings });
    const memoryStore = createMemoryStore(clock);
    const disk = { store, groupCommit: new GroupCommit(store, clock) };
    const memory = { store: memoryStore, groupCommit: new GroupCommit(memoryStore, clock) };
    this.#ports = ports;
    this.#options = options;
    this.#self = { node: self.id, generation: self.generation };
    this.#groupCommits = [disk.groupCommit, memory.groupCommit];
    this.#budget = new LogTailBudget(options.tailsBytesMax);
    this.#ackPacer = new AckPacer(clock, (container) => this.#guarded(() => container.flush()));
    this.#catalog = new ReplicaCatalog({
      clock,
      disk,
      memory,
      replicasMax: options.replicasMax,
      isNamed: (key) => this.#records.has(key),
      dropped: ({ pool, container }) => ports.emit({ kind: 'dropped', pool, container }),
    });
    this.#recordUpdatePorts = {
      self: this.#self,
      registry,
      clock,
      known: ({ pool, container }) => this.#records.get(replicaKey(pool.record.major, container)),
      learned: (target, versioned) => {
        const known = this.#records.get(replicaKey(target.pool.record.major, target.container));
        // Replies of the registry may arrive out of order.
        if (known !== undefined && versioned.revision > known.revision) this.#onRecord({ ...target, ...versioned });
      },
    };
    this.#isrUpdatePorts = {
      self: this.#self,
      counters: this.#counters,
      emit: ports.emit,
      updateRecord: (container, fence, change, done) => this.updateRecord(container, fence, change, done),
    };
  }

  open(change: ContainerChange, lost: (reason: string) => void, done: Done<OpenedLog>): void {
    const { pool, container, record } = change;
    const key = replicaKey(pool.record.major, container);
    const replica = this.#catalog.get(pool.record.major, container, pool.record.durability === 'memory');
    if (record === undefined || replica === undefined || this.#isStopped) {
      this.#ports.clock.schedule(0, () =>
        done(failure(replica === undefined ? 'CAPACITY' : 'FENCED', undefined, 'no')),
      );
      return;
    }
    this.changed(change);
    this.#open.get(key)?.fenced('the container is opened again');
    const isAccepted = replica.runExclusive((release, error) => {
      if (error !== undefined) {
        release();
        return done({ ok: false, error });
      }
      this.#recover(replica, { ...change, record }, release, lost, done);
    });
    if (!isAccepted)
      this.#ports.clock.schedule(0, () => done(failure('CAPACITY', 'too many operations wait for the replica')));
  }

  changed(change: ContainerChange): void {
    const known = this.#records.get(replicaKey(change.pool.record.major, change.container));
    if (known === undefined || change.revision > known.revision) this.#onRecord(change);
  }

  updateRecord(
    container: RecordUpdate['target'],
    fence: Fence,
    change: RecordUpdate['change'],
    done: Done<ContainerRecord>,
  ): void {
    const { recordUpdateTimeoutMs: timeoutMs } = this.#options;
    updateContainerRecord(this.#recordUpdatePorts, { target: container, fence, change, timeoutMs }, done);
  }

  /** A request of an owner to the replica on this node. */
  handle(_from: Pick<Identity, 'id'>, request: ReplicationRequest, reply: Done<ReplicaStatus>): void {
    const key = replicaKey(request.pool, request.container);
    const fence = request.fence as Fence;
    const replica = this.#catalog.get(request.pool, request.container, request.inMemory);
    const known = this.#records.get(key)?.record.fence ?? noFence;
    // An owner with an old record would write a replica that the current record has removed.
    const isRemoved = request.revision <= (this.#removedRevisions.peek(key) ?? -1);
    if (replica === undefined || known > fence || isRemoved || this.#isStopped) {
      const refusal = known > fence ? 'fenced' : 'busy';
      const { generation } = this.#self;
      const nothing = { position: undefined, snapshot: undefined, step: undefined };
      const value = { kind: 'replicaStatus', generation, highestFence: known, ...nothing, refusal } as const;
      return reply({ ok: true, value });
    }
    this.#fenceOwner(key, fence);
    replica.namedRevision = Math.max(replica.namedRevision, request.revision);
    const context = {
      generation: this.#self.generation,
      collectSlots: (store: ReplicaStore) => this.#catalog.collectSlots(store),
    };
    handleReplication(context, replica, request, reply);
  }

  /** Membership has declared the node dead: commits stop waiting for it. */
  peerLost(node: NodeId): void {
    for (const container of this.#open.values()) container.peerLost(node);
  }

  /** Membership reports the node as back: its replicas are tried again without delay. */
  peerReturned(node: NodeId): void {
    for (const container of this.#open.values()) container.peerReturned(node);
  }

  /**
   * Called once, when the registry has confirmed the address table: drops replicas that are not assigned to this node.
   */
  reconcile(classify: (pool: number, container: number) => 'keep' | 'drop'): void {
    this.#catalog.reconcile(classify, (error) => {
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
    const { size: held, sweeping } = this.#catalog;
    return { ...this.#counters, open: this.#open.size, held, waiting, lagging, tailBytes, sweeping };
  }

  /** Ends all replicators: no request and no acknowledgement after this. */
  stop(): void {
    this.#isStopped = true;
    for (const container of this.#open.values()) container.fenced('this node is stopping');
    this.#cancelTick?.();
  }

  #recover(
    replica: ReplicaStore,
    change: OwnedContainerChange,
    release: () => void,
    lost: (reason: string) => void,
    done: Done<OpenedLog>,
  ): void {
    const { pool, record } = change;
    const meta = recoveredMeta(this.#self, pool.record.durability, record, replica);
    if (meta instanceof RemusterError) {
      release();
      return this.#onOpenFailed(replica, change, meta, done);
    }
    replica.install = undefined;
    replica.write([], 0, meta, (outcome) => {
      if (!outcome.ok || this.#isStopped) {
        release();
        return done(outcome.ok ? failure('FENCED') : outcome);
      }
      const container = this.#openContainer(replica, change, lost, (opened) => {
        if (opened.ok) done(opened);
        else this.#onOpenFailed(replica, change, opened.error, done);
      });
      release();
      this.#catalog.collectSlots(replica);
      container.start();
      const now = this.#records.get(replicaKey(replica.pool, replica.container));
      if (now?.record !== record) container.recordChanged(now?.record, now?.revision ?? change.revision);
    });
  }

  #openContainer(
    replica: ReplicaStore,
    change: OwnedContainerChange,
    lost: (reason: string) => void,
    opened: Done<OpenedLog>,
  ): Replicator {
    const key = replicaKey(replica.pool, replica.container);
    const container = new Replicator(this.#replicatorPorts(key, change), replica, change, lost, opened);
    this.#open.set(key, container);
    this.#scheduleTick();
    return container;
  }

  #replicatorPorts(key: string, change: OwnedContainerChange): ReplicatorPorts {
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
      snapshotting: this.#snapshotting,
      snapshotsMax: this.#options.snapshotsMax,
      nextSnapshot: () => ++this.#snapshots,
      updateIsr: (inSync, revision, done) =>
        updateIsr(this.#isrUpdatePorts, change, { inSync, revision }, (outcome) =>
          done(this.#latestRecord(key, outcome)),
        ),
      ackPacer: this.#ackPacer,
      scheduleFlush: (container) => this.#scheduleFlush(container),
      ended: (container) => {
        this.#ackPacer.remove(container);
        this.#dirty.delete(container);
        if (this.#open.get(key) === container) this.#open.delete(key);
      },
      emit: (what, reason) => {
        if (what === 'lost') this.#counters.lost += 1;
        this.#ports.emit({ kind: what === 'lost' ? 'lost' : 'corrupt', ...of, reason });
      },
    };
  }

  /** A damaged replica leaves the ISR if other replicas remain, and is emptied: its next owner sends a snapshot. */
  #onOpenFailed(
    replica: ReplicaStore,
    change: OwnedContainerChange,
    error: RemusterError,
    done: Done<OpenedLog>,
  ): void {
    const { pool, container, record } = change;
    if (error.code !== 'STORE_CORRUPT') return done({ ok: false, error });
    this.#ports.emit({ kind: 'corrupt', pool: pool.name, container, reason: error.message });
    leaveIsr(this.#isrUpdatePorts, change, (hasLeft) => {
      if (!hasLeft || replica.isErased) return done({ ok: false, error });
      replica.runExclusive((release) => {
        replica.write([], 0, { ...emptyMeta, maxFence: record.fence }, () => {
          release();
          this.#catalog.collectSlots(replica);
          done({ ok: false, error });
        });
      });
    });
  }

  /** After a successful update, the newest known record: it may have changed again since. */
  #latestRecord(key: string, outcome: Outcome<ContainerRecord>): Outcome<ContainerRecord> {
    const known = this.#records.get(key);
    return outcome.ok && known !== undefined ? success(known.record) : outcome;
  }

  #onRecord(change: ContainerChange): void {
    const { pool, container, record } = change;
    const key = replicaKey(pool.record.major, container);
    if (record !== undefined && this.#isNamedBy(record)) {
      this.#records.set(key, { ...change, record });
      this.#open.get(key)?.recordChanged(record, change.revision);
      return;
    }
    // The address table may lag behind the owner, which has already sent the state under a newer record.
    if (record !== undefined && this.#catalog.isNamedAfter(pool.record.major, container, change.revision)) return;
    // The replica may be on disk even if this process has not loaded it: `get` makes it known, so that it is dropped.
    if (this.#records.delete(key)) {
      this.#catalog.get(pool.record.major, container, pool.record.durability === 'memory');
      this.#removedRevisions.set(key, change.revision);
    }
    this.#open.get(key)?.recordChanged(record, change.revision);
    this.#catalog.drop(key, record?.fence, record === undefined ? Infinity : change.revision);
  }

  /** The record names this node in any role: its replica may be needed. */
  #isNamedBy({ owner, copies, inSync, move }: ContainerRecord): boolean {
    const { node } = this.#self;
    return (
      owner?.node === node || move?.to === node || copies.includes(node) || inSync.some((other) => other.node === node)
    );
  }

  #isOwner({ owner }: ContainerRecord): boolean {
    return owner?.node === this.#self.node && owner.generation === this.#self.generation;
  }

  /** A request under a higher fence proves a later owner. */
  #fenceOwner(key: string, fence: Fence): void {
    const container = this.#open.get(key);
    if (container !== undefined && fence > container.change.record.fence)
      container.fenced('a later owner has written here');
  }

  #scheduleFlush(container: Replicator): void {
    if (this.#dirty.size === 0) this.#ports.clock.schedule(0, () => this.#guarded(() => this.#flush()));
    this.#dirty.add(container);
  }

  #flush(): void {
    const dirty = [...this.#dirty];
    this.#dirty.clear();
    for (const container of dirty) container.flush();
    for (const groupCommit of this.#groupCommits) groupCommit.flush();
  }

  #scheduleTick(): void {
    this.#cancelTick ??= this.#ports.clock.schedule(this.#options.tickMs, () => {
      this.#cancelTick = undefined;
      if (this.#isStopped || this.#open.size === 0) return;
      this.#scheduleTick();
      this.#guarded(() => {
        for (const container of this.#open.values()) container.tick();
      });
    });
  }

  #guarded(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#ports.onHalt(error);
    }
  }
}
