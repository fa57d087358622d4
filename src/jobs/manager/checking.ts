/** Small checks on values from strangers, each of which ends with BAD_ARGUMENT and the name of what is wrong. */
import { RemusterError } from '../../base/errors.ts';

export type Fields = Readonly<Record<string, unknown>>;

export function bad(what: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', what);
}

/** JSON of an object. */
export function parsedObject(words: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(words);
  } catch {
    throw bad('the words are not JSON');
  }
  return object(value, 'the request');
}

export function object(value: unknown, label: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw bad(`${label} is not an object`);
  return value as Fields;
}

export function array(value: unknown, label: string, itemsMax: number): readonly unknown[] {
  if (!Array.isArray(value)) throw bad(`${label} is not a list`);
  if (value.length > itemsMax) throw bad(`${label} has more than ${itemsMax} entries`);
  return value;
}

export function whole(value: unknown, label: string, min: number, max: number): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max)
    throw bad(`${label} is not a whole number from ${min} to ${max}`);
  return value;
}

export function optionalWhole(value: unknown, label: string, min: number, max: number): number | undefined {
  return value === undefined ? undefined : whole(value, label, min, max);
}

export function number(value: unknown, label: string, min: number, max: number): number {
  if (typeof value !== 'number' || !(value >= min && value <= max))
    throw bad(`${label} is not a number from ${min} to ${max}`);
  return value;
}

export function truth(value: unknown, label: string): boolean {
  if (typeof value !== 'boolean') throw bad(`${label} is neither true nor false`);
  return value;
}

export function line(value: unknown, label: string, charactersMax: number): string {
  if (typeof value !== 'string' || value.length === 0 || value.length > charactersMax)
    throw bad(`${label} is not text of 1 to ${charactersMax} characters`);
  if (!value.isWellFormed() || /\p{Cc}/u.test(value)) throw bad(`${label} holds characters that cannot be printed`);
  return value;
}

/** Shorter, and without half a character at its end. */
export function cut(text: string, charactersMax: number): string {
  return text.slice(0, charactersMax).toWellFormed();
}

const encoder = new TextEncoder();

/** As UTF-8. */
export function bytesOf(text: string): number {
  return encoder.encode(text).length;
}
