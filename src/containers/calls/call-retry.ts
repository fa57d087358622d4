/**
 * How long one call goes on looking for its owner, and in which rhythm. Pure: it is told the time. Two limits: the
 * call's own deadline, which nothing puts off, and the time since somebody last had the call in hand. Only the word of
 * an owner that it has the call puts that one off; a connection that merely stands does not.
 */
import type { Random } from '../../base/random.ts';
import type { CallRouterOptions } from './call-options.ts';

/** New owners that are followed at once; after that a pause, so that nodes which contradict each other cost little. */
const correctionsMax = 3;

export class CallRetryBudget {
  readonly #deadlineMs: number;
  readonly #retryTimeoutMs: number;
  #inHandMs: number;
  #pauses = 0;
  #corrections = 0;

  constructor(nowMs: number, timeoutMs: number, retryTimeoutMs: number) {
    this.#deadlineMs = nowMs + timeoutMs;
    this.#retryTimeoutMs = retryTimeoutMs;
    this.#inHandMs = nowMs;
  }

  /** When it is over, as things are now. */
  get expiresAtMs(): number {
    return Math.min(this.#deadlineMs, this.#inHandMs + this.#retryTimeoutMs);
  }

  remainingMs(nowMs: number): number {
    return Math.max(0, this.#deadlineMs - nowMs);
  }

  /** Of both limits the one about the network is told first: it says more. */
  exhausted(nowMs: number): 'NETWORK_TIMEOUT' | 'DEADLINE' | undefined {
    if (nowMs >= this.#inHandMs + this.#retryTimeoutMs) return 'NETWORK_TIMEOUT';
    return nowMs >= this.#deadlineMs ? 'DEADLINE' : undefined;
  }

  ownerHasCall(nowMs: number): void {
    this.#inHandMs = nowMs;
    this.#pauses = 0;
    this.#corrections = 0;
  }

  /** Somebody named another owner: may it be followed at once? */
  mayFollowHint(): boolean {
    this.#corrections += 1;
    return this.#corrections <= correctionsMax;
  }

  /** A pause has passed to its end. */
  backoffElapsed(): void {
    this.#corrections = 0;
  }

  backoffMs(
    random: Random,
    { backoffMsMin, backoffMsMax }: Pick<CallRouterOptions, 'backoffMsMin' | 'backoffMsMax'>,
  ): number {
    const longestMs = Math.min(backoffMsMax, backoffMsMin * 2 ** this.#pauses);
    this.#pauses = Math.min(this.#pauses + 1, 30);
    return longestMs * random.between(0.5, 1);
  }
}
