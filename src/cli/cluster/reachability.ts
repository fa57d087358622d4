/**
 * `remuster reachability`: who hears whom, as a matrix. A node without an answer has an empty row, and the exit code
 * says that the answer is partial.
 */
import { exitOk, exitPartial } from '../command/exit.ts';
import { getJson } from '../command/http-client.ts';
import { type OutputFormat, renderObject, renderTable } from '../output/render.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { stripControls, printData, printNotice } from '../output/terminal.ts';

type Reachability = {
  readonly nodes: readonly string[];
  readonly hearings: readonly { readonly from: string; readonly to: string; readonly state: string }[];
  readonly unanswered: readonly string[];
};

export async function reachabilityCommand(flags: TargetFlags, format: OutputFormat): Promise<number> {
  const target = await resolveTarget(flags);
  const answer = (await getJson(target, '/v1/reachability')) as Reachability & { schemaVersion: number };
  const { schemaVersion: _, ...thing } = answer;
  if (format === 'table' || format === 'wide') printData(matrix(thing));
  else printData(await renderObject(format, thing, { name: thing.nodes.join('\n'), lines: [] }));
  if (thing.unanswered.length === 0) return exitOk;
  printNotice(`no answer from ${thing.unanswered.map(stripControls).join(', ')}`);
  return exitPartial;
}

function matrix({ nodes, hearings, unanswered }: Reachability): string {
  const states = new Map(hearings.map(({ from, to, state }) => [`${from}>${to}`, state]));
  const cell = (from: string, to: string): string => {
    if (from === to) return '.';
    return unanswered.includes(from) ? '?' : (states.get(`${from}>${to}`) ?? '-');
  };
  const sorted = nodes.toSorted();
  return renderTable(
    ['HEARS', ...sorted.map(stripControls)],
    sorted.map((from) => [stripControls(from)].concat(sorted.map((to) => cell(from, to)))),
  );
}
