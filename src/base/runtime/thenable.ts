/** Tells promises of user code from plain values. Accepts any object with a `then` method, as `await` does. */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function';
}
