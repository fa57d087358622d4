/** `remuster kv get|list|put|delete`: reads and writes keys of a key-value pool. */
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { parseOptionDuration } from '../../node/options/option-types.ts';
import { confirm, type ConfirmFlags } from '../command/confirm.ts';
import { exitOk } from '../command/exit.ts';
import { sendJson } from '../command/http-client.ts';
import { type Column, renderList, renderObject } from '../output/render.ts';
import type { ReadFlags } from '../command/command-flags.ts';
import { abbreviateValue } from '../registry/registry.ts';
import { resolveTarget } from '../command/target.ts';
import { stripControls, printData } from '../output/terminal.ts';
import { printOrWatch } from '../command/watch.ts';

export type KvFlags = ReadFlags & { readonly pool: string; readonly timeout: string };

type Watching = { readonly watch?: true };
type Part = { readonly from?: string; readonly limit?: number };
type Item = { readonly key: string; readonly value: unknown; readonly version: number };
type Page = { readonly items: readonly Item[]; readonly next: string | null };

const pageItems = 500;
/** What the way there and back may take on top of the call. */
const wayMs = 2_000;

const columns: readonly Column<Item>[] = [
  { title: 'KEY', cell: (row) => stripControls(row.key) },
  { title: 'VERSION', cell: (row) => String(row.version) },
  { title: 'VALUE', cell: (row) => stripControls(abbreviateValue(shown(row.value))) },
];

export async function kvGetCommand(key: string, flags: KvFlags & Watching): Promise<number> {
  return await printOrWatch(flags.output, flags.watch === true, async () => {
    const item = await itemOf(key, flags);
    return { text: await renderObject(flags.output, item, { name: key, lines: linesOf(item) }) };
  });
}

export async function kvListCommand(prefix: string, flags: KvFlags & Watching & Part): Promise<number> {
  return await printOrWatch(flags.output, flags.watch === true, async () => {
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

export async function kvPutCommand(
  key: string,
  text: string,
  flags: KvFlags & Conditional & { readonly ttl?: string },
): Promise<number> {
  const { ifVersion } = flags;
  const ttlMs = flags.ttl === undefined ? undefined : durationOf('--ttl', flags.ttl);
  const result = await call('put', [key, parseKvValue(text), { ifVersion, ttlMs }], { hash: key }, flags);
  const thing = { key, version: (result as { version: number }).version };
  const lines: [string, string][] = [
    ['KEY', stripControls(key)],
    ['VERSION', String(thing.version)],
  ];
  printData(await renderObject(flags.output, thing, { name: key, lines }));
  return exitOk;
}

export async function kvDeleteCommand(
  key: string,
  flags: KvFlags & Conditional & ConfirmFlags & { readonly dryRun?: true },
): Promise<number> {
  const { ifVersion } = flags;
  const { version } = await itemOf(key, flags);
  if (flags.dryRun === true) {
    const thing = { key, version, dryRun: true };
    printData(await renderObject(flags.output, thing, { name: key, lines: [['WOULD DELETE', stripControls(key)]] }));
    return exitOk;
  }
  await confirm(`Delete ${stripControls(key)} (version ${version})?`, flags, 'refuse');
  const { deleted } = (await call('delete', [key, { ifVersion }], { hash: key }, flags)) as { deleted: boolean };
  printData(
    await renderObject(
      flags.output,
      { key, deleted },
      { name: key, lines: [[deleted ? 'DELETED' : 'GONE', stripControls(key)]] },
    ),
  );
  return exitOk;
}

/** What parses as JSON is meant as JSON; everything else is the text itself. */
function parseKvValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function itemOf(key: string, flags: KvFlags): Promise<Item> {
  const found = (await call('get', [key], { hash: key }, flags)) as Omit<Item, 'key'> | null;
  if (found === null)
    throw new RemusterError(
      'UNKNOWN_KEY',
      `there is no key ${JSON.stringify(key)} in the pool ${stripControls(flags.pool)}`,
    );
  return { key, ...found };
}

function linesOf({ key, value, version }: Item): [string, string][] {
  return [
    ['KEY', stripControls(key)],
    ['VALUE', stripControls(shown(value))],
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
    const answer = await sendJson(await resolveTarget(flags), 'POST', '/v1/call', body, timeoutMs + wayMs);
    return (answer as { result: unknown }).result;
  } catch (error) {
    if (!isRemusterError(error, 'UNKNOWN_POOL')) throw error;
    const create = `remuster pool create ${stripControls(pool)} --module kv --containers 16`;
    throw new RemusterError('UNKNOWN_POOL', `there is no pool ${JSON.stringify(pool)}; make one with \`${create}\``);
  }
}

function durationOf(flag: string, text: string): number {
  const durationMs = parseOptionDuration(text);
  if (durationMs === undefined || durationMs < 1)
    throw new RemusterError('BAD_ARGUMENT', `${flag} takes a duration such as 500ms, 10s or 5m`);
  return durationMs;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
