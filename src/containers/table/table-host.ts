/**
 * The address table of a node: follows the registry, writes what it says to the logs, then to memory, then tells the
 * others, always in that order and always in the order of the registry. Whatever comes while the disk is busy is written
 * together in the next round. What was on the disk at the start serves to route by; who owns what is known for sure only
 * after `confirmed`.
 *
 *   registry --> plan --> log (append, sync) --> memory --> changed, watchers      a failing disk holds all behind it
 */
import { unreachable } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Cancel, Clock, Files } from '../../base/ports.ts';
import type { Registry, RegistryChange, RegistryEntry } from '../../base/registry.ts';
import { mirror } from '../../registry/mirror.ts';
import { keyRanges } from '../../registry/keys.ts';
import type { AddressTable, ContainerChange, KnownPool } from '../contract.ts';
import { Corrections } from './corrections.ts';
import { OwnerWatchers } from './owner-watchers.ts';
import type { TableEvent } from './table-event.ts';
import { poolOfFile, tableDirectory } from './table-files.ts';
import { logGroup } from './table-group.ts';
import { TableLog } from './table-log.ts';
import { TableMemory } from './table-memory.ts';
import { type ContainerStep, TablePlan, type TableStep } from './table-plan.ts';
import { type TableDigest, TableRepair, decodeDigest, encodeDigest } from './table-repair.ts';
import { replayTable } from './table-replay.ts';

export type TablePorts = {
  readonly registry: Pick<Registry, 'range' | 'watch'>;
  readonly clock: Clock;
  readonly files: Files;
  readonly self: { readonly id: NodeId };
  readonly tell: (event: TableEvent) => void;
  readonly halted: (error: unknown) => void;
};

export type TableListeners = {
  /** Every change of every container; at the first reading of the registry, every container there is. */
  changed(change: ContainerChange): void;
  /** What the registry says has been applied as a whole for the first time: only now is ownership valid. */
  confirmed?(): void;
  poolChanged?(pool: KnownPool, isGone: boolean): void;
  /** Everything up to that revision of the registry has been applied and told. */
  advanced?(revision: number): void;
};

type Batch =
  | { readonly kind: 'loaded'; readonly entries: readonly RegistryEntry[]; readonly revision: number }
  | { readonly kind: 'changed'; readonly changes: readonly RegistryChange[]; readonly revision: number };

export type TableOptions = {
  /** As many changes are held while the disk is busy; with more of them everything is read again. */
  readonly queuedChangesMax: number;
};

const defaults: TableOptions = { queuedChangesMax: 100_000 };
const tooMuch = 'more has changed at once than can be held';

export class TableHost implements AddressTable {
  readonly #ports: TablePorts;
  readonly #listeners: TableListeners;
  readonly #options: TableOptions;
  readonly #memory = new TableMemory();
  readonly #log: TableLog;
  readonly #corrections = new Corrections();
  readonly #watchers = new OwnerWatchers();
  readonly #repair = new TableRepair();
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

  constructor(ports: TablePorts, listeners: TableListeners, options: Partial<TableOptions> = {}) {
    this.#ports = ports;
    this.#options = { ...defaults, ...options };
    this.#listeners = listeners;
    const { files, clock, self, tell } = ports;
    this.#log = new TableLog({ files, clock, self: self.id, tell });
  }

