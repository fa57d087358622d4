/**
 * The layout of keys, expiry and recent changes in the state of a container; the only file that changes them.
 *
 *   k/{key}             the value, its version, and when it expires
 *   x/{when}/{key}      the keys that expire, soonest first
 *   h/{revision}        which key changed: the last 1,000 changes, for watchers
 *   r                   the revision: grows with each change of any key of the container
 *
 * The version of a key is the revision of its last change. So it grows strictly, even over delete and create, without
 * tombstones.
 */
import { type Context, methodError } from '../../containers/module.ts';
import type { KvCondition, KvListRange } from './kv-arguments.ts';

export type KvItem = { readonly value: unknown; readonly version: number };

type Stored = KvItem & { readonly expiresAtMs?: number };
type Changed = { readonly key: string };

/** The last change of a key; it replaces earlier changes of the same key. */
export type KvChange =
  | { readonly key: string; readonly version: number; readonly value: unknown }
  | { readonly key: string; readonly version: number; readonly deleted: true };

export const kvHistoryMax = 1_000;
export const expiredPerCallMax = 100;
const digits = 16;

export function kvRevisionOf({ state }: Context): number {
  return state.get<number>('r') ?? 0;
}

/** Undefined for an expired key, removed or not. */
export function itemOf(ctx: Context, key: string): KvItem | undefined {
  const stored = ctx.state.get<Stored>(`k/${key}`);
  return stored === undefined || hasExpired(ctx, stored) ? undefined : stored;
}

/** Live items with `from <= key` and the prefix, in order; at most `limit`. */
export function itemsFrom(
  ctx: Context,
  { prefix, from, limit }: KvListRange,
): readonly (KvItem & { readonly key: string })[] {
  const items: (KvItem & { key: string })[] = [];
  let next = `k/${from}`;
  for (;;) {
    const page = ctx.state.entries<Stored>({ prefix: `k/${prefix}`, from: next, limit });
    for (const [name, stored] of page) {
      if (hasExpired(ctx, stored)) continue;
      items.push({ key: name.slice(2), value: stored.value, version: stored.version });
      if (items.length === limit) return items;
    }
    const last = page.at(-1);
    if (last === undefined || page.length < limit) return items;
    next = `${last[0]}\0`;
  }
}

export function checkCondition(ctx: Context, key: string, { ifVersion }: KvCondition): void {
  if (ifVersion === undefined) return;
  const version = itemOf(ctx, key)?.version ?? 0;
  if (version === ifVersion) return;
  const now = version === 0 ? 'does not exist' : `has version ${version}`;
  throw methodError('PRECONDITION', `${JSON.stringify(key)} ${now}, not ${ifVersion}`);
}

export function writeItem(ctx: Context, key: string, value: unknown, ttlMs: number | undefined): number {
  removeExpiry(ctx, key);
  const version = nextRevision(ctx, key);
  if (ttlMs === undefined) {
    ctx.state.set(`k/${key}`, { value, version } satisfies Stored);
    return version;
  }
  const expiresAtMs = Math.ceil(ctx.now() + ttlMs);
  ctx.state.set(`k/${key}`, { value, version, expiresAtMs } satisfies Stored);
  ctx.state.set(expiryName(expiresAtMs, key), true);
  // A timer for the next expiry exists already, unless this key is it.
  if (nextExpiry(ctx)?.key === key) ctx.timers.set('sweep', expiresAtMs - ctx.now(), 'sweep');
  return version;
}

/** False: there was no such item. An expired item is removed too, and counts as missing. */
export function removeItem(ctx: Context, key: string): boolean {
  const existed = itemOf(ctx, key) !== undefined;
  removeExpiry(ctx, key);
  if (ctx.state.delete(`k/${key}`)) nextRevision(ctx, key);
  return existed;
}

/** Removes a bounded number of expired items, and schedules the rest. Returns how many were removed. */
export function removeExpired(ctx: Context): number {
  let count = 0;
  let next = nextExpiry(ctx);
  while (next !== undefined && next.atMs <= ctx.now() && count < expiredPerCallMax) {
    removeItem(ctx, next.key);
    count += 1;
    next = nextExpiry(ctx);
  }
  if (next !== undefined) ctx.timers.set('sweep', Math.max(0, next.atMs - ctx.now()), 'sweep');
  return count;
}

/** Undefined if the history no longer reaches back to that revision. */
export function changesSince(
  ctx: Context,
  { prefix, revision, limit }: { readonly prefix: string; readonly revision: number; readonly limit: number },
): { readonly changes: readonly KvChange[]; readonly revision: number } | undefined {
  const last = kvRevisionOf(ctx);
  // The revision of another container, or of an earlier pool with the same name.
  if (revision > last) return undefined;
  if (revision < last - kvHistoryMax) return undefined;
  const since = ctx.state.entries<Changed>({ prefix: 'h/', from: historyName(revision + 1), limit: kvHistoryMax });
  const lastOf = new Map(since.map(([name, { key }]) => [key, name]));
  const changes: KvChange[] = [];
  for (const [name, { key }] of since) {
    if (!key.startsWith(prefix) || lastOf.get(key) !== name) continue;
    const version = Number(name.slice(2));
    const item = itemOf(ctx, key);
    changes.push(item === undefined ? { key, version, deleted: true } : { key, version, value: item.value });
    if (changes.length === limit) return { changes, revision: version };
  }
  return { changes, revision: last };
}

function hasExpired(ctx: Context, { expiresAtMs }: Stored): boolean {
  return expiresAtMs !== undefined && expiresAtMs <= ctx.now();
}

function nextRevision({ state }: Context, key: string): number {
  const revision = (state.get<number>('r') ?? 0) + 1;
  // Before the write of the new row, so that a full container can be emptied.
  state.delete(historyName(revision - kvHistoryMax));
  state.set('r', revision);
  state.set(historyName(revision), { key } satisfies Changed);
  return revision;
}

function removeExpiry({ state }: Context, key: string): void {
  const expiresAtMs = state.get<Stored>(`k/${key}`)?.expiresAtMs;
  if (expiresAtMs !== undefined) state.delete(expiryName(expiresAtMs, key));
}

function nextExpiry({ state }: Context): { readonly key: string; readonly atMs: number } | undefined {
  const [first] = state.entries({ prefix: 'x/', limit: 1 });
  if (first === undefined) return undefined;
  const [name] = first;
  return { atMs: Number(name.slice(2, 2 + digits)), key: name.slice(3 + digits) };
}

function expiryName(atMs: number, key: string): string {
  return `x/${String(atMs).padStart(digits, '0')}/${key}`;
}

function historyName(revision: number): string {
  return `h/${String(revision).padStart(digits, '0')}`;
}
