/**
 * The key-value module: put, get, delete, list, watch. Uses only what a user's module may use. Order and revisions are
 * per container.
 *
 * A key lives in the container that its hash names: `pool.hash(key).put(key, value)`, or `pool.dynamic()`, which takes
 * the hash of the first argument. Order and revisions are those of one container; `list` of all containers is merged.
 */
import { type Context, module, methodError, type Route } from '../../containers/module.ts';
import {
  checkedCondition,
  validKey,
  checkedList,
  checkedPut,
  checkedRevision,
  checkedText,
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
  /** Where the next page begins; null after the last one. */
  readonly next: string | null;
  readonly limit: number;
};

/** `compacted`: too much has changed since; list everything again and go on from `revision`. */
export type KvChanges = {
  readonly changes: readonly KvChange[];
  readonly revision: number;
  readonly compacted: boolean;
};

/** The revision to go on from is the version of the last change that was seen. */
export type KvWatchPage = KvChange | { readonly compacted: true; readonly revision: number };

const changesMax = 100;
const scanPage = 100;
const waiters = new KvChangeWaiters();

function put(ctx: Context, key: string, value: unknown, options: KvPutOptions = {}): { version: number } {
  const name = validKey(key);
  const { ttlMs, ...condition } = checkedPut(value, options);
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
  checkCondition(ctx, name, checkedCondition(options));
  const deleted = removeItem(ctx, name);
  waiters.wake(ctx);
  return { deleted };
}

function list(ctx: Context, options: KvListOptions = {}): KvPage {
  const range = checkedList(options);
  const items = itemsFrom(ctx, { ...range, limit: range.limit + 1 });
  return pageOf(items, range.limit, null);
}

/** Beyond the first `next` some container may have keys that nobody has seen yet. */
function mergedPages(pages: KvPage[]): KvPage {
  const nexts = pages.flatMap(({ next }) => (next === null ? [] : [next])).toSorted(inOrder);
  const items = pages.flatMap((page) => page.items).toSorted((a, b) => inOrder(a.key, b.key));
  const bound = nexts[0] ?? null;
  const known = bound === null ? items : items.filter(({ key }) => inOrder(key, bound) < 0);
  return pageOf(known, pages[0]?.limit ?? 0, bound);
}

function pageOf(items: readonly KvKeyedItem[], limit: number, next: string | null): KvPage {
  return { items: items.slice(0, limit), next: items[limit]?.key ?? next, limit };
}

/** What changed after a revision, the last change of each key in the order of the revisions. Does not wait. */
function changes(ctx: Context, prefix: string, revision: number): KvChanges {
  const asked = { prefix: checkedText(prefix, 'prefix'), revision: checkedRevision(revision), limit: changesMax };
  const found = changesSince(ctx, asked);
  if (found === undefined) return { changes: [], revision: kvRevisionOf(ctx), compacted: true };
  return { ...found, compacted: false };
}

/** One change after the other as keys change, until the reader stops or its time is up. Ends after `compacted`. */
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
    // Whatever came while the reader was busy is looked at before sleeping.
    if (kvRevisionOf(ctx) === revision) await waiters.next(ctx);
  }
}

/** Every key with the prefix, in order. What changes meanwhile may be seen or not. */
async function* scan(ctx: Context, options: Omit<KvListOptions, 'limit'> = {}): AsyncGenerator<KvKeyedItem> {
  const range = checkedList(options);
  let from: string | undefined = range.from;
  while (from !== undefined && !ctx.signal.aborted) {
    const items: readonly KvKeyedItem[] = itemsFrom(ctx, { ...range, from, limit: scanPage });
    yield* items;
    const last = items[scanPage - 1];
    from = last === undefined ? undefined : `${last.key}\0`;
  }
}

function route(method: string, args: readonly unknown[]): Route {
  if (method === 'put' || method === 'get' || method === 'delete') return { hash: validKey(args[0]) };
  if (method === 'list' || method === 'changes' || method === 'revision') return { broadcast: true };
  throw methodError('BAD_ARGUMENT', `${method} is for one container: name it with its number or a hash`);
}

/** UTF-8 bytes are ordered as code points are, and UTF-16 units are too once surrogates are put behind all others. */
function inOrder(a: string, b: string): number {
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
    list: { readonly: true, run: list, aggregate: mergedPages },
    changes: { readonly: true, run: changes },
    /** Of the container, before a list: watch from it on, and nothing is missed. */
    revision: { readonly: true, run: kvRevisionOf },
    watch: { readonly: true, run: watch },
    scan: { readonly: true, run: scan },
    /** For the timer; whoever else calls it does no harm. */
    sweep: (ctx) => {
      const swept = removeExpired(ctx);
      if (swept > 0) waiters.wake(ctx);
      return swept;
    },
  },
  route,
});
