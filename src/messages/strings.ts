/**
 * Kinds that are runs of bytes: text, names, opaque bytes and node ids. Text is well-formed Unicode on both sides of
 * the wire, never with lone surrogates. Decoded bytes are copies: what arrives belongs to the transport.
 */
import type { NodeId } from '../base/ids.ts';
import { nodeIdBytes } from '../base/ids.ts';
import { type Kind, badValue, tooLarge } from './kind.ts';
import { type Reader, refuse, wireTypes } from './reader.ts';

/** `ignoreBOM` keeps a leading U+FEFF as a character: otherwise the text would come back shorter than it was sent. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Shorter text is read by hand: a call into the engine's decoder costs more than the loop. */
const handTextMax = 32;

export function text(bytesMax: number): Kind<string> {
  return {
    wire: wireTypes.delimited,
    shape: { type: 'text', bytesMax },
    write: (writer, value, label) => {
      if (typeof value !== 'string') throw badValue(label, 'is not text');
      // One character takes at least one byte, so this also bounds the work below.
      if (value.length > bytesMax) throw tooLarge(label, `exceeds ${bytesMax} bytes`);
      if (writer.shortAscii(value)) return;
      if (!value.isWellFormed()) throw badValue(label, 'is not well-formed text');
      if (writer.text(value) > bytesMax) throw tooLarge(label, `exceeds ${bytesMax} bytes`);
    },
    read: (reader, label) => {
      const length = reader.length(label);
      if (length > bytesMax) throw refuse('fieldBytes', label, `exceeds ${bytesMax} bytes`);
      return readText(reader, length, label);
    },
  };
}

/** Text of so many bytes, which are known to be there. */
export function readText(reader: Reader, length: number, label: string): string {
  const { bytes, position } = reader;
  const end = position + length;
  reader.position = end;
  if (length <= handTextMax && isAscii(bytes, position, end)) return asciiText(bytes, position, end);
  try {
    return decoder.decode(bytes.subarray(position, end));
  } catch {
    throw refuse('utf8', label, 'is not UTF-8');
  }
}

function isAscii(bytes: Uint8Array, start: number, end: number): boolean {
  let all = 0;
  for (let at = start; at < end; at++) all |= bytes[at] as number;
  return all < 0x80;
}

/** Few large steps: eight characters in one call are as cheap as one. */
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

const nameBytesMax = 63;
/** 1 for what a name may begin with, 2 for what may only follow; the same as namePattern of base/ids.ts. */
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

/**
 * Names that were on the wire of late, each in a place that its bytes tell: the same few are said again and again, such
 * as who calls in each call. To compare one costs less than to check it and to make text of it anew.
 */
const knownNames: (string | undefined)[] = Array.from({ length: 256 });

function placeOf(length: number, first: number, middle: number, last: number): number {
  return (length * 31 + first * 7 + middle * 13 + last) & 0xff;
}

function isKnownName(value: string): boolean {
  const { length } = value;
  const place = placeOf(length, value.charCodeAt(0), value.charCodeAt(length >> 1), value.charCodeAt(length - 1));
  if (knownNames[place] === value) return true;
  if (!isName(value)) return false;
  knownNames[place] = value;
  return true;
}

function isSaid(known: string, bytes: Uint8Array, start: number, length: number): boolean {
  if (known.length !== length) return false;
  for (let i = 0; i < length; i++) if (known.charCodeAt(i) !== bytes[start + i]) return false;
  return true;
}

function readName(bytes: Uint8Array, start: number, end: number): string | undefined {
  const length = end - start;
  const middle = bytes[start + (length >> 1)] as number;
  const place = placeOf(length, bytes[start] as number, middle, bytes[end - 1] as number);
  const known = knownNames[place];
  if (known !== undefined && isSaid(known, bytes, start, length)) return known;
  if (!isNameBytes(bytes, start, end)) return undefined;
  return (knownNames[place] = asciiText(bytes, start, end));
}

export const name: Kind<string> = {
  wire: wireTypes.delimited,
  shape: { type: 'name' },
  write: (writer, value, label) => {
    if (typeof value !== 'string' || !isKnownName(value)) throw badValue(label, 'is not a name');
    if (!writer.shortAscii(value)) writer.text(value);
  },
  read: (reader, label) => {
    const length = reader.length(label);
    const start = reader.position;
    const end = start + length;
    const read = readName(reader.bytes, start, end);
    if (read === undefined) throw refuse('name', label, 'is not a name');
    reader.position = end;
    return read;
  },
};

export function bytes(bytesMax: number): Kind<Uint8Array> {
  return {
    wire: wireTypes.delimited,
    shape: { type: 'bytes', bytesMax },
    write: (writer, value, label) => {
      if (!(value instanceof Uint8Array)) throw badValue(label, 'is not bytes');
      if (value.length > bytesMax) throw tooLarge(label, `exceeds ${bytesMax} bytes`);
      writer.varint(value.length);
      writer.bytes(value);
    },
    read: (reader, label) => {
      const length = reader.length(label);
      if (length > bytesMax) throw refuse('fieldBytes', label, `exceeds ${bytesMax} bytes`);
      const start = reader.position;
      reader.position = start + length;
      return copyOf(reader.bytes, start, reader.position);
    },
  };
}

/**
 * A copy that belongs to the reader of the message. Allocating is dear (0.7 us for 200 bytes), so copies of medium size
 * share a slab, as Node's own buffers do; its size bounds what a small piece can keep alive.
 */
export function copyOf(from: Uint8Array, start: number, end: number): Uint8Array {
  const length = end - start;
  // The slice of a plain array is the fastest copy of a few bytes; that of a Node buffer would be no copy at all.
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

/** V8 keeps typed arrays up to this size on its own heap, where they cost little. */
const onHeapBytesMax = 64;
const slabBytes = 8_192;
const slabShareBytesMax = slabBytes / 8;
let slab = new Uint8Array(slabBytes);
let slabUsed = 0;

/** The two digits of each byte, as character codes. */
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

export const nodeId: Kind<NodeId> = {
  wire: wireTypes.delimited,
  shape: { type: 'nodeId' },
  write: (writer, value, label) => {
    if (typeof value !== 'string' || value.length !== nodeIdBytes * 2) throw badValue(label, 'is not a node id');
    writer.byte(nodeIdBytes);
    if (!writer.hex(value)) throw badValue(label, 'is not a node id');
  },
  read: (reader, label) => {
    if (reader.length(label) !== nodeIdBytes) throw refuse('fieldLength', label, 'is not 16 bytes');
    const { bytes: from, position } = reader;
    let out = '';
    for (let i = 0; i < nodeIdBytes; i += 4) out += fourBytesInHex(from, position + i);
    reader.position = position + nodeIdBytes;
    return out as NodeId;
  },
};
