/**
 * Everything durable of a container is rows of one key space, told apart by their first letter. The names of rows are
 * built and read here and nowhere else.
 *
 *   o{session}/{generation}/{counter}   a call that ran, and what it answered
 *   s{key}                              the state, as the module sees it
 *   t{name}                             a timer
 */
import type { CallId } from '../../base/ids.ts';

export const rowKinds = { once: 'o', state: 's', timer: 't' } as const;

/** Enough for every safe integer; with leading zeros the order of the texts is that of the numbers. */
const counterDigits = 16;

export function stateRow(key: string): string {
  return `${rowKinds.state}${key}`;
}

export function timerRow(name: string): string {
  return `${rowKinds.timer}${name}`;
}

export function onceRow(session: string, counter: number): string {
  return `${rowKinds.once}${session}/${String(counter).padStart(counterDigits, '0')}`;
}

/** What a row takes in a commit, at most: copies count three bytes for a character of its key, and what surrounds it. */
export function rowBytes(key: string, valueBytes: number): number {
  return 40 + 3 * key.length + valueBytes;
}

/** One life of one caller. */
export function sessionOf({ session, generation }: CallId): string {
  return `${session}/${generation}`;
}

/** Undefined for what `onceRow` would not have built. */
export function readOnceRow(row: string): { readonly session: string; readonly counter: number } | undefined {
  const at = row.lastIndexOf('/');
  const counter = Number(row.slice(at + 1));
  if (at < 2 || row.length - at - 1 !== counterDigits || !Number.isSafeInteger(counter)) return undefined;
  return { session: row.slice(1, at), counter };
}
