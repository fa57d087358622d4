/**
 * The key-value module: put, get, delete, list, watch. Uses only what any module may use.
 *
 * A key lives in the container that its hash names: `pool.hash(key).put(key, value)`, or `pool.dynamic()`, which hashes
 * the first argument. Order and revisions are per container; `list` of all containers is merged.
 */
import { type Context, module, methodError, type Route } from '../../containers/module.ts';
import {
  validCondition,
  validKey,
  validList,
  validPut,
  validRevision,
  validText,
  type KvCondition,
  type KvListOptions,
  type KvPutOptions,
} from './kv-arguments.ts';
import {
  type KvChange,
  changesSince,
  checkCondition,
  type KvItem,
  itemOf,
  itemsFrom,
  removeItem,
  kvRevisionOf,
  removeExpired,
  writeItem,
} from './kv-items.ts';
import { KvChangeWaiters } from './kv-change-waiters.ts';

export type KvKeyedItem = KvItem & { readonly key: string };

export type KvPage = {
  readonly items: readonly KvKeyedItem[];
  /** First key of the next page; null after the last one. */
  readonly next: string | null;
  readonly limit: number;
};

/** `compacted`: the history no longer reaches back; list everything again and continue from `revision`. */
export type KvChanges = {
  readonly changes: readonly KvChange[];
  readonly revision: number;
  readonly compacted: boolean;
};

/** A reader continues from the version of the last change that it has read. */
export type KvWatchPage = KvChange | { readonly compacted: true; readonly revision: number };

const changesMax = 100;
const scanPageSize = 100;
const waiters = new KvChangeWaiters();

function put(ctx: Context, key: string, value: unknown, options: KvPutOptions = {}): { version: number } {
  const name = validKey(key);
  const { ttlMs, ...condition } = validPut(value, options);
  checkCondition(ctx, name, condition);
  const version = writeItem(ctx, name, value, ttlMs);
  waiters.wake(ctx);
  return { version };
}

function get(ctx: Context, key: string): KvItem | null {
  const item = itemOf(ctx, validKey(key));
  return item === undefined ? null : { value: item.value, version: item.version };
}

function del(ctx: Context, key: string, options: KvCondition = {}): { deleted: boolean } {
  const name = validKey(key);
  checkCondition(ctx, name, validCondition(options));
  const deleted = removeItem(ctx, name);
  waiters.wake(ctx);
  return { deleted };
}

function list(ctx: Context, options: KvListOptions = {}): KvPage {
  const range = validList(options);
  const items = itemsFrom(ctx, { ...range, limit: range.limit + 1 });
  return pageOf(items, range.limit, null);
}

/** Merges the pages of all containers up to the lowest `next`: beyond it some container may have unread keys. */
function mergePages(pages: KvPage[]): KvPage {
  const nexts = pages.flatMap(({ next }) => (next === null ? [] : [next])).toSorted(compareKeys);
  const items = pages.flatMap((page) => page.items).toSorted((a, b) => compareKeys(a.key, b.key));
  const bound = nexts[0] ?? null;
  const known = bound === null ? items : items.filter(({ key }) => compareKeys(key, bound) < 0);
  return pageOf(known, pages[0]?.limit ?? 0, bound);
}

function pageOf(items: readonly KvKeyedItem[], limit: number, next: string | null): KvPage {
  return { items: items.slice(0, limit), next: items[limit]?.key ?? next, limit };
}

/** The changes after a revision: the last one of each key, in order of revision. Does not wait. */
function changes(ctx: Context, prefix: string, revision: number): KvChanges {
  const query = { prefix: validText(prefix, 'prefix'), revision: validRevision(revision), limit: changesMax };
  const found = changesSince(ctx, query);
  if (found === undefined) return { changes: [], revision: kvRevisionOf(ctx), compacted: true };
  return { ...found, compacted: false };
}

/** Yields changes as they happen, until the reader stops or its deadline passes. Ends after `compacted`. */
async function* watch(ctx: Context, prefix: string, fromRevision: number): AsyncGenerator<KvWatchPage> {
  let revision = fromRevision;
  while (!ctx.signal.aborted) {
    const found = changes(ctx, prefix, revision);
    yield* found.changes;
    if (found.compacted) {
      yield { compacted: true, revision: found.revision };
      return;
    }
    revision = found.revision;
    // Changes that happened while the reader was busy are read before sleeping.
    if (kvRevisionOf(ctx) === revision) await waiters.next(ctx);
  }
}

/** Every key with the prefix, in order. Concurrent changes may be seen or not. */
async function* scan(ctx: Context, options: Omit<KvListOptions, 'limit'> = {}): AsyncGenerator<KvKeyedItem> {
  const range = validList(options);
  let from: string | undefined = range.from;
  while (from !== undefined && !ctx.signal.aborted) {
    const items: readonly KvKeyedItem[] = itemsFrom(ctx, { ...range, from, limit: scanPageSize });
    yield* items;
    const last = items[scanPageSize - 1];
    from = last === undefined ? undefined : `${last.key}\0`;
  }
}

function route(method: string, args: readonly unknown[]): Route {
  if (method === 'put' || method === 'get' || method === 'delete') return { hash: validKey(args[0]) };
  if (method === 'list' || method === 'changes' || method === 'revision') return { broadcast: true };
  throw methodError('BAD_ARGUMENT', `${method} is for one container: route it by id or hash`);
}

/** The order of UTF-8 bytes is that of code points, and of UTF-16 units if surrogates sort after all others. */
function compareKeys(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

export const kv = module('kv', {
  methods: {
    put,
    get: { readonly: true, run: get },
    delete: del,
    list: { readonly: true, run: list, aggregate: mergePages },
    changes: { readonly: true, run: changes },
    /** The revision of the container. Read it before a list, then watch from it: no change is missed. */
    revision: { readonly: true, run: kvRevisionOf },
    watch: { readonly: true, run: watch },
    scan: { readonly: true, run: scan },
    /** Called by the timer; calls by others do no harm. */
    sweep: (ctx) => {
      const removed = removeExpired(ctx);
      if (removed > 0) waiters.wake(ctx);
      return removed;
    },
  },
  route,
});
