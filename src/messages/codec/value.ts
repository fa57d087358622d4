/**
 * Self-describing encoding of user values: arguments, results, container state. Bounds depth, bytes and object count in
 * both directions. One encoding per value, so equal values with the same key order have equal bytes.
 *
 *   bytes = version (1) | value;  value = tag (1) | content of the tag; a tag of 0x80 and above is a number 0..127
 *
 * Values that would not survive the round trip are refused with their path: functions, symbols, instances of classes
 * other than Date and Uint8Array, text with lone surrogates.
 */
import { RemusterError } from '../../base/errors.ts';
import { WireReader, fieldError } from './reader.ts';
import { decodeError } from './decode-error.ts';
import { copyBytes, readText } from './strings.ts';
import { WireWriter } from './writer.ts';

export const valueBytesMax = 10_000_000;
export const valueDepthMax = 64;
/** One encoded byte can be an empty object of sixty bytes in memory: without this bound 10 MB could exhaust the heap. */
export const valueObjectsMax = 1_000_000;
const formatVersion = 1;

const tags = {
  undefined: 0,
  null: 1,
  false: 2,
  true: 3,
  /** A varint. */
  positive: 4,
  /** A varint of -1 - n. */
  negative: 5,
  float: 6,
  text: 7,
  bytes: 8,
  /** Milliseconds as a float; NaN for an invalid date. */
  date: 9,
  /** Length and big-endian bytes of the magnitude; the first byte is not 0. */
  bigPositive: 10,
  bigNegative: 11,
  list: 12,
  map: 13,
} as const;
const smallBit = 0x80;
/** Enough for any key or hash; converting larger ones takes too long to accept from a peer. */
const bigBytesMax = 65_536;
const dateMsMax = 8_640_000_000_000_000;
const label = 'the value';

type EncodeState = {
  readonly writer: WireWriter;
  bytesMax: number;
  /** As long as the deepest value so far; `unencodable` reads its first `depth` steps. */
  readonly path: (string | number)[];
  objects: number;
};
type DecodeState = { readonly reader: WireReader; objects: number };

/** The results of most methods, shared: encoded values are immutable. */
const encodedNull = Uint8Array.of(formatVersion, tags.null);
const encodedUndefined = Uint8Array.of(formatVersion, tags.undefined);

/** Values of tags without content: with the empty list, most of the decoded values. */
const simple = [undefined, null, false, true] as const;

/** Reused by all values. If a getter of a value encodes another value, that one gets its own state. */
let idle: EncodeState | undefined = newEncodeState();

function newEncodeState(): EncodeState {
  return { writer: new WireWriter(), bytesMax: 0, path: [], objects: 0 };
}

/**
 * Throws BAD_ARGUMENT for a value that cannot be encoded, TOO_LARGE beyond the limit. The result may be a view of a
 * shared buffer of 8 KB: to keep a small value for long, use `encodeDetachedValue`.
 */
export function encodeValue(value: unknown, bytesMax = valueBytesMax): Uint8Array {
  if ((value === undefined || value === null) && bytesMax >= 2) return value === null ? encodedNull : encodedUndefined;
  const state = idle ?? newEncodeState();
  const { writer } = state;
  idle = undefined;
  try {
    state.bytesMax = bytesMax;
    state.objects = 0;
    writer.limit(bytesMax);
    writer.byte(formatVersion);
    write(state, value, 0);
    return writer.finish();
  } finally {
    writer.reset();
    idle = state;
  }
}

/** Like `encodeValue`, but the result retains no shared buffer. */
export function encodeDetachedValue(value: unknown, bytesMax = valueBytesMax): Uint8Array {
  const bytes = encodeValue(value, bytesMax);
  return bytes.length === bytes.buffer.byteLength ? bytes : bytes.slice();
}

/** Throws a decode error for bytes that `encodeValue` does not write. Keeps no view of `bytes`. */
export function decodeValue(bytes: Uint8Array, bytesMax = valueBytesMax): unknown {
  if (bytes.length > bytesMax) throw decodeError('messageBytes', `${label} exceeds ${bytesMax} bytes`);
  if (bytes.length === 0) throw decodeError('header', `${label} is empty`);
  if (bytes[0] !== formatVersion) throw decodeError('version', `${label} has an unknown format`);
  if (bytes.length === 2 && bytes[1]! < simple.length) return simple[bytes[1]!];
  if (bytes.length === 3 && bytes[1] === tags.list && bytes[2] === 0) return [];
  const state: DecodeState = { reader: new WireReader(bytes, 1), objects: 0 };
  const value = read(state, 0);
  if (state.reader.position !== bytes.length) throw fieldError('fieldLength', label, 'is followed by more bytes');
  return value;
}

