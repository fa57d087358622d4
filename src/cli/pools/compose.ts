/** `remuster compose FILE`: creates the pools of a file, or deletes them with `--unregister`. Idempotent. */
import { isRemusterError } from '../../base/errors.ts';
import type { PoolDescription, PoolDetails } from '../../placement/operations/pool-views.ts';
import { type ComposePool, readComposeFile } from './compose-file.ts';
import { confirm, type ConfirmFlags } from '../command/confirm.ts';
import { exitOk, exitPartial } from '../command/exit.ts';
import { sendJson, getJson, withDc, postJson, withQuery } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList } from '../output/render.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';
import { pollUntil } from '../command/poll.ts';

export type ComposeFlags = TargetFlags &
  ConfirmFlags & {
    readonly output: OutputFormat;
    readonly dc?: string;
    readonly timeout: string;
    readonly detach?: true;
    readonly dryRun?: true;
    readonly unregister?: true;
    readonly reason?: string;
  };

type Row = { readonly name: string; readonly module: string; readonly containers: number; readonly result: string };

const columns: readonly Column<Row>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'MODULE', cell: (row) => row.module },
  { title: 'CONTAINERS', cell: (row) => String(row.containers) },
  { title: 'RESULT', cell: (row) => row.result },
];

export async function composeCommand(file: string, flags: ComposeFlags): Promise<number> {
  const { pools, ignored } = await readComposeFile(file);
  if (ignored.length > 0) printNotice(`ignored fields, which have no meaning here: ${ignored.join(', ')}`);
  const target = await resolveTarget(flags);
  const { rows, isDone } =
    flags.unregister === true ? await deleteAll(target, pools, flags) : await createAll(target, pools, flags);
  printData(await renderList(flags.output, rows, columns, (row) => row.name));
  return isDone ? exitOk : exitPartial;
}

type ComposeResult = { readonly rows: readonly Row[]; readonly isDone: boolean };

async function createAll(
  target: ClusterTarget,
  pools: readonly ComposePool[],
  flags: ComposeFlags,
): Promise<ComposeResult> {
  const { reason, dc, dryRun } = flags;
  const rows: Row[] = [];
  for (const pool of pools) {
    if (dryRun === true) {
      rows.push(
        rowOf(pool, (await findPool(target, pool.name, flags)) === undefined ? 'would be created' : 'exists already'),
      );
      continue;
    }
    const reply = await postJson(target, withDc('/v1/pools', dc), { ...pool, force: true, reason });
    const { created } = reply as PoolDescription & { readonly created: boolean };
    rows.push(rowOf(pool, created ? 'created' : 'exists already'));
  }
  if (flags.detach === true || dryRun === true) return { rows, isDone: true };
  return { rows, isDone: await waitUntilServing(target, pools, flags) };
}

async function waitUntilServing(
  target: ClusterTarget,
  pools: readonly ComposePool[],
  flags: ComposeFlags,
): Promise<boolean> {
  const { isDone, text } = await pollUntil(flags.timeout, async () => {
    const waiting: string[] = [];
    for (const { name } of pools) {
      const found = await findPool(target, name, flags);
      if (found?.serving !== found?.containerCount)
        waiting.push(`${name}: ${found?.serving} of ${found?.containerCount} containers serve`);
    }
    return { value: undefined, isDone: waiting.length === 0, text: waiting.join('; ') };
  });
  if (!isDone)
    printNotice(stripControls(`not all containers serve yet: ${text}; the cluster continues in the background`));
  return isDone;
}

async function deleteAll(
  target: ClusterTarget,
  pools: readonly ComposePool[],
  flags: ComposeFlags,
): Promise<ComposeResult> {
  const existing: { readonly pool: ComposePool; readonly id: string }[] = [];
  for (const pool of pools) {
    const found = await findPool(target, pool.name, flags);
    if (found !== undefined) existing.push({ pool, id: found.id });
  }
  const names = existing.map(({ pool }) => pool.name);
  const missing = pools.filter(({ name }) => !names.includes(name)).map((pool) => rowOf(pool, 'does not exist'));
  if (flags.dryRun === true || existing.length === 0) {
    return { rows: [...existing.map(({ pool }) => rowOf(pool, 'would be deleted')), ...missing], isDone: true };
  }
  await confirm(`Delete the pools ${names.map(stripControls).join(', ')} with all their state?`, flags, 'refuse');
  const { reason = '', dc } = flags;
  for (const name of names) {
    await sendJson(target, 'DELETE', withQuery(pathOf(name), { reason, ...(dc === undefined ? {} : { dc }) }));
  }
  const remaining = flags.detach === true ? undefined : await waitUntilDeleted(target, existing, flags);
  const result = remaining === undefined ? 'deleting' : 'deleted';
  const rows = existing.map(({ pool }) => rowOf(pool, remaining?.includes(pool.name) === true ? 'deleting' : result));
  return { rows: [...rows, ...missing], isDone: remaining === undefined || remaining.length === 0 };
}

/** Returns the names of the pools that still exist at the timeout. */
async function waitUntilDeleted(
  target: ClusterTarget,
  existing: readonly { readonly pool: ComposePool; readonly id: string }[],
  flags: ComposeFlags,
): Promise<readonly string[]> {
  const { value } = await pollUntil(flags.timeout, async () => {
    const remaining: string[] = [];
    for (const { pool, id } of existing) {
      if ((await findPool(target, pool.name, flags))?.id === id) remaining.push(pool.name);
    }
    return { value: remaining, isDone: remaining.length === 0, text: `deleting ${remaining.join(', ')}` };
  });
  return value;
}

async function findPool(target: ClusterTarget, name: string, { dc }: ComposeFlags): Promise<PoolDetails | undefined> {
  try {
    const query = { limit: '1', ...(dc === undefined ? {} : { dc }) };
    return (await getJson(target, withQuery(pathOf(name), query))) as PoolDetails;
  } catch (error) {
    if (isRemusterError(error, 'UNKNOWN_POOL')) return undefined;
    throw error;
  }
}

function pathOf(name: string): string {
  return `/v1/pools/${encodeURIComponent(name)}`;
}

function rowOf({ name, module, containers }: ComposePool, result: string): Row {
  return { name, module, containers, result };
}
