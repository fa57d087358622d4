/** `remuster container migrate|show|explain`: where one container of a pool is, why, and moving it. */
import { RemusterError } from '../base/errors.ts';
import type { ContainerExplanation } from '../placement/operations/container-explanation.ts';
import type { ContainerView } from '../placement/operations/pool-views.ts';
import { exitFailed, exitOk, exitPartial } from './failure.ts';
import { getJson, ofDc, postJson } from './http-client.ts';
import { type Column, type Format, renderList, renderThing } from './output.ts';
import { noteOf } from './pools.ts';
import { findTarget, type Target, type TargetFlags } from './target.ts';
import { plain, print, say } from './terminal.ts';
import { lookUntil } from './until.ts';
import { printLook } from './watching.ts';

type Flags = TargetFlags & { readonly output: Format; readonly dc?: string };
type Shown = ContainerView & { readonly pool: string };

/** `POOL/ID`. */
function containerPath(name: string, verb?: string): string {
  const [, pool, id] = /^([^/]+)\/(\d+)$/.exec(name) ?? [];
  if (pool === undefined || id === undefined)
    throw new RemusterError('BAD_ARGUMENT', `a container is named POOL/ID, not ${JSON.stringify(name)}`);
  return `/v1/containers/${encodeURIComponent(pool)}/${id}${verb === undefined ? '' : `/${verb}`}`;
}

async function containerOf(target: Target, name: string, { dc }: Flags): Promise<Shown> {
  const answer = await getJson(target, ofDc(containerPath(name), dc));
  const { schemaVersion: _, ...container } = answer as Shown & { schemaVersion: number };
  return container;
}

export async function showContainer(name: string, flags: Flags & { readonly watch?: true }): Promise<number> {
  const target = await findTarget(flags);
  return await printLook(flags.output, flags.watch === true, async () => {
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
      ['NOTE', noteOf(container)],
    ];
    return { text: await renderThing(flags.output, container, { name, lines }) };
  });
}

export async function explainContainer(name: string, flags: Flags): Promise<number> {
  const answer = await getJson(await findTarget(flags), ofDc(containerPath(name, 'explain'), flags.dc));
  const { schemaVersion: _, ...thing } = answer as ContainerExplanation & { schemaVersion: number };
  if (flags.output === 'table' || flags.output === 'wide') print(thing.reasons.map((one) => plain(one)).join('\n'));
  else print(await renderThing(flags.output, thing, { name, lines: [] }));
  return exitOk;
}

export type MigrateFlags = Flags & {
  readonly to: string;
  readonly timeout: string;
  readonly detach?: true;
  readonly reason?: string;
};

type Moved = {
  readonly pool: string;
  readonly id: number;
  readonly from: string | null;
  readonly to: string;
  /** The move goes on: `moved` may still become true. */
  readonly moving: boolean;
  readonly moved: boolean;
  readonly note: string;
};

const columns: readonly Column<Moved>[] = [
  { title: 'CONTAINER', cell: (row) => `${row.pool}/${row.id}` },
  { title: 'FROM', cell: (row) => row.from ?? 'none' },
  { title: 'TO', cell: (row) => row.to },
  { title: 'MOVED', cell: (row) => movedText(row) },
];

function movedText({ moved, moving, note }: Moved): string {
  if (moved) return 'yes';
  return moving ? 'not yet, it goes on by itself' : `no: ${note}`;
}

/** All of them are begun first; then it waits for each, unless `--detach` was said. */
export async function migrateContainers(names: readonly string[], flags: MigrateFlags): Promise<number> {
  const target = await findTarget(flags);
  const begun: Moved[] = [];
  for (const name of names) begun.push(await begin(target, name, flags));
  const ended: Moved[] = [];
  for (const move of begun) ended.push(flags.detach === true ? move : await whenMoved(target, move, flags));
  const [only] = ended;
  if (ended.length === 1 && only !== undefined) {
    const name = `${only.pool}/${only.id}`;
    const lines = columns.map(({ title, cell }): [string, string] => [title, cell(only)]);
    print(await renderThing(flags.output, only, { name, lines }));
  } else print(await renderList(flags.output, ended, columns, ({ pool, id }) => `${pool}/${id}`));
  if (flags.detach === true || ended.every(({ moved }) => moved)) return exitOk;
  return ended.some(({ moved, moving }) => !moved && !moving) ? exitFailed : exitPartial;
}

async function begin(target: Target, name: string, { to, dc, reason }: MigrateFlags): Promise<Moved> {
  const answer = await postJson(target, ofDc(containerPath(name, 'migrate'), dc), { to, reason });
  const { schemaVersion: _, ...move } = answer as Moved & { schemaVersion: number };
  return { ...move, moved: !move.moving, note: '' };
}

/** Moved is who serves there; who stands still elsewhere was not. */
async function whenMoved(target: Target, begun: Moved, flags: MigrateFlags): Promise<Moved> {
  const name = `${begun.pool}/${begun.id}`;
  const { value } = await lookUntil(flags.timeout, async () => {
    const container = await containerOf(target, name, flags);
    const { owner, phase, move, note } = container;
    const isThere = owner === begun.to;
    const moved = isThere && phase === 'serving';
    const moving = !moved && (isThere || move !== null);
    const text = `${name}: ${move === null ? phase : noteOf({ move, note: '' })}`;
    return { value: { ...begun, moved, moving, note }, isOver: moved || !moving, text };
  });
  if (value.moving) say(`${plain(name)} is still on its way; that goes on by itself`);
  return value;
}
