/**
 * `remuster reachability`: who can hear whom, as a matrix; each row is what that node says of its own view. A node that
 * did not answer has an empty row, and the exit code says that the answer is partial.
 */
import { exitOk, exitPartial } from './failure.ts';
import { getJson } from './http-client.ts';
import { type Format, renderThing, table } from './output.ts';
import { findTarget, type TargetFlags } from './target.ts';
import { plain, print, say } from './terminal.ts';

type Reachability = {
  readonly nodes: readonly string[];
  readonly hearings: readonly { readonly from: string; readonly to: string; readonly state: string }[];
  readonly unanswered: readonly string[];
};

export async function reachability(flags: TargetFlags, format: Format): Promise<number> {
  const target = await findTarget(flags);
  const answer = (await getJson(target, '/v1/reachability')) as Reachability & { schemaVersion: number };
  const { schemaVersion: _, ...thing } = answer;
  if (format === 'table' || format === 'wide') print(matrix(thing));
  else print(await renderThing(format, thing, { name: thing.nodes.join('\n'), lines: [] }));
  if (thing.unanswered.length === 0) return exitOk;
  say(`no answer from ${thing.unanswered.map(plain).join(', ')}`);
  return exitPartial;
}

function matrix({ nodes, hearings, unanswered }: Reachability): string {
  const states = new Map(hearings.map(({ from, to, state }) => [`${from}>${to}`, state]));
  const cell = (from: string, to: string): string => {
    if (from === to) return '.';
    return unanswered.includes(from) ? '?' : (states.get(`${from}>${to}`) ?? '-');
  };
  const sorted = nodes.toSorted();
  return table(
    ['HEARS', ...sorted.map(plain)],
    sorted.map((from) => [plain(from)].concat(sorted.map((to) => cell(from, to)))),
  );
}
