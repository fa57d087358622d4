/**
 * The encoded list of the failed items of one unit: the indexes of all as runs, and the first of them with their
 * errors. Decoding is strict. Never decides how a batch ends.
 */
import { createCodec } from '../../messages/codec/codec.ts';
import { field, list, record } from '../../messages/codec/compound.ts';
import { message } from '../../messages/codec/message.ts';
import { u53 } from '../../messages/codec/numbers.ts';
import { text } from '../../messages/codec/strings.ts';
import { jobLimits } from '../limits.ts';
import { errorBytesMax, failuresMax, nameBytesMax } from './bounds.ts';

export type ItemError = {
  readonly name: string;
  readonly message: string;
  /** File and line of the author's code, if the stack has one. */
  readonly at?: string;
};

export type ItemFailure = {
  /** Index of the item in its workflow, from 0. */
  readonly index: number;
  readonly error: ItemError;
};

/** One line of text; without a message the name of the error. */
export function itemErrorText({ name, message: text }: ItemError): string {
  return text === '' ? name : `${name}: ${text}`;
}

/** `count` consecutive failed items from index `from`. */
export type FailedRun = { readonly from: number; readonly count: number };

export type UnitFailures = {
  /** Covers every failed item, in order; empty if the workflow keeps no results. */
  readonly runs: readonly FailedRun[];
  /** At most `failuresMax`. */
  readonly items: readonly ItemFailure[];
};

const failed = record('failed', {
  index: field(1, u53, 'Index of the item.'),
  name: field(2, text(nameBytesMax * 3), 'Name of the error.'),
  text: field(3, text(errorBytesMax * 3), 'Message of the error.'),
  place: field(4, text(errorBytesMax), 'File and line of the author.'),
});

const unitFailures = message({
  kind: 'unitFailures',
  tag: 1,
  carrier: 'stream',
  from: ['worker'],
  bytesMax: jobLimits.failuresBytesMax,
  doc: 'Failed items of a unit.',
  fields: {
    runs: field(
      1,
      list(u53, jobLimits.failuresBytesMax),
      'Pairs of the distance from the end of the run before, and the length.',
    ),
    items: field(2, list(failed, failuresMax), 'First failed items.'),
  },
});

const codec = createCodec([unitFailures]);

/** TOO_LARGE beyond `jobLimits.failuresBytesMax`. */
export function encodeFailures({ runs, items }: UnitFailures): Uint8Array {
  let end = 0;
  const distances = runs.flatMap(({ from, count }) => {
    const distance = from - end;
    end = from + count;
    return [distance, count];
  });
  return codec.encode({
    kind: 'unitFailures',
    runs: distances,
    items: items.map(({ index, error: { name, message: reason, at = '' } }) => ({
      index,
      name,
      text: reason,
      place: at,
    })),
  });
}

/** Undefined for an invalid list. */
export function decodeFailures(bytes: Uint8Array): UnitFailures | undefined {
  try {
    const { runs: distances, items } = codec.decode(bytes);
    const runs: FailedRun[] = [];
    let end = 0;
    for (let at = 0; at + 1 < distances.length; at += 2) {
      const from = end + (distances[at] as number);
      const count = distances[at + 1] as number;
      end = from + count;
      if (end > jobLimits.itemsMax) return undefined;
      runs.push({ from, count });
    }
    return { runs, items: items.map(failureOf) };
  } catch {
    return undefined;
  }
}

function failureOf(item: { index: number; name: string; text: string; place: string }): ItemFailure {
  const { index, name, text: reason, place } = item;
  return { index, error: { name, message: reason, ...(place === '' ? {} : { at: place }) } };
}
