/**
 * Follows the registry: WAL first, then memory, then listeners, always in revision order. Entries read from disk only
 * route; ownership counts after `confirmed`.
 *
 *   registry --> plan --> log (append, sync) --> memory --> changed, watchers      a failing disk holds all behind it
 */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock, Files } from '../../base/ports.ts';
import type { Registry, RegistryChange, RegistryEntry } from '../../base/registry.ts';
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
};

export type AddressTableListeners = {
  /** Every change of every container; at the first reading of the registry, every container there is. */
  changed(change: ContainerChange): void;
  /** What the registry says has been applied as a whole for the first time: only now is ownership valid. */
  confirmed?(): void;
  poolChanged?(pool: KnownPool, isGone: boolean): void;
  /** Everything up to that revision of the registry has been applied and told. */
  onRevisionApplied?(revision: number): void;
};

type Batch =
  | { readonly kind: 'loaded'; readonly entries: readonly RegistryEntry[]; readonly revision: number }
  | { readonly kind: 'changed'; readonly changes: readonly RegistryChange[]; readonly revision: number };

export type AddressTableOptions = {
  /** As many changes are held while the disk is busy; with more of them everything is read again. */
  readonly queuedChangesMax: number;
};

const defaults: AddressTableOptions = { queuedChangesMax: 100_000 };
const tooMuch = 'more has changed at once than can be held';

export class AddressTableHost implements AddressTable {
  readonly #ports: AddressTablePorts;
  readonly #listeners: AddressTableListeners;
  readonly #options: AddressTableOptions;
  readonly #memory = new TableMemory();
  readonly #log: TableWal;
  readonly #corrections = new OwnerHints();
  readonly #watchers = new OwnerWatchers();
  readonly #repair = new TableAntiEntropy();
  #queue: Batch[] = [];
  #queuedChanges = 0;
  #isWriting = false;
  /** More has changed than we could hold: everything is read again when the disk works. */
  #isBehind = false;
  #isConfirmed = false;
  #isOpen = true;
  #revision = 0;
  /** Pools that had containers before they were known. */
  readonly #orphans = new Set<string>();
  /** What lay there at the start. */
  #files: readonly string[] = [];
  #unfollow: Cancel = () => {};
  #cancelLook: Cancel = () => {};

  constructor(ports: AddressTablePorts, listeners: AddressTableListeners, options: Partial<AddressTableOptions> = {}) {
    this.#ports = ports;
    this.#options = { ...defaults, ...options };
    this.#listeners = listeners;
    const { files, clock, self, emit: tell } = ports;
    this.#log = new TableWal({ files, clock, self: self.id, tell });
  }

  /** Reads the disk, then the registry. */
  start(): void {
    const { files, self, emit: tell } = this.#ports;
    files.list(tableDirectory, (listed) => {
      if (!this.#isOpen) return;
      this.#files = listed.ok ? listed.value : [];
      const ports = { files, self: self.id, tell, memory: this.#memory, log: this.#log };
      this.#guard(() => replayWal(ports, () => this.#guard(() => this.#follow())));
    });
  }

  /** Nothing is written or told from now on. */
  stop(): void {
    this.#isOpen = false;
    this.#unfollow();
    this.#cancelLook();
    this.#log.stop();
    this.#queue = [];
  }

  get isConfirmed(): boolean {
    return this.#isConfirmed;
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
    const correction = this.#corrections.get(pool.record.major, container);
    return correction === undefined ? this.#memory.ownerOf(pool, container) : correction.owner;
  }

  versionOf(pool: KnownPool, container: number): number {
    const correction = this.#corrections.get(pool.record.major, container);
    return correction === undefined ? this.#memory.versionOf(pool, container) : correction.version;
  }

  /** A hint until the registry says it too. What it has said as a whole already is not corrected by anybody. */
  addOwnerHint(pool: KnownPool, container: number, owner: NodeId | undefined, version: number): void {
    const { major } = pool.record;
    const isKnown = this.#memory.poolByNumber(major)?.has(container) ?? false;
    if (!isKnown || !Number.isSafeInteger(version) || version <= this.versionOf(pool, container)) return;
    if (this.#isConfirmed && version <= this.#revision) return;
    this.#corrections.set(major, container, { owner, version });
    this.#watchers.notify(major, container);
    this.#suspect({ version, hash: undefined });
  }

  /** Told of every change of the container's record, because each can mean that asking the owner again is worth it. */
  watchOwner(pool: KnownPool, container: number, changed: () => void): Cancel {
    return this.#watchers.add(pool.record.major, container, changed);
  }

  /** For the state that a node embeds in what it says to others. */
  digestBytes(): Uint8Array {
    return encodeTableDigest(this.#digest);
  }

  /** What another node has embedded. */
  digestReceived(digest: Uint8Array): void {
    const theirs = decodeTableDigest(digest);
    if (theirs !== undefined) this.#suspect(theirs);
  }

  get #digest(): TableDigest {
    return { version: this.#memory.version, hash: this.#memory.hashWords };
  }

  #suspect(theirs: TableDigest): void {
    if (!this.#isOpen || !this.#isConfirmed) return;
    const { clock } = this.#ports;
    const atMs = this.#repair.digestReceived(clock.nowMs(), theirs, this.#digest);
    if (atMs === undefined) return;
    this.#cancelLook = clock.schedule(atMs - clock.nowMs(), () => {
      if (this.#isOpen && this.#repair.shouldReload(clock.nowMs(), this.#digest)) this.#readAgain('others know more');
    });
  }

  #readAgain(reason: string): void {
    this.#ports.emit({ kind: 'table.repairing', reason });
    this.#follow();
  }

  #follow(): void {
    const { registry, clock } = this.#ports;
    this.#unfollow();
    this.#unfollow = startInformer(registry, clock, keyRanges.containers, {
      loaded: (entries, revision) => {
        // It says everything that is queued, and more.
        this.#queue = [];
        this.#queuedChanges = 0;
        this.#enqueue({ kind: 'loaded', entries, revision });
      },
      changed: (changes, revision) => {
        this.#queuedChanges += changes.length;
        if (this.#queuedChanges > this.#options.queuedChangesMax) this.#fallBehind();
        else this.#enqueue({ kind: 'changed', changes, revision });
      },
    });
  }

