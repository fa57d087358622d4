/**
 * `remuster manager list|add|promote|remove|transfer`: the manager group of a datacenter. Its leader refuses a change
 * that would lose the quorum: exit code 5.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { RemusterError } from '../../base/errors.ts';
import { confirm, type ConfirmFlags } from '../command/confirm.ts';
import { exitOk } from '../command/exit.ts';
import { getJson, withDc, postJson } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList, renderObject } from '../output/render.ts';
import type { LeaderInfo } from './status.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { printData } from '../output/terminal.ts';
import { printOrWatch } from '../command/watch.ts';

type ManagerRow = {
  readonly name: string;
  readonly id: string;
  readonly host: string;
  readonly port: number;
  readonly standing: string;
  readonly state: string;
  readonly leader: boolean;
};

type ManagerFlags = TargetFlags & { readonly output: OutputFormat; readonly reason?: string };

const columns: readonly Column<ManagerRow>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'STANDING', cell: (row) => (row.leader ? `${row.standing}, leader` : row.standing) },
  { title: 'STATE', cell: (row) => row.state },
  { title: 'ADDRESS', cell: (row) => `${row.host}:${row.port}` },
  { title: 'ID', wide: true, cell: (row) => row.id },
];

const settleMs = 10_000;
const pollMs = 100;

export async function managerListCommand(
  flags: TargetFlags & { readonly dc?: string; readonly watch?: true },
  format: OutputFormat,
): Promise<number> {
  const target = await resolveTarget(flags);
  return await printOrWatch(format, flags.watch === true, async () => {
    const { items } = (await getJson(target, withDc('/v1/managers', flags.dc))) as { items: ManagerRow[] };
    const sorted = items.toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
    return { text: await renderList(format, sorted, columns, (row) => row.name) };
  });
}

export async function managerChangeCommand(
  verb: 'add' | 'promote',
  name: string,
  flags: ManagerFlags,
): Promise<number> {
  const { reason } = flags;
  const reply = await postJson(await resolveTarget(flags), `/v1/managers/${encodeURIComponent(name)}/${verb}`, {
    reason,
  });
  const { schemaVersion: _, ...result } = reply as { schemaVersion: number; manager: string; standing: string };
  const lines: [string, string][] = [
    ['MANAGER', result.manager],
    ['STANDING', result.standing],
  ];
  printData(await renderObject(flags.output, result, { name: result.manager, lines }));
  return exitOk;
}

export async function managerRemoveCommand(
  name: string,
  flags: ManagerFlags & ConfirmFlags & { readonly dryRun?: true },
): Promise<number> {
  const target = await resolveTarget(flags);
  const path = `/v1/managers/${encodeURIComponent(name)}/remove`;
  const dryRun = flags.dryRun === true;
  // The preflight runs before the confirmation: no question about a change that would be refused.
  if (!dryRun) await postJson(target, path, { dryRun: true });
  if (!dryRun) await confirm(`Remove ${name} from the manager group?`, flags, 'refuse');
  const { reason } = flags;
  const reply = await postJson(target, path, { dryRun, reason });
  const { schemaVersion: _, ...result } = reply as { schemaVersion: number; manager: string; voters: number };
  const lines: [string, string][] = [
    ['MANAGER', result.manager],
    [dryRun ? 'VOTERS WOULD BE' : 'VOTERS', String(result.voters)],
  ];
  printData(await renderObject(flags.output, result, { name: result.manager, lines }));
  return exitOk;
}

/** Returns once another leader is known. */
export async function managerTransferCommand(
  to: string | undefined,
  flags: ManagerFlags & { readonly dc?: string },
): Promise<number> {
  const target = await resolveTarget(flags);
  const path = withDc('/v1/leader', flags.dc);
  const former = (await getJson(target, path)) as LeaderInfo;
  await postJson(target, withDc('/v1/transfer', flags.dc), { to, reason: flags.reason });
  const { leader, term, dc } = await nextLeader(target, path, former.term ?? 0);
  const result = { dc, leader, term, former: former.leader };
  const lines: [string, string][] = [
    ['LEADER', leader ?? 'none'],
    ['TERM', String(term)],
    ['FORMER', former.leader ?? 'none'],
  ];
  printData(await renderObject(flags.output, result, { name: leader ?? '', lines }));
  return exitOk;
}

async function nextLeader(target: ClusterTarget, path: string, formerTerm: number): Promise<LeaderInfo> {
  for (const deadline = Date.now() + settleMs; ; await pause(pollMs)) {
    const now = (await getJson(target, path)) as LeaderInfo;
    if (now.leader !== null && (now.term ?? 0) > formerTerm) return now;
    if (Date.now() > deadline)
      throw new RemusterError(
        'DEADLINE',
        `leadership was transferred, but no new leader is known after ${settleMs} ms`,
      );
  }
}
