/**
 * Reads the stored state of a group and validates it. Any damage is STORE_CORRUPT: a voter with a damaged log must not
 * vote. Never repairs and never writes.
 */
import { type Done, type Outcome, RemusterError, failure, isRemusterError, success } from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Store, StoreEntry } from '../../base/ports.ts';
import { snapshotChunkBytesMax } from '../../messages/consensus.ts';
import { crc32 } from '../../base/crc.ts';
import { type LogEntry, decodeLogEntry } from './log-entry.ts';
import type { LogPosition } from './replicated-log.ts';
import { type Snapshot, noSnapshot } from './snapshot.ts';
import {
  type StorageKeys,
  type SnapshotHead,
  type HardState,
  storageKeys,
  readSnapshotHead,
  readHardState,
} from './storage-format.ts';

export type RecoveredState = {
  readonly fresh: boolean;
  readonly term: number;
  readonly vote: NodeId | undefined;
  readonly snapshot: Snapshot;
  readonly base: LogPosition;
  readonly entries: readonly LogEntry[];
  /** Keys left by an interrupted cleanup. */
  readonly obsoleteKeys: readonly string[];
};

const emptyState: RecoveredState = {
  fresh: true,
  term: 0,
  vote: undefined,
  snapshot: noSnapshot,
  base: { index: 0, term: 0 },
  entries: [],
  obsoleteKeys: [],
};

type StoredPart = StoreEntry & { readonly checksum: number };

const pageEntries = 64;
const pageParts = 4;
/** The character after '/': the end of the keys of a group. */
const afterSlash = '0';

export function recoverGroup(store: Pick<Store, 'read'>, group: string, done: Done<RecoveredState>): void {
  const keys = storageKeys(group);
  const found: { meta?: StoreEntry; head?: StoreEntry } = {};
  const parts: StoredPart[] = [];
  const log: StoreEntry[] = [];
  const each = (entry: StoreEntry): void => {
    if (entry.key === keys.meta) found.meta = entry;
    else if (entry.key === keys.head) found.head = entry;
    else if (entry.key.startsWith(keys.snapshots))
      parts.push({ ...entry, checksum: checksumWith(parts.at(-1), entry) });
    else if (entry.key.startsWith(keys.log)) log.push(entry);
  };
  readPages(store, keys, each, (outcome) =>
    done(outcome.ok ? tryRead(() => assemble(keys, found, parts, log)) : outcome),
  );
}

/** Snapshot parts are large and come last: they are read a few at a time. */
function readPages(
  store: Pick<Store, 'read'>,
  keys: StorageKeys,
  each: (entry: StoreEntry) => void,
  done: Done<void>,
): void {
  const root = keys.meta.slice(0, -'meta'.length);
  const end = `${root.slice(0, -1)}${afterSlash}`;
  const page = (from: string, to: string, limit: number): void =>
    store.read({ from, to, limit }, (outcome) => {
      if (!outcome.ok) return done(outcome);
      for (const entry of outcome.value) each(entry);
      const last = outcome.value.at(-1);
      const hasMore = last !== undefined && outcome.value.length === limit;
      if (hasMore && last.key < keys.snapshots) page(`${last.key}\0`, keys.snapshots, pageEntries);
      else if (hasMore) page(`${last.key}\0`, end, pageParts);
      else if (to < end) page(keys.snapshots, end, pageParts);
      else done(success(undefined));
    });
  page(root, end, pageEntries);
}

/** Checksum of all bytes of the snapshot up to this part. */
function checksumWith(before: StoredPart | undefined, { key, value }: StoreEntry): number {
  const isNext = before !== undefined && snapshotPrefix(before.key) === snapshotPrefix(key);
  return crc32(value, isNext ? before.checksum : 0);
}

function snapshotPrefix(partKey: string): string {
  return partKey.slice(0, partKey.lastIndexOf('/') + 1);
}

function tryRead<T>(make: () => T): Outcome<T> {
  try {
    return success(make());
  } catch (error) {
    if (!isRemusterError(error)) throw error;
    return failure('STORE_CORRUPT', error.message);
  }
}

function corrupt(text: string): RemusterError {
  return new RemusterError('STORE_CORRUPT', text);
}

function assemble(
  keys: StorageKeys,
  found: { readonly meta?: StoreEntry; readonly head?: StoreEntry },
  parts: readonly StoredPart[],
  log: readonly StoreEntry[],
): RecoveredState {
  if (found.meta === undefined && found.head === undefined && log.length === 0)
    return { ...emptyState, obsoleteKeys: parts.map(({ key }) => key) };
  if (found.meta === undefined) throw corrupt('the hard state (term and vote) is missing');
  const meta = readHardState(found.meta.value) as HardState;
  const head = found.head === undefined ? undefined : (readSnapshotHead(found.head.value) as SnapshotHead);
  const base = { index: head?.baseIndex ?? 0, term: head?.baseTerm ?? 0 };
  const snapshot = head === undefined ? noSnapshot : snapshotFrom(keys, head, parts);
  const [kept, before] = split(log, ({ key }) => key > keys.entry(base.index));
  const entries = entriesFrom(keys, base, kept);
  if (base.index + entries.length < snapshot.index) throw corrupt('the log ends before its snapshot');
  const lastTerm = entries.at(-1)?.term ?? base.term;
  if (lastTerm > meta.term) throw corrupt(`the log has term ${lastTerm}, above the stored term ${meta.term}`);
  const prefix = snapshotPrefix(keys.part(snapshot.number, 0));
  const foreign = parts.filter(({ key }) => !key.startsWith(prefix) || snapshot.state.length === 0);
  const obsoleteKeys = [...before, ...foreign].map(({ key }) => key);
  return { fresh: false, term: meta.term, vote: meta.vote, snapshot, base, entries, obsoleteKeys };
}

function split<T>(items: readonly T[], belongs: (item: T) => boolean): [T[], T[]] {
  return [items.filter(belongs), items.filter((item) => !belongs(item))];
}

function snapshotFrom(keys: StorageKeys, head: SnapshotHead, parts: readonly StoredPart[]): Snapshot {
  const { number, index, term, members, totalBytes: length, checksum } = head;
  const prefix = snapshotPrefix(keys.part(number, 0));
  const own = parts.filter(({ key }) => key.startsWith(prefix));
  const partBytes = own[0]?.value.length ?? 0;
  let rest = length;
  for (const [part, { key, value }] of own.entries()) {
    if (key !== keys.part(number, part) || value.length !== Math.min(partBytes, rest))
      throw corrupt(`part ${part} of the snapshot is missing or has another size`);
    rest -= value.length;
  }
  if (rest > 0 || partBytes > snapshotChunkBytesMax) throw corrupt('the parts of the snapshot are incomplete');
  if ((own.at(-1)?.checksum ?? 0) !== checksum) throw corrupt('the checksum of the snapshot does not match');
  return { number, index, term, members, state: { chunks: own.map(({ value }) => value), length, checksum } };
}

function entriesFrom(keys: StorageKeys, base: LogPosition, log: readonly StoreEntry[]): LogEntry[] {
  let { index, term } = base;
  return log.map(({ key, value }) => {
    index += 1;
    if (key !== keys.entry(index)) throw corrupt(`log entry ${index} is missing`);
    const entry = decodeLogEntry(index, value);
    if (entry.term < term) throw corrupt(`the term of log entry ${index} decreases`);
    term = entry.term;
    return entry;
  });
}
