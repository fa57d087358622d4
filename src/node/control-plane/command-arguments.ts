/** Validates the JSON arguments of a command, which may come from any client or node. Throws BAD_ARGUMENT. */
import { RemusterError } from '../../base/errors.ts';
import { noteCharactersMax } from '../../registration/registration-records.ts';

export type CommandArguments = Readonly<Record<string, unknown>>;

export function commandArguments(args: unknown): CommandArguments {
  if (typeof args === 'object' && args !== null && !Array.isArray(args)) return args as CommandArguments;
  throw new RemusterError('BAD_ARGUMENT', 'the arguments of a command must be a JSON object');
}

/** Undefined if the field is absent. */
export function integerArgument(
  args: CommandArguments,
  field: string,
  bounds: { min: number; max: number },
): number | undefined {
  const value = args[field];
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= bounds.min && value <= bounds.max)
    return value;
  throw new RemusterError('BAD_ARGUMENT', `${field} must be a whole number from ${bounds.min} to ${bounds.max}`);
}

export function booleanArgument(args: CommandArguments, field: string): boolean {
  const value = args[field] ?? false;
  if (typeof value === 'boolean') return value;
  throw new RemusterError('BAD_ARGUMENT', `${field} must be true or false`);
}

/** The reason that the operator gave; '' if none. */
export function reasonArgument({ reason = '' }: CommandArguments): string {
  if (typeof reason === 'string' && reason.length <= noteCharactersMax) return reason;
  throw new RemusterError('BAD_ARGUMENT', `reason must be text of at most ${noteCharactersMax} characters`);
}
