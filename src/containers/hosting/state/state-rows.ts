/**
 * Names of a container's durable rows: state, timers, dedup results. The only place that knows the prefixes.
 *
 *   o{session}/{generation}/{slot}   a call that ran, and what it answered; slots are used again
 *   s{key}                           the state, as the module sees it
 *   t{name}                          a timer
 */
import type { CallId } from '../../../base/ids.ts';

export const rowKinds = { dedup: 'o', state: 's', timer: 't' } as const;

export function stateRow(key: string): string {
  return `${rowKinds.state}${key}`;
}

export function timerRow(name: string): string {
  return `${rowKinds.timer}${name}`;
}

export function dedupRow(session: string, slot: number): string {
  return `${rowKinds.dedup}${session}/${slot}`;
}

/** What the row of a key or timer takes in a commit, at most: copies count three bytes for a character of its key, and what surrounds it. */
export function rowBytes(name: string, valueBytes: number): number {
  return 40 + 3 * (1 + name.length) + valueBytes;
}

/** One life of one caller. */
export function callerKeyOf({ session, generation }: Pick<CallId, 'session' | 'generation'>): string {
  return `${session}/${generation}`;
}

/** Undefined for what `dedupRow` would not have built. */
export function readDedupRow(row: string): { readonly session: string; readonly slot: number } | undefined {
  const at = row.lastIndexOf('/');
  const digits = row.slice(at + 1);
  const slot = Number(digits);
  if (at < 2 || !Number.isSafeInteger(slot) || slot < 0 || String(slot) !== digits) return undefined;
  return { session: row.slice(1, at), slot };
}
