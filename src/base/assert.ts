/**
 * Assertions that stay on in production. A failed one is a bug of this package; bad input is a coded error (errors.ts).
 */

/** Never caught, retried or sent to a peer. */
export class AssertionFailed extends Error {
  override readonly name = 'AssertionFailed';
}

export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionFailed(message);
}

/** Ends a switch over a union: the compiler proves that it is unreachable, and the process throws if it is reached. */
export function unreachable(value: never): never {
  throw new AssertionFailed(`unreachable: ${JSON.stringify(value)}`);
}
