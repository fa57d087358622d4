/** `remuster registry get|list|put|delete`: reads and writes registry keys, with conditions. */
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
  /** The value is no text: these are its bytes. */
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
  flags: TargetFlags & Stale,
  format: OutputFormat,
): Promise<number> {
  const entry = await entryOf(await resolveTarget(flags), key, flags);
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

type Stale = { readonly stale?: true };

function staleness({ stale }: Stale): { readonly stale?: '' } {
  return stale === true ? { stale: '' } : {};
}

async function entryOf(target: ClusterTarget, key: string, flags: Stale): Promise<RegistryEntryView> {
  const query = { key, ...staleness(flags) };
  const { items } = (await getJson(target, withQuery('/v1/registry', query))) as Page;
  const [entry] = items;
  if (entry === undefined) throw new RemusterError('UNKNOWN_KEY', `there is no key ${JSON.stringify(key)}`);
  return entry;
}

/** Page by page: what changes meanwhile may be seen or not. */
export async function registryListCommand(
  prefix: string,
  flags: TargetFlags & Stale & { readonly limit?: number },
  format: OutputFormat,
): Promise<number> {
  const target = await resolveTarget(flags);
  const most = flags.limit ?? Number.POSITIVE_INFINITY;
  const entries: RegistryEntryView[] = [];
  for (let more = true; more && entries.length < most;) {
    const limit = String(Math.min(pageEntries, most - entries.length));
    const last = entries.at(-1)?.key;
    const query = { prefix, limit, ...(last === undefined ? {} : { after: last }), ...staleness(flags) };
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
  const answer = await sendJson(await resolveTarget(flags), 'PUT', '/v1/registry', { key, value, ifVersion });
  const { schemaVersion: _, ...thing } = answer as { schemaVersion: number; version: number; revision: number };
  const lines: [string, string][] = [
    ['KEY', key],
    ['VERSION', String(thing.version)],
    ['REVISION', String(thing.revision)],
  ];
  printData(await renderObject(flags.output, thing, { name: key, lines }));
  return exitOk;
}

export async function registryDeleteCommand(
  key: string,
  flags: WriteFlags & ConfirmFlags & { readonly dryRun?: true; readonly reason?: string },
): Promise<number> {
  const target = await resolveTarget(flags);
  const { version } = await entryOf(target, key, {});
  const { ifVersion } = flags;
  if (flags.dryRun === true) {
    const thing = { key, version, dryRun: true };
    printData(await renderObject(flags.output, thing, { name: key, lines: [['WOULD DELETE', key]] }));
    return exitOk;
  }
  await confirm(`Delete ${key} (version ${version})?`, flags, 'refuse');
  const condition = ifVersion === undefined ? {} : { ifVersion: String(ifVersion) };
  const path = withQuery('/v1/registry', { key, reason: flags.reason ?? '', ...condition });
  const answer = await sendJson(target, 'DELETE', path);
  const { schemaVersion: _, ...thing } = answer as { schemaVersion: number; deleted: number; revision: number };
  const lines: [string, string][] = [
    ['DELETED', key],
    ['REVISION', String(thing.revision)],
  ];
  printData(await renderObject(flags.output, thing, { name: key, lines }));
  return exitOk;
}
