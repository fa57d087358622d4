/** Asks before a destructive command, unless `--yes`. Without a terminal it refuses what may lose data. */
import { createInterface } from 'node:readline/promises';
import { RemusterError } from '../../base/errors.ts';
import { printNotice } from '../output/terminal.ts';

export type ConfirmFlags = { readonly yes?: true };

/** `withoutTerminal` applies when there is neither a terminal nor `--yes`. */
export async function confirm(
  question: string,
  flags: ConfirmFlags,
  withoutTerminal: 'refuse' | 'proceed',
): Promise<void> {
  if (flags.yes === true) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    if (withoutTerminal === 'proceed') return;
    throw new RemusterError(
      'BAD_ARGUMENT',
      `${question} Add --yes to confirm: there is no terminal to ask. Nothing was changed`,
    );
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const interrupted = new Promise<string>((resolve) => terminal.once('close', () => resolve('')));
  const answer = await Promise.race([terminal.question(`${question} [y/N] `), interrupted]);
  terminal.close();
  if (/^y(es)?$/i.test(answer.trim())) return;
  printNotice('nothing was changed');
  throw new RemusterError('CANCELLED', 'not confirmed', 'no');
}
