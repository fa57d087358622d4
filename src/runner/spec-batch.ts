/** Checks the fields of a batch job: its items, what is done with each, and in which shares they are given away. */
import { jobLimits } from '../jobs/limits.ts';
import type { BatchFacts } from '../jobs/workflow-facts.ts';
import type { BatchDefined } from './definition.ts';
import type { FieldReader } from './field-reader.ts';

export const batchFields = ['items', 'each', 'concurrency', 'first', 'results', 'unitItems'];
export const concurrencyMax = 100_000;
export const unitItemsMaxMax = 1_000_000;
/** So many shares for each core: what is lost with a worker is a small part, and the last ones end about together. */
const sharesPerCore = 8;
const shareMax = 100_000;
const shareUnknown = 1_000;

export function readBatch(
  reader: FieldReader,
  cores: number,
): { readonly facts: BatchFacts; readonly defined: BatchDefined } {
  const each = reader.fn<BatchDefined['each']>('each');
  if (each === undefined) throw reader.wrong('each', 'is missing');
  const { items, count } = itemsOf(reader);
  const unitItems = reader.whole('unitItems', 1, unitItemsMaxMax);
  const facts: BatchFacts = {
    ...(count === undefined ? {} : { items: count }),
    firstOnly: reader.bool('first') ?? false,
    concurrency: reader.whole('concurrency', 1, concurrencyMax) ?? 1,
    unitItemsMax: unitItems ?? shareFor(count, cores),
    keepResults: reader.bool('results') ?? true,
  };
  return { facts, defined: { items, each, unitItems } };
}

/** How many items are given away at one time when nobody says it. */
export function shareFor(items: number | undefined, cores: number): number {
  if (items === undefined) return shareUnknown;
  const even = Math.min(shareMax, Math.ceil(items / (cores * sharesPerCore)));
  return Math.max(1, even, Math.ceil(items / jobLimits.unitsMax));
}

function itemsOf(reader: FieldReader): { readonly items: BatchDefined['items']; readonly count: number | undefined } {
  const items = reader.raw('items');
  if (typeof items === 'function') return { items: items as BatchDefined['items'], count: undefined };
  if (Array.isArray(items)) {
    if (items.length > jobLimits.itemsMax) throw reader.wrong('items', `has more than ${jobLimits.itemsMax} items`);
    return { items: items as readonly unknown[], count: items.length };
  }
  if (items === undefined) throw reader.wrong('items', 'is missing: a list, a number or a function');
  if (typeof items !== 'number') throw reader.wrong('items', 'has to be a list, a number or a function');
  const count = reader.whole('items', 0, jobLimits.itemsMax) ?? 0;
  return { items: count, count };
}
