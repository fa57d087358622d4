/** `remuster kv get|list|put|delete`: the keys of a pool of the built-in key-value module, for people and scripts. */
import { RemusterError, isRemusterError } from '../base/errors.ts';
import { milliseconds } from '../node/option-types.ts';
import { confirm, type ConsentFlags } from './confirm.ts';
import { exitOk } from './failure.ts';
import { changeJson } from './http-client.ts';
import { type Column, renderList, renderThing } from './output.ts';
import type { ReadingFlags } from './reading.ts';
import { shortValue } from './registry.ts';
import { findTarget } from './target.ts';
import { plain, print } from './terminal.ts';
import { printLook } from './watching.ts';

export type KvFlags = ReadingFlags & { readonly pool: string; readonly timeout: string };

type Watching = { readonly watch?: true };
type Part = { readonly from?: string; readonly limit?: number };
type Item = { readonly key: string; readonly value: unknown; readonly version: number };
type Page = { readonly items: readonly Item[]; readonly next: string | null };

const pageItems = 500;
/** What the way there and back may take on top of the call. */
const wayMs = 2_000;

const columns: readonly Column<Item>[] = [
  { title: 'KEY', cell: (row) => plain(row.key) },
  { title: 'VERSION', cell: (row) => String(row.version) },
  { title: 'VALUE', cell: (row) => plain(shortValue(shown(row.value))) },
];

export async function getValue(key: string, flags: KvFlags & Watching): Promise<number> {
  return await printLook(flags.output, flags.watch === true, async () => {
    const item = await itemOf(key, flags);
    return { text: await renderThing(flags.output, item, { name: key, lines: linesOf(item) }) };
  });
}

export async function listValues(prefix: string, flags: KvFlags & Watching & Part): Promise<number> {
  return await printLook(flags.output, flags.watch === true, async () => {
    const items = await itemsOf(prefix, flags);
    return { text: await renderList(flags.output, items, columns, (row) => row.key) };
  });
}

async function itemsOf(prefix: string, flags: KvFlags & Part): Promise<readonly Item[]> {
  const most = flags.limit ?? Number.POSITIVE_INFINITY;
  const items: Item[] = [];
  let from: string | null = flags.from ?? '';
  while (from !== null && items.length < most) {
    const limit = Math.min(pageItems, most - items.length);
    const page: Page = (await call('list', [{ prefix, from, limit }], { broadcast: true }, flags)) as Page;
    items.push(...page.items);
    from = page.next;
  }
  return items;
}

type Conditional = { readonly ifVersion?: number };

export async function putValue(
  key: string,
  text: string,
  flags: KvFlags & Conditional & { readonly ttl?: string },
): Promise<number> {
  const { ifVersion } = flags;
  const ttlMs = flags.ttl === undefined ? undefined : durationOf('--ttl', flags.ttl);
  const result = await call('put', [key, valueOf(text), { ifVersion, ttlMs }], { hash: key }, flags);
  const thing = { key, version: (result as { version: number }).version };
  const lines: [string, string][] = [
    ['KEY', plain(key)],
    ['VERSION', String(thing.version)],
  ];
  print(await renderThing(flags.output, thing, { name: key, lines }));
  return exitOk;
}

export async function deleteValue(
  key: string,
  flags: KvFlags & Conditional & ConsentFlags & { readonly dryRun?: true },
): Promise<number> {
  const { ifVersion } = flags;
  const { version } = await itemOf(key, flags);
  if (flags.dryRun === true) {
    const thing = { key, version, dryRun: true };
    print(await renderThing(flags.output, thing, { name: key, lines: [['WOULD DELETE', plain(key)]] }));
    return exitOk;
  }
  await confirm(`Delete ${plain(key)} (version ${version})?`, flags, 'refuse');
  const { deleted } = (await call('delete', [key, { ifVersion }], { hash: key }, flags)) as { deleted: boolean };
  print(
    await renderThing(
      flags.output,
      { key, deleted },
      { name: key, lines: [[deleted ? 'DELETED' : 'GONE', plain(key)]] },
    ),
  );
  return exitOk;
}

/** What parses as JSON is meant as JSON; everything else is the text itself. */
export function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function itemOf(key: string, flags: KvFlags): Promise<Item> {
  const found = (await call('get', [key], { hash: key }, flags)) as Omit<Item, 'key'> | null;
  if (found === null)
    throw new RemusterError('UNKNOWN_KEY', `there is no key ${JSON.stringify(key)} in the pool ${plain(flags.pool)}`);
  return { key, ...found };
}

function linesOf({ key, value, version }: Item): [string, string][] {
  return [
    ['KEY', plain(key)],
    ['VALUE', plain(shown(value))],
    ['VERSION', String(version)],
  ];
}

async function call(
  method: string,
  args: readonly unknown[],
  route: { readonly hash: string } | { readonly broadcast: true },
  flags: KvFlags,
): Promise<unknown> {
  const { pool } = flags;
  const timeoutMs = durationOf('--timeout', flags.timeout);
  const body = { pool, method, args, route, timeoutMs };
  try {
    const answer = await changeJson(await findTarget(flags), 'POST', '/v1/call', body, timeoutMs + wayMs);
    return (answer as { result: unknown }).result;
  } catch (error) {
    if (!isRemusterError(error, 'UNKNOWN_POOL')) throw error;
    const create = `remuster pool create ${plain(pool)} --module kv --containers 16`;
    throw new RemusterError('UNKNOWN_POOL', `there is no pool ${JSON.stringify(pool)}; make one with \`${create}\``);
  }
}

function durationOf(flag: string, text: string): number {
  const durationMs = milliseconds(text);
  if (durationMs === undefined || durationMs < 1)
    throw new RemusterError('BAD_ARGUMENT', `${flag} takes a duration such as 500ms, 10s or 5m`);
  return durationMs;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
