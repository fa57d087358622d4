/** `remuster why NAME`: the last state changes of a member, with the evidence for each. */
import { exitOk } from '../command/exit.ts';
import { getJson } from '../command/http-client.ts';
import { type Column, type OutputFormat, renderList, renderObject } from '../output/render.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { printData } from '../output/terminal.ts';

type Change = {
  readonly time: string;
  readonly type: string;
  readonly generation: number;
  readonly incarnation: number;
  readonly why: string;
  readonly accusers: readonly string[];
  readonly refusedTo: readonly string[];
};

type Why = {
  readonly name: string;
  readonly state: string;
  readonly seenBy: string;
  readonly history: readonly Change[];
};

const columns: readonly Column<Change>[] = [
  { title: 'TIME', cell: (row) => row.time },
  { title: 'CHANGE', cell: (row) => row.type.replace('member.', '') },
  { title: 'GENERATION', cell: (row) => String(row.generation) },
  { title: 'INCARNATION', cell: (row) => String(row.incarnation) },
  { title: 'ACCUSED BY', cell: (row) => row.accusers.join(',') || '-' },
  { title: 'CONNECTION REFUSED TO', cell: (row) => row.refusedTo.join(',') || '-' },
  { title: 'WHY', cell: (row) => row.why },
];

export async function whyCommand(flags: TargetFlags, format: OutputFormat, name: string): Promise<number> {
  const target = await resolveTarget(flags);
  const path = `/v1/members/${encodeURIComponent(name)}/why`;
  const { schemaVersion: _, ...result } = (await getJson(target, path)) as Why & { schemaVersion: number };
  if (format === 'table' || format === 'wide') {
    printData(`${result.name} is ${result.state}, as ${result.seenBy} sees it`);
    if (result.history.length > 0) printData(await renderList(format, result.history, columns, (row) => row.type));
  } else {
    printData(await renderObject(format, result, { name: result.state, lines: [] }));
  }
  return exitOk;
}
