/**
 * `remuster config show [--sources]`: the options that a node started here would have, or those of the node at --addr.
 * Never prints a secret, only whether it is set.
 */
import { optionNames, formatOption, optionProblemsError } from '../../node/options/options.ts';
import { exitOk } from '../command/exit.ts';
import { getJson } from '../command/http-client.ts';
import { loadOptions } from './load-options.ts';
import { type Column, type OutputFormat, renderList } from '../output/render.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { printData, printNotice } from '../output/terminal.ts';

type OptionView = { readonly name: string; readonly value: string; readonly source?: string | null };

export type ConfigFlags = TargetFlags & {
  readonly given: Readonly<Record<string, unknown>>;
  readonly config: string | undefined;
  readonly sources: boolean;
};

export async function configShowCommand(flags: ConfigFlags, format: OutputFormat): Promise<number> {
  const remote = flags.addr ?? flags.context ?? process.env['REMUSTER_ADDR'];
  const rows = remote ? await optionsOfNode(flags) : await optionsHere(flags);
  const printed = flags.sources ? rows : rows.map(({ name, value }) => ({ name, value }));
  const columns: Column<OptionView>[] = [
    { title: 'OPTION', cell: (row) => row.name },
    { title: 'VALUE', cell: (row) => row.value },
  ];
  if (flags.sources) columns.push({ title: 'SOURCE', cell: (row) => row.source ?? 'unknown' });
  printData(await renderList(format, printed, columns, (row) => row.name));
  return exitOk;
}

async function optionsOfNode(flags: TargetFlags): Promise<readonly OptionView[]> {
  const { items } = (await getJson(await resolveTarget(flags), '/v1/config')) as { items: OptionView[] };
  return items;
}

async function optionsHere({ given, config }: ConfigFlags): Promise<readonly OptionView[]> {
  const { values, origins, problems, warnings } = await loadOptions(given, config);
  for (const warning of warnings) printNotice(`warning: ${warning}`);
  if (problems.length > 0) throw optionProblemsError(problems);
  return optionNames.map((name) => ({ name, value: formatOption(name, values), source: origins[name].detail }));
}
