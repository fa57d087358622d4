/**
 * How long one call looks for its owner, and its backoff. Two limits: the call's deadline, and the time since an owner
 * last said that it has the call. Reads no clock.
 */
import type { Random } from '../../base/random.ts';
import type { CallRouterOptions } from './call-options.ts';

/** New owners that are followed at once; after that a pause, so that nodes which contradict each other cost little. */
const correctionsMax = 3;
/** Sooner than a round trip takes, asking again would only add load. */
const probeFloorMs = 50;

export class CallRetryBudget {
  readonly #deadlineMs: number;
  readonly #retryTimeoutMs: number;
  /** Often enough that an owner which has the call can say so before the retries are over. */
  readonly probeAfterMs: number;
  #inHandMs: number;
  #pauses = 0;
  #corrections = 0;

  constructor(nowMs: number, timeoutMs: number, retryTimeoutMs: number, probeAfterMs: number) {
    this.#deadlineMs = nowMs + timeoutMs;
    this.#retryTimeoutMs = retryTimeoutMs;
    this.#inHandMs = nowMs;
    this.probeAfterMs = Math.min(probeAfterMs, Math.max(probeFloorMs, retryTimeoutMs / 3));
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
