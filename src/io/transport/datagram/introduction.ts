/**
 * First datagrams to a peer name sender and the receiver's generation, so that no challenge is needed: nobody knows
 * that number before the generation begins, so they are no replay. A lost introduction falls back to the challenge.
 *
 *   generation of the receiver u64 | length u16 | identity of the sender | body
 *
 * An introduction may be lost or come too late for a life: then the session is proven by challenge. It never asks for
 * an answer.
 */
import type { Identity, Peer } from '../../../base/ports.ts';
import { datagramBodyBytesMax } from './datagram-format.ts';
import { ByteReader, ByteWriter, readIdentity, writeIdentity } from '../crypto/identity-codec.ts';

export type Introduction = { readonly toGeneration: number; readonly who: Uint8Array; readonly body: Uint8Array };

/** To whom we have introduced ourselves: under which session, in which of its lives, and how often. */
export type IntroductionState = { readonly salt: Buffer; readonly generation: number; times: number };

/** The first one may be lost. */
const timesMax = 2;
const headBytes = 10;

/** What to remember after this datagram; undefined when we need not, or cannot, introduce ourselves any more. */
export function nextIntroduction(
  to: Peer,
  salt: Buffer,
  known: IntroductionState | undefined,
): IntroductionState | undefined {
  const { generation } = to;
  if (generation === undefined) return undefined;
  if (known?.salt !== salt || known.generation !== generation) return { salt, generation, times: 1 };
  return known.times < timesMax ? { salt, generation, times: known.times + 1 } : undefined;
}

export function identityBytes(identity: Identity): Buffer {
  return writeIdentity(new ByteWriter(), identity).done();
}

/** Undefined when there is no room for it in a datagram. */
export function writeIntroduction({ toGeneration, who, body }: Introduction): Buffer | undefined {
  if (headBytes + who.length + body.length > datagramBodyBytesMax) return undefined;
  return new ByteWriter().u64(toGeneration).u16(who.length).bytes(who).bytes(body).done();
}

export function readIntroduction(bytes: Uint8Array): Introduction {
  const reader = new ByteReader(bytes);
  const toGeneration = reader.u64();
  const who = reader.bytes(reader.u16());
  return { toGeneration, who, body: reader.bytes(reader.left) };
}

/** Who it is; throws MALFORMED. */
export function readIntroducedIdentity(who: Uint8Array): Identity {
  return readIdentity(new ByteReader(who));
}
