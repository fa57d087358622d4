/**
 * `remuster config show [--sources]`: the options a node started here, with these flags, this environment and this
 * folder's options file, would have. When --addr, --context or REMUSTER_ADDR names a node, that node's own options.
 * Secrets only say that they are there.
 */
import { optionNames, printOption, problemsError } from '../node/options.ts';
import { exitOk } from './failure.ts';
import { getJson } from './http-client.ts';
import { loadOptions } from './load-options.ts';
import { type Column, type Format, renderList } from './output.ts';
import { findTarget, type TargetFlags } from './target.ts';
import { print, say } from './terminal.ts';

type OptionShown = { readonly name: string; readonly value: string; readonly source?: string | null };

export type ConfigFlags = TargetFlags & {
  readonly typed: Readonly<Record<string, unknown>>;
  readonly config: string | undefined;
  readonly sources: boolean;
};

export async function showConfig(flags: ConfigFlags, format: Format): Promise<number> {
  const remote = flags.addr ?? flags.context ?? process.env['REMUSTER_ADDR'];
  const rows = remote ? await optionsOfNode(flags) : await optionsHere(flags);
  const shown = flags.sources ? rows : rows.map(({ name, value }) => ({ name, value }));
  const columns: Column<OptionShown>[] = [
    { title: 'OPTION', cell: (row) => row.name },
    { title: 'VALUE', cell: (row) => row.value },
  ];
  if (flags.sources) columns.push({ title: 'SOURCE', cell: (row) => row.source ?? 'unknown' });
  print(await renderList(format, shown, columns, (row) => row.name));
  return exitOk;
}

async function optionsOfNode(flags: TargetFlags): Promise<readonly OptionShown[]> {
  const { items } = (await getJson(await findTarget(flags), '/v1/config')) as { items: OptionShown[] };
  return items;
}

async function optionsHere({ typed, config }: ConfigFlags): Promise<readonly OptionShown[]> {
  const { values, origins, problems, warnings } = await loadOptions(typed, config);
  for (const warning of warnings) say(`warning: ${warning}`);
  if (problems.length > 0) throw problemsError(problems);
  return optionNames.map((name) => ({ name, value: printOption(name, values), source: origins[name].detail }));
}
