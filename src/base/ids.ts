/**
 * Node ids, call ids and the pattern of names. No id is derived from an address or a wall clock, so a restart, a clone
 * or a clock that is set back never makes two things look like one.
 *
 *   node id      128 random bits in hex, made once and kept in the data directory
 *   message id   64-bit snowflake: 41 bits of milliseconds since the process began, 10 of node, 12 of sequence
 *   call id      session / generation / counter: who asked, in which of its lives, for the how-manyth time
 */
import { assert } from './assert.ts';
import { RemusterError } from './errors.ts';

declare const nodeIdBrand: unique symbol;
export type NodeId = string & { readonly [nodeIdBrand]: true };

export const nodeIdBytes = 16;
const nodeIdPattern = /^[0-9a-f]{32}$/;

export function nodeIdFrom(random: Uint8Array): NodeId {
  assert(random.length === nodeIdBytes, 'a node id is made of 16 bytes');
  let text = '';
  for (const byte of random) text += byte.toString(16).padStart(2, '0');
  return text as NodeId;
}

export function parseNodeId(text: string): NodeId {
  if (!nodeIdPattern.test(text))
    throw new RemusterError('BAD_ARGUMENT', 'a node id is 32 lower-case hexadecimal digits');
  return text as NodeId;
}

/** Names that people choose: safe in a path, a log line, a URL and a table. */
export const namePattern = /^[a-z0-9][a-z0-9._-]{0,62}$/;

const nodeBits = 10n;
const sequenceBits = 12n;
const sequenceMax = 0xfff;

/** Strictly increasing also when time stands still or the sequence runs over: then it borrows from the future. */
export class MessageIds {
  readonly #node: bigint;
  #lastMs = 0;
  #sequence = -1;

  constructor(nodeNumber: number) {
    this.#node = BigInt(nodeNumber & 0x3ff);
  }

  next(nowMs: number): bigint {
    if (Math.floor(nowMs) > this.#lastMs) {
      this.#lastMs = Math.floor(nowMs);
      this.#sequence = 0;
    } else if (++this.#sequence > sequenceMax) {
      this.#lastMs += 1;
      this.#sequence = 0;
    }
    return (BigInt(this.#lastMs) << (nodeBits + sequenceBits)) | (this.#node << sequenceBits) | BigInt(this.#sequence);
  }
}

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
