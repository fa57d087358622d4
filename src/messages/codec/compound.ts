/**
 * Composite field types: record, list, map. Fields are written in ascending order and unknown ones are skipped, so
 * that neighbouring versions can interoperate from 1.0 on.
 */
import { assert } from '../../base/assert.ts';
import { type FieldSchema, type FieldType, invalidValue, tooLarge } from './field-type.ts';
import { type WireReader, type WireType, fieldNumberMax, fieldError, wireTypes } from './reader.ts';
import type { WireWriter } from './writer.ts';

export type FieldSpec<T> = {
  readonly number: number;
  readonly type: FieldType<T>;
  readonly optional: boolean;
  readonly doc: string;
};

export type OptionalField<T> = { readonly optional: FieldType<T> };
export type MessageFields = { readonly [name: string]: FieldSpec<unknown> };
export type RecordOf<F extends MessageFields> = {
  readonly [Name in keyof F]: F[Name] extends FieldSpec<infer T> ? T : never;
};

/** May be absent, and is then undefined. Every field added after a release must be optional. */
export function optional<T>(type: FieldType<T>): OptionalField<T> {
  return { optional: type };
}

export function field<T>(number: number, type: FieldType<T>, doc: string): FieldSpec<T>;
export function field<T>(number: number, type: OptionalField<T>, doc: string): FieldSpec<T | undefined>;
export function field<T>(number: number, type: FieldType<T> | OptionalField<T>, doc: string): FieldSpec<T | undefined> {
  assert(Number.isInteger(number) && number > 0 && number <= fieldNumberMax, `field number ${number} is out of bounds`);
  if ('optional' in type) return { number, type: type.optional, optional: true, doc };
  return { number, type, optional: false, doc };
}

/** Codec of the fields of a record or a message, without a length in front. */
export type FieldsCodec<T> = {
  readonly schemas: readonly FieldSchema[];
  write(writer: WireWriter, value: T): void;
  read(reader: WireReader): T;
};

/** A field prepared for the inner loops. */
type FieldStep = {
  readonly name: string;
  readonly key: number;
  /** The key if it is a single byte; otherwise -1, which equals no byte. */
  readonly keyByte: number;
  readonly number: number;
  readonly wire: WireType;
  readonly write: FieldType<unknown>['write'];
  readonly read: FieldType<unknown>['read'];
  readonly optional: boolean;
  /** Number of the previous field: every field read from here on must have a higher one. */
  readonly after: number;
};

/** `kind` is set for messages only. It is not written: the tag implies it. */
export function fieldsCodec<T extends object>(fields: MessageFields, kind: string | undefined): FieldsCodec<T> {
  const names = Object.keys(fields);
  assert(!names.includes('__proto__'), 'a field must not be named __proto__');
  const steps = stepsOf(fields);
  const lastNumber = steps.at(-1)?.number ?? 0;
  const Value = plainObjects();
  return {
    schemas: names.map((name) => schemaOf(name, fields[name] as FieldSpec<unknown>)),
    write: (writer, value) => {
      for (const step of steps) {
        const item = (value as Record<string, unknown>)[step.name];
        if (item === undefined && step.optional) continue;
        writer.varint(step.key);
        step.write(writer, item, step.name);
      }
    },
    read: (reader) => {
      // Sets all declared names in one order, so every value has the same hidden class in V8.
      const out = new Value();
      if (kind !== undefined) out['kind'] = kind;
      for (const step of steps) out[step.name] = readStep(reader, step);
      if (reader.position !== reader.end) reader.skipUnknown(lastNumber, 'the end');
      return out as T;
    },
  };
}

/**
 * A constructor of plain objects, as `{}`. V8 learns per constructor how many properties its objects need; objects of
 * `{}` that outgrow their first size are moved.
 */
function plainObjects(): new () => Record<string, unknown> {
  const Value = function () {};
  Value.prototype = Object.prototype;
  return Value as unknown as new () => Record<string, unknown>;
}

