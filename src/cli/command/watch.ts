/** `--watch`: polls once a second, prints again when something has changed. */
import { setTimeout as pause } from 'node:timers/promises';
import { exitOk } from './exit.ts';
import type { OutputFormat } from '../output/render.ts';
import { printData, printNotice } from '../output/terminal.ts';

export type WatchFrame = {
  readonly text: string;
  /** Another one is news; the text itself when nothing in it changes all the time. */
  readonly news?: string;
  /** What its reader should know besides; it is no data. */
  readonly notices?: readonly string[];
};

const lookMs = 1_000;

export async function printOrWatch(
  format: OutputFormat,
  watch: boolean,
  look: () => Promise<WatchFrame>,
): Promise<number> {
  for (let shown: string | undefined; ; await pause(lookMs)) {
    const { text, news = text, notices = [] } = await look();
    if (news !== shown) {
      const isAgain = shown !== undefined && (format === 'table' || format === 'wide');
      printData(isAgain ? `\n${new Date().toISOString()}\n${text}` : text);
      for (const notice of notices) printNotice(notice);
    }
    if (!watch) return exitOk;
    shown = news;
  }
}
