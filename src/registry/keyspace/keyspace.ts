/**
 * Ordered keys with revisions, transactions, leases and recent changes. Deterministic: same calls, same state and
 * answers on every replica. Has no clock.
 *
 * The limits are part of what all replicas have to agree on, so nobody may set them differently outside of a test.
 */
import { assert } from '../../base/assert.ts';
import { type Outcome, failure, success } from '../../base/errors.ts';
import {
  type KeyRange,
  type LeaseId,
  type RangeResult,
  type RegistryChange,
  type RegistryCompare,
  type RegistryEntry,
  type RegistryOp,
  type RegistryOpResult,
  type RegistryTransaction,
  type TransactionResult,
} from '../../base/registry.ts';
import { utf8SortKey, validateTransaction, validateTtl, utf8Length } from '../../base/registry-validation.ts';
import {
  ChangeHistory,
  type ChangeHistoryLimits,
  type ChangeHistoryPage,
  type RevisionChanges,
} from './change-history.ts';
import { OrderedMap } from '../../base/collections/ordered-map.ts';

export type KeyspaceLimits = ChangeHistoryLimits & {
  /** Keys and values together, and `entryBytes` for each. */
  readonly totalBytesMax: number;
  readonly leasesMax: number;
  /** How many keys one transaction or the end of one lease may change: watchers get them in one message. */
  readonly changesMax: number;
  /** What one answer may hold: a range that would exceed it ends early, with `more`. */
  readonly answerBytesMax: number;
};

const keyspaceLimits: KeyspaceLimits = {
  totalBytesMax: 104_857_600,
  leasesMax: 100_000,
  changesMax: 8_192,
  answerBytesMax: 3_145_728,
  historyChangesMax: 100_000,
  historyBytesMax: 16_777_216,
};

/**
 * What of history is in an image. A watch that was further behind when its manager came back has to read again; all of
 * history would be most of every snapshot of a busy registry, and most of its cost.
 */
const imageChangesMax = 10_000;

/** About what it takes in a snapshot: what an entry is counted as beside its key and its value. */
const entryBytes = 32;

export type GrantedLease = { readonly lease: LeaseId; readonly ttlMs: number };

/** The whole of a key space, for snapshots and backups. What happens to the key space later does not change it. */
export type KeyspaceSnapshot = KeyspaceItems & { readonly revision: number; readonly lastLease: number };

/** Each list in its order, and can be gone through once. */
type KeyspaceItems = {
  readonly leases: readonly GrantedLease[];
  readonly entries: Iterable<RegistryEntry>;
  readonly history: Iterable<RevisionChanges>;
};

type Lease = { readonly ttlMs: number; readonly keys: Set<string> };

const putResult: RegistryOpResult = { kind: 'put' };

export class Keyspace {
  readonly #limits: KeyspaceLimits;
  #entries = new OrderedMap<RegistryEntry>();
  #leases = new Map<LeaseId, Lease>();
  #history: ChangeHistory;
  #revision = 0;
  #lastLease = 0;
  #sizeBytes = 0;
  /** Of the transaction that is being executed. */
  #changes: RegistryChange[] = [];

  constructor(limits: Partial<KeyspaceLimits> = {}) {
    this.#limits = { ...keyspaceLimits, ...limits };
    this.#history = new ChangeHistory(this.#limits);
  }

  get revision(): number {
    return this.#revision;
  }

  get oldestRevision(): number {
    return this.#history.oldestRevision;
  }

