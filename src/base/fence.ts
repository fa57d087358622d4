/**
 * Fencing tokens: (term, index) as one ordered number. A receiver keeps the highest fence it saw and rejects lower
 * ones. A fence grows with each new leader and within one term. JSON carries it as decimal text.
 */
import { assert } from './assert.ts';
import { RemusterError } from './errors.ts';

declare const fenceBrand: unique symbol;
export type Fence = bigint & { readonly [fenceBrand]: true };

const indexBits = 40n;
const indexMax = 2 ** 40 - 1;
/** A new term each second for half a year. Larger terms are refused, so that no peer can exhaust the range. */
export const termMax = 2 ** 24 - 1;
const fencePattern = /^\d{1,20}$/;

export function fenceOf(term: number, index: number): Fence {
  assert(Number.isInteger(term) && term >= 0 && term <= termMax, `term ${term} is out of bounds`);
  assert(Number.isInteger(index) && index >= 0 && index <= indexMax, `index ${index} is out of bounds`);
  return ((BigInt(term) << indexBits) | BigInt(index)) as Fence;
}

export function fenceParts(fence: Fence): { readonly term: number; readonly index: number } {
  return { term: Number(fence >> indexBits), index: Number(fence & BigInt(indexMax)) };
}

export function parseFence(text: string): Fence {
  const value = fencePattern.test(text) ? BigInt(text) : -1n;
  if (value < 0n || value > fenceOf(termMax, indexMax))
    throw new RemusterError('BAD_ARGUMENT', 'a fence is a decimal number of at most 20 digits');
  return value as Fence;
}
