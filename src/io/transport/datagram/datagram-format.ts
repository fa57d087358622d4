/**
 * Layout of a sealed datagram. The public header is authenticated.
 *
 *   version u8 | cluster tag u32 | key id u32 | recipient tag u32
 *   sender id 16 | generation u48 | salt 16 | counter u48
 *   sealed: kind u8 | length u16 | body | padding
 *
 * Padding makes the shortest datagram as long as a challenge: a reply to an unproven sender is never larger than its
 * datagram, so a node cannot be used to amplify an attack.
 */
import type { KeyObject } from 'node:crypto';

import { nodeIdBytes } from '../../../base/ids.ts';
import { RejectedError } from '../shared/rejections.ts';
import { openWith, sealWith, tagBytes, writeNonce } from '../crypto/seal.ts';

const datagramWireBytesMax = 1_400;
export const sessionSaltBytes = 16;
const senderAt = 13;
const generationAt = senderAt + nodeIdBytes;
const saltAt = generationAt + 6;
const counterAt = saltAt + sessionSaltBytes;
const headerBytes = counterAt + 6;
const innerHeadBytes = 3;
const innerBytesMin = 40;
const datagramBytesMin = headerBytes + innerBytesMin + tagBytes;
export const datagramBodyBytesMax = datagramWireBytesMax - headerBytes - innerHeadBytes - tagBytes;

export const datagramKinds = { data: 1, challenge: 2, proof: 3, introduction: 4 } as const;

export type DatagramHeader = {
  readonly version: number;
  readonly clusterTag: number;
  readonly keyId: number;
  readonly recipientTag: number;
  readonly senderId: string;
  readonly generation: number;
  readonly salt: Buffer;
  readonly counter: number;
};

export type DatagramContent = { readonly kind: number; readonly body: Uint8Array };

export function writeDatagram(
  header: DatagramHeader,
  { kind, body }: DatagramContent,
  key: KeyObject,
  binding: Uint8Array,
): Buffer {
  const head = Buffer.alloc(headerBytes);
  head.writeUInt8(header.version, 0);
  head.writeUInt32BE(header.clusterTag, 1);
  head.writeUInt32BE(header.keyId, 5);
  head.writeUInt32BE(header.recipientTag, 9);
  head.write(header.senderId, senderAt, 'hex');
  head.writeUIntBE(header.generation, generationAt, 6);
  head.set(header.salt, saltAt);
  head.writeUIntBE(header.counter, counterAt, 6);
  const inner = Buffer.alloc(Math.max(innerBytesMin, innerHeadBytes + body.length));
  inner.writeUInt8(kind, 0);
  inner.writeUInt16BE(body.length, 1);
  inner.set(body, innerHeadBytes);
  const [text, tag] = sealWith(key, nonceOf(header.counter), Buffer.concat([head, binding]), inner);
  return Buffer.concat([head, text, tag]);
}

/** Throws RejectedError if the size is impossible. The result is not authenticated yet. */
export function readDatagramHeader(packet: Buffer): DatagramHeader {
  if (packet.length > datagramWireBytesMax) throw new RejectedError('tooLarge');
  if (packet.length < datagramBytesMin) throw new RejectedError('malformed');
  return {
    version: packet.readUInt8(0),
    clusterTag: packet.readUInt32BE(1),
    keyId: packet.readUInt32BE(5),
    recipientTag: packet.readUInt32BE(9),
    senderId: packet.toString('hex', senderAt, generationAt),
    generation: packet.readUIntBE(generationAt, 6),
    salt: packet.subarray(saltAt, counterAt),
    counter: packet.readUIntBE(counterAt, 6),
  };
}

/** The content, or undefined if it is not authentic. `counter` is the one of the header. */
export function openDatagram(
  packet: Buffer,
  counter: number,
  key: KeyObject,
  binding: Uint8Array,
): DatagramContent | undefined {
  const aad = Buffer.concat([packet.subarray(0, headerBytes), binding]);
  const inner = openWith(key, nonceOf(counter), aad, packet.subarray(headerBytes));
  if (inner === undefined) return undefined;
  const length = inner.readUInt16BE(1);
  if (length > inner.length - innerHeadBytes) throw new RejectedError('malformed');
  return { kind: inner.readUInt8(0), body: inner.subarray(innerHeadBytes, innerHeadBytes + length) };
}

const nonce = Buffer.alloc(12);

function nonceOf(counter: number): Buffer {
  return writeNonce(nonce, counter);
}
