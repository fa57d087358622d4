/**
 * Joins the values and failed items of a batch, as a list by index or one by one, with `{index, error}` for a failed
 * item. Treats the output of units as untrusted. Pure functions.
 */
import { failuresMax } from '../../report/bounds.ts';
import type { ItemError, UnitFailures } from '../../report/item-failures.ts';
import type { ManagedUnit, ManagedWorkflow } from './managed-job.ts';
import { evenShare, itemCountOf } from './unit-split.ts';

export type UnitResults = {
  /** Output of the unit: JSON. */
  readonly textOf: (unit: ManagedUnit) => string | undefined;
  /** Output of the unit if it is a list; parsed once, because lists are large and read several times. */
  readonly valuesOf: (unit: ManagedUnit) => readonly unknown[] | undefined;
  readonly failuresOf: (unit: ManagedUnit) => UnitFailures | undefined;
};

type ItemEnd = { readonly index: number; readonly value?: unknown; readonly error?: ItemError };

/** A result with more items without a value is not built, because each may take a hundred bytes. */
const emptyItemsMax = 100_000;
const notListed: ItemError = {
  name: 'NotListed',
  message: `it failed; a batch lists the errors of at most ${failuresMax} failed items`,
};
const notRun: ItemError = { name: 'NotRun', message: 'it did not run: the batch ended before' };

/**
 * JSON of a list with one entry per item: null without a value, an error if the item failed or never ran. Undefined if
 * more than `emptyItemsMax` entries are without a value, or if the number of items is unknown.
 */
export function resultsByPlace(workflow: ManagedWorkflow, results: UnitResults): string | undefined {
  if (workflow.units.every(({ end }) => end === undefined) && itemCountOf(workflow) === undefined) return undefined;
  const places: string[] = [];
  let empty = 0;
  for (const [number, unit] of workflow.units.entries()) {
    const { from, count } = shareOf(workflow, number, unit, results);
    empty += Math.max(0, count - (results.valuesOf(unit)?.length ?? 0));
    if (empty > emptyItemsMax) return undefined;
    let next = from;
    for (const one of unitEnds(unit, from, results)) {
      if (next === from + count) break;
      places.push(JSON.stringify('error' in one ? one : one.value));
      next += 1;
    }
    for (; next < from + count; next++) places.push(JSON.stringify({ index: next, error: notRun }));
  }
  return `[${places.join(',')}]`;
}

/** The result of a search from the output of its unit; undefined if the output is invalid. */
function foundItemOf(output: string | undefined): { readonly index: number; readonly value: unknown } | undefined {
  const found: unknown = output === undefined ? undefined : JSON.parse(output);
  if (typeof found !== 'object' || found === null || !('index' in found) || !('value' in found)) return undefined;
  const { index, value } = found;
  return typeof index === 'number' && Number.isSafeInteger(index) && index >= 0 ? { index, value } : undefined;
}

export function foundValueJson(output: string | undefined): string | undefined {
  const found = foundItemOf(output);
  return found && JSON.stringify(found.value);
}

/** The found item among the failed items; nothing is known of the others. */
function searchResults({ units, foundUnit }: ManagedWorkflow, { textOf, failuresOf }: UnitResults): string {
  const ends = units.flatMap((unit): readonly ItemEnd[] => {
    const winner = unit.number === foundUnit ? foundItemOf(textOf(unit)) : undefined;
    return [...(winner === undefined ? [] : [winner]), ...(failuresOf(unit)?.items ?? [])];
  });
  return JSON.stringify(ends.toSorted((a, b) => a.index - b.index));
}

/** JSON of a list of `{index, value}` and `{index, error}`, in order, without items that never ended. */
export function resultsOneByOne(workflow: ManagedWorkflow, results: UnitResults): string {
  if (workflow.foundUnit !== undefined) return searchResults(workflow, results);
  const isEmpty = hasTooManyEmpty(workflow, results);
  const hasValues = workflow.facts.batch?.keepResults === true && !workflow.facts.batch.firstOnly && !isEmpty;
  const ends: string[] = [];
  for (const [number, unit] of workflow.units.entries()) {
    const { from } = shareOf(workflow, number, unit, results);
    if (hasValues) for (const one of unitEnds(unit, from, results)) ends.push(JSON.stringify(one));
    else for (const one of results.failuresOf(unit)?.items ?? []) ends.push(JSON.stringify(one));
  }
  return `[${ends.join(',')}]`;
}

function hasTooManyEmpty(workflow: ManagedWorkflow, { valuesOf }: UnitResults): boolean {
  let ended = 0;
  for (const { end } of workflow.units) ended += (end?.completed ?? 0) + (end?.failed ?? 0);
  return ended > emptyItemsMax && workflow.units.every((unit) => valuesOf(unit) === undefined);
}

/** With one unit the number of items may be known only from what has ended. */
function shareOf(workflow: ManagedWorkflow, number: number, unit: ManagedUnit, results: UnitResults) {
  const items = itemCountOf(workflow);
  if (items !== undefined) return evenShare(items, number, workflow.units.length);
  return { from: 0, count: endedCount(unit, results.valuesOf(unit)) };
}

function endedCount({ end }: ManagedUnit, values: readonly unknown[] | undefined): number {
  return values?.length ?? (end?.completed ?? 0) + (end?.failed ?? 0);
}

function* unitEnds(unit: ManagedUnit, from: number, results: UnitResults): Generator<ItemEnd> {
  const values = results.valuesOf(unit);
  const failures = results.failuresOf(unit);
  const errors = new Map(failures?.items.map(({ index, error }) => [index, error]));
  const runs = [...(failures?.runs ?? [])];
  const ended = endedCount(unit, values);
  let run = runs.shift();
  for (let index = from; index < from + ended; index++) {
    while (run !== undefined && index >= run.from + run.count) run = runs.shift();
    const hasFailed = run !== undefined && index >= run.from;
    if (hasFailed) yield { index, error: errors.get(index) ?? notListed };
    else yield { index, value: values?.[index - from] ?? null };
  }
}
