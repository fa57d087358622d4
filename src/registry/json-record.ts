/** Reads small JSON records of the registry. Never throws: a malformed record is undefined, and its reader decides. */
export type RecordFields = Readonly<Record<string, unknown>>;

const decoder = new TextDecoder('utf-8', { fatal: true });

/** Undefined for anything that is not a JSON object. */
export function recordFieldsOf(value: Uint8Array): RecordFields | undefined {
  try {
    const read: unknown = JSON.parse(decoder.decode(value));
    return typeof read === 'object' && read !== null && !Array.isArray(read) ? (read as RecordFields) : undefined;
  } catch {
    return undefined;
  }
}

export function numberField(value: unknown, from: number, to: number): number | undefined {
  return typeof value === 'number' && value >= from && value <= to ? value : undefined;
}

/** Thrown by the strict readers below, and caught by `readRecord` alone. */
class MalformedRecord extends Error {}

/** The record if every field is valid, otherwise undefined. */
export function readRecord<T>(value: Uint8Array, build: (fields: RecordFields) => T): T | undefined {
  const fields = recordFieldsOf(value);
  if (fields === undefined) return undefined;
  try {
    return build(fields);
  } catch {
    return undefined;
  }
}

export function strictFields(value: unknown): RecordFields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new MalformedRecord();
  return value as RecordFields;
}

export function strictList(value: unknown, lengthMax = Infinity): readonly unknown[] {
  if (!Array.isArray(value) || value.length > lengthMax) throw new MalformedRecord();
  return value;
}

export function strictText(value: unknown, charactersMax = Infinity): string {
  if (typeof value !== 'string' || value.length > charactersMax) throw new MalformedRecord();
  return value;
}

export function strictCount(value: unknown): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0) throw new MalformedRecord();
  return value;
}

export function strictOneOf<const T extends readonly string[]>(allowed: T, value: unknown): T[number] {
  const found = allowed.find((one) => one === value);
  if (found === undefined) throw new MalformedRecord();
  return found;
}
