/**
 * Renders lists and objects for `-o table|wide|json|jsonl|yaml|name`. Fetches and prints nothing. Text that came from
 * elsewhere has no control characters in a table.
 */
import { unreachable } from '../../base/assert.ts';
import { stripControls } from './terminal.ts';

export const outputFormats = ['table', 'wide', 'json', 'jsonl', 'yaml', 'name'] as const;
export type OutputFormat = (typeof outputFormats)[number];

export const schemaVersion = 1;

export type Column<Row> = {
  readonly title: string;
  /** Printed with `-o wide` only. */
  readonly wide?: true;
  readonly cell: (row: Row) => string;
};

export async function renderList<Row>(
  format: OutputFormat,
  items: readonly Row[],
  columns: readonly Column<Row>[],
  nameOf: (row: Row) => string,
): Promise<string> {
  switch (format) {
    case 'json':
      return JSON.stringify({ schemaVersion, items });
    case 'jsonl':
      return items.map((item) => JSON.stringify(item)).join('\n');
    case 'yaml':
      return await yaml({ schemaVersion, items });
    case 'name':
      return items.map((item) => stripControls(nameOf(item))).join('\n');
    case 'table':
    case 'wide': {
      const visible = columns.filter((column) => format === 'wide' || column.wide !== true);
      return renderTable(
        visible.map((column) => column.title),
        items.map((item) => visible.map((column) => stripControls(column.cell(item)))),
      );
    }
    default:
      return unreachable(format);
  }
}

export async function renderObject(
  format: OutputFormat,
  object: Readonly<Record<string, unknown>>,
  view: { readonly name: string; readonly lines: readonly (readonly [string, string])[] },
): Promise<string> {
  switch (format) {
    case 'json':
    case 'jsonl':
      return JSON.stringify({ schemaVersion, ...object });
    case 'yaml':
      return await yaml({ schemaVersion, ...object });
    case 'name':
      return stripControls(view.name);
    case 'table':
    case 'wide':
      return columnsOf(view.lines.map(([label, value]) => [label, stripControls(value)]));
    default:
      return unreachable(format);
  }
}

/** Columns as wide as their widest cell, two spaces apart; the last one is not padded. */
export function renderTable(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  return columnsOf([titles, ...rows]);
}

function columnsOf(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  }
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

async function yaml(value: unknown): Promise<string> {
  const { stringify } = await import('yaml');
  return stringify(value).trimEnd();
}
