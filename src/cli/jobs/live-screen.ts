/**
 * Shows a live view: redrawn lines on a terminal, log lines elsewhere. Writes to stderr only: stdout is for the report.
 */
import { stripVTControlCharacters } from 'node:util';
import type { JobProgress } from '../../jobs/job-types.ts';
import { incidentText, type LiveView, progressLine, type ViewStyle } from './live-view.ts';
import { styled, printNotice } from '../output/terminal.ts';

export type LiveScreen = {
  update(progress: JobProgress): void;
  /** Draws for the last time; the lines stay on the screen. */
  end(): void;
};

const drawIntervalMs = 200;
const lineIntervalMs = 3_000;

export function openLiveScreen(view: LiveView): LiveScreen {
  return process.stderr.isTTY ? redrawnScreen(view) : loggedScreen(view);
}

function redrawnScreen(view: LiveView): LiveScreen {
  const stream = process.stderr;
  let drawn = 0;
  const erase = (): void => {
    if (drawn > 0) stream.write(`\u001b[${drawn}A\u001b[0J`);
    drawn = 0;
  };
  const draw = (): void => {
    const columns = stream.columns || 80;
    const lines = view.lines(Date.now(), styleOf(columns)).map((line) => truncate(line, columns));
    erase();
    stream.write(`${lines.join('\n')}\n`);
    drawn = lines.length;
  };
  const timer = setInterval(draw, drawIntervalMs);
  return {
    update: (progress) => view.update(Date.now(), progress),
    end: () => {
      clearInterval(timer);
      draw();
    },
  };
}

function loggedScreen(view: LiveView): LiveScreen {
  let printedMs = 0;
  let status = '';
  let incidents = 0;
  return {
    update: (progress) => {
      const nowMs = Date.now();
      view.update(nowMs, progress);
      for (const incident of progress.incidents.slice(incidents)) printNotice(incidentText(incident));
      incidents = Math.max(incidents, progress.incidents.length);
      if (progress.status === status && nowMs - printedMs < lineIntervalMs) return;
      status = progress.status;
      printedMs = nowMs;
      printNotice(progressLine(progress));
    },
    end: () => undefined,
  };
}

function styleOf(columns: number): ViewStyle {
  const locale = process.env['LC_ALL'] || process.env['LC_CTYPE'] || process.env['LANG'] || '';
  return {
    columns,
    blocks: /utf-?8/i.test(locale),
    paint: (style, text) => styled(style, text, process.stderr),
  };
}

/** A wrapped line would take two rows, and the next redraw would erase too few. */
function truncate(line: string, columns: number): string {
  const bare = stripVTControlCharacters(line);
  return bare.length < columns ? line : bare.slice(0, columns - 1);
}
