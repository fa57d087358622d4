/**
 * `remuster registry get|list|put|delete`: reads and writes registry keys; a write can depend on the version of the
 * key.
 */
import { RemusterError } from '../../base/errors.ts';
import { confirm, type ConfirmFlags } from '../command/confirm.ts';
import { exitOk } from '../command/exit.ts';
import { sendJson, getJson, withQuery } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList, renderObject } from '../output/render.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { printData } from '../output/terminal.ts';

export type RegistryEntryView = {
  readonly key: string;
  readonly value: string;
  /** The value is not UTF-8: `value` has its bytes in hex. */
  readonly encoding?: 'hex';
  readonly version: number;
  readonly createRevision: number;
  readonly modRevision: number;
  readonly lease: string | null;
};

type Page = { readonly items: readonly RegistryEntryView[]; readonly more: boolean; readonly revision: number };

const pageEntries = 1_000;
const valueCharactersMax = 80;

const columns: readonly Column<RegistryEntryView>[] = [
  { title: 'KEY', cell: (row) => row.key },
  { title: 'VERSION', cell: (row) => String(row.version) },
  { title: 'REVISION', cell: (row) => String(row.modRevision) },
  { title: 'CREATED', wide: true, cell: (row) => String(row.createRevision) },
  { title: 'LEASE', wide: true, cell: (row) => row.lease ?? '-' },
  { title: 'VALUE', cell: (row) => abbreviateValue(row.value) },
];

export function abbreviateValue(value: string): string {
  return value.length <= valueCharactersMax ? value : `${value.slice(0, valueCharactersMax)}...`;
}

export async function registryGetCommand(
  key: string,
  flags: TargetFlags & StaleFlag,
  format: OutputFormat,
): Promise<number> {
  const entry = await fetchEntry(await resolveTarget(flags), key, flags);
  const lines: [string, string][] = [
    ['KEY', entry.key],
    ['VALUE', entry.value],
    ['VERSION', String(entry.version)],
    ['REVISION', String(entry.modRevision)],
    ['CREATED', String(entry.createRevision)],
    ['LEASE', entry.lease ?? 'none'],
  ];
  printData(await renderObject(format, entry, { name: entry.key, lines }));
  return exitOk;
}

type StaleFlag = { readonly stale?: true };

function staleQuery({ stale }: StaleFlag): { readonly stale?: '' } {
  return stale === true ? { stale: '' } : {};
}

async function fetchEntry(target: ClusterTarget, key: string, flags: StaleFlag): Promise<RegistryEntryView> {
  const query = { key, ...staleQuery(flags) };
  const { items } = (await getJson(target, withQuery('/v1/registry', query))) as Page;
  const [entry] = items;
  if (entry === undefined) throw new RemusterError('UNKNOWN_KEY', `there is no key ${JSON.stringify(key)}`);
  return entry;
}

/** Reads page by page: a change meanwhile may be seen or not. */
export async function registryListCommand(
  prefix: string,
  flags: TargetFlags & StaleFlag & { readonly limit?: number },
  format: OutputFormat,
): Promise<number> {
  const target = await resolveTarget(flags);
  const entriesMax = flags.limit ?? Number.POSITIVE_INFINITY;
  const entries: RegistryEntryView[] = [];
  for (let more = true; more && entries.length < entriesMax;) {
    const limit = String(Math.min(pageEntries, entriesMax - entries.length));
    const last = entries.at(-1)?.key;
    const query = { prefix, limit, ...(last === undefined ? {} : { after: last }), ...staleQuery(flags) };
    const page = (await getJson(target, withQuery('/v1/registry', query))) as Page;
    entries.push(...page.items);
    more = page.more && page.items.length > 0;
  }
  printData(await renderList(format, entries, columns, (row) => row.key));
  return exitOk;
}

export type WriteFlags = TargetFlags & { readonly output: OutputFormat; readonly ifVersion?: number };

export async function registryPutCommand(key: string, value: string, flags: WriteFlags): Promise<number> {
  const { ifVersion } = flags;
  const reply = await sendJson(await resolveTarget(flags), 'PUT', '/v1/registry', { key, value, ifVersion });
  const { schemaVersion: _, ...result } = reply as { schemaVersion: number; version: number; revision: number };
  const lines: [string, string][] = [
    ['KEY', key],
    ['VERSION', String(result.version)],
    ['REVISION', String(result.revision)],
  ];
  printData(await renderObject(flags.output, result, { name: key, lines }));
  return exitOk;
}

export async function registryDeleteCommand(
  key: string,
  flags: WriteFlags & ConfirmFlags & { readonly dryRun?: true; readonly reason?: string },
): Promise<number> {
  const target = await resolveTarget(flags);
  const { version } = await fetchEntry(target, key, {});
  const { ifVersion } = flags;
  if (flags.dryRun === true) {
    const result = { key, version, dryRun: true };
    printData(await renderObject(flags.output, result, { name: key, lines: [['WOULD DELETE', key]] }));
    return exitOk;
  }
  await confirm(`Delete ${key} (version ${version})?`, flags, 'refuse');
  const condition = ifVersion === undefined ? {} : { ifVersion: String(ifVersion) };
  const path = withQuery('/v1/registry', { key, reason: flags.reason ?? '', ...condition });
  const reply = await sendJson(target, 'DELETE', path);
  const { schemaVersion: _, ...result } = reply as { schemaVersion: number; deleted: number; revision: number };
  const lines: [string, string][] = [
    ['DELETED', key],
    ['REVISION', String(result.revision)],
  ];
  printData(await renderObject(flags.output, result, { name: key, lines }));
  return exitOk;
}
