/**
 * Calls a port's callback in a microtask: never before the call returned; its errors surface as uncaught exceptions,
 * never inside the port.
 */
import type { Done, Outcome } from '../../base/errors.ts';

export function callInMicrotask<T>(done: Done<T>, outcome: Outcome<T>): void {
  queueMicrotask(() => done(outcome));
}
