/**
 * Parses the arguments, runs one command, and exits with its code once stdout and stderr are flushed. Apart from
 * signals this is the only exit of the process.
 */
import { CommanderError } from 'commander';
import { RemusterError } from '../base/errors.ts';
import { wantsJson, exitOk, exitUsage, reportFailure } from './command/exit.ts';
import { buildProgram } from './program.ts';
import { exitOnInterrupt } from './command/signals.ts';
import { endQuietlyOnClosedPipe } from './output/terminal.ts';
import { packageVersion } from './version.ts';

export async function runCommandLine(args: readonly string[], entry: string): Promise<void> {
  endQuietlyOnClosedPipe(() => process.exit(exitOk));
  exitOnInterrupt();
  let exitCode: number = exitOk;
  try {
    const finish = (code: number): void => void (exitCode = code);
    await buildProgram({ version: packageVersion(), entry, finish }).parseAsync(args, { from: 'user' });
  } catch (error) {
    exitCode = error instanceof CommanderError ? usage(error, args) : reportFailure(error, wantsJson(args));
  }
  process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)));
}

/** Requested help exits with 0; every other error of commander is wrong usage. */
function usage(error: CommanderError, args: readonly string[]): number {
  if (error.code === 'commander.helpDisplayed' || error.code === 'commander.version') return exitOk;
  if (error.code === 'commander.help') return args.includes('help') ? exitOk : exitUsage;
  const message = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
  return reportFailure(new RemusterError('BAD_ARGUMENT', message), wantsJson(args));
}
