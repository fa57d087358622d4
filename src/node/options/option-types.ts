/** Value types of options: how each is parsed, printed and described. Parsing never throws; a problem is a sentence. */
import { namePattern } from '../../base/ids.ts';
import type { Address } from '../../base/ports.ts';

export type ParsedOption<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string };

export type OptionType<T> = {
  /** Placeholder of the value in help, for example `host:port,...`. */
  readonly syntax: string;
  readonly parse: (raw: unknown) => ParsedOption<T>;
  /** The value as an operator would type it. */
  readonly print: (value: T) => string;
};

function valid<T>(value: T): ParsedOption<T> {
  return { ok: true, value };
}

function invalid(problem: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem };
}

/** A value inside an error message: short, and safe in a log line. */
function quoted(raw: unknown): string {
  const text = JSON.stringify(raw) ?? String(raw);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

export function textOption(syntax: string, lengthMax = 4_096): OptionType<string> {
  return {
    syntax,
    parse: (raw) => {
      const value = typeof raw === 'number' ? String(raw) : raw;
      if (typeof value !== 'string' || value === '') return invalid(`must be text, not ${quoted(raw)}`);
      return value.length > lengthMax ? invalid(`must not exceed ${lengthMax} characters`) : valid(value);
    },
    print: (value) => value,
  };
}

export function textListOption(syntax: string, countMax: number): OptionType<readonly string[]> {
  return {
    syntax: `${syntax},...`,
    parse: (raw) => {
      const parts = splitList(raw);
      if (parts === undefined) return invalid(`must be ${syntax},..., not ${quoted(raw)}`);
      return parts.length > countMax ? invalid(`must not name more than ${countMax}`) : valid(parts);
    },
    print: (value) => (value.length === 0 ? '(none)' : value.join(',')),
  };
}

/** Text that is never printed, not even in an error about it. */
export function secretOption(syntax: string): OptionType<string> {
  return {
    syntax,
    parse: (raw) =>
      typeof raw === 'string' && raw !== '' && raw.length <= 4_096
        ? valid(raw)
        : invalid('must be text of 1 to 4096 characters'),
    print: () => '(hidden)',
  };
}

/** Several secret texts, one per line or as a list. */
export function secretListOption(syntax: string, countMax: number): OptionType<readonly string[]> {
  return {
    syntax,
    parse: (raw) => {
      const lines = typeof raw === 'string' ? raw.split('\n').map((line) => line.trim()) : raw;
      if (!Array.isArray(lines) || !lines.every((line) => typeof line === 'string'))
        return invalid('must be lines of text');
      const filled = lines.filter((line) => line !== '');
      return filled.length > countMax ? invalid(`must not hold more than ${countMax} lines`) : valid(filled);
    },
    print: (value) => (value.length === 0 ? '(none)' : `(${value.length} hidden)`),
  };
}

export function nameOption(syntax: string): OptionType<string> {
  return {
    syntax,
    parse: (raw) =>
      typeof raw === 'string' && namePattern.test(raw)
        ? valid(raw)
        : invalid(`must be lower-case letters, digits, '.', '_' or '-' (at most 63), not ${quoted(raw)}`),
    print: (value) => value,
  };
}

export function choiceOption<const T extends string>(choices: readonly T[]): OptionType<T> {
  return {
    syntax: choices.join('|'),
    parse: (raw) => {
      const word = choices.find((candidate) => candidate === raw);
      return word === undefined ? invalid(`must be one of ${choices.join(', ')}, not ${quoted(raw)}`) : valid(word);
    },
    print: (value) => value,
  };
}

/** One or more different words of a set, separated by commas or as a list. */
export function choiceListOption<const T extends string>(choices: readonly T[]): OptionType<readonly T[]> {
  return {
    syntax: choices.join(','),
    parse: (raw) => {
      const parts = splitList(raw);
      const known = parts?.map((part) => choices.find((word) => word === part));
      if (known === undefined || known.length === 0 || known.includes(undefined)) {
        return invalid(`must be one or more of ${choices.join(', ')}, not ${quoted(raw)}`);
      }
      return valid([...new Set(known as T[])]);
    },
    print: (value) => value.join(','),
  };
}

export type OptionRange = { readonly min: number; readonly max: number };

export function integerOption(syntax: string, range: OptionRange): OptionType<number> {
  return { syntax, parse: (raw) => inRange(toNumber(raw), range, 'a whole number', true, raw), print: String };
}

export function factorOption(range: OptionRange): OptionType<number> {
  return { syntax: 'factor', parse: (raw) => inRange(toNumber(raw), range, 'a number', false, raw), print: String };
}

export const portOption = integerOption('port', { min: 0, max: 65_535 });

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;

export function durationOption(range: OptionRange): OptionType<number> {
  return {
    syntax: 'duration',
    parse: (raw) => inRange(parseOptionDuration(raw), range, 'a duration such as 500ms, 5s, 2m or 1h', true, raw),
    print: formatDuration,
  };
}

export function formatDuration(ms: number): string {
  for (const unit of ['h', 'm', 's'] as const) {
    if (ms > 0 && ms % unitMs[unit] === 0) return `${ms / unitMs[unit]}${unit}`;
  }
  return `${ms}ms`;
}

/** Undefined for anything but a duration; a plain number means milliseconds. */
export function parseOptionDuration(raw: unknown): number | undefined {
  const plain = toNumber(raw);
  if (plain !== undefined) return plain;
  const [, amount, unit] = (typeof raw === 'string' && /^(\d+(?:\.\d+)?)\s*(ms|s|m|h)$/.exec(raw.trim())) || [];
  if (amount === undefined || unit === undefined) return undefined;
  return Math.round(Number(amount) * unitMs[unit as keyof typeof unitMs]);
}

export const booleanOption: OptionType<boolean> = {
  syntax: 'true|false',
  parse: (raw) => {
    if (typeof raw === 'boolean') return valid(raw);
    const word = typeof raw === 'string' ? raw.toLowerCase() : '';
    if (['true', 'yes', 'on', '1'].includes(word)) return valid(true);
    if (['false', 'no', 'off', '0'].includes(word)) return valid(false);
    return invalid(`must be true or false, not ${quoted(raw)}`);
  },
  print: String,
};

export function addressListOption(countMax: number): OptionType<readonly Address[]> {
  return {
    syntax: 'host:port,...',
    parse: (raw) => {
      const parts = splitList(raw);
      if (parts === undefined) return invalid(`must be host:port,..., not ${quoted(raw)}`);
      if (parts.length > countMax) return invalid(`must not name more than ${countMax} addresses`);
      const parsed = parts.map(parseHostPort);
      const wrong = parsed.indexOf(undefined);
      return wrong === -1 ? valid(parsed as Address[]) : invalid(`must be host:port,..., not ${quoted(parts[wrong])}`);
    },
    print: (value) => value.map(formatHostPort).join(','),
  };
}

/** Undefined for anything but an address. An IPv6 address is written in brackets. */
export function parseHostPort(text: string): Address | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([0-9a-fA-F:.%\w]+)\]|([^\s:/@[\]]+)):(\d{1,5})$/.exec(text.trim()) ?? [];
  const host = bracketed ?? plain;
  const number = Number(digits);
  return host === undefined || number < 1 || number > 65_535 ? undefined : { host, port: number };
}