function readStep(reader: WireReader, step: FieldStep): unknown {
  if (reader.bytes[reader.position] === step.keyByte && reader.position < reader.end) {
    reader.position += 1;
  } else if (!reader.seek(step.number, step.wire, step.after, step.name)) {
    if (step.optional) return undefined;
    throw fieldError('missingField', step.name, 'is missing');
  }
  return step.read(reader, step.name);
}

function schemaOf(name: string, { number, optional: absent, doc, type }: FieldSpec<unknown>): FieldSchema {
  return { name, number, optional: absent, doc, schema: type.schema };
}

function stepsOf(fields: MessageFields): readonly FieldStep[] {
  const entries = Object.entries(fields).toSorted(([, a], [, b]) => a.number - b.number);
  let after = 0;
  return entries.map(([name, { number, type, optional: absent }]) => {
    assert(number > after, `field number ${number} is declared twice`);
    const key = number * 4 + type.wire;
    const keyByte = key < 0x80 ? key : -1;
    const { wire, write, read } = type;
    const step: FieldStep = { name, key, keyByte, number, wire, write, read, optional: absent, after };
    after = number;
    return step;
  });
}

/** `name` appears on the protocol page. */
export function record<F extends MessageFields>(name: string, fields: F): FieldType<RecordOf<F>> {
  const codec = fieldsCodec<RecordOf<F>>(fields, undefined);
  return {
    wire: wireTypes.delimited,
    schema: { type: 'record', name, fields: codec.schemas },
    write: (writer, value, label) => {
      if (typeof value !== 'object' || value === null) throw invalidValue(label, `is not a ${name}`);
      const start = writer.begin();
      codec.write(writer, value);
      writer.end(start);
    },
    read: (reader, label) => {
      const outer = enter(reader, label);
      const out = codec.read(reader);
      reader.end = outer;
      return out;
    },
  };
}

/** Items until the length is used up: there is no count that a peer could forge. */
export function list<T>(item: FieldType<T>, itemsMax: number): FieldType<readonly T[]> {
  return {
    wire: wireTypes.delimited,
    schema: { type: 'list', item: item.schema, itemsMax },
    write: (writer, value, label) => {
      if (!Array.isArray(value)) throw invalidValue(label, 'is not a list');
      if (value.length > itemsMax) throw tooLarge(label, `holds more than ${itemsMax} items`);
      const start = writer.begin();
      for (const one of value as readonly T[]) item.write(writer, one, label);
      writer.end(start);
    },
    read: (reader, label) => {
      const outer = enter(reader, label);
      const out: T[] = [];
      while (reader.position < reader.end) {
        if (out.length === itemsMax) throw fieldError('itemCount', label, `holds more than ${itemsMax} items`);
        out.push(item.read(reader, label));
      }
      reader.end = outer;
      return out;
    },
  };
}

/** A Map, never an object: keys are untrusted and may be `__proto__`. */
export function map<V>(
  key: FieldType<string>,
  value: FieldType<V>,
  itemsMax: number,
): FieldType<ReadonlyMap<string, V>> {
  return {
    wire: wireTypes.delimited,
    schema: { type: 'map', key: key.schema, value: value.schema, itemsMax },
    write: (writer, entries, label) => {
      if (!(entries instanceof Map)) throw invalidValue(label, 'is not a Map');
      if (entries.size > itemsMax) throw tooLarge(label, `holds more than ${itemsMax} items`);
      const start = writer.begin();
      for (const [k, v] of entries as ReadonlyMap<string, V>) {
        key.write(writer, k, label);
        value.write(writer, v, label);
      }
      writer.end(start);
    },
    read: (reader, label) => {
      const outer = enter(reader, label);
      const out = new Map<string, V>();
      while (reader.position < reader.end) {
        if (out.size === itemsMax) throw fieldError('itemCount', label, `holds more than ${itemsMax} items`);
        const k = key.read(reader, label);
        if (out.has(k)) throw fieldError('duplicateKey', label, 'holds a key twice');
        out.set(k, value.read(reader, label));
      }
      reader.end = outer;
      return out;
    },
  };
}

/** Narrows the reader to a length-delimited part; returns the previous end. */
function enter(reader: WireReader, label: string): number {
  const length = reader.length(label);
  const outer = reader.end;
  reader.end = reader.position + length;
  return outer;
}
