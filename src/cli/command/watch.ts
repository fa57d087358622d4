/** `--watch`: polls once a second, and prints again when something has changed. */
import { setTimeout as pause } from 'node:timers/promises';
import { exitOk } from './exit.ts';
import type { OutputFormat } from '../output/render.ts';
import { printData, printNotice } from '../output/terminal.ts';

export type WatchFrame = {
  readonly text: string;
  /** The frame is printed when this differs from the last printed frame; by default the text. */
  readonly compareBy?: string;
  /** Printed on stderr, because they are not data. */
  readonly notices?: readonly string[];
};

const pollMs = 1_000;

export async function printOrWatch(
  format: OutputFormat,
  watch: boolean,
  poll: () => Promise<WatchFrame>,
): Promise<number> {
  for (let printed: string | undefined; ; await pause(pollMs)) {
    const { text, compareBy = text, notices = [] } = await poll();
    if (compareBy !== printed) {
      const isAgain = printed !== undefined && (format === 'table' || format === 'wide');
      printData(isAgain ? `\n${new Date().toISOString()}\n${text}` : text);
      for (const notice of notices) printNotice(notice);
    }
    if (!watch) return exitOk;
    printed = compareBy;
  }
}
