/** `--out FILE`: writes a report as .html or .json. The file names are checked before the job starts. */
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, extname, resolve } from 'node:path';
import { RemusterError } from '../../base/errors.ts';
import type { Report } from '../../jobs/report/report.ts';
import type { ProgressSample } from './live-view.ts';
import { schemaVersion } from '../output/render.ts';
import { renderReportPage } from './report-page.ts';
import { printNotice } from '../output/terminal.ts';

/** Called before the job starts: a wrong file name must not cost a run. */
export function checkReportFiles(files: readonly string[]): void {
  for (const file of files) {
    if (!['.html', '.htm', '.json'].includes(extname(file).toLowerCase()))
      throw new RemusterError(
        'BAD_ARGUMENT',
        `--out takes a file that ends in .html or .json, not ${JSON.stringify(file)}`,
      );
    const folder = dirname(resolve(file));
    if (!existsSync(folder)) throw new RemusterError('BAD_ARGUMENT', `--out ${file}: there is no folder ${folder}`);
  }
}

/** The results are fetched only for a JSON file. */
export async function writeReportFiles(
  files: readonly string[],
  report: Report,
  samples: readonly ProgressSample[],
  results: () => Promise<unknown>,
): Promise<void> {
  for (const file of files) {
    const isPage = extname(file).toLowerCase() !== '.json';
    const text = isPage
      ? renderReportPage(report, samples)
      : `${JSON.stringify({ ...report, schemaVersion, results: await results() }, undefined, 2)}\n`;
    writeOut(file, text);
  }
}

function writeOut(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    throw new RemusterError('BAD_ARGUMENT', `cannot write ${file}: ${error instanceof Error ? error.message : ''}`);
  }
  printNotice(`wrote ${file}`);
}
