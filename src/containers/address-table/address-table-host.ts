/**
 * The address table of a node, kept up to date from the registry: write-ahead log first, then memory, then listeners,
 * always in revision order. Entries read from disk are used only to route; ownership counts after `confirmed`.
 *
 *   registry --> update --> WAL (append, sync) --> memory --> changed, watchers      a failing disk delays all after it
 */
import { unreachable } from '../../base/assert.ts';
import { type Done, type Outcome, type RemusterError, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock, Files } from '../../base/ports.ts';
import type { Registry, RegistryChange, RegistryEntry, RegistryEpoch } from '../../base/registry.ts';
import { groupIdOf, registryEpoch } from '../../base/registry-epoch.ts';
import { startInformer } from '../../registry/informer.ts';
import { keyRanges } from '../../registry/cluster-keys.ts';
import type { AddressTable, ContainerChange, KnownPool } from '../contract.ts';
import { OwnerHints } from './owner-hints.ts';
import { OwnerWatchers } from './owner-watchers.ts';
import type { AddressTableEvent } from './table-event.ts';
import { poolOfWalFile, tableDirectory } from './wal-files.ts';
import { walGroupOf } from './table-group.ts';
import { TableWal } from './table-wal.ts';
import { TableMemory } from './table-memory.ts';
import { type ContainerUpdateStep, TableUpdate, type TableUpdateStep } from './table-update.ts';
import { type TableDigest, TableAntiEntropy, decodeTableDigest, encodeTableDigest } from './table-anti-entropy.ts';
import { replayWal } from './wal-replay.ts';

export type AddressTablePorts = {
  readonly registry: Pick<Registry, 'range' | 'watch'>;
  readonly clock: Clock;
  readonly files: Files;
  readonly self: { readonly id: NodeId };
  readonly emit: (event: AddressTableEvent) => void;
  readonly onHalt: (error: unknown) => void;
  /** Ends with PRECONDITION if the state on this disk is of another group; absent on a node without replicas. */
  readonly admitGroup?: (groupId: string, done: Done<void>) => void;
};

export type AddressTableListeners = {
  /** Called for every change of every container; at the first load, for every container in the registry. */
  changed(change: ContainerChange): void;
  /** The whole registry has been applied for the first time: from now on ownership is valid. */
  confirmed?(): void;
  /** The registry is that of another group than the state on this disk: nothing here is valid. */
  refused?(error: RemusterError): void;
  poolChanged?(pool: KnownPool, isGone: boolean): void;
  /** All changes up to that revision have been applied and reported. */
  onRevisionApplied?(revision: number, epoch: RegistryEpoch): void;
};

type Batch =
  | {
      readonly kind: 'loaded';
      readonly entries: readonly RegistryEntry[];
      readonly revision: number;
      readonly epoch: RegistryEpoch;
    }
  | { readonly kind: 'changed'; readonly changes: readonly RegistryChange[]; readonly revision: number };

export type AddressTableOptions = {
  /** Changes that are queued while the disk is busy; beyond it the table loads everything again. */
  readonly queuedChangesMax: number;
};

const defaults: AddressTableOptions = { queuedChangesMax: 100_000 };
/** The managers of the own group may return. */
const foreignRetryMs = 10_000;
const diskRetryMs = 1_000;
const namingRetryMs = 100;
const tooManyChanges = 'too many changes arrived while the disk was busy';

export class AddressTableHost implements AddressTable {
  readonly #ports: AddressTablePorts;
  readonly #listeners: AddressTableListeners;
  readonly #options: AddressTableOptions;
  readonly #memory = new TableMemory();
  readonly #wal: TableWal;
  readonly #ownerHints = new OwnerHints();
  readonly #watchers = new OwnerWatchers();
  readonly #antiEntropy = new TableAntiEntropy();
  #queue: Batch[] = [];
  #queuedChanges = 0;
  #isWriting = false;
  /** The queue was dropped: everything is loaded again when the disk works. */
  #mustReload = false;
  #isConfirmed = false;
  #isRunning = true;
  #revision = 0;
  /** Of `#revision`. */
  #epoch = registryEpoch('', 0);
  #admittedGroup: string | undefined;
  #refusal: RemusterError | undefined;
  /** Pools whose containers arrived before the pool itself. */
  readonly #unknownPools = new Set<string>();
  /** Files in the directory at the start. */
  #filesAtStart: readonly string[] = [];
  #stopInformer: Cancel = () => {};
  #cancelCheck: Cancel = () => {};

  constructor(ports: AddressTablePorts, listeners: AddressTableListeners, options: Partial<AddressTableOptions> = {}) {
    this.#ports = ports;
    this.#options = { ...defaults, ...options };
    this.#listeners = listeners;
    const { files, clock, self, emit } = ports;
    this.#wal = new TableWal({ files, clock, self: self.id, emit });
  }

