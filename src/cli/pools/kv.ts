/** `remuster kv get|list|put|delete`: reads and writes keys of a key-value pool. */
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import { confirm, type ConfirmFlags } from '../command/confirm.ts';
import { exitOk } from '../command/exit.ts';
import { queryJson, sendJson } from '../command/http-client.ts';
import { type Column, renderList, renderObject } from '../output/render.ts';
import { type ReadFlags, parseDurationFlag } from '../command/command-flags.ts';
import { abbreviateValue } from '../registry/registry.ts';
import { resolveTarget } from '../command/target.ts';
import { stripControls, printData } from '../output/terminal.ts';
import { printOrWatch } from '../command/watch.ts';

export type KvFlags = ReadFlags & { readonly pool: string; readonly timeout: string };

type WatchFlag = { readonly watch?: true };
type RangeFlags = { readonly from?: string; readonly limit?: number };
type KvItem = { readonly key: string; readonly value: unknown; readonly version: number };
type KvPage = { readonly items: readonly KvItem[]; readonly next: string | null };

const pageItems = 500;
/** Added to the timeout of the call for the HTTP request itself. */
const requestMarginMs = 2_000;

const columns: readonly Column<KvItem>[] = [
  { title: 'KEY', cell: (row) => stripControls(row.key) },
  { title: 'VERSION', cell: (row) => String(row.version) },
  { title: 'VALUE', cell: (row) => stripControls(abbreviateValue(valueText(row.value))) },
];

export async function kvGetCommand(key: string, flags: KvFlags & WatchFlag): Promise<number> {
  return await printOrWatch(flags.output, flags.watch === true, async () => {
    const item = await fetchItem(key, flags);
    return { text: await renderObject(flags.output, item, { name: key, lines: linesOf(item) }) };
  });
}

export async function kvListCommand(prefix: string, flags: KvFlags & WatchFlag & RangeFlags): Promise<number> {
  return await printOrWatch(flags.output, flags.watch === true, async () => {
    const items = await fetchItems(prefix, flags);
    return { text: await renderList(flags.output, items, columns, (row) => row.key) };
  });
}

async function fetchItems(prefix: string, flags: KvFlags & RangeFlags): Promise<readonly KvItem[]> {
  const itemsMax = flags.limit ?? Number.POSITIVE_INFINITY;
  const items: KvItem[] = [];
  let from: string | null = flags.from ?? '';
  while (from !== null && items.length < itemsMax) {
    const limit = Math.min(pageItems, itemsMax - items.length);
    const page: KvPage = (await call('list', [{ prefix, from, limit }], { broadcast: true }, flags)) as KvPage;
    items.push(...page.items);
    from = page.next;
  }
  return items;
}

type ConditionFlags = { readonly ifVersion?: number };

export async function kvPutCommand(
  key: string,
  text: string,
  flags: KvFlags & ConditionFlags & { readonly ttl?: string },
): Promise<number> {
  const { ifVersion } = flags;
  const ttlMs = flags.ttl === undefined ? undefined : parseDurationFlag('--ttl', flags.ttl);
  const result = await call('put', [key, parseKvValue(text), { ifVersion, ttlMs }], { hash: key }, flags);
  const written = { key, version: (result as { version: number }).version };
  const lines: [string, string][] = [
    ['KEY', stripControls(key)],
    ['VERSION', String(written.version)],
  ];
  printData(await renderObject(flags.output, written, { name: key, lines }));
  return exitOk;
}

export async function kvDeleteCommand(
  key: string,
  flags: KvFlags & ConditionFlags & ConfirmFlags & { readonly dryRun?: true },
): Promise<number> {
  const { ifVersion } = flags;
  const { version } = await fetchItem(key, flags);
  if (flags.dryRun === true) {
    const result = { key, version, dryRun: true };
    printData(await renderObject(flags.output, result, { name: key, lines: [['WOULD DELETE', stripControls(key)]] }));
    return exitOk;
  }
  await confirm(`Delete ${stripControls(key)} (version ${version})?`, flags, 'refuse');
  const { deleted } = (await call('delete', [key, { ifVersion }], { hash: key }, flags)) as { deleted: boolean };
  printData(
    await renderObject(
      flags.output,
      { key, deleted },
      { name: key, lines: [[deleted ? 'DELETED' : 'DID NOT EXIST', stripControls(key)]] },
    ),
  );
  return exitOk;
}

/** A value that parses as JSON is stored as JSON, any other value as text. */
function parseKvValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function fetchItem(key: string, flags: KvFlags): Promise<KvItem> {
  const found = (await call('get', [key], { hash: key }, flags)) as Omit<KvItem, 'key'> | null;
  if (found === null)
    throw new RemusterError(
      'UNKNOWN_KEY',
      `there is no key ${JSON.stringify(key)} in pool ${stripControls(flags.pool)}`,
    );
  return { key, ...found };
}

function linesOf({ key, value, version }: KvItem): [string, string][] {
  return [
    ['KEY', stripControls(key)],
    ['VALUE', stripControls(valueText(value))],
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
  const timeoutMs = parseDurationFlag('--timeout', flags.timeout);
  const body = { pool, method, args, route, timeoutMs };
  try {
    const target = await resolveTarget(flags);
    const isRead = method === 'get' || method === 'list';
    const reply = await (isRead
      ? queryJson(target, '/v1/call', body, timeoutMs + requestMarginMs)
      : sendJson(target, 'POST', '/v1/call', body, timeoutMs + requestMarginMs));
    return (reply as { result: unknown }).result;
  } catch (error) {
    if (!isRemusterError(error, 'UNKNOWN_POOL')) throw error;
    const create = `remuster pool create ${stripControls(pool)} --module kv --containers 16`;
    throw new RemusterError('UNKNOWN_POOL', `there is no pool ${JSON.stringify(pool)}: create one with \`${create}\``);
  }
}

function valueText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
