/**
 * Parses the arguments, runs one command, exits with its code after flushing both streams. The only way out but a
 * second Ctrl-C.
 */
import { CommanderError } from 'commander';
import { RemusterError } from '../base/errors.ts';
import { wantsJson, exitOk, exitUsage, reportFailure } from './command/exit.ts';
import { buildProgram } from './program.ts';
import { exitOnInterrupt } from './command/signals.ts';
import { endQuietlyOnClosedPipe } from './output/terminal.ts';
import { packageVersion } from './version.ts';

export async function runCommandLine(words: readonly string[], entry: string): Promise<void> {
  endQuietlyOnClosedPipe(() => process.exit(exitOk));
  exitOnInterrupt();
  let exitCode: number = exitOk;
  try {
    const finish = (code: number): void => void (exitCode = code);
    await buildProgram({ version: packageVersion(), entry, finish }).parseAsync(words, { from: 'user' });
  } catch (error) {
    exitCode = error instanceof CommanderError ? usage(error, words) : reportFailure(error, wantsJson(words));
  }
  process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)));
}

/** Help that was asked for is no failure; anything else that commander complains about is wrong usage. */
function usage(error: CommanderError, words: readonly string[]): number {
  if (error.code === 'commander.helpDisplayed' || error.code === 'commander.version') return exitOk;
  if (error.code === 'commander.help') return words.includes('help') ? exitOk : exitUsage;
  const message = error.message.replace(/^error: /, '').replaceAll('\n', ' ');
  return reportFailure(new RemusterError('BAD_ARGUMENT', message), wantsJson(words));
}
