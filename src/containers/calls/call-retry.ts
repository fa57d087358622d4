/**
 * How long one call is retried, with which backoff, and after which errors. Two limits: the deadline of the call, and
 * the time since an owner last confirmed that it has the call. With a retry timeout of 0 the call is sent once, and only
 * its deadline limits it. Reads no clock.
 */
import { type ErrorCode, type RemusterError, withPossibleEffect } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { CallRouterOptions } from './call-options.ts';

/**
 * Owner hints followed without a delay; then the call backs off, so that nodes that contradict each other cost little.
 */
const hintsFollowedMax = 3;
/** A probe earlier than a round trip would only add load. */
const probeFloorMs = 50;

export class CallRetryBudget {
  readonly #deadlineMs: number;
  readonly #retryTimeoutMs: number;
  readonly mayRetry: boolean;
  /** Early enough that an owner can confirm the call before the retry limit. */
  readonly probeAfterMs: number;
  #ownerSeenMs: number;
  #backoffs = 0;
  #hintsFollowed = 0;

  constructor(nowMs: number, timeoutMs: number, retryTimeoutMs: number, probeAfterMs: number) {
    this.#deadlineMs = nowMs + timeoutMs;
    this.#retryTimeoutMs = retryTimeoutMs === 0 ? Infinity : retryTimeoutMs;
    this.mayRetry = retryTimeoutMs > 0;
    this.#ownerSeenMs = nowMs;
    this.probeAfterMs = Math.min(probeAfterMs, Math.max(probeFloorMs, this.#retryTimeoutMs / 3));
  }

  /** When the budget is exhausted unless an owner confirms the call. */
  get expiresAtMs(): number {
    return Math.min(this.#deadlineMs, this.#ownerSeenMs + this.#retryTimeoutMs);
  }

  remainingMs(nowMs: number): number {
    return Math.max(0, this.#deadlineMs - nowMs);
  }

  /** If both limits have passed, NETWORK_TIMEOUT says more. */
  exhausted(nowMs: number): 'NETWORK_TIMEOUT' | 'DEADLINE' | undefined {
    if (nowMs >= this.#ownerSeenMs + this.#retryTimeoutMs) return 'NETWORK_TIMEOUT';
    return nowMs >= this.#deadlineMs ? 'DEADLINE' : undefined;
  }

  ownerHasCall(nowMs: number): void {
    this.#ownerSeenMs = nowMs;
    this.#backoffs = 0;
    this.#hintsFollowed = 0;
  }

  /** Counts an owner hint. True: follow it without a delay. */
  mayFollowHint(): boolean {
    this.#hintsFollowed += 1;
    return this.#hintsFollowed <= hintsFollowedMax;
  }

  /** The call has waited for its whole backoff. */
  backoffElapsed(): void {
    this.#hintsFollowed = 0;
  }

  backoffMs(
    random: Random,
    { backoffMsMin, backoffMsMax }: Pick<CallRouterOptions, 'backoffMsMin' | 'backoffMsMax'>,
  ): number {
    const longestMs = Math.min(backoffMsMax, backoffMsMin * 2 ** this.#backoffs);
    this.#backoffs = Math.min(this.#backoffs + 1, 30);
    return longestMs * random.between(0.5, 1);
  }
}

/** The call is sent again, to the same owner or the next. Any other code is the result of the call. */
const retryableErrors: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  // No reply, or the connection broke: the owner may be gone, and another one follows.
  'UNREACHABLE',
  'NETWORK_TIMEOUT',
  // The node is not the owner, or no longer.
  'STALE_TABLE',
  'FENCED',
  // The owner cannot serve now: it will again, or another owner will.
  'NO_QUORUM',
  'NOT_LEADER',
  'LEASE_EXPIRED',
  // The container is moving to another node.
  'PLUGGED',
  'DRAINED',
  // An inbox or a queue is full.
  'CAPACITY',
  'RATE_LIMITED',
  // This node knows the pool and the container; the table of the other node lags behind.
  'UNKNOWN_POOL',
  'UNKNOWN_CONTAINER',
  // The disk of the owner failed: the container opens on another replica.
  'STORE_FAILED',
  'STORE_CORRUPT',
]);

/**
 * Errors that a method throws. The container records them as the result of the call id, so they hold for all attempts.
 * Any other error describes its own attempt only.
 */
const recordedErrors: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'BAD_ARGUMENT',
  'CALL_FAILED',
  'FORBIDDEN',
  'PRECONDITION',
  'TOO_LARGE',
  'UNKNOWN_KEY',
]);

/** The error of a call of which an earlier attempt may have had an effect. */
export function afterUncertainAttempt(error: RemusterError): RemusterError {
  return recordedErrors.has(error.code) ? error : withPossibleEffect(error);
}

/**
 * A retry is safe, because the container remembers call ids. STORE_FULL is final: an operator has to make room first.
 */
export function isRetryableCallError(code: ErrorCode): boolean {
  return retryableErrors.has(code);
}
