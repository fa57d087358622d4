/**
 * A kind is what a field may hold: how it is written, how it is read back from a stranger, and a description of it as
 * data (`shape`), from which the protocol page and the generators of the tests are made. Kinds refuse on both ways:
 * what we are told to send (BAD_ARGUMENT, TOO_LARGE) and what arrives (a rejection with its reason).
 */
import { RemusterError } from '../base/errors.ts';
import type { Reader, WireType } from './reader.ts';
import type { Writer } from './writer.ts';

export type Shape =
  | { readonly type: 'bool' | 'u64' | 'name' | 'nodeId' | 'roles' }
  | { readonly type: 'integer'; readonly name: string; readonly min: number; readonly max: number }
  | { readonly type: 'f64'; readonly finite: boolean }
  | { readonly type: 'text' | 'bytes'; readonly bytesMax: number }
  | { readonly type: 'oneOf'; readonly words: readonly string[] }
  | { readonly type: 'list'; readonly item: Shape; readonly itemsMax: number }
  | { readonly type: 'map'; readonly key: Shape; readonly value: Shape; readonly itemsMax: number }
  | { readonly type: 'record'; readonly name: string; readonly fields: readonly FieldShape[] };

export type FieldShape = {
  readonly name: string;
  readonly number: number;
  readonly optional: boolean;
  readonly doc: string;
  readonly shape: Shape;
};

/** `label` is the name of the field, for the sentence of an error. */
export type Kind<T> = {
  readonly wire: WireType;
  readonly shape: Shape;
  write(this: void, writer: Writer, value: T, label: string): void;
  read(this: void, reader: Reader, label: string): T;
};

export type ValueOf<K> = K extends Kind<infer T> ? T : never;

export function badValue(label: string, what: string): RemusterError {
  return new RemusterError('BAD_ARGUMENT', `${label} ${what}`);
}

export function tooLarge(label: string, what: string): RemusterError {
  return new RemusterError('TOO_LARGE', `${label} ${what}`);
}
