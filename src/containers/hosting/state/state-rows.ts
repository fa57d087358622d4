/**
 * The names of a container's durable rows: state, timers, dedup table. The only place that knows the prefixes.
 *
 *   o{session}/{generation}/{slot}   a call that ran, with its result; slots are reused
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

/** The most that a row takes in a commit: replication counts three bytes per character of its key, and an overhead. */
export function rowBytes(name: string, valueBytes: number): number {
  return 40 + 3 * (1 + name.length) + valueBytes;
}

/** The key of one session in one generation of its node. */
export function callerKeyOf({ session, generation }: Pick<CallId, 'session' | 'generation'>): string {
  return `${session}/${generation}`;
}

/** Undefined if the row is not a name of `dedupRow`. */
export function readDedupRow(row: string): { readonly session: string; readonly slot: number } | undefined {
  const at = row.lastIndexOf('/');
  const digits = row.slice(at + 1);
  const slot = Number(digits);
  if (at < 2 || !Number.isSafeInteger(slot) || slot < 0 || String(slot) !== digits) return undefined;
  return { session: row.slice(1, at), slot };
}