  /** Counted as `totalBytesMax` counts. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get keyCount(): number {
    return this.#entries.size;
  }

  get leaseCount(): number {
    return this.#leases.size;
  }

  /** At most `limit` entries, and at least one if there is any. */
  range(range: KeyRange, limit: number): RangeResult {
    return { ...this.#read(range, limit, this.#limits.answerBytesMax, 1), revision: this.#revision };
  }

  /** The bytes of values are kept, not copied: they must be nobody else's. */
  transact(transaction: RegistryTransaction): Outcome<TransactionResult> {
    const fault = validateTransaction(transaction);
    return fault === undefined ? this.transactChecked(transaction) : { ok: false, error: fault };
  }

  /** For one that is known to break no rule. */
  transactChecked(transaction: RegistryTransaction): Outcome<TransactionResult> {
    const succeeded = transaction.compare.every((compare) => this.#holds(compare));
    const ops = succeeded ? transaction.then : transaction.otherwise;
    const obstacle = this.#obstacle(ops);
    if (obstacle !== undefined) return obstacle;
    const results = this.#execute(ops);
    this.#commit();
    return success({ succeeded, revision: this.#revision, results });
  }

  grant(ttlMs: number): Outcome<GrantedLease> {
    const fault = validateTtl(ttlMs);
    if (fault !== undefined) return { ok: false, error: fault };
    if (this.#leases.size >= this.#limits.leasesMax)
      return failure('STORE_FULL', `the registry holds at most ${this.#limits.leasesMax} leases`);
    this.#lastLease += 1;
    const lease = String(this.#lastLease) as LeaseId;
    this.#leases.set(lease, { ttlMs, keys: new Set() });
    return success({ lease, ttlMs });
  }

  /** False if there is no such lease. Otherwise its keys end with it, all in one revision. */
  revoke(lease: LeaseId): boolean {
    const known = this.#leases.get(lease);
    if (known === undefined) return false;
    this.#leases.delete(lease);
    // The order in which keys were written is not the same on a replica that was restored: the order of keys is.
    const keys = [...known.keys].toSorted((a, b) => (utf8SortKey(a) < utf8SortKey(b) ? -1 : 1));
    for (const key of keys) this.#delete(key);
    this.#commit();
    return true;
  }

  ttlMsOf(lease: LeaseId): number | undefined {
    return this.#leases.get(lease)?.ttlMs;
  }

  leases(): readonly GrantedLease[] {
    return Array.from(this.#leases, ([lease, { ttlMs }]) => ({ lease, ttlMs }));
  }

  /** What a watch from that revision on has missed so far. */
  changesFrom(range: KeyRange, fromRevision: number): ChangeHistoryPage {
    return this.#history.read(range, fromRevision, this.#limits.answerBytesMax);
  }

  /** Copies no more than references. */
  snapshot(): KeyspaceSnapshot {
    const entries = this.#entries.values();
    const history = this.#history.latest(imageChangesMax);
    return { revision: this.#revision, lastLease: this.#lastLease, leases: this.leases(), entries, history };
  }

  /** Becomes what the image shows. */
  load(image: KeyspaceSnapshot): void {
    this.#clear();
    this.begin(image.revision, image.lastLease);
    this.fill(image);
  }

  /** The same in several steps, for one that is empty: this first, and then `fill` until all of the image was there. */
  begin(revision: number, lastLease: number): void {
    this.#revision = revision;
    this.#lastLease = lastLease;
    this.#history.restart(revision + 1);
  }

  fill({ leases, entries, history }: KeyspaceItems): void {
    for (const { lease, ttlMs } of leases) this.#leases.set(lease, { ttlMs, keys: new Set() });
    for (const entry of entries) this.#store(entry);
    for (const { revision, changes } of history) this.#history.add(revision, changes);
  }

  /** Takes over all that another one holds, which nobody may use any more. */
  startAtRevision(other: Keyspace): void {
    this.#entries = other.#entries;
    this.#leases = other.#leases;
    this.#history = other.#history;
    this.#revision = other.#revision;
    this.#lastLease = other.#lastLease;
    this.#sizeBytes = other.#sizeBytes;
  }

  /**
   * Takes over the keys and leases of a backup, as one change that is newer than everything before it: history ends
   * here, and no comparison with a `modRevision` seen before holds any more.
   */
  replaceWith(backup: KeyspaceSnapshot): Outcome<void> {
    const revision = Math.max(this.#revision, backup.revision) + 1;
    const lastLease = Math.max(this.#lastLease, backup.lastLease);
    const entries = Array.from(backup.entries, (entry) => ({ ...entry, modRevision: revision }));
    let bytes = 0;
    for (const entry of entries) bytes += sizeOf(entry);
    if (bytes > this.#limits.totalBytesMax || backup.leases.length > this.#limits.leasesMax)
      return failure('STORE_FULL', `the backup exceeds what a registry holds: ${this.#limits.totalBytesMax} bytes`);
    this.load({ revision, lastLease, leases: backup.leases, entries, history: [] });
    return success(undefined);
  }

  #holds(compare: RegistryCompare): boolean {
    const entry = this.#entries.get(compare.key);
    if (compare.target === 'value') {
      const equal = entry !== undefined && equalBytes(entry.value, compare.than);
      return compare.is === 'equal' ? equal : !equal;
    }
    const actual = entry?.[compare.target] ?? 0;
    if (compare.is === 'equal') return actual === compare.than;
    if (compare.is === 'notEqual') return actual !== compare.than;
    return compare.is === 'less' ? actual < compare.than : actual > compare.than;
  }

  /** Why a branch cannot be executed; found before anything is changed. */
  #obstacle(ops: readonly RegistryOp[]): Outcome<never> | undefined {
    let grownMost = 0;
    let changes = 0;
    for (const op of ops) {
      if (op.kind === 'put') {
        const obstacle = this.#leaseObstacle(op.lease, op.key);
        if (obstacle !== undefined) return obstacle;
        grownMost += op.key.length * 3 + op.value.length + entryBytes;
        changes += 1;
      } else if (op.kind === 'delete') {
        this.#entries.visit(op.range.from, op.range.to, () => {
          changes += 1;
          return changes <= this.#limits.changesMax;
        });
      }
    }
    if (changes > this.#limits.changesMax)
      return failure('TOO_LARGE', `a transaction may change at most ${this.#limits.changesMax} keys`);
    // Nearly always there is room for more than it can take, and nobody has to know how much that is.
    if (this.#sizeBytes + grownMost <= this.#limits.totalBytesMax) return undefined;
    const grown = this.#growth(ops);
    if (grown <= 0 || this.#sizeBytes + grown <= this.#limits.totalBytesMax) return undefined;
    return failure('STORE_FULL', `the registry is full: it holds at most ${this.#limits.totalBytesMax} bytes`);
  }

  #growth(ops: readonly RegistryOp[]): number {
    let grown = 0;
    for (const op of ops) {
      if (op.kind === 'put')
        grown += utf8Length(op.key) + op.value.length + entryBytes - sizeOf(this.#entries.get(op.key));
      else if (op.kind === 'delete')
        this.#entries.visit(op.range.from, op.range.to, (entry) => {
          grown -= sizeOf(entry);
          return true;
        });
    }
    return grown;
  }

  #leaseObstacle(lease: LeaseId | undefined, key: string): Outcome<never> | undefined {
    if (lease === undefined) return undefined;
    const known = this.#leases.get(lease);
    if (known === undefined) return failure('LEASE_EXPIRED', `there is no lease ${lease}`, 'no');
    if (known.keys.size < this.#limits.changesMax || known.keys.has(key)) return undefined;
    return failure('TOO_LARGE', `a lease may hold at most ${this.#limits.changesMax} keys`);
  }

  /** The first read gives at least one entry, if there is any; those after it only what the answer has room for. */
  #execute(ops: readonly RegistryOp[]): RegistryOpResult[] {
    let bytesLeft = this.#limits.answerBytesMax;
    let atLeast = 1;
    return ops.map((op) => {
      if (op.kind === 'put') {
        this.#put(op.key, op.value, op.lease);
        return putResult;
      }
      if (op.kind === 'delete') return { kind: 'delete', deleted: this.#deleteRange(op.range) };
      const { entries, more } = this.#read(op.range, op.limit, bytesLeft, atLeast);
      for (const entry of entries) bytesLeft -= answerBytes(entry);
      atLeast = 0;
      return { kind: 'read', entries, more };
    });
  }

  #read(
    { from, to }: KeyRange,
    limit: number,
    bytesMax: number,
    atLeast: number,
  ): { entries: RegistryEntry[]; more: boolean } {
    const entries: RegistryEntry[] = [];
    let bytes = 0;
    let more = false;
    this.#entries.visit(from, to, (entry) => {
      bytes += answerBytes(entry);
      more = entries.length === limit || (entries.length >= atLeast && bytes > bytesMax);
      if (!more) entries.push(entry);
      return !more;
    });
    return { entries, more };
  }

  #put(key: string, value: Uint8Array, lease: LeaseId | undefined): void {
    const former = this.#entries.get(key);
    const modRevision = this.#revision + 1;
    const entry: RegistryEntry = {
      // The text that is there already, so that history does not keep one for each change.
      key: former?.key ?? key,
      value,
      createRevision: former?.createRevision ?? modRevision,
      modRevision,
      version: (former?.version ?? 0) + 1,
      lease,
    };
    if (former !== undefined) this.#release(former);
    this.#store(entry);
    this.#changes.push({ kind: 'put', entry });
  }

  #store(entry: RegistryEntry): void {
    this.#entries.set(entry.key, entry);
    this.#sizeBytes += sizeOf(entry);
    if (entry.lease !== undefined) this.#leases.get(entry.lease)?.keys.add(entry.key);
  }

  #deleteRange({ from, to }: KeyRange): number {
    const taken = this.#entries.takeRange(from, to);
    for (const entry of taken) this.#deleted(entry);
    return taken.length;
  }

  #delete(key: string): void {
    const entry = this.#entries.get(key);
    assert(entry !== undefined, 'a key that is deleted exists');
    this.#entries.delete(key);
    this.#deleted(entry);
  }

  #deleted(entry: RegistryEntry): void {
    this.#release(entry);
    this.#changes.push({ kind: 'delete', key: entry.key, modRevision: this.#revision + 1 });
  }

  /** Takes an entry out of all sums, because it is deleted or replaced. */
  #release(entry: RegistryEntry): void {
    this.#sizeBytes -= sizeOf(entry);
    if (entry.lease !== undefined) this.#leases.get(entry.lease)?.keys.delete(entry.key);
  }

  #commit(): void {
    if (this.#changes.length === 0) return;
    this.#revision += 1;
    this.#history.add(this.#revision, this.#changes);
    this.#changes = [];
  }

  #clear(): void {
    this.#entries.clear();
    this.#leases.clear();
    this.#sizeBytes = 0;
  }
}

function sizeOf(entry: RegistryEntry | undefined): number {
  return entry === undefined ? 0 : utf8Length(entry.key) + entry.value.length + entryBytes;
}

function answerBytes({ key, value }: RegistryEntry): number {
  return key.length + value.length + entryBytes;
}

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
