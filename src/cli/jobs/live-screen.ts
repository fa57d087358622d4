/**
 * Shows a live view: redrawn lines on a terminal, log lines elsewhere. Writes to stderr only; stdout is for the report.
 */
import { stripVTControlCharacters } from 'node:util';
import type { JobProgress } from '../../jobs/job-types.ts';
import { incidentText, type LiveView, progressLine, type ViewStyle } from './live-view.ts';
import { styled, printNotice } from '../output/terminal.ts';

export type LiveScreen = {
  told(progress: JobProgress): void;
  /** A sentence above what is drawn. */
  note(text: string): void;
  /** Leaves the last picture standing. */
  end(): void;
};

const drawMs = 200;
const lineMs = 3_000;

export function openLiveScreen(view: LiveView): LiveScreen {
  return process.stderr.isTTY ? drawnScreen(view) : writtenScreen(view);
}

function drawnScreen(view: LiveView): LiveScreen {
  const stream = process.stderr;
  let drawn = 0;
  const erase = (): void => {
    if (drawn > 0) stream.write(`\u001b[${drawn}A\u001b[0J`);
    drawn = 0;
  };
  const draw = (): void => {
    const columns = stream.columns || 80;
    const lines = view.lines(Date.now(), styleOf(columns)).map((line) => cut(line, columns));
    erase();
    stream.write(`${lines.join('\n')}\n`);
    drawn = lines.length;
  };
  const timer = setInterval(draw, drawMs);
  return {
    told: (progress) => view.update(Date.now(), progress),
    note: (text) => {
      erase();
      printNotice(text);
    },
    end: () => {
      clearInterval(timer);
      draw();
    },
  };
}

function writtenScreen(view: LiveView): LiveScreen {
  let saidMs = 0;
  let status = '';
  let incidents = 0;
  return {
    told: (progress) => {
      const nowMs = Date.now();
      view.update(nowMs, progress);
      for (const incident of progress.incidents.slice(incidents)) printNotice(incidentText(incident));
      incidents = Math.max(incidents, progress.incidents.length);
      if (progress.status === status && nowMs - saidMs < lineMs) return;
      status = progress.status;
      saidMs = nowMs;
      printNotice(progressLine(progress));
    },
    note: printNotice,
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

/** A line that wraps would be counted wrongly when it is drawn over. */
function cut(line: string, columns: number): string {
  const bare = stripVTControlCharacters(line);
  return bare.length < columns ? line : bare.slice(0, columns - 1);
}
