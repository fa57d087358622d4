/**
 * Bounds the failed items that a workflow lists: the 1,000 that are reported first, which need not be the first by
 * index. The indexes of all failed items are kept. An unreadable list counts as empty.
 */
import type { UnitReport } from '../../../messages/jobs.ts';
import { failuresMax } from '../../report/bounds.ts';
import { type ItemFailure, decodeFailures, encodeFailures, itemErrorText } from '../../report/item-failures.ts';
import type { ManagedWorkflow } from './managed-job.ts';

export type KeptFailures = {
  readonly bytes: Uint8Array;
  readonly count: number;
  /** One of the errors, for display. */
  readonly sample: string | undefined;
};

/** Undefined if no item failed. */
export function keptFailures(
  { facts, failuresListed }: Pick<ManagedWorkflow, 'facts' | 'failuresListed'>,
  { failures: bytes }: Pick<UnitReport, 'failures'>,
): KeptFailures | undefined {
  if (bytes === undefined || facts.batch === undefined) return undefined;
  const read = decodeFailures(bytes);
  if (read === undefined) return undefined;
  const { runs, items } = read;
  const sample = items[0] && failureText(items[0]);
  const left = failuresMax - failuresListed;
  if (items.length <= left) return { bytes, count: items.length, sample };
  return { bytes: encodeFailures({ runs, items: items.slice(0, left) }), count: left, sample };
}

function failureText({ error }: ItemFailure): string {
  return `${itemErrorText(error)}${error.at === undefined ? '' : ` (${error.at})`}`;
}
