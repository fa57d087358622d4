/** Field types that are runs of bytes: text, names, bytes, node ids. Text is well-formed Unicode; decoded bytes are copies. */
import { assert } from '../../base/assert.ts';
import type { NodeId } from '../../base/ids.ts';
import { nodeIdBytes } from '../../base/ids.ts';
import { type FieldType, invalidValue, tooLarge } from './field-type.ts';
import { InternTable, internedLengthMax } from './intern-table.ts';
import { type WireReader, fieldError, wireTypes } from './reader.ts';

/** `ignoreBOM` keeps a leading U+FEFF, which would otherwise be lost. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Shorter text is decoded in a loop, which costs less than a call of TextDecoder. */
const loopDecodeMax = 32;

export function text(bytesMax: number): FieldType<string> {
  return {
    wire: wireTypes.delimited,
    schema: { type: 'text', bytesMax },
    write: (writer, value, label) => {
      if (typeof value !== 'string') throw invalidValue(label, 'is not text');
      // A character takes at least one byte, so this also bounds the work below.
      if (value.length > bytesMax) throw tooLarge(label, `exceeds ${bytesMax} bytes`);
      if (writer.shortAscii(value)) return;
      if (!value.isWellFormed()) throw invalidValue(label, 'is not well-formed Unicode');
      if (writer.text(value) > bytesMax) throw tooLarge(label, `exceeds ${bytesMax} bytes`);
    },
    read: (reader, label) => {
      const length = reader.length(label);
      if (length > bytesMax) throw fieldError('fieldBytes', label, `exceeds ${bytesMax} bytes`);
      return readText(reader, length, label);
    },
  };
}

const internedTexts = new InternTable();

/** Text with few, often repeated values, such as method names. */
export function shortInternedText(bytesMax: number): FieldType<string> {
  assert(bytesMax >= internedLengthMax, 'the limit must admit every interned text');
  const { wire, schema, write, read } = text(bytesMax);
  return {
    wire,
    schema,
    write: (writer, value, label) => {
      const known = typeof value === 'string' ? internedTexts.encodedForm(value) : undefined;
      if (known !== undefined) return writer.bytes(known);
      write(writer, value, label);
      if (isShortAscii(value)) internedTexts.addEncoded(value);
    },
    read: (reader, label) => {
      const start = reader.position;
      const length = reader.length(label);
      const known = internedTexts.lookup(reader.bytes, reader.position, length);
      if (known === undefined) {
        reader.position = start;
        const value = read(reader, label);
        return isShortAscii(value) ? internedTexts.addDecoded(value) : value;
      }
      reader.position += length;
      return known;
    },
  };
}

function isShortAscii(value: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return value.length > 0 && value.length <= internedLengthMax && /^[\x00-\x7f]*$/.test(value);
}

/** Decodes `length` bytes, which the caller has checked to be present. */
export function readText(reader: WireReader, length: number, label: string): string {
  const { bytes, position } = reader;
  const end = position + length;
  reader.position = end;
  if (length <= loopDecodeMax && isAscii(bytes, position, end)) return asciiText(bytes, position, end);
  try {
    return decoder.decode(bytes.subarray(position, end));
  } catch {
    throw fieldError('utf8', label, 'is not UTF-8');
  }
}

function isAscii(bytes: Uint8Array, start: number, end: number): boolean {
  let all = 0;
  for (let at = start; at < end; at++) all |= bytes[at] as number;
  return all < 0x80;
}

/** Eight characters per call: it costs as much as one. */
function asciiText(bytes: Uint8Array, start: number, end: number): string {
  let out = '';
  let at = start;
  for (; end - at >= 8; at += 8) {
    out += String.fromCharCode(
      bytes[at] as number,
      bytes[at + 1] as number,
      bytes[at + 2] as number,
      bytes[at + 3] as number,
      bytes[at + 4] as number,
      bytes[at + 5] as number,
      bytes[at + 6] as number,
      bytes[at + 7] as number,
    );
  }
  if (end - at >= 4) {
    out += String.fromCharCode(
      bytes[at] as number,
      bytes[at + 1] as number,
      bytes[at + 2] as number,
      bytes[at + 3] as number,
    );
    at += 4;
  }
  for (; at < end; at++) out += String.fromCharCode(bytes[at] as number);
  return out;
}

const nameBytesMax = internedLengthMax;
/** 1 for characters that may begin a name, 2 for those that may only follow; same as `namePattern` in base/ids.ts. */
const nameClasses = new Uint8Array(256);
for (const letter of 'abcdefghijklmnopqrstuvwxyz0123456789') nameClasses[letter.charCodeAt(0)] = 1;
for (const sign of '._-') nameClasses[sign.charCodeAt(0)] = 2;

function isName(value: string): boolean {
  if (value.length === 0 || value.length > nameBytesMax || nameClasses[value.charCodeAt(0)] !== 1) return false;
  for (let i = 1; i < value.length; i++) if (!nameClasses[value.charCodeAt(i)]) return false;
  return true;
}