function write(to: EncodeState, value: unknown, depth: number): void {
  const { writer } = to;
  switch (typeof value) {
    case 'number':
      return writeNumber(writer, value);
    case 'string':
      writer.byte(tags.text);
      return writeText(to, value, depth);
    case 'boolean':
      return writer.byte(value ? tags.true : tags.false);
    case 'undefined':
      return writer.byte(tags.undefined);
    case 'bigint':
      return writeBig(to, value, depth);
    case 'object':
      return value === null ? writer.byte(tags.null) : writeObject(to, value, depth);
    case 'function':
    case 'symbol':
    default:
      throw unencodable(to, depth, `is a ${typeof value}`);
  }
}

function writeNumber(writer: WireWriter, value: number): void {
  if (!Number.isSafeInteger(value) || Object.is(value, -0)) {
    writer.byte(tags.float);
    writer.float64(value);
  } else if (value >= smallBit) {
    writer.byte(tags.positive);
    writer.varint(value);
  } else if (value >= 0) {
    writer.byte(smallBit | value);
  } else {
    writer.byte(tags.negative);
    writer.varint(-1 - value);
  }
}

function writeText(to: EncodeState, value: string, depth: number): void {
  if (to.writer.shortAscii(value)) return;
  // A character takes at least one byte: check before the writer grows.
  if (value.length > to.bytesMax) throw tooLarge(to);
  if (!value.isWellFormed()) throw unencodable(to, depth, 'is text with a lone surrogate');
  to.writer.text(value);
}

function writeBig(to: EncodeState, value: bigint, depth: number): void {
  const digits = (value < 0n ? -value : value).toString(16);
  const even = digits === '0' ? '' : digits.length % 2 === 0 ? digits : `0${digits}`;
  countObject(to, depth);
  if (even.length / 2 > bigBytesMax) throw new RemusterError('TOO_LARGE', `a bigint exceeds ${bigBytesMax} bytes`);
  to.writer.byte(value < 0n ? tags.bigNegative : tags.bigPositive);
  to.writer.varint(even.length / 2);
  to.writer.hex(even);
}

function writeObject(to: EncodeState, value: object, depth: number): void {
  const { writer } = to;
  countObject(to, depth);
  if (Array.isArray(value)) writeList(to, value, depth);
  else if (value instanceof Uint8Array) {
    if (value.length > to.bytesMax) throw tooLarge(to);
    writer.byte(tags.bytes);
    writer.varint(value.length);
    writer.bytes(value);
  } else if (value instanceof Date) {
    writer.byte(tags.date);
    writer.float64(value.getTime());
  } else if (isPlain(value)) writeMap(to, value as Readonly<Record<string, unknown>>, depth);
  else throw unencodable(to, depth, 'is an instance of a class');
}

function writeList(to: EncodeState, value: readonly unknown[], depth: number): void {
  if (value.length > to.bytesMax) throw tooLarge(to);
  to.writer.byte(tags.list);
  to.writer.varint(value.length);
  for (let i = 0; i < value.length; i++) {
    to.path[depth] = i;
    write(to, value[i], depth + 1);
  }
}

function writeMap(to: EncodeState, value: Readonly<Record<string, unknown>>, depth: number): void {
  const keys = Object.keys(value);
  to.writer.byte(tags.map);
  to.writer.varint(keys.length);
  for (const key of keys) {
    to.path[depth] = key;
    writeText(to, key, depth + 1);
    write(to, value[key], depth + 1);
  }
}

