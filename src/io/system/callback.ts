/**
 * How the real ports call back: in a microtask of its own. So an ending never comes before the call has returned, and
 * an error thrown by the callback surfaces as an uncaught exception instead of disturbing the port or ending in a promise.
 */
import type { Done, Outcome } from '../../base/errors.ts';

export function callInMicrotask<T>(done: Done<T>, outcome: Outcome<T>): void {
  queueMicrotask(() => done(outcome));
}
