/** `remuster explain [CODE]`: explains one error code from the error table, or lists all codes. */
import { RemusterError } from '../base/errors.ts';
import { type ErrorCode, type ErrorRow, errorTable } from '../base/error-table.ts';
import { nearestName } from '../node/options/nearest-name.ts';
import { exitOk } from './command/exit.ts';
import { type OutputFormat, renderList, renderObject } from './output/render.ts';
import { printData } from './output/terminal.ts';

export async function explainCommand(given: string | undefined, format: OutputFormat): Promise<number> {
  printData(given === undefined ? await all(format) : await one(given, format));
  return exitOk;
}

async function all(format: OutputFormat): Promise<string> {
  const items = Object.entries(errorTable).map(([code, row]) => Object.assign({ code }, row));
  const columns = [
    { title: 'CODE', cell: (row: { code: string }) => row.code },
    { title: 'MEANING', cell: (row: { summary: string }) => row.summary },
  ];
  return await renderList(format, items, columns, (row) => row.code);
}

async function one(given: string, format: OutputFormat): Promise<string> {
  const code = given.toUpperCase().replaceAll('-', '_');
  if (!Object.hasOwn(errorTable, code)) {
    const nearest = nearestName(code, Object.keys(errorTable));
    const hint = nearest === undefined ? '`remuster explain` lists all codes' : `did you mean ${nearest}?`;
    throw new RemusterError('BAD_ARGUMENT', `unknown error code ${JSON.stringify(given)}; ${hint}`);
  }
  const row: ErrorRow = errorTable[code as ErrorCode];
  const lines: [string, string][] = [
    ['CODE', code],
    ['MEANING', row.summary],
    ['WHAT TO DO', row.hint],
    ['STATE CHANGED', `${row.stateChanged}, unless the error itself says otherwise`],
    ['RETRYABLE', row.retryable ? 'yes' : 'no'],
    ['HTTP STATUS', String(row.httpStatus)],
    ['EXIT CODE', String(row.exitCode)],
  ];
  return await renderObject(format, { code, ...row }, { name: code, lines });
}
