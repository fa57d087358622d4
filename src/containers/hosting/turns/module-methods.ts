/** The methods of a module by name, the decoding of arguments, and the error that a caller gets. Runs nothing. */
import { isRemusterError, RemusterError, withPossibleEffect, withStateChanged } from '../../../base/errors.ts';
import { decodeValue } from '../../../messages/codec/value.ts';
import { type Context, toMethodError, type ModuleDefinition } from '../../module.ts';
import { isStreamingMethod } from '../../pool-handle.ts';

export type ModuleMethod = {
  readonly name: string;
  readonly isReadonly: boolean;
  /** Declared as an async generator: callers get a result stream. */
  readonly isStreaming: boolean;
  readonly run: (ctx: Context, ...args: unknown[]) => unknown;
};

const messageCharactersMax = 4_000;

/** `others`: the methods that every container has. */
export function methodsOf(
  definition: ModuleDefinition,
  others: readonly ModuleMethod[] = [],
): ReadonlyMap<string, ModuleMethod> {
  const methods = new Map<string, ModuleMethod>();
  for (const [name, spec] of Object.entries(definition.methods)) {
    const run = typeof spec === 'function' ? spec : spec.run;
    const isReadonly = typeof spec === 'object' && spec.readonly === true;
    methods.set(name, { name, isReadonly, isStreaming: isStreamingMethod(spec), run });
  }
  for (const method of others) methods.set(method.name, method);
  return methods;
}

/** Throws BAD_ARGUMENT if the bytes are not an encoded list. */
export function decodeArgs(bytes: Uint8Array): unknown[] {
  let args: unknown;
  try {
    args = decodeValue(bytes);
  } catch {
    args = undefined;
  }
  if (!Array.isArray(args))
    throw new RemusterError('BAD_ARGUMENT', 'malformed arguments: give an encoded list of values');
  return args;
}

/**
 * The error that the caller of a method gets; the changes of the method are dropped. STORE_FULL keeps its code: it is
 * no mistake of the method. `hasCalled`: changes in other containers may stay.
 */
export function methodFailure(thrown: unknown, hasCalled = false): RemusterError {
  const own = isRemusterError(thrown, 'STORE_FULL') ? thrown : toMethodError(thrown);
  const error = hasCalled ? withPossibleEffect(own) : withStateChanged(own, 'no');
  if (error.message.length <= messageCharactersMax) return error;
  return new RemusterError(error.code, error.message.slice(0, messageCharactersMax), error.stateChanged);
}

/**
 * Callers know from the declaration whether they get a result stream, so a plain function cannot return one: its callers
 * would await a value.
 */
export function undeclaredStream(name: string): TypeError {
  return new TypeError(`${name} returns an async generator: declare the method as async function*`);
}

export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
