/**
 * `remuster manager list|add|promote|remove|transfer`: the group of managers that decides for a datacenter. What would
 * cost its quorum is refused by its leader, with exit code 5.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { RemusterError } from '../base/errors.ts';
import { confirm, type ConsentFlags } from './confirm.ts';
import { exitOk } from './failure.ts';
import { getJson, ofDc, postJson } from './http-client.ts';
import { type Column, type Format, renderList, renderThing } from './output.ts';
import type { Leader } from './status.ts';
import { findTarget, type Target, type TargetFlags } from './target.ts';
import { print } from './terminal.ts';
import { printLook } from './watching.ts';

type ManagerRow = {
  readonly name: string;
  readonly id: string;
  readonly host: string;
  readonly port: number;
  readonly standing: string;
  readonly state: string;
  readonly leader: boolean;
};

type Order = TargetFlags & { readonly output: Format; readonly reason?: string };

const columns: readonly Column<ManagerRow>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'STANDING', cell: (row) => (row.leader ? `${row.standing}, leads` : row.standing) },
  { title: 'STATE', cell: (row) => row.state },
  { title: 'ADDRESS', cell: (row) => `${row.host}:${row.port}` },
  { title: 'ID', wide: true, cell: (row) => row.id },
];

const settleMs = 10_000;
const lookMs = 100;

export async function listManagers(
  flags: TargetFlags & { readonly dc?: string; readonly watch?: true },
  format: Format,
): Promise<number> {
  const target = await findTarget(flags);
  return await printLook(format, flags.watch === true, async () => {
    const { items } = (await getJson(target, ofDc('/v1/managers', flags.dc))) as { items: ManagerRow[] };
    const sorted = items.toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
    return { text: await renderList(format, sorted, columns, (row) => row.name) };
  });
}

export async function changeManager(verb: 'add' | 'promote', name: string, flags: Order): Promise<number> {
  const { reason } = flags;
  const answer = await postJson(await findTarget(flags), `/v1/managers/${encodeURIComponent(name)}/${verb}`, {
    reason,
  });
  const { schemaVersion: _, ...thing } = answer as { schemaVersion: number; manager: string; standing: string };
  const lines: [string, string][] = [
    ['MANAGER', thing.manager],
    ['STANDING', thing.standing],
  ];
  print(await renderThing(flags.output, thing, { name: thing.manager, lines }));
  return exitOk;
}

export async function removeManager(
  name: string,
  flags: Order & ConsentFlags & { readonly dryRun?: true },
): Promise<number> {
  const target = await findTarget(flags);
  const path = `/v1/managers/${encodeURIComponent(name)}/remove`;
  const dryRun = flags.dryRun === true;
  // The preflight first: a person should not be asked about what is refused anyway.
  if (!dryRun) await postJson(target, path, { dryRun: true });
  if (!dryRun) await confirm(`Remove ${name} from the group of managers?`, flags, 'refuse');
  const { reason } = flags;
  const answer = await postJson(target, path, { dryRun, reason });
  const { schemaVersion: _, ...thing } = answer as { schemaVersion: number; manager: string; voters: number };
  const lines: [string, string][] = [
    ['MANAGER', thing.manager],
    [dryRun ? 'WOULD BE LEFT' : 'LEFT', `${thing.voters} ${thing.voters === 1 ? 'voter' : 'voters'}`],
  ];
  print(await renderThing(flags.output, thing, { name: thing.manager, lines }));
  return exitOk;
}

/** Ends when somebody else is known to lead. */
export async function transferLeadership(
  to: string | undefined,
  flags: Order & { readonly dc?: string },
): Promise<number> {
  const target = await findTarget(flags);
  const path = ofDc('/v1/leader', flags.dc);
  const former = (await getJson(target, path)) as Leader;
  await postJson(target, ofDc('/v1/transfer', flags.dc), { to, reason: flags.reason });
  const { leader, term, dc } = await nextLeader(target, path, former.term ?? 0);
  const thing = { dc, leader, term, former: former.leader };
  const lines: [string, string][] = [
    ['LEADER', leader ?? 'none'],
    ['TERM', String(term)],
    ['FORMER', former.leader ?? 'none'],
  ];
  print(await renderThing(flags.output, thing, { name: leader ?? '', lines }));
  return exitOk;
}

async function nextLeader(target: Target, path: string, formerTerm: number): Promise<Leader> {
  for (const deadline = Date.now() + settleMs; ; await pause(lookMs)) {
    const now = (await getJson(target, path)) as Leader;
    if (now.leader !== null && (now.term ?? 0) > formerTerm) return now;
    if (Date.now() > deadline)
      throw new RemusterError(
        'DEADLINE',
        `leadership was handed over, but nobody is known to lead after ${settleMs} ms`,
      );
  }
}
