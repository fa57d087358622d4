/** `remuster schedule list|delete`: lists and deletes job schedules. */
import { exitOk } from '../command/exit.ts';
import { openJobHttpClient } from './job-client.ts';
import { type Column, type OutputFormat, renderList, renderObject } from '../output/render.ts';
import type { TargetFlags } from '../command/target.ts';
import { printData } from '../output/terminal.ts';

type Flags = TargetFlags & { readonly output: OutputFormat };

type ScheduleRow = {
  readonly name: string;
  readonly cron: string;
  readonly nextAtMs?: number | null;
  readonly lastJobId?: string | null;
};

const columns: readonly Column<ScheduleRow>[] = [
  { title: 'NAME', cell: (row) => row.name },
  { title: 'CRON', cell: (row) => row.cron },
  { title: 'NEXT', cell: ({ nextAtMs }) => (typeof nextAtMs === 'number' ? new Date(nextAtMs).toISOString() : '') },
  { title: 'LAST JOB', cell: ({ lastJobId }) => lastJobId ?? '' },
];

export async function scheduleListCommand(flags: Flags): Promise<number> {
  const client = await openJobHttpClient(flags);
  const { items } = (await client.get('/v1/schedules')) as { items: ScheduleRow[] };
  printData(await renderList(flags.output, items, columns, (row) => row.name));
  return exitOk;
}

/** Jobs that the schedule has submitted continue. */
export async function scheduleDeleteCommand(name: string, flags: Flags): Promise<number> {
  const client = await openJobHttpClient(flags);
  await client.change('DELETE', `/v1/schedules/${encodeURIComponent(name)}`);
  printData(await renderObject(flags.output, { name, deleted: true }, { name, lines: [['DELETED', name]] }));
  return exitOk;
}