function isNameBytes(bytes: Uint8Array, start: number, end: number): boolean {
  if (end === start || end - start > nameBytesMax || nameClasses[bytes[start] as number] !== 1) return false;
  for (let at = start + 1; at < end; at++) if (!nameClasses[bytes[at] as number]) return false;
  return true;
}

const internedNames = new InternTable();

function readName(bytes: Uint8Array, start: number, end: number): string | undefined {
  const known = internedNames.lookup(bytes, start, end - start);
  if (known !== undefined) return known;
  if (!isNameBytes(bytes, start, end)) return undefined;
  return internedNames.addDecoded(asciiText(bytes, start, end));
}

export const name: FieldType<string> = {
  wire: wireTypes.delimited,
  schema: { type: 'name' },
  write: (writer, value, label) => {
    if (typeof value !== 'string') throw invalidValue(label, 'is not a name');
    const known = internedNames.encodedForm(value);
    if (known !== undefined) return writer.bytes(known);
    if (!isName(value)) throw invalidValue(label, 'is not a name');
    internedNames.addEncoded(value);
    writer.shortAscii(value);
  },
  read: (reader, label) => {
    const length = reader.length(label);
    const start = reader.position;
    const end = start + length;
    const read = readName(reader.bytes, start, end);
    if (read === undefined) throw fieldError('name', label, 'is not a name');
    reader.position = end;
    return read;
  },
};

export function bytes(bytesMax: number): FieldType<Uint8Array> {
  return {
    wire: wireTypes.delimited,
    schema: { type: 'bytes', bytesMax },
    write: (writer, value, label) => {
      if (!(value instanceof Uint8Array)) throw invalidValue(label, 'is not bytes');
      if (value.length > bytesMax) throw tooLarge(label, `exceeds ${bytesMax} bytes`);
      writer.varint(value.length);
      writer.bytes(value);
    },
    read: (reader, label) => {
      const length = reader.length(label);
      if (length > bytesMax) throw fieldError('fieldBytes', label, `exceeds ${bytesMax} bytes`);
      const start = reader.position;
      reader.position = start + length;
      return copyBytes(reader.bytes, start, reader.position);
    },
  };
}

/**
 * A copy that belongs to the reader of the message. An allocation is expensive (0.7 us for 200 bytes), so copies of
 * medium size share a slab, as Node's buffers do; its size bounds the memory that a small copy can retain. Without it
 * durable writes are a tenth slower (decision 19).
 */
export function copyBytes(from: Uint8Array, start: number, end: number): Uint8Array {
  const length = end - start;
  // `slice` is the fastest copy of a few bytes, but on a Node Buffer it makes a view.
  if (length <= onHeapBytesMax && from.constructor === Uint8Array) return from.slice(start, end);
  const part = from.subarray(start, end);
  if (length <= onHeapBytesMax || length > slabShareBytesMax) return new Uint8Array(part);
  if (slabUsed + length > slabBytes) {
    slab = new Uint8Array(slabBytes);
    slabUsed = 0;
  }
  const at = slabUsed;
  slabUsed += length;
  slab.set(part, at);
  return new Uint8Array(slab.buffer, at, length);
}

/** V8 allocates typed arrays up to this size on its own heap, at low cost. */
const onHeapBytesMax = 64;
const slabBytes = 8_192;
const slabShareBytesMax = slabBytes / 8;
let slab = new Uint8Array(slabBytes);
let slabUsed = 0;

/** Character codes of the two hex digits of each byte. */
const hexCodes = Uint8Array.from({ length: 512 }, (_, i) =>
  (((i >> 1) >> (i & 1 ? 0 : 4)) & 15).toString(16).charCodeAt(0),
);

function fourBytesInHex(bytes: Uint8Array, at: number): string {
  const a = (bytes[at] as number) * 2;
  const b = (bytes[at + 1] as number) * 2;
  const c = (bytes[at + 2] as number) * 2;
  const d = (bytes[at + 3] as number) * 2;
  return String.fromCharCode(
    hexCodes[a] as number,
    hexCodes[a + 1] as number,
    hexCodes[b] as number,
    hexCodes[b + 1] as number,
    hexCodes[c] as number,
    hexCodes[c + 1] as number,
    hexCodes[d] as number,
    hexCodes[d + 1] as number,
  );
}

export const nodeId: FieldType<NodeId> = {
  wire: wireTypes.delimited,
  schema: { type: 'nodeId' },
  write: (writer, value, label) => {
    if (typeof value !== 'string' || value.length !== nodeIdBytes * 2) throw invalidValue(label, 'is not a node id');
    writer.byte(nodeIdBytes);
    if (!writer.hex(value)) throw invalidValue(label, 'is not a node id');
  },
  read: (reader, label) => {
    if (reader.length(label) !== nodeIdBytes) throw fieldError('fieldLength', label, 'is not 16 bytes');
    const { bytes: from, position } = reader;
    let out = '';
    for (let i = 0; i < nodeIdBytes; i += 4) out += fourBytesInHex(from, position + i);
    reader.position = position + nodeIdBytes;
    return out as NodeId;
  },
};
