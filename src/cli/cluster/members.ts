/** `remuster members [--watch]`: the members of the cluster, as the node at --addr sees them. */
import { getJson } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList } from '../output/render.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { type StateReason, activateCommand, isLateReturn } from '../../registration/node-modes.ts';
import type { MemberRow } from '../../node/membership/member-rows.ts';
import { stripControls } from '../output/terminal.ts';
import { printOrWatch } from '../command/watch.ts';

/** Fields that change all the time: `--watch` does not print again for them. */
const volatileFields: ReadonlySet<string> = new Set(['silentMs', 'lagMs', 'roundTripMs', 'health']);

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
    const reply = (await getJson(target, '/v1/members')) as { items: MemberRow[] };
    const items = reply.items.toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
    const text = await renderList(format, items, columns, (row) => row.name);
    const compareBy = JSON.stringify(items, (key, value: unknown) => (volatileFields.has(key) ? undefined : value));
    return { text, compareBy, notices: returnNotices(items) };
  });
}

/** A node that was drained by a late return looks healthy in the table, but gets no work until it is activated. */
export function returnNotices(
  items: readonly Pick<MemberRow, 'name' | 'state' | 'registration' | 'registrationReason'>[],
): readonly string[] {
  return items
    .filter(({ state }) => state !== 'dead' && state !== 'left')
    .filter((row) => row.registration === 'drained' && isLateReturn(row.registrationReason as StateReason | null))
    .map(
      ({ name }) =>
        `${name} returned after its registration expired and is drained: ${activateCommand(name)} ` +
        '(with --rejoin auto a node becomes active on its own)',
    )
    .map(stripControls);
}
