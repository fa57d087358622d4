/**
 * The first datagrams to a peer are introductions: they carry the identity of the sender and the generation of the
 * receiver, so that no challenge is needed. A datagram that was recorded before this generation cannot contain its
 * number, so an introduction is not a replay.
 *
 *   generation of the receiver u64 | length u16 | identity of the sender | body
 *
 * If all introductions are lost or name an old generation, the session is proven by challenge. An introduction never
 * needs a reply.
 */
import type { Identity, Peer } from '../../../base/ports.ts';
import { datagramBodyBytesMax } from './datagram-format.ts';
import { ByteReader, ByteWriter, readIdentity, writeIdentity } from '../crypto/identity-codec.ts';

export type Introduction = { readonly toGeneration: number; readonly who: Uint8Array; readonly body: Uint8Array };

/** The introductions sent to one peer: with which session, to which generation, and how many. */
export type IntroductionState = { readonly salt: Buffer; readonly generation: number; times: number };

/** Two, because the first one may be lost. */
const timesMax = 2;
const headBytes = 10;

/** The state after the next introduction; undefined if none is needed or possible. */
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

/** Undefined if it does not fit into a datagram. */
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

/** Throws MALFORMED. */
export function readIntroducedIdentity(who: Uint8Array): Identity {
  return readIdentity(new ByteReader(who));
}
