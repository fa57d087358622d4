/** `remuster container migrate|show|explain`: one container: where it is, why, and live migration. */
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
type Shown = ContainerView & { readonly pool: string };

/** `POOL/ID`. */
function containerPath(name: string, verb?: string): string {
  const [, pool, id] = /^([^/]+)\/(\d+)$/.exec(name) ?? [];
  if (pool === undefined || id === undefined)
    throw new RemusterError('BAD_ARGUMENT', `a container is named POOL/ID, not ${JSON.stringify(name)}`);
  return `/v1/containers/${encodeURIComponent(pool)}/${id}${verb === undefined ? '' : `/${verb}`}`;
}

async function containerOf(target: ClusterTarget, name: string, { dc }: Flags): Promise<Shown> {
  const answer = await getJson(target, withDc(containerPath(name), dc));
  const { schemaVersion: _, ...container } = answer as Shown & { schemaVersion: number };
  return container;
}

export async function containerShowCommand(name: string, flags: Flags & { readonly watch?: true }): Promise<number> {
  const target = await resolveTarget(flags);
  return await printOrWatch(flags.output, flags.watch === true, async () => {
    const container = await containerOf(target, name, flags);
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
  const answer = await getJson(await resolveTarget(flags), withDc(containerPath(name, 'explain'), flags.dc));
  const { schemaVersion: _, ...thing } = answer as ContainerExplanation & { schemaVersion: number };
  if (flags.output === 'table' || flags.output === 'wide')
    printData(thing.reasons.map((one) => stripControls(one)).join('\n'));
  else printData(await renderObject(flags.output, thing, { name, lines: [] }));
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
  /** The move goes on: `moved` may still become true. */
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

function movedText({ moved, moving, note }: MigrationView): string {
  if (moved) return 'yes';
  return moving ? 'not yet, it goes on by itself' : `no: ${note}`;
}

/** All of them are begun first; then it waits for each, unless `--detach` was said. */
export async function containerMigrateCommand(names: readonly string[], flags: MigrateFlags): Promise<number> {
  const target = await resolveTarget(flags);
  const begun: MigrationView[] = [];
  for (const name of names) begun.push(await begin(target, name, flags));
  const ended: MigrationView[] = [];
  for (const move of begun) ended.push(flags.detach === true ? move : await whenMoved(target, move, flags));
  const [only] = ended;
  if (ended.length === 1 && only !== undefined) {
    const name = `${only.pool}/${only.id}`;
    const lines = columns.map(({ title, cell }): [string, string] => [title, cell(only)]);
    printData(await renderObject(flags.output, only, { name, lines }));
  } else printData(await renderList(flags.output, ended, columns, ({ pool, id }) => `${pool}/${id}`));
  if (flags.detach === true || ended.every(({ moved }) => moved)) return exitOk;
  return ended.some(({ moved, moving }) => !moved && !moving) ? exitFailed : exitPartial;
}

async function begin(target: ClusterTarget, name: string, { to, dc, reason }: MigrateFlags): Promise<MigrationView> {
  const answer = await postJson(target, withDc(containerPath(name, 'migrate'), dc), { to, reason });
  const { schemaVersion: _, ...move } = answer as MigrationView & { schemaVersion: number };
  return { ...move, moved: !move.moving, note: '' };
}

/** Moved is who serves there; who stands still elsewhere was not. */
async function whenMoved(target: ClusterTarget, begun: MigrationView, flags: MigrateFlags): Promise<MigrationView> {
  const name = `${begun.pool}/${begun.id}`;
  const { value } = await pollUntil(flags.timeout, async () => {
    const container = await containerOf(target, name, flags);
    const { owner, phase, move, note } = container;
    const isThere = owner === begun.to;
    const moved = isThere && phase === 'serving';
    const moving = !moved && (isThere || move !== null);
    const text = `${name}: ${move === null ? phase : containerNote({ move, note: '' })}`;
    return { value: { ...begun, moved, moving, note }, isDone: moved || !moving, text };
  });
  if (value.moving) printNotice(`${stripControls(name)} is still on its way; that goes on by itself`);
  return value;
}
