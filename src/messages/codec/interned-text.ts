/**
 * A text field type that interns long, often repeated values (JSON of jobs): equal text is neither encoded nor decoded
 * twice. Bounded.
 */
import type { FieldType } from './field-type.ts';
import { text } from './strings.ts';

type InternedEntry = { readonly text: string; readonly bytes: Uint8Array; readonly view: DataView };

/** A power of two. */
const placesMax = 16;
const keptBytesMax = 16_384;
/** One of so many newcomers takes a place that is taken. */
const missesPerEviction = 8;
const encoder = new TextEncoder();

export function internedText(bytesMax: number): FieldType<string> {
  const { wire, schema, write, read } = text(bytesMax);
  const places: (InternedEntry | undefined)[] = Array.from({ length: placesMax });
  let newcomers = 0;
  const keep = (value: string): void => {
    if (value.length > keptBytesMax) return;
    const bytes = encoder.encode(value);
    const place = bytes.length % placesMax;
    newcomers = (newcomers + 1) % missesPerEviction;
    if (bytes.length > keptBytesMax || (places[place] !== undefined && newcomers !== 0)) return;
    places[place] = { text: value, bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length) };
  };
  return {
    wire,
    schema,
    write: (writer, value, label) => {
      // Of ASCII, which nearly all is, the place is that of its bytes.
      const known = typeof value === 'string' ? places[value.length % placesMax] : undefined;
      if (known !== undefined && known.text === value) {
        writer.varint(known.bytes.length);
        return writer.bytes(known.bytes);
      }
      write(writer, value, label);
      return keep(value);
    },
    read: (reader, label) => {
      const start = reader.position;
      const length = reader.length(label);
      const known = places[length % placesMax];
      if (known !== undefined && known.bytes.length === length && isSame(known, reader.bytes, reader.position)) {
        reader.position += length;
        return known.text;
      }
      reader.position = start;
      const value = read(reader, label);
      keep(value);
      return value;
    },
  };
}

/** As many bytes as the known one has are there. */
function isSame({ bytes, view }: InternedEntry, from: Uint8Array, start: number): boolean {
  const { length } = bytes;
  const other = new DataView(from.buffer, from.byteOffset + start, length);
  let at = 0;
  for (; at + 4 <= length; at += 4) if (view.getUint32(at) !== other.getUint32(at)) return false;
  for (; at < length; at++) if (bytes[at] !== from[start + at]) return false;
  return true;
}
