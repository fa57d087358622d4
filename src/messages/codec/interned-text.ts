/**
 * A text field type that interns long, often repeated values (JSON of jobs): equal text is neither encoded nor decoded
 * twice. Bounded.
 */
import type { FieldType } from './field-type.ts';
import { text } from './strings.ts';

type InternedEntry = { readonly text: string; readonly bytes: Uint8Array; readonly view: DataView };

/** A power of two. */
const slotsMax = 16;
const internedBytesMax = 16_384;
/** One of so many misses replaces the text of a slot. */
const missesPerEviction = 8;
const encoder = new TextEncoder();

export function internedText(bytesMax: number): FieldType<string> {
  const { wire, schema, write, read } = text(bytesMax);
  const slots: (InternedEntry | undefined)[] = Array.from({ length: slotsMax });
  let misses = 0;
  const intern = (value: string): void => {
    if (value.length > internedBytesMax) return;
    const bytes = encoder.encode(value);
    const slot = bytes.length % slotsMax;
    misses = (misses + 1) % missesPerEviction;
    if (bytes.length > internedBytesMax || (slots[slot] !== undefined && misses !== 0)) return;
    slots[slot] = { text: value, bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length) };
  };
  return {
    wire,
    schema,
    write: (writer, value, label) => {
      // For ASCII, nearly all of the texts, the length in characters is the length in bytes.
      const interned = typeof value === 'string' ? slots[value.length % slotsMax] : undefined;
      if (interned !== undefined && interned.text === value) {
        writer.varint(interned.bytes.length);
        return writer.bytes(interned.bytes);
      }
      write(writer, value, label);
      return intern(value);
    },
    read: (reader, label) => {
      const start = reader.position;
      const length = reader.length(label);
      const interned = slots[length % slotsMax];
      if (
        interned !== undefined &&
        interned.bytes.length === length &&
        isSame(interned, reader.bytes, reader.position)
      ) {
        reader.position += length;
        return interned.text;
      }
      reader.position = start;
      const value = read(reader, label);
      intern(value);
      return value;
    },
  };
}

/** `from` has at least as many bytes as the interned text. */
function isSame({ bytes, view }: InternedEntry, from: Uint8Array, start: number): boolean {
  const { length } = bytes;
  const other = new DataView(from.buffer, from.byteOffset + start, length);
  let at = 0;
  for (; at + 4 <= length; at += 4) if (view.getUint32(at) !== other.getUint32(at)) return false;
  for (; at < length; at++) if (bytes[at] !== from[start + at]) return false;
  return true;
}