  /** Reads the disk, then the registry. */
  start(): void {
    const { files, self, emit } = this.#ports;
    files.list(tableDirectory, (listed) => {
      if (!this.#isRunning) return;
      this.#filesAtStart = listed.ok ? listed.value : [];
      const ports = { files, self: self.id, emit, memory: this.#memory, wal: this.#wal };
      this.#guard(() => replayWal(ports, () => this.#guard(() => this.#startInformer())));
    });
  }

  /** Ends all writes and reports. */
  stop(): void {
    this.#isRunning = false;
    this.#stopInformer();
    this.#cancelCheck();
    this.#wal.stop();
    this.#queue = [];
  }

  get isConfirmed(): boolean {
    return this.#isConfirmed;
  }

  /** The group whose registry the table follows; undefined before the first load, and while it follows none. */
  get groupId(): string | undefined {
    return this.#admittedGroup;
  }

  /** Why the table does not follow the registry: it belongs to another group than the state on this disk. */
  get refusal(): RemusterError | undefined {
    return this.#refusal;
  }

  get version(): number {
    return this.#memory.version;
  }

  hash(): string {
    return this.#memory.hashWords.map((word) => word.toString(16).padStart(8, '0')).join('');
  }

  pool(name: string): KnownPool | undefined {
    return this.#memory.pool(name)?.pool;
  }

  poolByNumber(major: number): KnownPool | undefined {
    return this.#memory.poolByNumber(major)?.pool;
  }

  pools(): readonly KnownPool[] {
    return Array.from(this.#memory.pools(), ({ pool }) => pool);
  }

  ownerOf(pool: KnownPool, container: number): NodeId | undefined {
    const hint = this.#ownerHints.get(pool.record.major, container);
    return hint === undefined ? this.#memory.ownerOf(pool, container) : hint.owner;
  }

  versionOf(pool: KnownPool, container: number): number {
    const hint = this.#ownerHints.get(pool.record.major, container);
    return hint === undefined ? this.#memory.versionOf(pool, container) : hint.version;
  }

  /** Routes by the hint until the registry reports the change. Ignored if the registry is already past its version. */
  addOwnerHint(pool: KnownPool, container: number, owner: NodeId | undefined, version: number): void {
    const { major } = pool.record;
    const isKnown = this.#memory.poolByNumber(major)?.has(container) ?? false;
    if (!isKnown || !Number.isSafeInteger(version) || version <= this.versionOf(pool, container)) return;
    if (this.#isConfirmed && version <= this.#revision) return;
    this.#ownerHints.set(major, container, { owner, version });
    this.#watchers.notify(major, container);
    this.#compareDigest({ version, hash: undefined });
  }

  /** Calls back on every change of the record, because after each one another attempt at the owner may succeed. */
  watchOwner(pool: KnownPool, container: number, changed: () => void): Cancel {
    return this.#watchers.add(pool.record.major, container, changed);
  }

  /** The digest that a node embeds in its membership state. */
  digestBytes(): Uint8Array {
    return encodeTableDigest(this.#digest);
  }

  /** The digest of another node. */
  digestReceived(digest: Uint8Array): void {
    const peer = decodeTableDigest(digest);
    if (peer !== undefined) this.#compareDigest(peer);
  }

  get #digest(): TableDigest {
    return { version: this.#memory.version, hash: this.#memory.hashWords };
  }

  #compareDigest(peer: TableDigest): void {
    if (!this.#isRunning || !this.#isConfirmed) return;
    const { clock } = this.#ports;
    const atMs = this.#antiEntropy.digestReceived(clock.nowMs(), peer, this.#digest);
    if (atMs === undefined) return;
    this.#cancelCheck = clock.schedule(atMs - clock.nowMs(), () => {
      if (this.#isRunning && this.#antiEntropy.shouldReload(clock.nowMs(), this.#digest))
        this.#reload('another node has newer entries');
    });
  }

  #reload(reason: string): void {
    this.#ports.emit({ kind: 'table.repairing', reason });
    this.#startInformer();
  }

  #startInformer(): void {
    const { registry, clock } = this.#ports;
    this.#stopInformer();
    this.#stopInformer = startInformer(registry, clock, keyRanges.containers, {
      loaded: (entries, revision, epoch) => {
        const groupId = groupIdOf(epoch);
        // The first leader of a new group has not named it yet.
        if (groupId === '' && this.#ports.admitGroup !== undefined) return this.#reloadSoon(namingRetryMs);
        if (groupId !== this.#admittedGroup) return this.#admit(groupId);
        // The load includes all queued changes.
        this.#queue = [];
        this.#queuedChanges = 0;
        this.#enqueue({ kind: 'loaded', entries, revision, epoch });
      },
      changed: (changes, revision) => {
        this.#queuedChanges += changes.length;
        if (this.#queuedChanges > this.#options.queuedChangesMax) this.#dropQueue();
        else this.#enqueue({ kind: 'changed', changes, revision });
      },
    });
  }

  /** Runs before the first load of a group is applied: the registry of another group lacks the state on this disk. */
  #admit(groupId: string): void {
    const { admitGroup, emit } = this.#ports;
    this.#stopInformer();
    const admitted = (outcome: Outcome<void>): void => {
      if (!this.#isRunning) return;
      if (outcome.ok) {
        this.#admittedGroup = groupId;
        this.#refusal = undefined;
        return this.#startInformer();
      }
      const { code, message: reason } = outcome.error;
      if (this.#refusal?.message !== reason) emit({ kind: 'table.refused', code, reason });
      // The managers of the own group may return: they are admitted again.
      this.#admittedGroup = undefined;
      this.#refusal = outcome.error;
      this.#isConfirmed = false;
      this.#listeners.refused?.(outcome.error);
      const retryMs = code === 'PRECONDITION' ? foreignRetryMs : diskRetryMs;
      this.#reloadSoon(retryMs);
    };
    if (admitGroup === undefined) admitted(success(undefined));
    else admitGroup(groupId, admitted);
  }

  #reloadSoon(delayMs: number): void {
    this.#stopInformer();
    this.#stopInformer = this.#ports.clock.schedule(delayMs, () => this.#guard(() => this.#startInformer()));
  }

  #dropQueue(): void {
    this.#stopInformer();
    this.#queue = [];
    this.#queuedChanges = 0;
    if (this.#isWriting) this.#mustReload = true;
    else this.#reload(tooManyChanges);
  }

  #enqueue(batch: Batch): void {
    this.#queue.push(batch);
    if (!this.#isWriting) this.#guard(() => this.#write());
  }

  #write(): void {
    const batches = this.#queue;
    this.#queue = [];
    this.#queuedChanges = 0;
    const update = new TableUpdate(this.#memory, this.#unknownPools);
    for (const batch of batches) {
      if (batch.kind === 'changed') update.changed(batch.changes, batch.revision);
      else update.loaded(batch.entries, batch.revision, !this.#isConfirmed);
    }
    // A load drops what was queued before it, so it is the first batch.
    const [first] = batches;
    const epoch = first?.kind === 'loaded' ? first.epoch : this.#epoch;
    this.#isWriting = true;
    if (update.areNodeNumbersChanged) this.#wal.rewriteAll();
    this.#wal.write(walGroupOf(update, this.#memory, this.#ports.clock.wallMs()), () =>
      this.#guard(() => this.#onWritten(update, epoch)),
    );
  }

  #onWritten(update: TableUpdate, epoch: RegistryEpoch): void {
    this.#epoch = epoch;
    for (const step of update.steps) if (this.#isRunning) this.#apply(step);
    this.#isWriting = false;
    if (!this.#isRunning) return;
    if (update.isIncomplete || this.#mustReload) {
      this.#mustReload = false;
      this.#reload(update.isIncomplete ? 'containers arrived before their pool' : tooManyChanges);
    }
    if (this.#queue.length > 0) this.#write();
  }

  #apply(step: TableUpdateStep): void {
    switch (step.kind) {
      case 'container':
        return this.#applyContainer(step);
      case 'pool':
        this.#memory.setPool(step.pool, step.revision);
        return this.#listeners.poolChanged?.(step.pool, false);
      case 'poolGone':
        return this.#applyPoolGone(step.pool);
      case 'reached':
        if (step.isRollback) this.#memory.rollBackTo(step.version);
        else this.#memory.setVersion(step.version);
        this.#revision = step.revision;
        return this.#listeners.onRevisionApplied?.(step.revision, this.#epoch);
      case 'loaded':
        return this.#applyLoaded();
      default:
        return unreachable(step);
    }
  }

  #applyContainer({ change, owner, version }: ContainerUpdateStep): void {
    const { pool, container, revision } = change;
    const { major } = pool.record;
    const table = this.#memory.poolByNumber(major);
    if (table !== undefined) this.#memory.set(table, container, owner, version);
    this.#ownerHints.supersededBy(major, container, revision);
    this.#listeners.changed(change);
    this.#watchers.notify(major, container);
  }

  #applyPoolGone(pool: KnownPool): void {
    const table = this.#memory.poolByNumber(pool.record.major);
    if (table !== undefined) this.#memory.removePool(table);
    this.#wal.removePool(pool.record);
    this.#listeners.poolChanged?.(pool, true);
  }

  #applyLoaded(): void {
    this.#ownerHints.clear();
    if (this.#isConfirmed) return;
    this.#isConfirmed = true;
    let containers = 0;
    for (const { live } of this.#memory.pools()) containers += live;
    this.#ports.emit({ kind: 'table.confirmed', version: this.version, containers });
    this.#removeOldFiles();
    this.#listeners.confirmed?.();
  }

  /** Pool numbers are never reused, so the WAL of a pool that does not exist now can be removed. */
  #removeOldFiles(): void {
    const { self } = this.#ports;
    for (const name of this.#filesAtStart) {
      const pool = poolOfWalFile(name, self.id);
      if (pool !== undefined && this.poolByNumber(pool.major)?.record.minor !== pool.minor) this.#wal.removePool(pool);
    }
    this.#filesAtStart = [];
  }

  #guard(run: () => void): void {
    if (!this.#isRunning) return;
    try {
      run();
    } catch (error) {
      this.stop();
      this.#ports.onHalt(error);
    }
  }
}
