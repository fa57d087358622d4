/**
 * Assertions that stay on in production. They report bugs of ours; bad input from outside is a coded error (errors.ts).
 * Never caught, retried or sent to a peer.
 */

/** Thrown when the program itself is wrong. It is never sent to a peer and never retried. */
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
