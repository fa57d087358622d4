/**
 * Ordered keys with revisions, transactions, leases and recent changes. Deterministic: the same calls give the same
 * state and results on every replica, so the limits must be equal on all of them. Owns no clock.
 */
import { assert } from '../../base/assert.ts';
import { type Outcome, failure, success } from '../../base/errors.ts';
import {
  type KeyRange,
  type LeaseId,
  type RangeResult,
  type RegistryEpoch,
  type RegistryChange,
  type RegistryCompare,
  type RegistryEntry,
  type RegistryOp,
  type RegistryOpResult,
  type RegistryTransaction,
  type TransactionResult,
} from '../../base/registry.ts';
import { registryEpoch } from '../../base/registry-epoch.ts';
import { utf8SortKey, validateTransaction, validateTtl, utf8Length } from '../../base/registry-validation.ts';
import { ChangeHistory, type ChangeHistoryPage } from './change-history.ts';
import {
  type GrantedLease,
  type KeyspaceItems,
  type KeyspaceLimits,
  type KeyspaceNumbers,
  type KeyspaceSnapshot,
  keyspaceLimits,
} from './keyspace-types.ts';
import { OrderedMap } from '../../base/collections/ordered-map.ts';

/**
 * The latest changes that a snapshot holds. A watch that is further behind must list again; the whole history would be
 * most of the snapshot of a busy registry.
 */
const snapshotChangesMax = 10_000;

/** The size of an entry besides its key and value, about that in a snapshot. */
const entryBytes = 32;

type Lease = { readonly ttlMs: number; readonly keys: Set<string> };

const putResult: RegistryOpResult = { kind: 'put' };

export class Keyspace {
  readonly #limits: KeyspaceLimits;
  #entries = new OrderedMap<RegistryEntry>();
  #leases = new Map<LeaseId, Lease>();
  #history: ChangeHistory;
  /** The id that the first leader of the group chose; empty before. */
  #groupId = '';
  #restores = 0;
  #epoch = registryEpoch('', 0);
  #revision = 0;
  #lastLease = 0;
  /** Sum of `sizeOf` over all entries. */
  #sizeBytes = 0;
  /** Of the current transaction. */
  #changes: RegistryChange[] = [];

  constructor(limits: Partial<KeyspaceLimits> = {}) {
    this.#limits = { ...keyspaceLimits, ...limits };
    this.#history = new ChangeHistory(this.#limits);
  }

  get groupId(): string {
    return this.#groupId;
  }

  get epoch(): RegistryEpoch {
    return this.#epoch;
  }

  get revision(): number {
    return this.#revision;
  }

  get oldestRevision(): number {
    return this.#history.oldestRevision;
  }

