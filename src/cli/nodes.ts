/** `remuster node show|activate`: what one node may do for the cluster, and letting a drained one work again. */
import { exitOk } from './failure.ts';
import { getJson, postJson } from './http-client.ts';
import type { MemberRow } from './members.ts';
import type { DrainProgress } from '../placement/operations/drain-progress.ts';
import { type Format, renderThing } from './output.ts';
import { findTarget, type Target, type TargetFlags } from './target.ts';
import { print } from './terminal.ts';

export type Drain = Omit<DrainProgress, 'node'>;

export type NodeShown = MemberRow & {
  readonly reason: string | null;
  readonly since: string | null;
  readonly note: string;
  readonly lost: boolean;
  /** Null while the registry cannot be asked. */
  readonly drain: Drain | null;
};

export function nodePath(name: string, verb?: string): string {
  return `/v1/nodes/${encodeURIComponent(name)}${verb === undefined ? '' : `/${verb}`}`;
}

export async function nodeOf(target: Target, name: string): Promise<NodeShown> {
  const { schemaVersion: _, ...node } = (await getJson(target, nodePath(name))) as NodeShown & {
    schemaVersion: number;
  };
  return node;
}

export async function showNode(name: string, flags: TargetFlags, format: Format): Promise<number> {
  const node = await nodeOf(await findTarget(flags), name);
  const { drain } = node;
  const lines: [string, string][] = [
    ['NAME', node.name],
    ['ID', node.id],
    ['ROLES', node.roles.join(',')],
    ['DC', node.dc],
    ['ADDRESS', `${node.host}:${node.port}`],
    ['STATE', node.stuck ? `${node.state} (stuck)` : node.state],
    ['REGISTRATION', node.registration ?? 'none'],
    ['REASON', [node.reason ?? '-', node.note].filter((text) => text !== '').join(': ')],
    ['SINCE', node.since ?? '-'],
    ['HOLDS', drain === null ? 'unknown: the registry does not answer' : heldText(drain)],
    ...(drain === null || drain.phase === 'not draining' ? [] : drainLines(drain)),
  ];
  print(await renderThing(format, node, { name: node.name, lines }));
  return exitOk;
}

function drainLines(drain: Drain): [string, string][] {
  return [['DRAIN', progressText(drain)], ...drain.blockedBy.map((why): [string, string] => ['BLOCKED BY', why])];
}

export function heldText({
  remaining,
  containers,
  copies,
}: Pick<Drain, 'remaining' | 'containers' | 'copies'>): string {
  const others = remaining - containers - copies;
  const parts = [
    ...(containers > 0 ? [`${containers} containers`] : []),
    ...(copies > 0 ? [`${copies} copies`] : []),
    ...(others > 0 && others < remaining ? [`${others} assignments`] : []),
  ];
  return parts.length === 0 ? String(remaining) : `${remaining} (${parts.join(', ')})`;
}

export function progressText({ phase, total, remaining, copies, releasing, adrift, overdue }: Drain): string {
  const open = [
    ...(total > 0 ? [`${total - remaining} of ${total} moved away`] : []),
    ...(copies > 0 ? [`${copies} of the rest are copies`] : []),
    ...(releasing > 0 ? [`${releasing} on the move`] : []),
    ...(adrift > 0 ? [`${adrift} on the way to another node`] : []),
    ...(overdue ? ['the deadline has passed'] : []),
  ];
  return [phase, ...open].join(', ');
}

export async function activateNode(
  name: string,
  flags: TargetFlags & { readonly reason?: string; readonly output: Format },
): Promise<number> {
  const { reason } = flags;
  const answer = await postJson(await findTarget(flags), nodePath(name, 'activate'), { reason });
  const { schemaVersion: _, ...thing } = answer as { schemaVersion: number; node: string; registration: string };
  const lines: [string, string][] = [
    ['NODE', thing.node],
    ['REGISTRATION', thing.registration],
  ];
  print(await renderThing(flags.output, thing, { name: thing.node, lines }));
  return exitOk;
}
