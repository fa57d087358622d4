/** The report of an experiment: a table of results and goals, met or missed; as text or data. */

export type ExperimentGoal = {
  readonly what: string;
  readonly measured: number;
  readonly wanted: string;
  readonly met: boolean;
};

export type ExperimentReport = {
  readonly experiment: string;
  /** The method, sentence by sentence. */
  readonly about: readonly string[];
  readonly columns: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
  readonly goals: readonly ExperimentGoal[];
};

/** What an experiment gets from outside; only the seed influences its results. */
export type ExperimentContext = {
  readonly seed: string;
  readonly progress: (line: string) => void;
  /** Heap of the whole process, after garbage collection. */
  readonly heapBytes: () => number;
};

export function atMost(what: string, measured: number, limit: number, unit: string): ExperimentGoal {
  return { what, measured: roundToThreeDigits(measured), wanted: `at most ${limit} ${unit}`, met: measured <= limit };
}

export function atLeast(what: string, measured: number, limit: number, unit: string): ExperimentGoal {
  return { what, measured: roundToThreeDigits(measured), wanted: `at least ${limit} ${unit}`, met: measured >= limit };
}

export function exactly(what: string, measured: number, wanted: number, unit: string): ExperimentGoal {
  return { what, measured: roundToThreeDigits(measured), wanted: `${wanted} ${unit}`, met: measured === wanted };
}

export function formatExperimentReport(report: ExperimentReport): string {
  const { about, columns, rows, goals } = report;
  const goalRows = goals.map(({ what, measured, wanted, met }) => [what, measured, wanted, met ? 'met' : 'MISSED']);
  return [
    ...about,
    '',
    ...aligned([columns, ...rows]),
    '',
    ...aligned([['goal', 'measured', 'wanted', ''], ...goalRows]),
  ].join('\n');
}

/** The mean of the two middle values if there is no middle; 0 without values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** Results have no more than three significant digits. */
export function roundToThreeDigits(value: number): number {
  if (!Number.isFinite(value)) return value;
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}

/** Aligns the first column to the left and the others to the right. */
function aligned(rows: readonly (readonly (string | number)[])[]): string[] {
  const texts = rows.map((row) => row.map(String));
  const widths = (texts[0] ?? []).map((_, column) => Math.max(...texts.map((row) => row[column]?.length ?? 0)));
  const padded = (text: string, column: number): string =>
    column === 0 ? text.padEnd(widths[column] ?? 0) : text.padStart(widths[column] ?? 0);
  return texts.map((row) => row.map(padded).join('  ').trimEnd());
}
