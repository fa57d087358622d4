/**
 * What an error means for a call that is looking for its owner: an answer, or a reason to send it again. Sending again
 * is always safe, because the call id is the same and the container remembers what it has run. A code that is not here
 * is an answer.
 */
import { type ErrorCode, type RemusterError, withPossibleEffect } from '../../base/errors.ts';

const retryable: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  // Nobody answered, or the connection broke: the owner may be gone, and another one comes.
  'UNREACHABLE',
  'NETWORK_TIMEOUT',
  // It was not the owner, or no longer: look again.
  'STALE_TABLE',
  'FENCED',
  // The owner may not serve at this moment; it will again, or another one will.
  'NO_QUORUM',
  'NOT_LEADER',
  'LEASE_EXPIRED',
  // It is on its way to another node.
  'PLUGGED',
  'DRAINED',
  // Its inbox or a queue on the way is full.
  'CAPACITY',
  'RATE_LIMITED',
  // We know the pool and the container; the one who was asked does not know them yet.
  'UNKNOWN_POOL',
  'UNKNOWN_CONTAINER',
  // The disk of the owner failed: the container is closed there, and opened where a copy is whole.
  'STORE_FAILED',
  'STORE_CORRUPT',
]);

/**
 * What a method throws. The container remembers it as the answer of the call id, so an earlier attempt cannot have done
 * anything else. Any other refusal speaks of its own attempt only.
 */
const remembered: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'BAD_ARGUMENT',
  'CALL_FAILED',
  'FORBIDDEN',
  'PRECONDITION',
  'TOO_LARGE',
  'UNKNOWN_KEY',
]);

/** `error` ends a request of which an earlier attempt may have had an effect. */
export function afterUncertainAttempt(error: RemusterError): RemusterError {
  return remembered.has(error.code) ? error : withPossibleEffect(error);
}

/** STORE_FULL is no reason to wait: somebody has to make room first. */
export function isRetryableCallError(code: ErrorCode): boolean {
  return retryable.has(code);
}