export function formatHostPort(address: Address): string {
  return address.host.includes(':') ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
}

/** Hosts that no other machine can reach. */
export function isLoopbackHost(host: string): boolean {
  return /^(localhost|::1|(::ffff:)?127\.\d{1,3}\.\d{1,3}\.\d{1,3})$/i.test(host);
}

/** A value that may be absent. Absence cannot be typed: the option is just not given. */
export function optionalOption<T>(type: OptionType<T>): OptionType<T | undefined> {
  return { ...type, print: (value) => (value === undefined ? '(none)' : type.print(value)) };
}

function splitList(raw: unknown): string[] | undefined {
  if (typeof raw === 'string') {
    return raw
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== '');
  }
  return Array.isArray(raw) && raw.every((part) => typeof part === 'string') ? raw : undefined;
}

function toNumber(raw: unknown): number | undefined {
  if (typeof raw === 'number') return raw;
  return typeof raw === 'string' && /^-?\d+(\.\d+)?$/.test(raw.trim()) ? Number(raw) : undefined;
}

function inRange(
  value: number | undefined,
  range: OptionRange,
  what: string,
  wholeOnly: boolean,
  raw: unknown,
): ParsedOption<number> {
  if (value === undefined || !Number.isFinite(value) || (wholeOnly && !Number.isSafeInteger(value))) {
    return invalid(`must be ${what}, not ${quoted(raw)}`);
  }
  if (value < range.min || value > range.max)
    return invalid(`must be between ${range.min} and ${range.max}, not ${value}`);
  return valid(value);
}
