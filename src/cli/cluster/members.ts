/** `remuster members [--watch]`: who is in the cluster, as the asked node sees it. */
import { getJson } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList } from '../output/render.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { type StateReason, activateCommand, isLateReturn } from '../../registration/node-modes.ts';
import { stripControls } from '../output/terminal.ts';
import { printOrWatch } from '../command/watch.ts';

export type MemberRow = {
  readonly name: string;
  readonly id: string;
  readonly host: string;
  readonly port: number;
  readonly roles: readonly string[];
  readonly dc: string;
  readonly state: string;
  readonly incarnation: number;
  readonly health: number;
  readonly registration: string | null;
  readonly registrationReason: StateReason | null;
  readonly generation: number;
  readonly loadLevel: string | null;
  readonly cores?: { readonly total: number; readonly free: number } | null;
  readonly stuck: boolean;
  readonly lagMs: number;
};

/** What changes all the time is no news. */
const unsteady: ReadonlySet<string> = new Set(['silentMs', 'lagMs', 'roundTripMs', 'health']);

const columns: readonly Column<MemberRow>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'ROLES', cell: (row) => row.roles.join(',') },
  { title: 'DC', cell: (row) => row.dc },
  { title: 'STATE', cell: (row) => (row.stuck ? `${row.state} (stuck)` : row.state) },
  { title: 'REGISTRATION', cell: (row) => row.registration ?? '-' },
  { title: 'CORES FREE', cell: ({ cores }) => (cores ? `${cores.free} of ${cores.total}` : '-') },
  { title: 'ADDRESS', cell: (row) => `${row.host}:${row.port}` },
  { title: 'GENERATION', cell: (row) => String(row.generation) },
  { title: 'ID', wide: true, cell: (row) => row.id },
  { title: 'INCARNATION', wide: true, cell: (row) => String(row.incarnation) },
  { title: 'HEALTH', wide: true, cell: (row) => String(row.health) },
  { title: 'LAG', wide: true, cell: (row) => `${row.lagMs}ms` },
  { title: 'LOAD', wide: true, cell: (row) => row.loadLevel ?? '-' },
];

export async function membersCommand(flags: TargetFlags, format: OutputFormat, watch: boolean): Promise<number> {
  const target = await resolveTarget(flags);
  return await printOrWatch(format, watch, async () => {
    const answer = (await getJson(target, '/v1/members')) as { items: MemberRow[] };
    const items = answer.items.toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
    const text = await renderList(format, items, columns, (row) => row.name);
    const news = JSON.stringify(items, (key, value: unknown) => (unsteady.has(key) ? undefined : value));
    return { text, news, notices: returnNotices(items) };
  });
}

/** A node that returned too late looks like one that works; it gets nothing until it is activated. */
export function returnNotices(
  items: readonly Pick<MemberRow, 'name' | 'state' | 'registration' | 'registrationReason'>[],
): readonly string[] {
  return items
    .filter(({ state }) => state !== 'dead' && state !== 'left')
    .filter((row) => row.registration === 'drained' && isLateReturn(row.registrationReason))
    .map(
      ({ name }) =>
        `${name} returned too late and is drained: ${activateCommand(name)} (with rejoin auto it is active again by itself)`,
    )
    .map(stripControls);
}
