/** Data on stdout, everything else on stderr. A closed pipe ends the program quietly; colour only on a terminal. */
import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Data. */
export function printData(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

/** Everything else. */
export function printNotice(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Styled for the given stream; styleText itself looks at NO_COLOR, FORCE_COLOR and whether it is a terminal. */
export function styled(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return styleText(style, text, { stream });
}

/** What others chose to be called must not move the cursor: control characters are shown as '?'. */
export function stripControls(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, '?');
}

/** A closed pipe is the reader's way of saying "enough". */
export function endQuietlyOnClosedPipe(exit: () => void): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') exit();
      else throw error;
    });
  }
}
