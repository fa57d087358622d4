/** Exit codes, and how an error is printed: one message, or JSON under `-o json`, always on stderr. */
import { serializeError, isRemusterError, RemusterError } from '../../base/errors.ts';
import { withCommandEffect } from './command-effect.ts';
import { styled, printNotice } from '../output/terminal.ts';

export const exitOk = 0;
export const exitFailed = 1;
export const exitUsage = 2;
export const exitPartial = 4;
export const exitRefused = 5;
export const exitThresholds = 99;
export const exitInterrupted = 130;

/** Prints the error and returns the exit code. */
export function reportFailure(error: unknown, asJson: boolean): number {
  const known = isRemusterError(error) ? error : new RemusterError('INTERNAL', internalMessage(error));
  const shape = serializeError(withCommandEffect(known));
  const { code, message, hint } = shape;
  if (asJson) {
    printNotice(JSON.stringify({ error: shape }));
  } else {
    printNotice(`${styled('red', 'error', process.stderr)} ${code}: ${message}`);
    printNotice(`${styled('dim', 'hint', process.stderr)} ${hint} (remuster explain ${code})`);
  }
  if (!isRemusterError(error) && process.env['REMUSTER_DEBUG'] && error instanceof Error)
    printNotice(error.stack ?? '');
  return known.row.exitCode;
}

function internalMessage(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/** True when the arguments ask for JSON, also when they cannot be parsed otherwise. */
export function wantsJson(args: readonly string[]): boolean {
  return args.some(
    (arg, i) =>
      ((arg === '-o' || arg === '--output') && /^jsonl?$/.test(args[i + 1] ?? '')) ||
      /^(-o=?|--output=)jsonl?$/.test(arg),
  );
}
