/**
 * Node ids, call ids and the pattern of names. No id is derived from an address or a wall clock, so a restart, a clone
 * or a clock that is set back never makes two things share an id.
 *
 *   node id   128 random bits in hex, generated once and kept in the data directory
 *   call id   session / generation / counter: the caller, its start, and the number of the call since then
 */
import { assert } from './assert.ts';
import { RemusterError } from './errors.ts';

declare const nodeIdBrand: unique symbol;
export type NodeId = string & { readonly [nodeIdBrand]: true };

export const nodeIdBytes = 16;
const nodeIdPattern = /^[0-9a-f]{32}$/;

export function nodeIdFrom(random: Uint8Array): NodeId {
  assert(random.length === nodeIdBytes, 'a node id has 16 bytes');
  let text = '';
  for (const byte of random) text += byte.toString(16).padStart(2, '0');
  return text as NodeId;
}

export function parseNodeId(text: string): NodeId {
  if (!nodeIdPattern.test(text))
    throw new RemusterError('BAD_ARGUMENT', 'a node id must have 32 lower-case hexadecimal digits');
  return text as NodeId;
}

/** Names that users choose: safe in a path, a log line, a URL and a table. */
export const namePattern = /^[a-z0-9][a-z0-9._-]{0,62}$/;

export type CallId = { readonly session: string; readonly generation: number; readonly counter: number };

const callIdPattern = /^([a-z0-9][a-z0-9._-]{0,62})\/(\d{1,10})\/(\d{1,16})$/;

export function formatCallId(id: CallId): string {
  return `${id.session}/${id.generation}/${id.counter}`;
}

export function parseCallId(text: string): CallId {
  const [, session, generation, counter] = callIdPattern.exec(text) ?? [];
  const id = { session: session ?? '', generation: Number(generation), counter: Number(counter) };
  if (session === undefined || !Number.isSafeInteger(id.counter) || id.generation > 0xffff_ffff) {
    throw new RemusterError(
      'BAD_ARGUMENT',
      'a call id is a name (a-z, 0-9, ".", "_", "-"; at most 63 characters) or session/generation/counter',
    );
  }
  return id;
}
