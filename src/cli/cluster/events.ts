/**
 * `remuster events [--follow] [--since SEQ]`: the events of a node, one JSON object a line. `--follow` resumes by
 * number after a broken connection.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { isRemusterError, RemusterError } from '../../base/errors.ts';
import { exitOk } from '../command/exit.ts';
import { getJson, readEvents } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList } from '../output/render.ts';
import { resolveTarget, type ClusterTarget, type TargetFlags } from '../command/target.ts';
import { printData, printNotice } from '../output/terminal.ts';

type EventRow = { readonly seq: number; readonly time: string; readonly node: string; readonly type: string };

export type EventsFlags = TargetFlags & { readonly follow: boolean; readonly since: string | undefined };

const reconnectMs = 500;
const reconnectsMax = 20;

const columns: readonly Column<EventRow>[] = [
  { title: 'SEQ', cell: (row) => String(row.seq) },
  { title: 'TIME', cell: (row) => row.time },
  { title: 'NODE', cell: (row) => row.node },
  { title: 'TYPE', cell: (row) => row.type },
  { title: 'DETAILS', cell: detailsOf },
];

export async function eventsCommand(flags: EventsFlags, format: OutputFormat): Promise<number> {
  const since = flags.since ?? '0';
  if (!/^\d{1,15}$/.test(since))
    throw new RemusterError(
      'BAD_ARGUMENT',
      `--since takes the number of an event (field seq), not ${JSON.stringify(since)}`,
    );
  const target = await resolveTarget(flags);
  if (flags.follow) return await follow(target, Number(since), format);
  const { items } = (await getJson(target, `/v1/events?follow=false&since=${since}`)) as { items: EventRow[] };
  const text = await renderList(format, items, columns, (row) => String(row.seq));
  if (text !== '') printData(text);
  return exitOk;
}

async function follow(target: ClusterTarget, since: number, format: OutputFormat): Promise<number> {
  let last = since;
  for (let failures = 0; ; failures++) {
    try {
      for await (const event of readEvents(target, `/v1/events?since=${last}`)) {
        const row = event as EventRow;
        last = row.seq;
        failures = 0;
        printData(lineOf(row, format));
      }
    } catch (error) {
      // The first attempt fails at a wrong address; a later one may fail because the node restarts.
      const isPermanent = isRemusterError(error) && error.code !== 'UNREACHABLE';
      if (isPermanent || last === since || failures >= reconnectsMax) throw error;
    }
    printNotice('the node closed the event stream: reconnecting');
    await pause(reconnectMs);
  }
}

function lineOf(row: EventRow, format: OutputFormat): string {
  if (format === 'table' || format === 'wide') return columns.map((column) => column.cell(row)).join('  ');
  return format === 'name' ? String(row.seq) : JSON.stringify(row);
}

function detailsOf(row: EventRow): string {
  const known = new Set(['seq', 'time', 'node', 'type']);
  const rest = Object.entries(row).filter(([key]) => !known.has(key));
  return rest.map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`).join(' ');
}
