/** Declares the options table as commander flags, and returns the given flags as a source of options. */
import { type Command, Option } from 'commander';
import { optionNames } from '../../node/options/options.ts';
import {
  envNameOf,
  flagNameOf,
  type OptionName,
  type OptionRow,
  optionsTable,
} from '../../node/options/options-table.ts';

export function addOptionFlags(command: Command, names: readonly OptionName[] = optionNames): void {
  command.option('--config <file>', 'options file; by default remuster.config.ts, .yaml or .json in this folder');
  for (const option of names) command.addOption(flagFor(option));
}

/** The flags of the command line, by option name as resolveOptions takes them. */
export function givenFlags(command: Command, names: readonly OptionName[] = optionNames): Record<string, unknown> {
  const given: Record<string, unknown> = {};
  for (const option of names) {
    const attribute = flagFor(option).attributeName();
    if (command.getOptionValueSource(attribute) !== 'cli') continue;
    given[optionsTable[option].secret ? `${option}File` : option] = command.getOptionValue(attribute) as unknown;
  }
  return given;
}

function flagFor(option: OptionName): Option {
  const row = optionsTable[option] as OptionRow<unknown>;
  const flag = flagNameOf(option);
  const help = `${row.doc} [${envNameOf(option)}${row.secret ? ' or _FILE' : ''}; default ${defaultText(row)}]`;
  const fallback = row.defaultFor('lan');
  if (fallback === true) return new Option(flag.replace(/^--/, '--no-'), `Sets ${option} to false: ${help}`);
  return new Option(fallback === false ? flag : `${flag} <${row.secret ? 'path' : row.type.syntax}>`, help);
}

function defaultText(row: OptionRow<unknown>): string {
  const text = row.type.print(row.defaultFor('lan'));
  return text === '' || text === '(none)' ? 'none' : text;
}
