/**
 * Makes any value safe for a log line: depth and size are bounded, secrets are replaced, control characters escaped.
 * Never throws, also for cycles and for getters that throw.
 */

const depthMax = 4;
const itemsMax = 64;
const charactersMax = 2_000;
const hidden = '[hidden]';

/** Names of fields whose values are never printed. A plain `key` is the name of a record and no secret. */
const secretNames = [
  /secret|token|passw|passphrase|credential|authorization|cookie|bearer|private|keyMaterial/i,
  /[a-z0-9]Keys?$|[_-][Kk]eys?$/,
];

export type SanitizeOptions = {
  /** Secrets of this process, hidden in every text. */
  readonly secrets: readonly string[];
  readonly withStack: boolean;
};

export function sanitizeText(text: string, { secrets }: SanitizeOptions): string {
  let plain = text;
  for (const secret of secrets) plain = plain.replaceAll(secret, hidden);
  if (plain.length <= charactersMax) return plain;
  return `${plain.slice(0, charactersMax)}[+${plain.length - charactersMax}]`;
}

function plainValue(value: unknown, options: SanitizeOptions, depth = 0): unknown {
  try {
    return convert(value, options, depth);
  } catch {
    return '[unreadable]';
  }
}

function convert(value: unknown, options: SanitizeOptions, depth: number): unknown {
  switch (typeof value) {
    case 'string':
      return sanitizeText(value, options);
    case 'number':
      return Number.isFinite(value) ? value : String(value);
    case 'boolean':
    case 'undefined':
      return value;
    case 'bigint':
      return String(value);
    case 'object':
      return value === null ? null : convertObject(value, options, depth);
    case 'function':
    case 'symbol':
      return `[${typeof value}]`;
    default:
      return '[unknown]';
  }
}

function convertObject(value: object, options: SanitizeOptions, depth: number): unknown {
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Error) return convertError(value, options);
  if (value instanceof Date) return value.toISOString();
  if (depth >= depthMax) return '[deeper]';
  if (Array.isArray(value) || value instanceof Set) return plainItems([...value], options, depth);
  const entries: [unknown, unknown][] = value instanceof Map ? [...value] : Object.entries(value);
  return sanitizeFields(entries, options, depth + 1);
}

function plainItems(items: readonly unknown[], options: SanitizeOptions, depth: number): unknown[] {
  const plain = items.slice(0, itemsMax).map((item) => plainValue(item, options, depth + 1));
  return items.length <= itemsMax ? plain : [...plain, `[+${items.length - itemsMax}]`];
}

export function sanitizeFields(
  entries: readonly (readonly [unknown, unknown])[],
  options: SanitizeOptions,
  depth: number,
): Record<string, unknown> {
  const plain = entries.slice(0, itemsMax).map(([key, value]) => {
    const name = sanitizeText(String(key), options);
    return [
      name,
      secretNames.some((pattern) => pattern.test(name)) ? hidden : plainValue(value, options, depth),
    ] as const;
  });
  return Object.fromEntries(plain);
}

function convertError(error: Error, options: SanitizeOptions): Record<string, unknown> {
  const code = 'code' in error && typeof error.code === 'string' ? { code: sanitizeText(error.code, options) } : {};
  const stack = options.withStack && error.stack !== undefined ? { stack: sanitizeText(error.stack, options) } : {};
  return { name: sanitizeText(error.name, options), ...code, message: sanitizeText(error.message, options), ...stack };
}

/** Characters that JSON leaves alone but terminals and viewers act on: DEL, C1 controls, line and direction marks. */
const interpretedCharacters = /[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** JSON in which every such character is written as an escape; it parses to the same value. */
export function safeJson(value: unknown): string {
  const json = JSON.stringify(value) ?? 'null';
  return json.replaceAll(
    interpretedCharacters,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
