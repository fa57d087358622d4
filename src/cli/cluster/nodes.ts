/** `remuster node show|activate`: one node with its registration and drain, and the activation of a drained node. */
import { exitOk } from '../command/exit.ts';
import { getJson, postJson } from '../command/http-client.ts';
import type { MemberRow } from '../../node/membership/member-rows.ts';
import type { DrainProgress } from '../../placement/operations/drain-progress.ts';
import { type OutputFormat, renderObject } from '../output/render.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { printData } from '../output/terminal.ts';

export type DrainView = Omit<DrainProgress, 'node'>;

export type NodeView = MemberRow & {
  readonly reason: string | null;
  readonly since: string | null;
  readonly note: string;
  readonly lost: boolean;
  /** Null while the registry does not reply. */
  readonly drain: DrainView | null;
};

export function nodePath(name: string, verb?: string): string {
  return `/v1/nodes/${encodeURIComponent(name)}${verb === undefined ? '' : `/${verb}`}`;
}

export async function fetchNode(target: ClusterTarget, name: string): Promise<NodeView> {
  const { schemaVersion: _, ...node } = (await getJson(target, nodePath(name))) as NodeView & {
    schemaVersion: number;
  };
  return node;
}

export async function nodeShowCommand(name: string, flags: TargetFlags, format: OutputFormat): Promise<number> {
  const node = await fetchNode(await resolveTarget(flags), name);
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
    ['HOLDS', drain === null ? 'unknown: the registry does not reply' : hostedText(drain)],
    ...(drain === null || drain.phase === 'not draining' ? [] : drainLines(drain)),
  ];
  printData(await renderObject(format, node, { name: node.name, lines }));
  return exitOk;
}

function drainLines(drain: DrainView): [string, string][] {
  return [['DRAIN', drainProgressText(drain)], ...drain.blockedBy.map((why): [string, string] => ['BLOCKED BY', why])];
}

export function hostedText({
  remaining,
  containers,
  copies,
}: Pick<DrainView, 'remaining' | 'containers' | 'copies'>): string {
  const parts = [...(containers > 0 ? [`${containers} containers`] : []), ...(copies > 0 ? [`${copies} copies`] : [])];
  return parts.length === 0 ? String(remaining) : `${remaining} (${parts.join(', ')})`;
}

export function drainProgressText({ phase, total, remaining, copies, releasing, overdue }: DrainView): string {
  const open = [
    ...(total > 0 ? [`${total - remaining} of ${total} moved`] : []),
    ...(copies > 0 ? [`${copies} of the rest are copies`] : []),
    ...(releasing > 0 ? [`${releasing} moving`] : []),
    ...(overdue ? ['the deadline has passed'] : []),
  ];
  return [phase, ...open].join(', ');
}

export async function nodeActivateCommand(
  name: string,
  flags: TargetFlags & { readonly reason?: string; readonly output: OutputFormat },
): Promise<number> {
  const { reason } = flags;
  const reply = await postJson(await resolveTarget(flags), nodePath(name, 'activate'), { reason });
  const { schemaVersion: _, ...result } = reply as { schemaVersion: number; node: string; registration: string };
  const lines: [string, string][] = [
    ['NODE', result.node],
    ['REGISTRATION', result.registration],
  ];
  printData(await renderObject(flags.output, result, { name: result.node, lines }));
  return exitOk;
}
