/**
 * `remuster reachability`: the state of each member as each other member sees it, as a matrix. A member that did not
 * reply has a row of question marks, and the exit code is 4.
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
  const reply = (await getJson(target, '/v1/reachability')) as Reachability & { schemaVersion: number };
  const { schemaVersion: _, ...result } = reply;
  if (format === 'table' || format === 'wide') printData(matrix(result));
  else printData(await renderObject(format, result, { name: result.nodes.join('\n'), lines: [] }));
  if (result.unanswered.length === 0) return exitOk;
  printNotice(`no reply from ${result.unanswered.map(stripControls).join(', ')}`);
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
    ['SEEN BY', ...sorted.map(stripControls)],
    sorted.map((from) => [stripControls(from)].concat(sorted.map((to) => cell(from, to)))),
  );
}
