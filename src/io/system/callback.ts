/**
 * Runs the callback of a port in a microtask: never before the call that it belongs to has returned. An error of the
 * callback surfaces as an uncaught exception, never inside the port.
 */
import type { Done, Outcome } from '../../base/errors.ts';

export function callInMicrotask<T>(done: Done<T>, outcome: Outcome<T>): void {
  queueMicrotask(() => done(outcome));
}
