/** Flags that commands share: target, output format, reason, confirmation. */
import { type Command, Option } from 'commander';
import { RemusterError } from '../../base/errors.ts';
import { parseOptionDuration } from '../../node/options/option-types.ts';
import { type OutputFormat, outputFormats } from '../output/render.ts';
import type { TargetFlags } from './target.ts';

export type ReadFlags = TargetFlags & { readonly output: OutputFormat };

/** Reports the exit code of a command. */
export type Finish = (exitCode: number) => void;

/** Help of flags that several commands have. */
export const watchHelp = 'print again when something changes, until Ctrl-C';
export const dcHelp = 'datacenter (default: the one of the node at --addr)';

/** Declares a command that prints data of a cluster. */
export function addReadCommand(
  parent: Command,
  usage: string,
  description: string,
  format: OutputFormat = 'table',
): Command {
  return parent
    .command(usage)
    .description(description)
    .helpGroup('Inspect:')
    .addOption(new Option('-o, --output <format>', 'output format').choices(outputFormats).default(format))
    .option('--addr <url>', 'HTTP address of a node [REMUSTER_ADDR]')
    .option('--context <name>', 'name of a cluster in the contexts file')
    .option('--token <token>', 'bearer token [REMUSTER_TOKEN]');
}

/** Declares a command that changes a cluster; the reason goes into the events of the node at --addr. */
export function addChangeCommand(parent: Command, usage: string, description: string): Command {
  return addReadCommand(parent, usage, description)
    .helpGroup('Operate:')
    .option('--reason <text>', 'why; recorded in the events');
}

/** Declares a command that cannot be undone. */
export function addDestructiveCommand(parent: Command, usage: string, description: string): Command {
  return addChangeCommand(parent, usage, description)
    .option('--dry-run', 'print what would happen, change nothing')
    .option('--yes', 'do not ask for confirmation');
}

/** Parses a flag that takes a whole number. */
export function integerFlag(flag: string, min: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : -1;
    if (value < min)
      throw new RemusterError(
        'BAD_ARGUMENT',
        `${flag} takes a whole number of at least ${min}, not ${JSON.stringify(text)}`,
      );
    return value;
  };
}

/** The milliseconds of a flag that takes a duration. */
export function parseDurationFlag(flag: string, text: string, minMs = 1): number {
  // A number without a unit would be milliseconds, not what a user means by `--duration 5`.
  const hasUnit = /[a-z]$/i.test(text) || text === '0';
  const durationMs = hasUnit ? parseOptionDuration(text) : undefined;
  if (durationMs !== undefined && durationMs >= minMs) return durationMs;
  throw new RemusterError(
    'BAD_ARGUMENT',
    `${flag} takes a duration such as 500ms, 10s or 5m, not ${JSON.stringify(text)}`,
  );
}
