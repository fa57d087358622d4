/** Flags that commands share: target, output format, reason, confirmation. */
import { type Command, Option } from 'commander';
import { RemusterError } from '../../base/errors.ts';
import { type OutputFormat, outputFormats } from '../output/render.ts';
import type { TargetFlags } from './target.ts';

export type ReadFlags = TargetFlags & { readonly output: OutputFormat };

/** A command that shows data of a cluster. */
export function addReadCommand(
  parent: Command,
  words: string,
  sentence: string,
  format: OutputFormat = 'table',
): Command {
  return parent
    .command(words)
    .description(sentence)
    .helpGroup('Look:')
    .addOption(new Option('-o, --output <format>', 'how to show it').choices(outputFormats).default(format))
    .option('--addr <url>', 'HTTP address of a node [REMUSTER_ADDR]')
    .option('--context <name>', 'cluster of the contexts file')
    .option('--token <token>', 'bearer token [REMUSTER_TOKEN]');
}

/** A command that changes something in a cluster; why is kept in the events of the node that is asked. */
export function addChangeCommand(parent: Command, words: string, sentence: string): Command {
  return addReadCommand(parent, words, sentence)
    .helpGroup('Operate:')
    .option('--reason <text>', 'why, for those who look later');
}

/** One that cannot simply be taken back. */
export function addDestructiveCommand(parent: Command, words: string, sentence: string): Command {
  return addChangeCommand(parent, words, sentence)
    .option('--dry-run', 'only say what would happen')
    .option('--yes', 'do not ask');
}

/** For flags that take a whole number. */
export function integerFlag(flag: string, min: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : -1;
    if (value < min) throw new RemusterError('BAD_ARGUMENT', `${flag} takes a whole number from ${min} on`);
    return value;
  };
}