  /** Reads the disk, then the registry. */
  start(): void {
    const { files, self, tell } = this.#ports;
    files.list(tableDirectory, (listed) => {
      if (!this.#isOpen) return;
      this.#files = listed.ok ? listed.value : [];
      const ports = { files, self: self.id, tell, memory: this.#memory, log: this.#log };
      this.#guard(() => replayTable(ports, () => this.#guard(() => this.#follow())));
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
  correct(pool: KnownPool, container: number, owner: NodeId | undefined, version: number): void {
    const { major } = pool.record;
    const isKnown = this.#memory.poolByNumber(major)?.has(container) ?? false;
    if (!isKnown || !Number.isSafeInteger(version) || version <= this.versionOf(pool, container)) return;
    if (this.#isConfirmed && version <= this.#revision) return;
    this.#corrections.set(major, container, { owner, version });
    this.#watchers.tell(major, container);
    this.#suspect({ version, hash: undefined });
  }

  /** Told of every change of the container's record, because each can mean that asking the owner again is worth it. */
  watchOwner(pool: KnownPool, container: number, changed: () => void): Cancel {
    return this.#watchers.add(pool.record.major, container, changed);
  }

  /** For the state that a node embeds in what it says to others. */
  digestBytes(): Uint8Array {
    return encodeDigest(this.#digest);
  }

  /** What another node has embedded. */
  heard(digest: Uint8Array): void {
    const theirs = decodeDigest(digest);
    if (theirs !== undefined) this.#suspect(theirs);
  }

  get #digest(): TableDigest {
    return { version: this.#memory.version, hash: this.#memory.hashWords };
  }

  #suspect(theirs: TableDigest): void {
    if (!this.#isOpen || !this.#isConfirmed) return;
    const { clock } = this.#ports;
    const atMs = this.#repair.heard(clock.nowMs(), theirs, this.#digest);
    if (atMs === undefined) return;
    this.#cancelLook = clock.schedule(atMs - clock.nowMs(), () => {
      if (this.#isOpen && this.#repair.look(clock.nowMs(), this.#digest)) this.#readAgain('others know more');
    });
  }

  #readAgain(reason: string): void {
    this.#ports.tell({ kind: 'table.repairing', reason });
    this.#follow();
  }

  #follow(): void {
    const { registry, clock } = this.#ports;
    this.#unfollow();
    this.#unfollow = mirror(registry, clock, keyRanges.containers, {
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
    const plan = new TablePlan(this.#memory, this.#orphans);
    for (const batch of batches) {
      if (batch.kind === 'changed') plan.changed(batch.changes, batch.revision);
      else plan.loaded(batch.entries, batch.revision, !this.#isConfirmed);
    }
    this.#isWriting = true;
    if (plan.areNumbersChanged) this.#log.writeAllAnew();
    this.#log.write(logGroup(plan, this.#memory, this.#ports.clock.wallMs()), () =>
      this.#guard(() => this.#written(plan)),
    );
  }

  #written(plan: TablePlan): void {
    for (const step of plan.steps) if (this.#isOpen) this.#apply(step);
    this.#isWriting = false;
    if (!this.#isOpen) return;
    if (plan.isIncomplete || this.#isBehind) {
      this.#isBehind = false;
      this.#readAgain(plan.isIncomplete ? 'containers came before their pool' : tooMuch);
    }
    if (this.#queue.length > 0) this.#write();
  }

  #apply(step: TableStep): void {
    switch (step.kind) {
      case 'container':
        return this.#applyContainer(step);
      case 'pool':
        this.#memory.setPool(step.pool, step.revision);
        return this.#listeners.poolChanged?.(step.pool, false);
      case 'poolGone':
        return this.#applyPoolGone(step.pool);
      case 'reached':
        if (step.isReset) this.#memory.wentBack(step.version);
        else this.#memory.reached(step.version);
        this.#revision = step.revision;
        return this.#listeners.advanced?.(step.revision);
      case 'loaded':
        return this.#applyLoaded();
      default:
        return unreachable(step);
    }
  }

  #applyContainer({ change, owner, version }: ContainerStep): void {
    const { pool, container, revision } = change;
    const { major } = pool.record;
    const table = this.#memory.poolByNumber(major);
    if (table !== undefined) this.#memory.set(table, container, owner, version);
    this.#corrections.reached(major, container, revision);
    this.#listeners.changed(change);
    this.#watchers.tell(major, container);
  }

  #applyPoolGone(pool: KnownPool): void {
    const table = this.#memory.poolByNumber(pool.record.major);
    if (table !== undefined) this.#memory.removePool(table);
    this.#log.drop(pool.record);
    this.#listeners.poolChanged?.(pool, true);
  }

  #applyLoaded(): void {
    this.#corrections.clear();
    if (this.#isConfirmed) return;
    this.#isConfirmed = true;
    let containers = 0;
    for (const { live } of this.#memory.pools()) containers += live;
    this.#ports.tell({ kind: 'table.confirmed', version: this.version, containers });
    this.#removeOldFiles();
    this.#listeners.confirmed?.();
  }

  /** The number of a pool is never given twice, so a log of a pool that is not there now is of no use ever. */
  #removeOldFiles(): void {
    const { self } = this.#ports;
    for (const name of this.#files) {
      const pool = poolOfFile(name, self.id);
      if (pool !== undefined && this.poolByNumber(pool.major)?.record.minor !== pool.minor) this.#log.drop(pool);
    }
    this.#files = [];
  }

  #guard(run: () => void): void {
    if (!this.#isOpen) return;
    try {
      run();
    } catch (error) {
      this.stop();
      this.#ports.halted(error);
    }
  }
}