  #fallBehind(): void {
    this.#unfollow();
    this.#queue = [];
    this.#queuedChanges = 0;
    if (this.#isWriting) this.#isBehind = true;
    else this.#readAgain(tooMuch);
  }

  #enqueue(batch: Batch): void {
    this.#queue.push(batch);
    if (!this.#isWriting) this.#guard(() => this.#write());
  }

  #write(): void {
    const batches = this.#queue;
    this.#queue = [];
    this.#queuedChanges = 0;
    const plan = new TableUpdate(this.#memory, this.#orphans);
    for (const batch of batches) {
      if (batch.kind === 'changed') plan.changed(batch.changes, batch.revision);
      else plan.loaded(batch.entries, batch.revision, !this.#isConfirmed);
    }
    this.#isWriting = true;
    if (plan.areNumbersChanged) this.#log.rewriteAll();
    this.#log.write(walGroupOf(plan, this.#memory, this.#ports.clock.wallMs()), () =>
      this.#guard(() => this.#written(plan)),
    );
  }

  #written(plan: TableUpdate): void {
    for (const step of plan.steps) if (this.#isOpen) this.#apply(step);
    this.#isWriting = false;
    if (!this.#isOpen) return;
    if (plan.isIncomplete || this.#isBehind) {
      this.#isBehind = false;
      this.#readAgain(plan.isIncomplete ? 'containers came before their pool' : tooMuch);
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
        return this.#listeners.onRevisionApplied?.(step.revision);
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
    this.#corrections.supersededBy(major, container, revision);
    this.#listeners.changed(change);
    this.#watchers.notify(major, container);
  }

  #applyPoolGone(pool: KnownPool): void {
    const table = this.#memory.poolByNumber(pool.record.major);
    if (table !== undefined) this.#memory.removePool(table);
    this.#log.removePool(pool.record);
    this.#listeners.poolChanged?.(pool, true);
  }

  #applyLoaded(): void {
    this.#corrections.clear();
    if (this.#isConfirmed) return;
    this.#isConfirmed = true;
    let containers = 0;
    for (const { live } of this.#memory.pools()) containers += live;
    this.#ports.emit({ kind: 'table.confirmed', version: this.version, containers });
    this.#removeOldFiles();
    this.#listeners.confirmed?.();
  }

  /** The number of a pool is never given twice, so a log of a pool that is not there now is of no use ever. */
  #removeOldFiles(): void {
    const { self } = this.#ports;
    for (const name of this.#files) {
      const pool = poolOfWalFile(name, self.id);
      if (pool !== undefined && this.poolByNumber(pool.major)?.record.minor !== pool.minor) this.#log.removePool(pool);
    }
    this.#files = [];
  }

  #guard(run: () => void): void {
    if (!this.#isOpen) return;
    try {
      run();
    } catch (error) {
      this.stop();
      this.#ports.onHalt(error);
    }
  }
}
