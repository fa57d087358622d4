/** Encodes identities and small records of the handshake. Checks every length; throws only MALFORMED. */
import { RemusterError } from '../../../base/errors.ts';
import { nodeIdBytes, nodeIdFrom, namePattern } from '../../../base/ids.ts';
import type { Identity, Role } from '../../../base/ports.ts';

const roles: readonly Role[] = ['gate', 'manager', 'worker', 'client'];
const textBytesMax = 255;

export class ByteWriter {
  readonly #parts: Uint8Array[] = [];

  bytes(value: Uint8Array): this {
    this.#parts.push(value);
    return this;
  }

  u8(value: number): this {
    return this.bytes(Uint8Array.of(value));
  }

  u16(value: number): this {
    return this.bytes(Uint8Array.of(value >>> 8, value));
  }

  u32(value: number): this {
    return this.bytes(Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value));
  }

  /** A whole number up to 2^53. */
  u64(value: number): this {
    return this.u32(Math.floor(value / 2 ** 32)).u32(value % 2 ** 32);
  }

  text(value: string): this {
    const bytes = new TextEncoder().encode(value);
    if (bytes.length > textBytesMax)
      throw new RemusterError('BAD_ARGUMENT', `a name has ${bytes.length} of at most ${textBytesMax} bytes`);
    return this.u8(bytes.length).bytes(bytes);
  }

  done(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

export class ByteReader {
  readonly #from: Uint8Array;
  #at = 0;

  constructor(from: Uint8Array) {
    this.#from = from;
  }

  get left(): number {
    return this.#from.length - this.#at;
  }

  bytes(count: number): Uint8Array {
    if (count > this.left) throw new RemusterError('MALFORMED', 'a record is truncated');
    this.#at += count;
    return this.#from.subarray(this.#at - count, this.#at);
  }

  u8(): number {
    return this.bytes(1)[0]!;
  }

  u16(): number {
    return this.u8() * 256 + this.u8();
  }

  u32(): number {
    return this.u16() * 65_536 + this.u16();
  }

  u64(): number {
    const value = this.u32() * 2 ** 32 + this.u32();
    if (!Number.isSafeInteger(value)) throw new RemusterError('MALFORMED', 'a number is too large');
    return value;
  }

  text(): string {
    const bytes = this.bytes(this.u8());
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch {
      throw new RemusterError('MALFORMED', 'a text is not UTF-8');
    }
  }
}

export function nodeIdToBytes(id: string): Buffer {
  return Buffer.from(id, 'hex');
}

export function writeIdentity(into: ByteWriter, identity: Identity): ByteWriter {
  let mask = 0;
  for (const role of identity.roles) mask |= 1 << roles.indexOf(role);
  into.bytes(nodeIdToBytes(identity.id)).u64(identity.generation).u8(mask).u16(identity.port);
  return into.text(identity.host).text(identity.name).text(identity.dc);
}

export function readIdentity(from: ByteReader): Identity {
  const id = nodeIdFrom(from.bytes(nodeIdBytes));
  const generation = from.u64();
  const mask = from.u8();
  if (mask >= 1 << roles.length) throw new RemusterError('MALFORMED', 'an unknown role');
  const port = from.u16();
  const [host, name, dc] = [from.text(), from.text(), from.text()];
  if (!namePattern.test(name) || !namePattern.test(dc)) throw new RemusterError('MALFORMED', 'a malformed name');
  return { id, generation, roles: roles.filter((_, i) => (mask & (1 << i)) !== 0), port, host, name, dc };
}

/** The additional data that binds a key to sender, generation of the sender, receiver and cluster. */
export function pairBinding(version: number, cluster: string, from: Identity, toId: string): Buffer {
  const bytes = new ByteWriter().u8(version).text(cluster).bytes(nodeIdToBytes(from.id)).u64(from.generation);
  return bytes.bytes(nodeIdToBytes(toId)).done();
}
