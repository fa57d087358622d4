/** `remuster container migrate|show|explain`: where a container is and why, and its live migration. */
import { RemusterError } from '../../base/errors.ts';
import type { ContainerExplanation } from '../../placement/operations/container-explanation.ts';
import type { ContainerView } from '../../placement/operations/pool-views.ts';
import { exitFailed, exitOk, exitPartial } from '../command/exit.ts';
import { getJson, withDc, postJson } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList, renderObject } from '../output/render.ts';
import { containerNote } from './pools.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';
import { pollUntil } from '../command/poll.ts';
import { printOrWatch } from '../command/watch.ts';

type Flags = TargetFlags & { readonly output: OutputFormat; readonly dc?: string };
type PoolContainerView = ContainerView & { readonly pool: string };

/** The HTTP path of a container that is named POOL/ID. */
function containerPath(name: string, verb?: string): string {
  const [, pool, id] = /^([^/]+)\/(\d+)$/.exec(name) ?? [];
  if (pool === undefined || id === undefined)
    throw new RemusterError('BAD_ARGUMENT', `a container is named POOL/ID, such as kv/0, not ${JSON.stringify(name)}`);
  return `/v1/containers/${encodeURIComponent(pool)}/${id}${verb === undefined ? '' : `/${verb}`}`;
}

async function fetchContainer(target: ClusterTarget, name: string, { dc }: Flags): Promise<PoolContainerView> {
  const reply = await getJson(target, withDc(containerPath(name), dc));
  const { schemaVersion: _, ...container } = reply as PoolContainerView & { schemaVersion: number };
  return container;
}

export async function containerShowCommand(name: string, flags: Flags & { readonly watch?: true }): Promise<number> {
  const target = await resolveTarget(flags);
  return await printOrWatch(flags.output, flags.watch === true, async () => {
    const container = await fetchContainer(target, name, flags);
    const lines: [string, string][] = [
      ['CONTAINER', name],
      ['OWNER', container.owner ?? 'none'],
      ['PHASE', container.phase],
      ['COPIES', container.copies.join(', ')],
      ['IN SYNC', container.inSync.join(', ')],
      ['VERSION', String(container.version)],
      ['FENCE', container.fence],
      ['MODULE VERSION', String(container.moduleVersion)],
      ['FAILURES', String(container.failures)],
      ['NOTE', containerNote(container)],
    ];
    return { text: await renderObject(flags.output, container, { name, lines }) };
  });
}

export async function containerExplainCommand(name: string, flags: Flags): Promise<number> {
  const reply = await getJson(await resolveTarget(flags), withDc(containerPath(name, 'explain'), flags.dc));
  const { schemaVersion: _, ...result } = reply as ContainerExplanation & { schemaVersion: number };
  if (flags.output === 'table' || flags.output === 'wide')
    printData(result.reasons.map((one) => stripControls(one)).join('\n'));
  else printData(await renderObject(flags.output, result, { name, lines: [] }));
  return exitOk;
}

export type MigrateFlags = Flags & {
  readonly to: string;
  readonly timeout: string;
  readonly detach?: true;
  readonly reason?: string;
};

type MigrationView = {
  readonly pool: string;
  readonly id: number;
  readonly from: string | null;
  readonly to: string;
  /** The move continues: `moved` may still become true. */
  readonly moving: boolean;
  readonly moved: boolean;
  readonly note: string;
};

const columns: readonly Column<MigrationView>[] = [
  { title: 'CONTAINER', cell: (row) => `${row.pool}/${row.id}` },
  { title: 'FROM', cell: (row) => row.from ?? 'none' },
  { title: 'TO', cell: (row) => row.to },
  { title: 'MOVED', cell: (row) => movedText(row) },
];

function movedText({ from, to, moved, moving, note }: MigrationView): string {
  if (from === to) return 'no: it is there already';
  if (moved) return 'yes';
  return moving ? 'not yet: the move continues in the background' : `no: ${note}`;
}

/** Starts all moves, then waits for each, unless `--detach` is given. */
export async function containerMigrateCommand(names: readonly string[], flags: MigrateFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const started: MigrationView[] = [];
  for (const name of names) started.push(await startMove(target, name, flags));
  const results: MigrationView[] = [];
  for (const move of started) results.push(flags.detach === true ? move : await waitUntilMoved(target, move, flags));
  const [single] = results;
  if (results.length === 1 && single !== undefined) {
    const name = `${single.pool}/${single.id}`;
    const lines = columns.map(({ title, cell }): [string, string] => [title, cell(single)]);
    printData(await renderObject(flags.output, single, { name, lines }));
  } else printData(await renderList(flags.output, results, columns, ({ pool, id }) => `${pool}/${id}`));
  if (flags.detach === true || results.every(({ moved }) => moved)) return exitOk;
  return results.some(({ moved, moving }) => !moved && !moving) ? exitFailed : exitPartial;
}

async function startMove(
  target: ClusterTarget,
  name: string,
  { to, dc, reason }: MigrateFlags,
): Promise<MigrationView> {
  const reply = await postJson(target, withDc(containerPath(name, 'migrate'), dc), { to, reason });
  const { schemaVersion: _, ...move } = reply as MigrationView & { schemaVersion: number };
  return { ...move, moved: !move.moving, note: '' };
}

/** A container has moved when its new owner serves it. A move that ends elsewhere was cancelled. */
async function waitUntilMoved(
  target: ClusterTarget,
  started: MigrationView,
  flags: MigrateFlags,
): Promise<MigrationView> {
  const name = `${started.pool}/${started.id}`;
  const { value } = await pollUntil(flags.timeout, async () => {
    const container = await fetchContainer(target, name, flags);
    const { owner, phase, move, note } = container;
    const isAtTarget = owner === started.to;
    const moved = isAtTarget && phase === 'serving';
    const moving = !moved && (isAtTarget || move !== null);
    const text = `${name}: ${move === null ? phase : containerNote({ move, note: '' })}`;
    return { value: { ...started, moved, moving, note }, isDone: moved || !moving, text };
  });
  if (value.moving) printNotice(`${stripControls(name)} is still moving: the move continues in the background`);
  return value;
}
