/**
 * The rows of a bench, their goals, and how they are printed. `ours` in a row is the value of Remuster. A bench returns
 * its rows and prints only progress.
 */

export type BenchRow = {
  readonly case: string;
  readonly unit: string;
  readonly ours: number;
  readonly peer: number | null;
  readonly peerName: string | null;
  /** Larger is better for Remuster. */
  readonly ratio: number | null;
  readonly goal: string | null;
  readonly met: boolean | null;
};

export type BenchResult = { readonly rows: readonly BenchRow[]; readonly missing: readonly string[] };
/** The command line flags by name; each bench reads those that it knows. */
export type BenchFlags = Readonly<Record<string, string | undefined>>;
export type Bench = (flags: BenchFlags) => Promise<BenchResult>;

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export type BenchGoal = { readonly text: string; readonly met: boolean };

/** `better: 'less'` for times and sizes, `'more'` for rates: the ratio is inverted so that larger is better. */
export function compareRow(
  name: string,
  unit: string,
  better: 'less' | 'more',
  ours: number,
  peer?: { readonly name: string; readonly value: number },
  goal?: (ratio: number) => BenchGoal,
): BenchRow {
  const ratio = peer === undefined ? null : better === 'less' ? peer.value / ours : ours / peer.value;
  const checked = goal?.(ratio ?? 0);
  return {
    case: name,
    unit,
    ours: rounded(ours),
    peer: peer === undefined ? null : rounded(peer.value),
    peerName: peer?.name ?? null,
    ratio: ratio === null ? null : rounded(ratio),
    goal: checked?.text ?? null,
    met: checked?.met ?? null,
  };
}

export function printProgress(text: string): void {
  process.stderr.write(`${text}\n`);
}

export function printResult(bench: string, { rows, missing }: BenchResult, asJson: boolean): void {
  const columns = ['case', 'unit', 'ours', 'peer', 'peerName', 'ratio', 'goal', 'met'] as const;
  const cells = rows.map((row) => columns.map((column) => cell(row[column])));
  const widths = columns.map((name, i) => Math.max(name.length, ...cells.map((line) => line[i]!.length)));
  const line = (parts: readonly string[]): string =>
    parts
      .map((part, i) => part.padEnd(widths[i]!))
      .join('  ')
      .trimEnd();
  console.log([line(columns), ...cells.map(line)].join('\n'));
  for (const name of missing) console.log(`not measured: ${name}`);
  if (asJson) console.log(JSON.stringify({ bench, rows, missing }));
}

function cell(value: BenchRow[keyof BenchRow]): string {
  if (value === null) return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'NO';
  return String(value);
}

function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
