/**
 * The handshake of a connection as functions on bytes: hello, greeting, keys bound to both identities. A hello is
 * accepted only once.
 *
 *   client                                   server
 *   hello: magic version keyId tag salt mac  ->  close without a reply unless the mac is right and the salt new
 *                                            <-  salt, then its sealed greeting
 *   sealed greeting                          ->  established: the client has proved that it is live
 *
 * The keys, one per direction, derive from both salts, so no recorded frame opens. A greeting carries the identity and
 * the datagram sessions of its sender. Once both identities are known, the keys are bound to the pair and direction.
 */
import { timingSafeEqual } from 'node:crypto';

import { RemusterError } from '../../../base/errors.ts';
import type { Identity } from '../../../base/ports.ts';
import type { BoundedLru } from '../../../base/collections/bounded-lru.ts';
import { ByteReader, ByteWriter, readIdentity, writeIdentity } from './identity-codec.ts';
import { wireFormat } from '../../../base/format-versions.ts';
import { clusterTag, deriveKey, hmacSha256, type KeyRing, type MasterKey, transportVersion } from './keys.ts';
import { RejectedError } from '../shared/rejections.ts';
import { Opener, Sealer } from './seal.ts';

export const saltBytes = 32;
const magic = Buffer.from('RMST');
const macBytes = 32;
const helloHeadBytes = magic.length + 1 + 4 + 4 + saltBytes;
export const helloBytes = helloHeadBytes + macBytes;

export function makeHello(master: MasterKey, cluster: string, salt: Uint8Array): Buffer {
  const head = new ByteWriter()
    .bytes(magic)
    .u8(transportVersion)
    .u32(master.keyId)
    .u32(clusterTag(cluster))
    .bytes(salt);
  const bytes = head.done();
  return Buffer.concat([bytes, macOf(master, cluster, bytes)]);
}

/** Salts of received hellos: a hello with a known salt is a replay. */
export type SeenSalts = BoundedLru<string, true>;

/** Rejects by the first bytes, so that a foreign program is disconnected early. */
export function checkHelloStart(start: Uint8Array): void {
  for (const [i, byte] of start.subarray(0, magic.length).entries()) {
    if (byte !== magic[i]) throw new RejectedError('malformed');
  }
  if (start.length > magic.length && start[magic.length] !== transportVersion) throw new RejectedError('version');
}

export function readHello(
  hello: Uint8Array,
  ring: KeyRing,
  cluster: string,
  seen: SeenSalts,
): { master: MasterKey; salt: Uint8Array } {
  checkHelloStart(hello);
  const reader = new ByteReader(hello.subarray(magic.length + 1));
  const keyId = reader.u32();
  if (reader.u32() !== clusterTag(cluster)) throw new RejectedError('wrongCluster');
  const salt = new Uint8Array(reader.bytes(saltBytes));
  const master = ring.accepted.get(keyId);
  if (master === undefined) throw new RejectedError('unknownKey');
  const expected = macOf(master, cluster, hello.subarray(0, helloHeadBytes));
  if (!timingSafeEqual(expected, reader.bytes(macBytes))) throw new RejectedError('unauthenticated');
  const name = Buffer.from(salt).toString('base64');
  if (seen.peek(name) === true) throw new RejectedError('replayed');
  seen.set(name, true);
  return { master, salt };
}

function macOf(master: MasterKey, cluster: string, head: Uint8Array): Uint8Array {
  return hmacSha256(master.helloKey, new ByteWriter().bytes(head).text(cluster).done());
}

export type SealPair = { readonly sealer: Sealer; readonly opener: Opener };

export function makeSealPair(
  side: 'client' | 'server',
  master: MasterKey,
  cluster: string,
  salts: { readonly client: Uint8Array; readonly server: Uint8Array },
): SealPair {
  const salt = Buffer.concat([salts.client, salts.server]);
  const toServer = deriveKey(master.key, salt, `connection ${cluster}, client to server`);
  const toClient = deriveKey(master.key, salt, `connection ${cluster}, server to client`);
  const [mine, theirs] = side === 'client' ? [toServer, toClient] : [toClient, toServer];
  return { sealer: new Sealer(mine), opener: new Opener(theirs) };
}

export type Greeting = {
  readonly identity: Identity;
  readonly sessions: Uint8Array;
  /** The connection of a further thread of that node, for its own requests only; not the connection of the pair. */
  readonly auxiliary?: boolean;
};

export function makeGreeting({ identity, sessions, auxiliary = false }: Greeting): Buffer {
  const head = new ByteWriter().u16(wireFormat);
  const writer = writeIdentity(head, identity).u16(sessions.length).bytes(sessions);
  return (auxiliary ? writer.u8(1) : writer).done();
}

/** Throws INCOMPATIBLE_VERSION before it reads a field that another version may encode differently. */
export function readGreeting(plain: Uint8Array): Required<Greeting> {
  const reader = new ByteReader(plain);
  const format = reader.u16();
  if (format !== wireFormat) {
    const text = `it speaks wire format ${format} and this node ${wireFormat}`;
    throw new RemusterError('INCOMPATIBLE_VERSION', `${text}: run one version on all nodes and clients`);
  }
  const identity = readIdentity(reader);
  if (identity.roles.length === 0) throw new RemusterError('MALFORMED', 'an identity without a role');
  const sessions = new Uint8Array(reader.bytes(reader.u16()));
  return { identity, sessions, auxiliary: reader.left > 0 && reader.u8() === 1 };
}
