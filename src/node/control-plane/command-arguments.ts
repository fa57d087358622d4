/** Validates the JSON arguments of a command. Trusts nothing. */
import { RemusterError } from '../../base/errors.ts';
import { noteCharactersMax } from '../../registration/registration-records.ts';

export type CommandArguments = Readonly<Record<string, unknown>>;

export function commandArguments(words: unknown): CommandArguments {
  if (typeof words === 'object' && words !== null && !Array.isArray(words)) return words as CommandArguments;
  throw new RemusterError('BAD_ARGUMENT', 'an order has fields');
}

/** Undefined when it is left out. */
export function integerArgument(
  words: CommandArguments,
  field: string,
  bounds: { min: number; max: number },
): number | undefined {
  const value = words[field];
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= bounds.min && value <= bounds.max)
    return value;
  throw new RemusterError('BAD_ARGUMENT', `${field} must be a whole number from ${bounds.min} to ${bounds.max}`);
}

export function booleanArgument(words: CommandArguments, field: string): boolean {
  const value = words[field] ?? false;
  if (typeof value === 'boolean') return value;
  throw new RemusterError('BAD_ARGUMENT', `${field} must be true or false`);
}

/** What the operator gave as the reason; '' when nothing. */
export function reasonArgument({ reason = '' }: CommandArguments): string {
  if (typeof reason === 'string' && reason.length <= noteCharactersMax) return reason;
  throw new RemusterError('BAD_ARGUMENT', `a reason is a text of at most ${noteCharactersMax} characters`);
}
