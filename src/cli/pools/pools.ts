/**
 * `remuster pool create|list|show|delete`: creates, lists, shows and deletes pools. Create and delete wait until the
 * containers serve or are deleted.
 */
import { RemusterError, isRemusterError } from '../../base/errors.ts';
import type { ContainerView, PoolDescription, PoolRow, PoolDetails } from '../../placement/operations/pool-views.ts';
import { moveStepTexts } from '../../placement/state/container-records.ts';
import { confirm, type ConfirmFlags } from '../command/confirm.ts';
import { exitOk, exitPartial } from '../command/exit.ts';
import { sendJson, getJson, withDc, postJson, withQuery } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList, renderObject } from '../output/render.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';
import { pollUntil } from '../command/poll.ts';
import { printOrWatch } from '../command/watch.ts';

type Flags = TargetFlags & { readonly output: OutputFormat; readonly dc?: string };
type WaitFlags = { readonly timeout: string; readonly detach?: true };

const poolColumns: readonly Column<PoolRow>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'ID', wide: true, cell: (row) => row.id },
  { title: 'MODULE', cell: (row) => row.module },
  { title: 'VERSION', wide: true, cell: (row) => String(row.moduleVersion) },
  { title: 'CONTAINERS', cell: (row) => String(row.containers) },
  { title: 'SERVING', cell: (row) => String(row.serving) },
  { title: 'IN SYNC', cell: (row) => String(row.inSync) },
  { title: 'COPIES', cell: (row) => String(row.copies) },
  { title: 'DURABILITY', wide: true, cell: (row) => row.durability },
  { title: 'RESTART', wide: true, cell: (row) => (row.restart ? 'yes' : 'no') },
  { title: 'STATE', cell: (row) => row.state },
];

const containerColumns: readonly Column<ContainerView>[] = [
  { title: 'CONTAINER', cell: (row) => String(row.id) },
  { title: 'OWNER', cell: (row) => row.owner ?? 'none' },
  { title: 'PHASE', cell: (row) => row.phase },
  { title: 'COPIES', cell: (row) => row.copies.join(',') },
  { title: 'IN SYNC', cell: (row) => row.inSync.join(',') },
  { title: 'VERSION', cell: (row) => String(row.version) },
  { title: 'FENCE', wide: true, cell: (row) => row.fence },
  { title: 'MODULE', wide: true, cell: (row) => String(row.moduleVersion) },
  { title: 'NOTE', cell: containerNote },
];

export function containerNote({ move, note }: Pick<ContainerView, 'move' | 'note'>): string {
  return [
    ...(move === null ? [] : [`to ${move.to} (${move.cause}, ${moveStepTexts[move.step]})`]),
    ...(note === '' ? [] : [note]),
  ].join('; ');
}

function poolPath(name: string): string {
  return `/v1/pools/${encodeURIComponent(name)}`;
}

export async function poolListCommand(flags: Flags & { readonly watch?: true }): Promise<number> {
  const target = await resolveTarget(flags);
  return await printOrWatch(flags.output, flags.watch === true, async () => {
    const { items } = (await getJson(target, withDc('/v1/pools', flags.dc))) as { items: PoolRow[] };
    return { text: await renderList(flags.output, items, poolColumns, (row) => row.name) };
  });
}

export async function poolShowCommand(name: string, flags: Flags & { readonly watch?: true }): Promise<number> {
  const target = await resolveTarget(flags);
  const { output } = flags;
  return await printOrWatch(output, flags.watch === true, async () => {
    const pool = await fetchPool(target, name, flags);
    if (output === 'table' || output === 'wide') return { text: await poolText(pool, output) };
    return { text: await renderObject(output, pool, { name: pool.name, lines: [] }) };
  });
}

async function fetchPool(target: ClusterTarget, name: string, { dc }: Flags, limit?: number): Promise<PoolDetails> {
  const query = { ...(dc === undefined ? {} : { dc }), ...(limit === undefined ? {} : { limit: String(limit) }) };
  const reply = await getJson(target, withQuery(poolPath(name), query));
  const { schemaVersion: _, ...pool } = reply as PoolDetails & { schemaVersion: number };
  return pool;
}

async function poolText(pool: PoolDetails, format: 'table' | 'wide'): Promise<string> {
  const { containers, containerCount, serving, inSync } = pool;
  const lines: [string, string][] = [
    ['POOL', `${pool.name} (${pool.id})`],
    ['MODULE', pool.moduleVersion === 0 ? pool.module : `${pool.module}, version ${pool.moduleVersion}`],
    ['COPIES', `${pool.copies}, durability ${pool.durability}${pool.restart ? ', warm restart' : ''}`],
    ['STATE', `${pool.state}: ${serving} of ${containerCount} containers serve, ${inSync} have all copies in sync`],
  ];
  const head = await renderObject(format, {}, { name: pool.name, lines });
  const rest = pool.more ? `\n... and ${containerCount - containers.length} more` : '';
  return `${head}\n\n${await renderList(format, containers, containerColumns, (row) => String(row.id))}${rest}`;
}

