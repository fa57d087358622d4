/** The type of a row of the limits table, and its constructor. */

export type LimitUnit = 'bytes' | 'ms' | 'characters' | 'MB' | 'count';

export type LimitRow = {
  readonly name: string;
  readonly value: number;
  readonly unit: LimitUnit;
  /** What happens beyond the limit: one sentence. */
  readonly beyond: string;
};

export type LimitSection = { readonly title: string; readonly rows: readonly LimitRow[] };

export function row(name: string, value: number, unit: LimitUnit, beyond: string): LimitRow {
  return { name, value, unit, beyond };
}