  /** In the measure of `totalBytesMax`. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get keyCount(): number {
    return this.#entries.size;
  }

  get leaseCount(): number {
    return this.#leases.size;
  }

  /** At most `limit` entries, and at least one if the range has any. */
  range(range: KeyRange, limit: number): RangeResult {
    const { epoch } = this;
    return { epoch, ...this.#read(range, limit, this.#limits.replyBytesMax, 1), revision: this.#revision };
  }

  /** Keeps the bytes of values without copying them: the caller must not reuse them. */
  transact(transaction: RegistryTransaction): Outcome<TransactionResult> {
    const fault = validateTransaction(transaction);
    return fault === undefined ? this.transactChecked(transaction) : { ok: false, error: fault };
  }

  /** For a transaction that was validated already. */
  transactChecked(transaction: RegistryTransaction): Outcome<TransactionResult> {
    const succeeded = transaction.compare.every((compare) => this.#isTrue(compare));
    const ops = succeeded ? transaction.then : transaction.otherwise;
    const refusal = this.#refusalOf(ops);
    if (refusal !== undefined) return refusal;
    const results = this.#execute(ops);
    this.#commit();
    return success({ succeeded, epoch: this.#epoch, revision: this.#revision, results });
  }

  /** Names the group. Without effect once it has a name: two leaders may have proposed one. */
  setGroupId(groupId: string): void {
    if (this.#groupId === '') this.#setEpoch(groupId, this.#restores);
  }

  grant(ttlMs: number): Outcome<GrantedLease> {
    const fault = validateTtl(ttlMs);
    if (fault !== undefined) return { ok: false, error: fault };
    if (this.#leases.size >= this.#limits.leasesMax)
      return failure('STORE_FULL', `the registry holds at most ${this.#limits.leasesMax} leases`);
    this.#lastLease += 1;
    const number = String(this.#lastLease);
    const lease = (this.#groupId === '' ? number : `${this.#epoch}:${number}`) as LeaseId;
    this.#leases.set(lease, { ttlMs, keys: new Set() });
    return success({ lease, ttlMs });
  }

  /** False if there is no such lease. Otherwise its keys are deleted with it in one revision. */
  revoke(lease: LeaseId): boolean {
    const known = this.#leases.get(lease);
    if (known === undefined) return false;
    this.#leases.delete(lease);
    // In key order, because the insertion order differs on a replica that was restored from a snapshot.
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

  /** The changes of a range from a revision on. */
  changesFrom(range: KeyRange, fromRevision: number): ChangeHistoryPage {
    return this.#history.read(range, fromRevision, this.#limits.replyBytesMax);
  }

  /** Copies references only. */
  snapshot(): KeyspaceSnapshot {
    const entries = this.#entries.values();
    const history = this.#history.latest(snapshotChangesMax);
    const numbers = { restores: this.#restores, revision: this.#revision, lastLease: this.#lastLease };
    return { groupId: this.#groupId, ...numbers, leases: this.leases(), entries, history };
  }

  /** Replaces the whole state by the snapshot. */
  load(snapshot: KeyspaceSnapshot): void {
    this.#clear();
    this.startAt(snapshot);
    this.fill(snapshot);
  }

  /** Starts a load in parts into an empty key space; `fill` adds the parts. */
  startAt({ groupId, restores, revision, lastLease }: KeyspaceNumbers): void {
    this.#setEpoch(groupId, restores);
    this.#revision = revision;
    this.#lastLease = lastLease;
    this.#history.restart(revision + 1);
  }

  fill({ leases, entries, history }: KeyspaceItems): void {
    for (const { lease, ttlMs } of leases) this.#leases.set(lease, { ttlMs, keys: new Set() });
    for (const entry of entries) this.#store(entry);
    for (const { revision, changes } of history) this.#history.add(revision, changes);
  }

  /** Takes over the state of another key space, which must not be used afterwards. */
  adopt(other: Keyspace): void {
    this.#setEpoch(other.#groupId, other.#restores);
    this.#entries = other.#entries;
    this.#leases = other.#leases;
    this.#history = other.#history;
    this.#revision = other.#revision;
    this.#lastLease = other.#lastLease;
    this.#sizeBytes = other.#sizeBytes;
  }

  /**
   * Replaces keys and leases by those of a backup, in one revision that is newer than all before: the history starts
   * there, and no comparison with an earlier `modRevision` holds. It starts another epoch of this group, whatever group
   * the backup is from.
   */
  replaceWith(backup: KeyspaceSnapshot): Outcome<void> {
    const revision = Math.max(this.#revision, backup.revision) + 1;
    const lastLease = Math.max(this.#lastLease, backup.lastLease);
    const entries = Array.from(backup.entries, (entry) => ({ ...entry, modRevision: revision }));
    let bytes = 0;
    for (const entry of entries) bytes += sizeOf(entry);
    if (bytes > this.#limits.totalBytesMax || backup.leases.length > this.#limits.leasesMax)
      return failure('STORE_FULL', `the backup exceeds what a registry holds: ${this.#limits.totalBytesMax} bytes`);
    const epoch = { groupId: this.#groupId, restores: this.#restores + 1 };
    this.load({ ...epoch, revision, lastLease, leases: backup.leases, entries, history: [] });
    return success(undefined);
  }

  #isTrue(compare: RegistryCompare): boolean {
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

  /** Why a branch cannot be executed; checked before the first change. */
  #refusalOf(ops: readonly RegistryOp[]): Outcome<never> | undefined {
    let growthMax = 0;
    let changes = 0;
    for (const op of ops) {
      if (op.kind === 'put') {
        const refusal = this.#leaseRefusal(op.lease, op.key);
        if (refusal !== undefined) return refusal;
        growthMax += op.key.length * 3 + op.value.length + entryBytes;
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
    // Nearly always the upper bound fits, and the exact growth need not be computed.
    if (this.#sizeBytes + growthMax <= this.#limits.totalBytesMax) return undefined;
    const growth = this.#growthOf(ops);
    if (growth <= 0 || this.#sizeBytes + growth <= this.#limits.totalBytesMax) return undefined;
    return failure('STORE_FULL', `the registry is full: it holds at most ${this.#limits.totalBytesMax} bytes`);
  }

  #growthOf(ops: readonly RegistryOp[]): number {
    let growth = 0;
    for (const op of ops) {
      if (op.kind === 'put')
        growth += utf8Length(op.key) + op.value.length + entryBytes - sizeOf(this.#entries.get(op.key));
      else if (op.kind === 'delete')
        this.#entries.visit(op.range.from, op.range.to, (entry) => {
          growth -= sizeOf(entry);
          return true;
        });
    }
    return growth;
  }

  #leaseRefusal(lease: LeaseId | undefined, key: string): Outcome<never> | undefined {
    if (lease === undefined) return undefined;
    const known = this.#leases.get(lease);
    if (known === undefined) return failure('LEASE_EXPIRED', `there is no lease ${lease}`, 'no');
    if (known.keys.size < this.#limits.changesMax || known.keys.has(key)) return undefined;
    return failure('TOO_LARGE', `a lease may hold at most ${this.#limits.changesMax} keys`);
  }

  /** The first read returns at least one entry if it finds any; later reads return what still fits into the reply. */
  #execute(ops: readonly RegistryOp[]): RegistryOpResult[] {
    let bytesLeft = this.#limits.replyBytesMax;
    let entriesMin = 1;
    return ops.map((op) => {
      if (op.kind === 'put') {
        this.#put(op.key, op.value, op.lease);
        return putResult;
      }
      if (op.kind === 'delete') return { kind: 'delete', deleted: this.#deleteRange(op.range) };
      const { entries, more } = this.#read(op.range, op.limit, bytesLeft, entriesMin);
      for (const entry of entries) bytesLeft -= replyBytes(entry);
      entriesMin = 0;
      return { kind: 'read', entries, more };
    });
  }

  #read(
    { from, to }: KeyRange,
    limit: number,
    bytesMax: number,
    entriesMin: number,
  ): { entries: RegistryEntry[]; more: boolean } {
    const entries: RegistryEntry[] = [];
    let bytes = 0;
    let more = false;
    this.#entries.visit(from, to, (entry) => {
      bytes += replyBytes(entry);
      more = entries.length === limit || (entries.length >= entriesMin && bytes > bytesMax);
      if (!more) entries.push(entry);
      return !more;
    });
    return { entries, more };
  }

  #put(key: string, value: Uint8Array, lease: LeaseId | undefined): void {
    const previous = this.#entries.get(key);
    const modRevision = this.#revision + 1;
    const entry: RegistryEntry = {
      // The existing string, so that the history does not hold one string per change.
      key: previous?.key ?? key,
      value,
      createRevision: previous?.createRevision ?? modRevision,
      modRevision,
      version: (previous?.version ?? 0) + 1,
      lease,
    };
    if (previous !== undefined) this.#unaccount(previous);
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
    for (const entry of taken) this.#recordDelete(entry);
    return taken.length;
  }

  #delete(key: string): void {
    const entry = this.#entries.get(key);
    assert(entry !== undefined, 'a key that is deleted exists');
    this.#entries.delete(key);
    this.#recordDelete(entry);
  }

  #recordDelete(entry: RegistryEntry): void {
    this.#unaccount(entry);
    this.#changes.push({ kind: 'delete', key: entry.key, modRevision: this.#revision + 1 });
  }

  /** Removes an entry from the size and from its lease, because it is deleted or replaced. */
  #unaccount(entry: RegistryEntry): void {
    this.#sizeBytes -= sizeOf(entry);
    if (entry.lease !== undefined) this.#leases.get(entry.lease)?.keys.delete(entry.key);
  }

  #commit(): void {
    if (this.#changes.length === 0) return;
    this.#revision += 1;
    this.#history.add(this.#revision, this.#changes);
    this.#changes = [];
  }

  #setEpoch(groupId: string, restores: number): void {
    this.#groupId = groupId;
    this.#restores = restores;
    this.#epoch = registryEpoch(groupId, restores);
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

function replyBytes({ key, value }: RegistryEntry): number {
  return key.length + value.length + entryBytes;
}

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
