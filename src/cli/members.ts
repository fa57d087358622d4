/**
 * `remuster members [--watch]`: who is in the cluster, as the asked node sees it. With --watch it looks once a second
 * and prints again when something changed.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { exitOk } from './failure.ts';
import { getJson } from './http-client.ts';
import { type Column, type Format, renderList } from './output.ts';
import { findTarget, type TargetFlags } from './target.ts';
import { print } from './terminal.ts';

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
  readonly generation: number;
  readonly loadLevel: string | null;
  readonly stuck: boolean;
  readonly lagMs: number;
};

const lookMs = 1_000;
/** What changes all the time is no news. */
const unsteady: ReadonlySet<string> = new Set(['silentMs', 'lagMs', 'roundTripMs', 'health']);

const columns: readonly Column<MemberRow>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'ROLES', cell: (row) => row.roles.join(',') },
  { title: 'DC', cell: (row) => row.dc },
  { title: 'STATE', cell: (row) => (row.stuck ? `${row.state} (stuck)` : row.state) },
  { title: 'REGISTRATION', cell: (row) => row.registration ?? '-' },
  { title: 'ADDRESS', cell: (row) => `${row.host}:${row.port}` },
  { title: 'GENERATION', cell: (row) => String(row.generation) },
  { title: 'ID', wide: true, cell: (row) => row.id },
  { title: 'INCARNATION', wide: true, cell: (row) => String(row.incarnation) },
  { title: 'HEALTH', wide: true, cell: (row) => String(row.health) },
  { title: 'LAG', wide: true, cell: (row) => `${row.lagMs}ms` },
  { title: 'LOAD', wide: true, cell: (row) => row.loadLevel ?? '-' },
];

export async function members(flags: TargetFlags, format: Format, watch: boolean): Promise<number> {
  const target = await findTarget(flags);
  for (let shown = ''; ; await pause(lookMs)) {
    const answer = (await getJson(target, '/v1/members')) as { items: MemberRow[] };
    const items = answer.items.toSorted((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }));
    const text = await renderList(format, items, columns, (row) => row.name);
    const news = JSON.stringify(items, (key, value: unknown) => (unsteady.has(key) ? undefined : value));
    if (news !== shown) {
      const again = shown !== '' && (format === 'table' || format === 'wide');
      print(again ? `\n${new Date().toISOString()}\n${text}` : text);
    }
    if (!watch) return exitOk;
    shown = news;
  }
}
