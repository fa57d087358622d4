/**
 * What a field type is: how it is written, how it is read from untrusted bytes, and its schema as data for the protocol
 * page and the fuzzers.
 */
import { RemusterError } from '../../base/errors.ts';
import type { WireReader, WireType } from './reader.ts';
import type { WireWriter } from './writer.ts';

export type FieldTypeSchema =
  | { readonly type: 'bool' | 'u64' | 'name' | 'nodeId' | 'roles' }
  | { readonly type: 'integer'; readonly name: string; readonly min: number; readonly max: number }
  | { readonly type: 'f64'; readonly finite: boolean }
  | { readonly type: 'text' | 'bytes'; readonly bytesMax: number }
  | { readonly type: 'enum'; readonly values: readonly string[] }
  | { readonly type: 'list'; readonly item: FieldTypeSchema; readonly itemsMax: number }
  | { readonly type: 'map'; readonly key: FieldTypeSchema; readonly value: FieldTypeSchema; readonly itemsMax: number }
  | { readonly type: 'record'; readonly name: string; readonly fields: readonly FieldSchema[] };

export type FieldSchema = {
  readonly name: string;
  readonly number: number;
  readonly optional: boolean;
  readonly doc: string;
  readonly schema: FieldTypeSchema;
};

/** `label` is the name of the field, for error messages. */
export type FieldType<T> = {
  readonly wire: WireType;
  readonly schema: FieldTypeSchema;
  write(this: void, writer: WireWriter, value: T, label: string): void;
  read(this: void, reader: WireReader, label: string): T;
};

export type ValueOf<K> = K extends FieldType<infer T> ? T : never;

export function invalidValue(label: string, what: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', `${label} ${what}`);
}

export function tooLarge(label: string, what: string): RemusterError {
  return new RemusterError('TOO_LARGE', `${label} ${what}`);
}
