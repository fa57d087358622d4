/**
 * Runs the `aggregate` of a method over the results of a fan-out, within the deadline. It is user code: if it throws,
 * the call ends with CALL_FAILED. Without the module on this node the caller gets the parts.
 */
import {
  type Done,
  type Outcome,
  RemusterError,
  failure,
  isRemusterError,
  success,
  withPossibleEffect,
} from '../../base/errors.ts';
import { isThenable } from '../../base/runtime/thenable.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import { decodeValue, encodeValue } from '../../messages/codec/value.ts';
import type { CallResult } from '../contract.ts';
import type { MethodSpec, ModuleDefinition } from '../module.ts';
import type { SuccessfulPart } from './fan-out.ts';
import { errorText } from './route.ts';

export class Aggregation {
  readonly #done: Done<CallResult>;
  #cancelDeadline: Cancel = () => {};
  #hasEnded = false;

  constructor(done: Done<CallResult>) {
    this.#done = done;
  }

  /** `done` may be called before this returns. */
  start(aggregate: MethodSpec['aggregate'], parts: readonly SuccessfulPart[], clock: Clock, timeoutMs: number): void {
    if (aggregate === undefined) return this.#end(success({ parts }));
    const result = tryOutcome((): unknown => aggregate(parts.map(({ value }) => decodeValue(value))));
    if (!result.ok) return this.#end(result);
    if (!isThenable(result.value)) return this.#end(tryOutcome(() => ({ value: encodeValue(result.value) })));
    this.#cancelDeadline = clock.schedule(timeoutMs, () =>
      this.#end(failure('DEADLINE', 'aggregate did not end in time')),
    );
    void this.#settle(result.value);
  }

  cancel(): void {
    this.#end(failure('CANCELLED'));
  }

  async #settle(result: PromiseLike<unknown>): Promise<void> {
    try {
      const value = encodeValue(await result);
      this.#end(success({ value }));
    } catch (error) {
      this.#end({ ok: false, error: aggregateFailure(error) });
    }
  }

  #end(outcome: Outcome<CallResult>): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#cancelDeadline();
    this.#done(outcome);
  }
}

export function aggregateMethodOf(definition: ModuleDefinition | undefined, method: string): MethodSpec['aggregate'] {
  if (definition === undefined || !Object.hasOwn(definition.methods, method)) return undefined;
  const spec = definition.methods[method];
  return typeof spec === 'object' ? spec.aggregate : undefined;
}

function tryOutcome<T>(run: () => T): Outcome<T> {
  try {
    return success(run());
  } catch (error) {
    return { ok: false, error: aggregateFailure(error) };
  }
}

/** All containers have run the method, so state may have changed. */
export function aggregateFailure(error: unknown): RemusterError {
  if (isRemusterError(error)) return withPossibleEffect(error);
  return new RemusterError('CALL_FAILED', `aggregate: ${errorText(error)}`, 'maybe');
}