/** Also an object of another realm, whose prototype is another Object.prototype. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

function countObject(to: EncodeState, depth: number): void {
  if (depth >= valueDepthMax)
    throw unencodable(to, depth, `is nested deeper than ${valueDepthMax} levels or contains itself`);
  if (++to.objects > valueObjectsMax)
    throw new RemusterError('TOO_LARGE', `a value has more than ${valueObjectsMax} objects`);
}

function unencodable(to: EncodeState, depth: number, what: string): RemusterError {
  let path = 'value';
  for (const step of to.path.slice(0, depth)) path += typeof step === 'number' ? `[${step}]` : `[${quoteKey(step)}]`;
  return new RemusterError('BAD_ARGUMENT', `${path.slice(0, pathCharactersMax)} ${what} and cannot be sent or stored`);
}

const pathCharactersMax = 300;

function quoteKey(key: string): string {
  return JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}...` : key);
}

function tooLarge(to: EncodeState): RemusterError {
  return new RemusterError('TOO_LARGE', `a value exceeds its limit of ${to.bytesMax} bytes`);
}

function read(from: DecodeState, depth: number): unknown {
  const { reader } = from;
  if (reader.position >= reader.end) throw fieldError('truncated', label, 'is truncated');
  const tag = reader.bytes[reader.position++] as number;
  if (tag >= smallBit) return tag - smallBit;
  switch (tag) {
    case tags.undefined:
      return undefined;
    case tags.null:
      return null;
    case tags.false:
      return false;
    case tags.true:
      return true;
    case tags.positive:
      return readPositive(reader);
    case tags.negative:
      return readNegative(reader);
    case tags.float:
      return readFloat(reader);
    case tags.text:
      return readText(reader, reader.length(label), label);
    default:
      return readObject(from, tag, depth);
  }
}

function readObject(from: DecodeState, tag: number, depth: number): unknown {
  const { reader } = from;
  if (depth >= valueDepthMax) throw fieldError('itemCount', label, `is nested deeper than ${valueDepthMax} levels`);
  if (++from.objects > valueObjectsMax)
    throw fieldError('itemCount', label, `has more than ${valueObjectsMax} objects`);
  switch (tag) {
    case tags.bytes:
      return readBytes(reader);
    case tags.date:
      return readDate(reader);
    case tags.bigPositive:
      return readBig(reader);
    case tags.bigNegative:
      return readNegativeBig(reader);
    case tags.list:
      return readList(from, depth);
    case tags.map:
      return readMap(from, depth);
    default:
      throw fieldError('wireType', label, 'has an unknown tag');
  }
}

function readPositive(reader: WireReader): number {
  const value = reader.varint(label);
  if (value < smallBit) throw fieldError('varint', label, 'is a small number in a long encoding');
  return value;
}

function readNegative(reader: WireReader): number {
  const value = -1 - reader.varint(label);
  if (!Number.isSafeInteger(value)) throw fieldError('range', label, 'is a number below -(2^53 - 1)');
  return value;
}

function readFloat(reader: WireReader): number {
  const value = reader.float64(label);
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
    throw fieldError('varint', label, 'is an integer encoded as a float');
  }
  return value;
}

function readBytes(reader: WireReader): Uint8Array {
  const length = reader.length(label);
  const start = reader.position;
  reader.position = start + length;
  return copyBytes(reader.bytes, start, reader.position);
}

function readDate(reader: WireReader): Date {
  const ms = reader.float64(label);
  const isDate = Number.isNaN(ms) || (Number.isInteger(ms) && Math.abs(ms) <= dateMsMax && !Object.is(ms, -0));
  if (!isDate) throw fieldError('range', label, 'is not a date');
  return new Date(ms);
}

function readBig(reader: WireReader): bigint {
  const length = reader.length(label);
  if (length === 0) return 0n;
  if (length > bigBytesMax) throw fieldError('fieldBytes', label, `has a bigint of more than ${bigBytesMax} bytes`);
  const { bytes, position } = reader;
  if (bytes[position] === 0) throw fieldError('varint', label, 'is a bigint with redundant bytes');
  reader.position = position + length;
  let digits = '0x';
  for (let at = position; at < reader.position; at++) digits += hexOfByte[bytes[at] as number];
  return BigInt(digits);
}

const hexOfByte = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

function readNegativeBig(reader: WireReader): bigint {
  const value = readBig(reader);
  if (value === 0n) throw fieldError('range', label, 'is a negative zero bigint');
  return -value;
}

function readList(from: DecodeState, depth: number): unknown[] {
  const count = countOf(from.reader, 1);
  const out: unknown[] = [];
  for (let i = 0; i < count; i++) out.push(read(from, depth + 1));
  return out;
}

function readMap(from: DecodeState, depth: number): Record<string, unknown> {
  const { reader } = from;
  const count = countOf(reader, 2);
  const out: Record<string, unknown> = {};
  for (let i = 0; i < count; i++) {
    const key = readText(reader, reader.length(label), label);
    if (Object.hasOwn(out, key)) throw fieldError('duplicateKey', label, 'has a key twice');
    const value = read(from, depth + 1);
    // An assignment would set the prototype instead of adding a property.
    if (key === '__proto__') {
      Object.defineProperty(out, key, { value, enumerable: true, configurable: true, writable: true });
    } else out[key] = value;
  }
  return out;
}

/** A count of items with at least `itemBytesMin` bytes each: never more than the remaining bytes can hold. */
function countOf(reader: WireReader, itemBytesMin: number): number {
  const count = reader.varint(label);
  if (count * itemBytesMin > reader.end - reader.position)
    throw fieldError('fieldLength', label, 'has fewer items than its count');
  return count;
}
