/**
 * Reads what the store has of a group, page by page, and checks that it is whole: the head, every part of its snapshot,
 * and a log without gaps from where the head says it begins. Whatever does not fit is STORE_CORRUPT and nothing is
 * used of it: a voter with a damaged memory must not vote.
 */
import { type Done, type Outcome, RemusterError, failure, isRemusterError, success } from '../base/errors.ts';
import type { NodeId } from '../base/ids.ts';
import type { Store, StoreEntry } from '../base/ports.ts';
import { crc32 } from './checksum.ts';
import { type Entry, entryFrom } from './entry.ts';
import type { Position } from './replicated-log.ts';
import { type Snapshot, noSnapshot } from './snapshot.ts';
import { type Keys, type StoredHead, type StoredMeta, keysOf, partCount, readHead, readMeta } from './stored.ts';

export type Restored = {
  readonly fresh: boolean;
  readonly term: number;
  readonly vote: NodeId | undefined;
  readonly snapshot: Snapshot;
  readonly base: Position;
  readonly entries: readonly Entry[];
  /** Keys that mean nothing any more. */
  readonly leftovers: readonly string[];
};

const nothingRestored: Restored = {
  fresh: true,
  term: 0,
  vote: undefined,
  snapshot: noSnapshot,
  base: { index: 0, term: 0 },
  entries: [],
  leftovers: [],
};

const pageEntries = 64;
/** All that a group keeps begins below this character. */
const afterSlash = '0';

export function restore(store: Pick<Store, 'read'>, group: string, done: Done<Restored>): void {
  const keys = keysOf(group);
  const found: { meta?: StoreEntry; head?: StoreEntry } = {};
  const parts: StoreEntry[] = [];
  const log: StoreEntry[] = [];
  const scan = (prefix: string, each: (entry: StoreEntry) => void, next: () => void): void =>
    readPages(store, prefix, each, (outcome) => (outcome.ok ? next() : done(outcome)));
  scan(
    keys.meta.slice(0, -'meta'.length),
    (entry) => {
      if (entry.key === keys.meta) found.meta = entry;
      else if (entry.key === keys.head) found.head = entry;
      else if (entry.key.startsWith(keys.snapshots)) parts.push(entry);
      else if (entry.key.startsWith(keys.log)) log.push(entry);
    },
    () => done(put(() => assemble(keys, found, parts, log))),
  );
}

function readPages(
  store: Pick<Store, 'read'>,
  prefix: string,
  each: (entry: StoreEntry) => void,
  done: Done<void>,
): void {
  const to = `${prefix.slice(0, -1)}${afterSlash}`;
  const page = (from: string): void =>
    store.read({ from, to, limit: pageEntries }, (outcome) => {
      if (!outcome.ok) return done(outcome);
      for (const entry of outcome.value) each(entry);
      const last = outcome.value.at(-1);
      if (last === undefined || outcome.value.length < pageEntries) return done(success(undefined));
      page(`${last.key}\0`);
    });
  page(prefix);
}

function put<T>(make: () => T): Outcome<T> {
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
  keys: Keys,
  found: { readonly meta?: StoreEntry; readonly head?: StoreEntry },
  parts: readonly StoreEntry[],
  log: readonly StoreEntry[],
): Restored {
  if (found.meta === undefined && found.head === undefined && log.length === 0)
    return { ...nothingRestored, leftovers: parts.map(({ key }) => key) };
  if (found.meta === undefined) throw corrupt('term and vote are missing');
  const meta = readMeta(found.meta.value) as StoredMeta;
  const head = found.head === undefined ? undefined : (readHead(found.head.value) as StoredHead);
  const base = { index: head?.baseIndex ?? 0, term: head?.baseTerm ?? 0 };
  const snapshot = head === undefined ? noSnapshot : snapshotFrom(keys, head, parts);
  const [kept, before] = split(log, ({ key }) => key > keys.entry(base.index));
  const entries = entriesFrom(keys, base, kept);
  if (base.index + entries.length < snapshot.index) throw corrupt('the log ends before its snapshot');
  const lastTerm = entries.at(-1)?.term ?? base.term;
  if (lastTerm > meta.term) throw corrupt(`the log has term ${lastTerm}, but only ${meta.term} was heard of`);
  const prefix = keys.part(snapshot.number, 0).slice(0, -13);
  const foreign = parts.filter(({ key }) => !key.startsWith(prefix) || snapshot.state.length === 0);
  const leftovers = [...before, ...foreign].map(({ key }) => key);
  return { fresh: false, term: meta.term, vote: meta.vote, snapshot, base, entries, leftovers };
}

function split<T>(items: readonly T[], belongs: (item: T) => boolean): [T[], T[]] {
  return [items.filter(belongs), items.filter((item) => !belongs(item))];
}

function snapshotFrom(keys: Keys, head: StoredHead, parts: readonly StoreEntry[]): Snapshot {
  const { number, index, term, members, totalBytes, checksum } = head;
  const byKey = new Map(parts.map(({ key, value }) => [key, value]));
  const state = new Uint8Array(totalBytes);
  let at = 0;
  for (let part = 0; part < partCount(totalBytes); part++) {
    const value = byKey.get(keys.part(number, part));
    if (value === undefined || at + value.length > totalBytes)
      throw corrupt(`part ${part} of the snapshot is missing or too long`);
    state.set(value, at);
    at += value.length;
  }
  if (at !== totalBytes || crc32(state) !== checksum) throw corrupt('the snapshot is damaged');
  return { number, index, term, members, state, checksum };
}

function entriesFrom(keys: Keys, base: Position, log: readonly StoreEntry[]): Entry[] {
  let { index, term } = base;
  return log.map(({ key, value }) => {
    index += 1;
    if (key !== keys.entry(index)) throw corrupt(`entry ${index} of the log is missing`);
    const entry = entryFrom(index, value);
    if (entry.term < term) throw corrupt(`the term of entry ${index} goes back`);
    term = entry.term;
    return entry;
  });
}