export type PoolCreateFlags = Flags &
  WaitFlags & {
    readonly module: string;
    readonly containers: number;
    readonly copies?: number;
    readonly durability?: string;
    readonly restart?: true;
    readonly params?: string;
    readonly force?: true;
    readonly reason?: string;
  };

/** Waits until every container serves, unless `--detach` is given. */
export async function poolCreateCommand(name: string, flags: PoolCreateFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const { module, containers, copies, durability, restart, force, reason } = flags;
  const spec = { name, module, containers, copies, durability, restart, force, reason, params: paramsOf(flags) };
  const reply = await postJson(target, withDc('/v1/pools', flags.dc), spec);
  const { schemaVersion: _, ...created } = reply as PoolDescription & { schemaVersion: number; created: boolean };
  const ready = flags.detach === true ? undefined : await waitUntilServing(target, name, flags);
  const result = { ...created, ...(ready === undefined ? {} : { serving: ready.serving, inSync: ready.inSync }) };
  const lines: [string, string][] = [
    ['POOL', `${created.name} (${created.id})`],
    ['CREATED', created.created ? 'yes' : 'no, it existed already'],
    ['STATE', ready === undefined ? `${created.containers} containers requested` : servingText(ready)],
  ];
  printData(await renderObject(flags.output, result, { name: created.name, lines }));
  return ready === undefined || ready.serving === ready.containerCount ? exitOk : exitPartial;
}

async function waitUntilServing(target: ClusterTarget, name: string, flags: Flags & WaitFlags): Promise<PoolDetails> {
  const { value } = await pollUntil(flags.timeout, async () => {
    const pool = await fetchPool(target, name, flags, 1);
    return { value: pool, isDone: pool.serving === pool.containerCount, text: servingText(pool) };
  });
  return value;
}

function servingText({ serving, containerCount }: PoolDetails): string {
  return `${serving} of ${containerCount} containers serve`;
}

function paramsOf({ params }: PoolCreateFlags): unknown {
  if (params === undefined) return undefined;
  try {
    return JSON.parse(params) as unknown;
  } catch {
    throw new RemusterError('BAD_ARGUMENT', `--params takes JSON, not ${JSON.stringify(params)}`);
  }
}

export type PoolDeleteFlags = Flags & WaitFlags & ConfirmFlags & { readonly dryRun?: true; readonly reason?: string };

/** Waits until the pool is deleted, unless `--detach` is given. */
export async function poolDeleteCommand(name: string, flags: PoolDeleteFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const pool = await fetchPool(target, name, flags, 1);
  const description = `${stripControls(pool.name)} (${stripControls(pool.module)}, ${pool.containerCount} containers)`;
  if (flags.dryRun === true) {
    const result = { name: pool.name, id: pool.id, containers: pool.containerCount, dryRun: true };
    printData(await renderObject(flags.output, result, { name: pool.name, lines: [['WOULD DELETE', description]] }));
    return exitOk;
  }
  await confirm(`Delete the pool ${description} with all its state?`, flags, 'refuse');
  const query = { reason: flags.reason ?? '', ...(flags.dc === undefined ? {} : { dc: flags.dc }) };
  await sendJson(target, 'DELETE', withQuery(poolPath(name), query));
  const isDeleted = flags.detach !== true && (await waitUntilDeleted(target, name, pool.id, flags));
  const result = { name: pool.name, id: pool.id, containers: pool.containerCount, deleted: isDeleted };
  const lines: [string, string][] = [[isDeleted ? 'DELETED' : 'DELETING', description]];
  printData(await renderObject(flags.output, result, { name: pool.name, lines }));
  return isDeleted || flags.detach === true ? exitOk : exitPartial;
}

async function waitUntilDeleted(
  target: ClusterTarget,
  name: string,
  id: string,
  flags: Flags & WaitFlags,
): Promise<boolean> {
  const { isDone } = await pollUntil(flags.timeout, async () => {
    try {
      const pool = await fetchPool(target, name, flags, 1);
      return { value: undefined, isDone: pool.id !== id, text: `pool ${pool.name}: ${pool.state}` };
    } catch (error) {
      if (!isRemusterError(error, 'UNKNOWN_POOL')) throw error;
      return { value: undefined, isDone: true, text: '' };
    }
  });
  if (!isDone)
    printNotice(`pool ${stripControls(name)} is still being deleted; the cluster continues in the background`);
  return isDone;
}
