/**
 * Encodes and decodes the messages of a list of declarations: header, tag, size limit. Decoding returns one whole
 * valid message or throws a coded error. Compared with protobuf libraries, cbor-x and msgpackr (decision 18): none
 * checks the limit and order of fields while it reads, and some compile text as code.
 */
import { assert } from '../../base/assert.ts';
import { RemusterError } from '../../base/errors.ts';
import { wireFormat } from '../../base/format-versions.ts';
import { type MessageDeclaration, type MessageOf, messageHeaderBytes } from './message.ts';
import { WireReader } from './reader.ts';
import { decodeError } from './decode-error.ts';
import { WireWriter } from './writer.ts';

export type Codec<M> = {
  encode(message: M): Uint8Array;
  decode(bytes: Uint8Array): M;
};

/** The tag alone; undefined for bytes shorter than a header. */
export function peekTag(bytes: Uint8Array): number | undefined {
  if (bytes.length < messageHeaderBytes) return undefined;
  return ((bytes[1] as number) << 8) | (bytes[2] as number);
}

export function supportsVersion(bytes: Uint8Array): boolean {
  return bytes[0] === wireFormat;
}

export function createCodec<const L extends readonly MessageDeclaration[]>(declarations: L): Codec<MessageOf<L>> {
  const byKind = new Map<string, MessageDeclaration>();
  /** An array: it is read for each message, and tags are small numbers. */
  const byTag: (MessageDeclaration | undefined)[] = [];
  for (const declaration of declarations) {
    assert(!byKind.has(declaration.kind), `two messages have the kind ${declaration.kind}`);
    assert(byTag[declaration.tag] === undefined, `two messages have the tag ${declaration.tag}`);
    byKind.set(declaration.kind, declaration);
    while (byTag.length <= declaration.tag) byTag.push(undefined);
    byTag[declaration.tag] = declaration;
  }
  return {
    encode: (message) => {
      const declaration = byKind.get((message as { kind: string }).kind);
      if (declaration === undefined) throw new RemusterError('BAD_ARGUMENT', 'there is no message of that kind');
      return encodeAs(declaration, message);
    },
    decode: (bytes) => {
      const tag = peekTag(bytes);
      if (tag === undefined) throw decodeError('header', 'a message is shorter than its header');
      if (!supportsVersion(bytes)) throw decodeError('version', 'a message has an unsupported protocol version');
      const declaration = tag < byTag.length ? byTag[tag] : undefined;
      if (declaration === undefined) throw decodeError('unknownTag', `there is no message with the tag ${tag}`);
      if (bytes.length > declaration.bytesMax) {
        throw decodeError('messageBytes', `${declaration.kind} exceeds ${declaration.bytesMax} bytes`);
      }
      return declaration.codec.read(new WireReader(bytes, messageHeaderBytes)) as MessageOf<L>;
    },
  };
}

/** Reused by all messages. If a getter of a message encodes another message, that one gets its own writer. */
let idleWriter: WireWriter | undefined = new WireWriter();

function encodeAs(declaration: MessageDeclaration, message: { kind: string }): Uint8Array {
  const writer = idleWriter ?? new WireWriter();
  idleWriter = undefined;
  try {
    writer.start(declaration.bytesMax, wireFormat, declaration.tag);
    declaration.codec.write(writer, message);
    return writer.finish();
  } finally {
    writer.reset();
    idleWriter = writer;
  }
}
