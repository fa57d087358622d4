/**
 * Data goes to stdout, everything else to stderr. A closed pipe ends the program quietly; colour only on a terminal.
 */
import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Prints data on stdout. */
export function printData(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

/** Prints progress, hints and errors on stderr. */
export function printNotice(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Styles text for a stream; styleText honours NO_COLOR and FORCE_COLOR, and checks that it is a terminal. */
export function styled(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(style, text, { stream });
}

/** Replaces control characters by '?': a name from elsewhere must not move the cursor. */
export function stripControls(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, '?');
}

/** A reader such as `head` closes the pipe when it has enough. */
export function endQuietlyOnClosedPipe(exit: () => void): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') exit();
      else throw error;
    });
  }
}
