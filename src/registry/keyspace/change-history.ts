/**
 * The latest revisions, for watches that resume; drops the oldest by count and bytes. A reader behind the oldest
 * revision gets `compacted`, never a gap.
 */
import type { KeyRange, RegistryChange } from '../../base/registry.ts';
import { utf8SortKey } from '../../base/registry-validation.ts';

export type RevisionChanges = { readonly revision: number; readonly changes: readonly RegistryChange[] };

export type ChangeHistoryLimits = { readonly historyChangesMax: number; readonly historyBytesMax: number };

/** `next` is the revision to continue from: every change of the range before it is in `revisions`. */
export type ChangeHistoryPage =
  | { readonly kind: 'changes'; readonly revisions: readonly RevisionChanges[]; readonly next: number }
  | { readonly kind: 'compacted'; readonly oldestRevision: number };

/** The size of a change besides its key and value. */
const changeBytes = 64;
/** How many revisions one read examines, so that none delays the others. */
const revisionsReadMax = 20_000;

/** With its lowest and highest key, so that a watch of other keys skips it whole. */
type Block = { readonly changes: readonly RegistryChange[]; readonly low: string; readonly high: string };

/** The changes of one revision. Most revisions have one, and a list for each would take most of the memory. */
type StoredRevision = RegistryChange | Block;

export class ChangeHistory {
  readonly #limits: ChangeHistoryLimits;
  /**
   * One per revision, in order; 0 <= head <= length. Those before `#head` are dropped, and cut off from time to time.
   */
  #revisions: StoredRevision[] = [];
  #head = 0;
  /** The revision that is added next. */
  #nextRevision = 1;
  #changes = 0;
  #bytes = 0;

  constructor(limits: ChangeHistoryLimits) {
    this.#limits = limits;
  }

  /** The history is complete from this revision on. */
  get oldestRevision(): number {
    return this.#nextRevision - (this.#revisions.length - this.#head);
  }

  add(revision: number, changes: readonly RegistryChange[]): void {
    const [only] = changes;
    this.#revisions.push(changes.length === 1 && only !== undefined ? only : blockOf(changes));
    this.#nextRevision = revision + 1;
    this.#changes += changes.length;
    this.#bytes += bytesOf(changes);
    while (this.#isFull()) this.#dropOldest();
    if (this.#head > 1_024 && this.#head * 2 > this.#revisions.length) this.#compactArray();
  }

  /** Drops everything; the revision to be added next is `nextRevision`. */
  restart(nextRevision: number): void {
    this.#revisions = [];
    this.#head = 0;
    this.#changes = 0;
    this.#bytes = 0;
    this.#nextRevision = nextRevision;
  }

  /** The changes of a range from a revision on, up to `bytesMax`, but at least one whole revision. */
  read(range: KeyRange, fromRevision: number, bytesMax: number): ChangeHistoryPage {
    if (fromRevision < this.oldestRevision) return { kind: 'compacted', oldestRevision: this.oldestRevision };
    const bounds = { from: utf8SortKey(range.from), to: utf8SortKey(range.to) };
    const revisions: RevisionChanges[] = [];
    let next = fromRevision;
    let bytes = 0;
    const end = Math.min(this.#nextRevision, fromRevision + revisionsReadMax);
    for (; next < end; next++) {
      const changes = within(this.#revisions[this.#indexOf(next)] as StoredRevision, bounds);
      if (changes.length === 0) continue;
      bytes += bytesOf(changes);
      if (bytes > bytesMax && revisions.length > 0) break;
      revisions.push({ revision: next, changes });
    }
    return { kind: 'changes', revisions, next };
  }

  /** The latest revisions with at most `changesMax` changes in all, but at least one revision; in order, a copy. */
  latest(changesMax: number): Iterable<RevisionChanges> {
    let first = this.#revisions.length;
    for (let changes = 0; first > this.#head; first--) {
      changes += countOf(this.#revisions[first - 1] as StoredRevision);
      if (changes > changesMax && first < this.#revisions.length) break;
    }
    const revisions = this.#revisions.slice(first);
    return numbered(revisions, this.#nextRevision - revisions.length);
  }

  #indexOf(revision: number): number {
    return this.#revisions.length - (this.#nextRevision - revision);
  }

  /** The latest revision is never dropped, however large it is. */
  #isFull(): boolean {
    if (this.#revisions.length - this.#head <= 1) return false;
    return this.#changes > this.#limits.historyChangesMax || this.#bytes > this.#limits.historyBytesMax;
  }

  #dropOldest(): void {
    const changes = listOf(this.#revisions[this.#head] as StoredRevision);
    this.#head += 1;
    this.#changes -= changes.length;
    this.#bytes -= bytesOf(changes);
  }

  #compactArray(): void {
    this.#revisions = this.#revisions.slice(this.#head);
    this.#head = 0;
  }
}

function* numbered(revisions: readonly StoredRevision[], oldest: number): Generator<RevisionChanges> {
  let revision = oldest;
  for (const stored of revisions) yield { revision: revision++, changes: listOf(stored) };
}

function countOf(stored: StoredRevision): number {
  return 'kind' in stored ? 1 : stored.changes.length;
}

function listOf(stored: StoredRevision): readonly RegistryChange[] {
  return 'kind' in stored ? [stored] : stored.changes;
}

function blockOf(changes: readonly RegistryChange[]): Block {
  let low: string | undefined;
  let high = '';
  for (const change of changes) {
    const order = utf8SortKey(changedKey(change));
    if (low === undefined || order < low) low = order;
    if (order > high) high = order;
  }
  return { changes, low: low ?? '', high };
}

/** The bounds are sort keys already. */
function within(stored: StoredRevision, { from, to }: KeyRange): readonly RegistryChange[] {
  const isWithin = (change: RegistryChange): boolean => {
    const order = utf8SortKey(changedKey(change));
    return order >= from && order < to;
  };
  if ('kind' in stored) return isWithin(stored) ? [stored] : none;
  return stored.high < from || stored.low >= to ? none : stored.changes.filter(isWithin);
}

const none: readonly RegistryChange[] = [];

function changedKey(change: RegistryChange): string {
  return change.kind === 'put' ? change.entry.key : change.key;
}

function bytesOf(changes: readonly RegistryChange[]): number {
  let bytes = 0;
  for (const change of changes)
    bytes += changeBytes + changedKey(change).length + (change.kind === 'put' ? change.entry.value.length : 0);
  return bytes;
}
