/** `remuster compose FILE`: creates, or with `--unregister` deletes, the pools of a file. Idempotent. */
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
  if (ignored.length > 0) printNotice(`${ignored.join(', ')} mean nothing here and are passed over`);
  const target = await resolveTarget(flags);
  const { rows, isOver } =
    flags.unregister === true ? await removeAll(target, pools, flags) : await createAll(target, pools, flags);
  printData(await renderList(flags.output, rows, columns, (row) => row.name));
  return isOver ? exitOk : exitPartial;
}

type Composed = { readonly rows: readonly Row[]; readonly isOver: boolean };

async function createAll(target: ClusterTarget, pools: readonly ComposePool[], flags: ComposeFlags): Promise<Composed> {
  const { reason, dc, dryRun } = flags;
  const rows: Row[] = [];
  for (const pool of pools) {
    if (dryRun === true) {
      rows.push(rowOf(pool, (await find(target, pool.name, flags)) === undefined ? 'would be created' : 'is there'));
      continue;
    }
    const answer = await postJson(target, withDc('/v1/pools', dc), { ...pool, force: true, reason });
    const { created } = answer as PoolDescription & { readonly created: boolean };
    rows.push(rowOf(pool, created ? 'created' : 'was there'));
  }
  if (flags.detach === true || dryRun === true) return { rows, isOver: true };
  return { rows, isOver: await serving(target, pools, flags) };
}

async function serving(target: ClusterTarget, pools: readonly ComposePool[], flags: ComposeFlags): Promise<boolean> {
  const { isDone, text } = await pollUntil(flags.timeout, async () => {
    const waiting: string[] = [];
    for (const { name } of pools) {
      const found = await find(target, name, flags);
      if (found?.serving !== found?.containerCount)
        waiting.push(`${name}: ${found?.serving} of ${found?.containerCount}`);
    }
    return { value: undefined, isDone: waiting.length === 0, text: waiting.join('; ') };
  });
  if (!isDone) printNotice(stripControls(`not all containers serve yet: ${text}`));
  return isDone;
}

async function removeAll(target: ClusterTarget, pools: readonly ComposePool[], flags: ComposeFlags): Promise<Composed> {
  const there: { readonly pool: ComposePool; readonly id: string }[] = [];
  for (const pool of pools) {
    const found = await find(target, pool.name, flags);
    if (found !== undefined) there.push({ pool, id: found.id });
  }
  const names = there.map(({ pool }) => pool.name);
  const missing = pools.filter(({ name }) => !names.includes(name)).map((pool) => rowOf(pool, 'was not there'));
  if (flags.dryRun === true || there.length === 0) {
    return { rows: [...there.map(({ pool }) => rowOf(pool, 'would be deleted')), ...missing], isOver: true };
  }
  await confirm(`Delete the pools ${names.map(stripControls).join(', ')} with all their state?`, flags, 'refuse');
  const { reason = '', dc } = flags;
  for (const name of names) {
    await sendJson(target, 'DELETE', withQuery(pathOf(name), { reason, ...(dc === undefined ? {} : { dc }) }));
  }
  const left = flags.detach === true ? undefined : await whenGone(target, there, flags);
  const result = left === undefined ? 'is being deleted' : 'deleted';
  const rows = there.map(({ pool }) => rowOf(pool, left?.includes(pool.name) === true ? 'is being deleted' : result));
  return { rows: [...rows, ...missing], isOver: left === undefined || left.length === 0 };
}

/** The names of those that are still there at the end. */
async function whenGone(
  target: ClusterTarget,
  there: readonly { readonly pool: ComposePool; readonly id: string }[],
  flags: ComposeFlags,
): Promise<readonly string[]> {
  const { value } = await pollUntil(flags.timeout, async () => {
    const left: string[] = [];
    for (const { pool, id } of there) {
      if ((await find(target, pool.name, flags))?.id === id) left.push(pool.name);
    }
    return { value: left, isDone: left.length === 0, text: `${left.join(', ')} not gone yet` };
  });
  return value;
}

async function find(target: ClusterTarget, name: string, { dc }: ComposeFlags): Promise<PoolDetails | undefined> {
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
