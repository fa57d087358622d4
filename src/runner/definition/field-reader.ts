/** Reads typed fields of an object written by a user. Each error is BAD_ARGUMENT with the owner and the field. */
import { RemusterError } from '../../base/errors.ts';
import { parseDurationMs } from './amounts.ts';

export type Fields = Readonly<Record<string, unknown>>;

export class FieldReader {
  readonly #owner: string;
  readonly #fields: Fields;

  /** `owner` names the object in errors, for example `workflow "checkout"`. */
  constructor(owner: string, value: unknown) {
    this.#owner = owner;
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new RemusterError('BAD_ARGUMENT', `${owner} must be an object`);
    this.#fields = value as Fields;
  }

  rejectUnknown(known: readonly string[]): void {
    const unknown = Object.keys(this.#fields).find((key) => !known.includes(key));
    if (unknown !== undefined) throw this.invalid(unknown, `is not a field; known fields are ${known.join(', ')}`);
  }

  has(field: string): boolean {
    return this.#fields[field] !== undefined;
  }

  isFunction(field: string): boolean {
    return typeof this.#fields[field] === 'function';
  }

  raw(field: string): unknown {
    return this.#fields[field];
  }

  integer(field: string, min: number, max: number): number | undefined {
    const value = this.#fields[field];
    if (value === undefined) return undefined;
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
    throw this.invalid(field, `must be a whole number from ${min} to ${max}`);
  }

  number(field: string, min: number, max: number): number | undefined {
    const value = this.#fields[field];
    if (value === undefined) return undefined;
    if (typeof value === 'number' && value >= min && value <= max) return value;
    throw this.invalid(field, `must be a number from ${min} to ${max}`);
  }

  durationMs(field: string, min: number, max: number): number | undefined {
    const value = this.#fields[field];
    if (value === undefined) return undefined;
    const ms = parseDurationMs(value);
    if (ms !== undefined && ms >= min && ms <= max) return ms;
    throw this.invalid(field, `must be a time such as '30s' or 30000 (ms), from ${min} to ${max} ms`);
  }

  boolean(field: string): boolean | undefined {
    const value = this.#fields[field];
    if (value === undefined || typeof value === 'boolean') return value;
    throw this.invalid(field, 'must be true or false');
  }

  oneOf<const T extends string>(field: string, known: readonly T[]): T | undefined {
    const value = this.#fields[field];
    if (value === undefined || known.includes(value as T)) return value as T | undefined;
    throw this.invalid(field, `must be one of ${known.join(', ')}`);
  }

  strings(field: string, max: number): readonly string[] {
    const value = this.#fields[field];
    if (value === undefined) return [];
    if (Array.isArray(value) && value.length <= max && value.every((text) => typeof text === 'string')) return value;
    throw this.invalid(field, `must be a list of at most ${max} texts`);
  }

  // The compiler checks the parameters of a function.
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  callback<F>(field: string): F | undefined {
    const value = this.#fields[field];
    if (value === undefined || typeof value === 'function') return value as F | undefined;
    throw this.invalid(field, 'must be a function');
  }

  object(field: string): Fields | undefined {
    const value = this.#fields[field];
    if (value === undefined) return undefined;
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
    throw this.invalid(field, 'must be an object');
  }

  invalid(field: string, what: string): RemusterError {
    return new RemusterError('BAD_ARGUMENT', `${this.#owner}: ${field} ${what}`);
  }
}
