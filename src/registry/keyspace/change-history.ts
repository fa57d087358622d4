/**
 * Keeps the latest revisions whole for watches that resume; drops the oldest by count and bytes. A reader behind the
 * oldest gets `compacted`, never a gap.
 */
import type { KeyRange, RegistryChange } from '../../base/registry.ts';
import { utf8SortKey } from '../../base/registry-validation.ts';

export type RevisionChanges = { readonly revision: number; readonly changes: readonly RegistryChange[] };

export type ChangeHistoryLimits = { readonly historyChangesMax: number; readonly historyBytesMax: number };

/** `next` is where to go on: everything before it is in `revisions` or does not concern the range. */
export type ChangeHistoryPage =
  | { readonly kind: 'changes'; readonly revisions: readonly RevisionChanges[]; readonly next: number }
  | { readonly kind: 'compacted'; readonly oldestRevision: number };

/** What a change is counted as beside its key and value. */
const changeBytes = 64;
/** How many revisions one question looks at, so that none holds up the others. */
const lookedAtMax = 20_000;

/** With the first and the last of its keys: whoever watches others need not look at each. */
type Block = { readonly changes: readonly RegistryChange[]; readonly low: string; readonly high: string };

/** The changes of one revision. Most have one, and a list for each would be most of what history takes. */
type Kept = RegistryChange | Block;

export class ChangeHistory {
  readonly #limits: ChangeHistoryLimits;
  /** One for each revision, in order; those before `#head` are gone and cut off from time to time. */
  #revisions: Kept[] = [];
  #head = 0;
  /** The next one that will be added. */
  #nextRevision = 1;
  #changes = 0;
  #bytes = 0;

  constructor(limits: ChangeHistoryLimits) {
    this.#limits = limits;
  }

  /** From here on nothing is missing. */
  get oldestRevision(): number {
    return this.#nextRevision - (this.#revisions.length - this.#head);
  }

  add(revision: number, changes: readonly RegistryChange[]): void {
    const [only] = changes;
    this.#revisions.push(changes.length === 1 && only !== undefined ? only : blockOf(changes));
    this.#nextRevision = revision + 1;
    this.#changes += changes.length;
    this.#bytes += bytesOf(changes);
    while (this.#isFull()) this.#forgetOldest();
    if (this.#head > 1_024 && this.#head * 2 > this.#revisions.length) this.#cut();
  }

  /** Forgets everything; the next revision to be added is this one. */
  restart(nextRevision: number): void {
    this.#revisions = [];
    this.#head = 0;
    this.#changes = 0;
    this.#bytes = 0;
    this.#nextRevision = nextRevision;
  }

  /** What concerns the range from a revision on, up to so many bytes but at least one revision whole. */
  read(range: KeyRange, fromRevision: number, bytesMax: number): ChangeHistoryPage {
    if (fromRevision < this.oldestRevision) return { kind: 'compacted', oldestRevision: this.oldestRevision };
    const bounds = { from: utf8SortKey(range.from), to: utf8SortKey(range.to) };
    const revisions: RevisionChanges[] = [];
    let next = fromRevision;
    let bytes = 0;
    const end = Math.min(this.#nextRevision, fromRevision + lookedAtMax);
    for (; next < end; next++) {
      const changes = within(this.#revisions[this.#indexOf(next)] as Kept, bounds);
      if (changes.length === 0) continue;
      bytes += bytesOf(changes);
      if (bytes > bytesMax && revisions.length > 0) break;
      revisions.push({ revision: next, changes });
    }
    return { kind: 'changes', revisions, next };
  }

  /** The last revisions with no more than so many changes in all, but at least one; in order, as they are now. */
  latest(changesMax: number): Iterable<RevisionChanges> {
    let first = this.#revisions.length;
    for (let changes = 0; first > this.#head; first--) {
      changes += countOf(this.#revisions[first - 1] as Kept);
      if (changes > changesMax && first < this.#revisions.length) break;
    }
    const revisions = this.#revisions.slice(first);
    return numbered(revisions, this.#nextRevision - revisions.length);
  }

  #indexOf(revision: number): number {
    return this.#revisions.length - (this.#nextRevision - revision);
  }

  /** The last revision is never forgotten before there is another, however large it is. */
  #isFull(): boolean {
    if (this.#revisions.length - this.#head <= 1) return false;
    return this.#changes > this.#limits.historyChangesMax || this.#bytes > this.#limits.historyBytesMax;
  }

  #forgetOldest(): void {
    const changes = listOf(this.#revisions[this.#head] as Kept);
    this.#head += 1;
    this.#changes -= changes.length;
    this.#bytes -= bytesOf(changes);
  }

  #cut(): void {
    this.#revisions = this.#revisions.slice(this.#head);
    this.#head = 0;
  }
}

function* numbered(revisions: readonly Kept[], oldest: number): Generator<RevisionChanges> {
  let revision = oldest;
  for (const kept of revisions) yield { revision: revision++, changes: listOf(kept) };
}

function countOf(kept: Kept): number {
  return 'kind' in kept ? 1 : kept.changes.length;
}

function listOf(kept: Kept): readonly RegistryChange[] {
  return 'kind' in kept ? [kept] : kept.changes;
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

/** The bounds are `sortable` already. */
function within(kept: Kept, { from, to }: KeyRange): readonly RegistryChange[] {
  const isWithin = (change: RegistryChange): boolean => {
    const order = utf8SortKey(changedKey(change));
    return order >= from && order < to;
  };
  if ('kind' in kept) return isWithin(kept) ? [kept] : none;
  return kept.high < from || kept.low >= to ? none : kept.changes.filter(isWithin);
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
