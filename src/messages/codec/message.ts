/**
 * Declares a message once: tag, senders, carrier, size limit, fields, sentence. Type, codec, role matrix and protocol
 * page come from it.
 *
 *   bytes of a message = version (1) | tag (2, big endian) | fields in ascending order
 *
 * The first three bytes are fixed for all versions, so that a receiver can check a message before it decodes it.
 */
import { assert } from '../../base/assert.ts';
import type { Role } from '../../base/ports.ts';
import { type MessageFields, type FieldsCodec, type RecordOf, fieldsCodec } from './compound.ts';
import type { WireReader } from './reader.ts';
import { type WireWriter, wireBytesMax } from './writer.ts';

export const messageHeaderBytes = 3;

export type Carrier = 'datagram' | 'stream';

export type MessageDeclaration<K extends string = string, F extends MessageFields = MessageFields> = {
  readonly kind: K;
  readonly tag: number;
  readonly carrier: Carrier | 'both';
  readonly from: readonly Role[];
  /** Size limit of the whole message, header included. */
  readonly bytesMax: number;
  readonly doc: string;
  readonly fields: F;
  readonly codec: FieldsCodec<{ readonly kind: K } & RecordOf<F>>;
};

/** A second codec with the same bytes, for the most frequent messages. */
export type FastCodec<T> = {
  write(writer: WireWriter, value: T): void;
  /** Undefined if the bytes are not in the usual form; the general codec reads them then. */
  read(reader: WireReader): T | undefined;
};

export function message<const K extends string, F extends MessageFields>(
  declared: Omit<MessageDeclaration<K, F>, 'codec'> & {
    readonly fastCodec?: FastCodec<{ readonly kind: K } & RecordOf<F>>;
  },
): MessageDeclaration<K, F> {
  const { fastCodec, ...rest } = declared;
  const { kind, tag, bytesMax, fields } = rest;
  assert(Number.isInteger(tag) && tag > 0 && tag <= 0xffff, `the tag of ${kind} is not in 1..65535`);
  assert(bytesMax >= messageHeaderBytes && bytesMax <= wireBytesMax, `the size limit of ${kind} is out of bounds`);
  assert(!('kind' in fields), `${kind} has a field named kind`);
  const codec = fieldsCodec<{ readonly kind: K } & RecordOf<F>>(fields, kind);
  return { ...rest, codec: fastCodec === undefined ? codec : withFastCodec(codec, fastCodec) };
}

function withFastCodec<T>(general: FieldsCodec<T>, fastCodec: FastCodec<T>): FieldsCodec<T> {
  return {
    schemas: general.schemas,
    write: (writer, value) => fastCodec.write(writer, value),
    read: (reader) => {
      const start = reader.position;
      const value = fastCodec.read(reader);
      if (value !== undefined) return value;
      reader.position = start;
      return general.read(reader);
    },
  };
}

type Flat<T> = { readonly [Name in keyof T]: T[Name] };

/** The type of the values of a declaration, or the union for a list of declarations. */
export type MessageOf<D> =
  D extends MessageDeclaration<infer K, infer F>
    ? Flat<{ readonly kind: K } & RecordOf<F>>
    : D extends readonly (infer One)[]
      ? MessageOf<One>
      : never;
