/**
 * How keys, expiry and recent changes lie in a container's state; the only place that changes them. A version is the
 * revision of its key's last change.
 *
 *   k/{key}             the value, its version, and when it expires
 *   x/{when}/{key}      the keys that expire, soonest first
 *   h/{revision}        which key changed: the last 1,000 changes, for watchers
 *   r                   the revision: grows with each change of any key of the container
 *
 * The version of a key is the revision of its last change. So it grows strictly, also over delete and create, without a
 * trace of deleted keys being kept.
 */
import { type Context, methodError } from '../../containers/module.ts';
import type { KvCondition, KvListRange } from './kv-arguments.ts';

export type KvItem = { readonly value: unknown; readonly version: number };

type Stored = KvItem & { readonly expiresAtMs?: number };
type Changed = { readonly key: string };

/** The last state of a key that changed: a later change of the same key takes the place of an earlier one. */
export type KvChange =
  | { readonly key: string; readonly version: number; readonly value: unknown }
  | { readonly key: string; readonly version: number; readonly deleted: true };

export const kvHistoryMax = 1_000;
export const expiredPerCallMax = 100;
const digits = 16;

export function kvRevisionOf({ state }: Context): number {
  return state.get<number>('r') ?? 0;
}

/** Undefined for a key that has expired, whether it was removed already or not. */
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
  forgetExpiry(ctx, key);
  const version = nextRevision(ctx, key);
  if (ttlMs === undefined) {
    ctx.state.set(`k/${key}`, { value, version } satisfies Stored);
    return version;
  }
  const expiresAtMs = Math.ceil(ctx.now() + ttlMs);
  ctx.state.set(`k/${key}`, { value, version, expiresAtMs } satisfies Stored);
  ctx.state.set(expiryName(expiresAtMs, key), true);
  // Any later one is already waited for.
  if (soonest(ctx)?.key === key) ctx.timers.set('sweep', expiresAtMs - ctx.now(), 'sweep');
  return version;
}

/** False: there was none. One that has expired is removed as well, and counts as none. */
export function removeItem(ctx: Context, key: string): boolean {
  const wasThere = itemOf(ctx, key) !== undefined;
  forgetExpiry(ctx, key);
  if (ctx.state.delete(`k/${key}`)) nextRevision(ctx, key);
  return wasThere;
}

/** Removes what has expired, a bounded number at a time, and comes back for the rest. How many were removed. */
export function removeExpired(ctx: Context): number {
  let count = 0;
  let next = soonest(ctx);
  while (next !== undefined && next.atMs <= ctx.now() && count < expiredPerCallMax) {
    removeItem(ctx, next.key);
    count += 1;
    next = soonest(ctx);
  }
  if (next !== undefined) ctx.timers.set('sweep', Math.max(0, next.atMs - ctx.now()), 'sweep');
  return count;
}

/** Undefined when the history no longer reaches back that far. */
export function changesSince(
  ctx: Context,
  { prefix, revision, limit }: { readonly prefix: string; readonly revision: number; readonly limit: number },
): { readonly changes: readonly KvChange[]; readonly revision: number } | undefined {
  const last = kvRevisionOf(ctx);
  // From the revision of another container, or of a pool that was deleted meanwhile.
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
  // Before the new one, so that a full container can be emptied.
  state.delete(historyName(revision - kvHistoryMax));
  state.set('r', revision);
  state.set(historyName(revision), { key } satisfies Changed);
  return revision;
}

function forgetExpiry({ state }: Context, key: string): void {
  const expiresAtMs = state.get<Stored>(`k/${key}`)?.expiresAtMs;
  if (expiresAtMs !== undefined) state.delete(expiryName(expiresAtMs, key));
}

function soonest({ state }: Context): { readonly key: string; readonly atMs: number } | undefined {
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
