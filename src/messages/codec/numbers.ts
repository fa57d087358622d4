/**
 * Field types that are numbers on the wire: integers, floats, booleans, enums, role sets. Enum values are only ever
 * appended. Small ones are varints, so they can be widened without a new wire type.
 */
import type { Role } from '../../base/ports.ts';
import { type FieldType, invalidValue } from './field-type.ts';
import { fieldError, wireTypes } from './reader.ts';

export const bool: FieldType<boolean> = {
  wire: wireTypes.varint,
  schema: { type: 'bool' },
  write: (writer, value, label) => {
    if (typeof value !== 'boolean') throw invalidValue(label, 'is not true or false');
    writer.byte(value ? 1 : 0);
  },
  read: (reader, label) => {
    const value = reader.varint(label);
    if (value > 1) throw fieldError('range', label, 'is neither 0 nor 1');
    return value === 1;
  },
};

export const u8 = unsigned('u8', 0xff);
export const u16 = unsigned('u16', 0xffff);
export const u32 = unsigned('u32', 0xffff_ffff);
/** Integers that a JavaScript number holds exactly. */
export const u53 = unsigned('u53', Number.MAX_SAFE_INTEGER);

function unsigned(name: string, max: number): FieldType<number> {
  return {
    wire: wireTypes.varint,
    schema: { type: 'integer', name, min: 0, max },
    write: (writer, value, label) => {
      if (!Number.isInteger(value) || value < 0 || value > max) throw invalidValue(label, `is not in 0..${max}`);
      writer.varint(value);
    },
    read: (reader, label) => {
      const value = reader.varint(label);
      if (value > max) throw fieldError('range', label, `is above ${max}`);
      return value;
    },
  };
}

const i32Min = -(2 ** 31);
const i32Max = 2 ** 31 - 1;

/** Zigzag: 0, -1, 1, -2 become 0, 1, 2, 3, so small numbers of either sign are short. */
export const i32: FieldType<number> = {
  wire: wireTypes.varint,
  schema: { type: 'integer', name: 'i32', min: i32Min, max: i32Max },
  write: (writer, value, label) => {
    if (!Number.isInteger(value) || value < i32Min || value > i32Max) throw invalidValue(label, 'is not an i32');
    writer.varint(((value << 1) ^ (value >> 31)) >>> 0);
  },
  read: (reader, label) => {
    const value = reader.varint(label);
    if (value > 0xffff_ffff) throw fieldError('range', label, 'is not an i32');
    return (value >>> 1) ^ -(value & 1);
  },
};

const u64Max = 0xffff_ffff_ffff_ffffn;

export const u64: FieldType<bigint> = {
  wire: wireTypes.fixed64,
  schema: { type: 'u64' },
  write: (writer, value, label) => {
    if (typeof value !== 'bigint' || value < 0n || value > u64Max) throw invalidValue(label, 'is not a u64');
    writer.bigUint64(value);
  },
  read: (reader, label) => reader.bigUint64(label),
};

/** Finite unless declared otherwise, because comparisons with NaN are silently false. */
export const f64 = float(true);
export const f64OrNotFinite = float(false);

function float(finite: boolean): FieldType<number> {
  return {
    wire: wireTypes.fixed64,
    schema: { type: 'f64', finite },
    write: (writer, value, label) => {
      if (typeof value !== 'number' || (finite && !Number.isFinite(value))) throw invalidValue(label, 'is not finite');
      writer.float64(value);
    },
    read: (reader, label) => {
      const value = reader.float64(label);
      if (finite && !Number.isFinite(value)) throw fieldError('notFinite', label, 'is not a finite number');
      return value;
    },
  };
}

/** Written as its position in the list: values are appended, never moved. */
export function enumOf<const Value extends string>(...values: readonly Value[]): FieldType<Value> {
  const numbers = new Map<string, number>(values.map((value, number) => [value, number]));
  return {
    wire: wireTypes.varint,
    schema: { type: 'enum', values },
    write: (writer, value, label) => {
      const number = numbers.get(value);
      if (number === undefined) throw invalidValue(label, `is not one of ${values.join(', ')}`);
      writer.varint(number);
    },
    read: (reader, label) => {
      const value = values[reader.varint(label)];
      if (value === undefined) throw fieldError('enumeration', label, 'is an unknown enum value');
      return value;
    },
  };
}

/** Whether a failed request had an effect. */
export const stateChanged = enumOf('no', 'maybe', 'yes');

/** In the order of their bits, in which a decoded set lists them. */
export const roleNames = ['gate', 'manager', 'worker', 'client'] as const satisfies readonly Role[];

const roleSets = Array.from({ length: 2 ** roleNames.length }, (_, bits): readonly Role[] =>
  Object.freeze(roleNames.filter((_role, position) => (bits >> position) & 1)),
);

/** Stands for an unknown role. It is in no set, so it is never encoded and permits nothing. */
const unknownRoleBit = 1 << roleNames.length;

/** A set of roles as bits; order and repetition do not matter. */
export function roleBits(roles: readonly Role[]): number {
  let bits = 0;
  for (const role of roles) {
    const position = roleNames.indexOf(role);
    bits |= position < 0 ? unknownRoleBit : 1 << position;
  }
  return bits;
}

export const roles: FieldType<readonly Role[]> = {
  wire: wireTypes.varint,
  schema: { type: 'roles' },
  write: (writer, value, label) => {
    const bits = Array.isArray(value) ? roleBits(value) : unknownRoleBit;
    if (bits >= unknownRoleBit) throw invalidValue(label, `is not a list of ${roleNames.join(', ')}`);
    writer.byte(bits);
  },
  read: (reader, label) => {
    const set = roleSets[reader.varint(label)];
    if (set === undefined) throw fieldError('enumeration', label, 'holds an unknown role');
    return set;
  },
};
