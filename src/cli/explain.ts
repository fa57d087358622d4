/** `remuster explain [CODE]`: explains an error code from the error table, or lists all codes. */
import { RemusterError } from '../base/errors.ts';
import { type ErrorCode, type ErrorRow, errorTable } from '../base/error-table.ts';
import { nearestName } from '../node/options/nearest-name.ts';
import { exitOk } from './command/exit.ts';
import { type OutputFormat, renderList, renderObject } from './output/render.ts';
import { printData } from './output/terminal.ts';

export async function explainCommand(typed: string | undefined, format: OutputFormat): Promise<number> {
  printData(typed === undefined ? await all(format) : await one(typed, format));
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

async function one(typed: string, format: OutputFormat): Promise<string> {
  const code = typed.toUpperCase().replaceAll('-', '_');
  if (!Object.hasOwn(errorTable, code)) {
    const nearest = nearestName(code, Object.keys(errorTable));
    const tail = nearest === undefined ? '`remuster explain` lists all' : `did you mean ${nearest}?`;
    throw new RemusterError('BAD_ARGUMENT', `unknown error code ${JSON.stringify(typed)}; ${tail}`);
  }
  const row: ErrorRow = errorTable[code as ErrorCode];
  const lines: [string, string][] = [
    ['CODE', code],
    ['MEANING', row.summary],
    ['WHAT TO DO', row.hint],
    ['DID ANYTHING HAPPEN', `${row.stateChanged}, unless the error itself says otherwise`],
    ['CAN A RETRY HELP', row.retryable ? 'yes' : 'no'],
    ['HTTP STATUS', String(row.httpStatus)],
    ['EXIT CODE', String(row.exitCode)],
  ];
  return await renderObject(format, { code, ...row }, { name: code, lines });
}
