/** `remuster schedule list|delete`: jobs that are submitted again and again, by the clock. */
import { exitOk } from './failure.ts';
import { jobSite } from './job-site.ts';
import { type Column, type Format, renderList, renderThing } from './output.ts';
import type { TargetFlags } from './target.ts';
import { print } from './terminal.ts';

type Flags = TargetFlags & { readonly output: Format };

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

export async function listSchedules(flags: Flags): Promise<number> {
  const site = await jobSite(flags);
  const { items } = (await site.get('/v1/schedules')) as { items: ScheduleRow[] };
  print(await renderList(flags.output, items, columns, (row) => row.name));
  return exitOk;
}

/** Jobs that it has submitted already go on. */
export async function deleteSchedule(name: string, flags: Flags): Promise<number> {
  const site = await jobSite(flags);
  await site.change('DELETE', `/v1/schedules/${encodeURIComponent(name)}`);
  print(await renderThing(flags.output, { name, deleted: true }, { name, lines: [['DELETED', name]] }));
  return exitOk;
}
