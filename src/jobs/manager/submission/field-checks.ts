/**
 * Validates single untrusted JSON values. Each failure is BAD_ARGUMENT with the name of the field and the allowed
 * range. Never corrects a value.
 */
import { RemusterError } from '../../../base/errors.ts';

export type JsonFields = Readonly<Record<string, unknown>>;

export function badArgument(what: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', what);
}

export function parseJsonObject(json: string): JsonFields {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw badArgument('the request is not JSON');
  }
  return checkObject(value, 'the request');
}

export function checkObject(value: unknown, label: string): JsonFields {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw badArgument(`${label} is not an object`);
  return value as JsonFields;
}

export function checkArray(value: unknown, label: string, itemsMax: number): readonly unknown[] {
  if (!Array.isArray(value)) throw badArgument(`${label} is not a list`);
  if (value.length > itemsMax) throw badArgument(`${label} has more than ${itemsMax} entries`);
  return value;
}

export function checkInteger(value: unknown, label: string, min: number, max: number): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max)
    throw badArgument(`${label} is not a whole number from ${min} to ${max}`);
  return value;
}

export function checkOptionalInteger(value: unknown, label: string, min: number, max: number): number | undefined {
  return value === undefined ? undefined : checkInteger(value, label, min, max);
}

export function checkNumber(value: unknown, label: string, min: number, max: number): number {
  if (typeof value !== 'number' || !(value >= min && value <= max))
    throw badArgument(`${label} is not a number from ${min} to ${max}`);
  return value;
}

export function checkBoolean(value: unknown, label: string): boolean {
  if (typeof value !== 'boolean') throw badArgument(`${label} is neither true nor false`);
  return value;
}

export function checkText(value: unknown, label: string, charactersMax: number): string {
  if (typeof value !== 'string' || value.length === 0 || value.length > charactersMax)
    throw badArgument(`${label} is not text of 1 to ${charactersMax} characters`);
  if (!value.isWellFormed() || /\p{Cc}/u.test(value))
    throw badArgument(`${label} holds characters that cannot be printed`);
  return value;
}

/** Never ends in half of a surrogate pair. */
export function truncateText(text: string, charactersMax: number): string {
  return text.slice(0, charactersMax).toWellFormed();
}

const encoder = new TextEncoder();

/** As UTF-8. */
export function bytesOf(text: string): number {
  return encoder.encode(text).length;
}
