/** Validates the fields of a batch: items, function, concurrency, unit size. Derives the default unit size. */
import { jobLimits } from '../../jobs/limits.ts';
import {
  type BatchFacts,
  type WorkflowFacts,
  hasFailedThreshold,
  itemErrorPolicies,
} from '../../jobs/workflow-facts.ts';
import type { CheckedBatch } from './checked-workflow.ts';
import type { FieldReader } from './field-reader.ts';

export const batchFields = [
  ...['items', 'each', 'concurrency', 'first', 'results', 'unitItems'],
  ...['onItemError', 'maxFailures'],
];
export const concurrencyMax = 100_000;
export const unitItemsLimit = 1_000_000;
/** A lost worker loses a small part of the work, and the last units of all cores end at about the same time. */
const unitsPerCore = 8;
const unitItemsDefaultMax = 100_000;
/** For a number of items that is known only after setup. */
const unitItemsUnknown = 1_000;

export function parseBatchSpec(
  reader: FieldReader,
  common: Pick<WorkflowFacts, 'cores' | 'thresholds'>,
): { readonly facts: BatchFacts; readonly checked: CheckedBatch } {
  const each = reader.callback<CheckedBatch['each']>('each');
  if (each === undefined) throw reader.invalid('each', 'is missing');
  const { items, count } = itemsOf(reader);
  const unitItems = reader.integer('unitItems', 1, unitItemsLimit);
  const facts: BatchFacts = {
    ...(count === undefined ? {} : { items: count }),
    firstOnly: reader.boolean('first') ?? false,
    concurrency: reader.integer('concurrency', 1, concurrencyMax) ?? 1,
    unitItemsMax: unitItems ?? defaultUnitItems(count, common.cores),
    keepResults: reader.boolean('results') ?? true,
    ...parseFailurePolicy(reader, {}, hasFailedThreshold(common)),
  };
  return { facts, checked: { items, each, unitItems } };
}

type FailurePolicy = Pick<BatchFacts, 'onItemError' | 'maxFailures'>;

/**
 * `before` has the defaults. Refuses contradictions: `maxFailures` is for `fail` only, and a threshold on failed items
 * needs all items to run, which `stop` prevents.
 */
export function parseFailurePolicy(reader: FieldReader, before: FailurePolicy, hasLimit: boolean): FailurePolicy {
  const onItemError = reader.oneOf('onItemError', itemErrorPolicies) ?? before.onItemError;
  const maxFailures = reader.integer('maxFailures', 0, jobLimits.itemsMax) ?? before.maxFailures;
  if (maxFailures !== undefined && onItemError !== undefined && onItemError !== 'fail')
    throw reader.invalid('maxFailures', `cannot be combined with onItemError: '${onItemError}'`);
  if (hasLimit && onItemError === 'stop')
    throw reader.invalid(
      'onItemError',
      "cannot be 'stop' together with a threshold on `failed`, which needs all items to run",
    );
  return {
    ...(onItemError === undefined ? {} : { onItemError }),
    ...(maxFailures === undefined ? {} : { maxFailures }),
  };
}

/** Items per unit unless the definition or the submitter sets `unitItems`. */
export function defaultUnitItems(items: number | undefined, cores: number): number {
  if (items === undefined) return unitItemsUnknown;
  const even = Math.min(unitItemsDefaultMax, Math.ceil(items / (cores * unitsPerCore)));
  return Math.max(1, even, Math.ceil(items / jobLimits.unitsMax));
}

function itemsOf(reader: FieldReader): { readonly items: CheckedBatch['items']; readonly count: number | undefined } {
  const items = reader.raw('items');
  if (typeof items === 'function') return { items: items as CheckedBatch['items'], count: undefined };
  if (Array.isArray(items)) {
    if (items.length > jobLimits.itemsMax) throw reader.invalid('items', `has more than ${jobLimits.itemsMax} items`);
    return { items: items as readonly unknown[], count: items.length };
  }
  if (items === undefined) throw reader.invalid('items', 'is missing: a list, a number or a function');
  if (typeof items !== 'number') throw reader.invalid('items', 'must be a list, a number or a function');
  const count = reader.integer('items', 0, jobLimits.itemsMax) ?? 0;
  return { items: count, count };
}
