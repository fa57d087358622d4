/**
 * Declares a message once: tag, senders, carrier, size limit, fields, sentence. Type, codec, role matrix and protocol
 * page come from it.
 *
 *   bytes of a message = version (1) | tag (2, big endian) | fields in ascending order
 *
 * The first three bytes are fixed for all versions, so that a receiver can judge a message before it reads it.
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
  /** Of the whole message, header included. */
  readonly bytesMax: number;
  readonly doc: string;
  readonly fields: F;
  readonly codec: FieldsCodec<{ readonly kind: K } & RecordOf<F>>;
};

/** Another way to the same bytes, for messages of which there are very many. */
export type FastCodec<T> = {
  write(writer: WireWriter, value: T): void;
  /** Undefined: not as it is usually written, so the general way is to read it. */
  read(reader: WireReader): T | undefined;
};

export function message<const K extends string, F extends MessageFields>(
  declared: Omit<MessageDeclaration<K, F>, 'codec'> & {
    readonly spelled?: FastCodec<{ readonly kind: K } & RecordOf<F>>;
  },
): MessageDeclaration<K, F> {
  const { spelled, ...rest } = declared;
  const { kind, tag, bytesMax, fields } = rest;
  assert(Number.isInteger(tag) && tag > 0 && tag <= 0xffff, `the tag of ${kind} is not in 1..65535`);
  assert(bytesMax >= messageHeaderBytes && bytesMax <= wireBytesMax, `the size limit of ${kind} is out of bounds`);
  assert(!('kind' in fields), `${kind} has a field called kind`);
  const codec = fieldsCodec<{ readonly kind: K } & RecordOf<F>>(fields, kind);
  return { ...rest, codec: spelled === undefined ? codec : withSpelling(codec, spelled) };
}

function withSpelling<T>(general: FieldsCodec<T>, spelled: FastCodec<T>): FieldsCodec<T> {
  return {
    shapes: general.shapes,
    write: (writer, value) => spelled.write(writer, value),
    read: (reader) => {
      const start = reader.position;
      const value = spelled.read(reader);
      if (value !== undefined) return value;
      reader.position = start;
      return general.read(reader);
    },
  };
}

type Flat<T> = { readonly [Name in keyof T]: T[Name] };

/** The value of a declaration, or the union of the values of many. */
export type MessageOf<D> =
  D extends MessageDeclaration<infer K, infer F>
    ? Flat<{ readonly kind: K } & RecordOf<F>>
    : D extends readonly (infer One)[]
      ? MessageOf<One>
      : never;
