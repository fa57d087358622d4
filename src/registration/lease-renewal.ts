/**
 * Renews the lease of the registration, and tracks until when it certainly holds. That time counts from sending the
 * last successful renewal, so it ends before the registry expires the lease. Never gives up.
 */
import type { Outcome } from '../base/errors.ts';
import type { Random } from '../base/random.ts';
import type { LeaseId } from '../base/registry.ts';
import type { RegistrationOutbox } from './registration-types.ts';
import type { RegistrationOptions } from './registration-options.ts';

const previousLeasesMax = 16;

export class LeaseRenewal {
  readonly #options: RegistrationOptions;
  readonly #random: Random;
  readonly #outbox: RegistrationOutbox;
  /** The latest leases of this process, so that the effect of a lost reply is recognised. */
  readonly #leases = new Set<LeaseId>();
  #lease: LeaseId | undefined;
  /** Granted TTL by requested TTL, at most 1. */
  #grantedRatio = 1;
  /** When the last successful renewal was sent. */
  #renewedSentMs = 0;
  #call: number | undefined;
  #sentMs = 0;
  #failures = 0;
  #lastFailureMs = 0;

  constructor(options: RegistrationOptions, random: Random, outbox: RegistrationOutbox) {
    this.#options = options;
    this.#random = random;
    this.#outbox = outbox;
  }

  get lease(): LeaseId | undefined {
    return this.#lease;
  }

  get leases(): ReadonlySet<LeaseId> {
    return this.#leases;
  }

  get lastFailureMs(): number {
    return this.#lastFailureMs;
  }

  begin(lease: LeaseId, sentMs: number, grantedMs: number): void {
    this.#lease = lease;
    this.#leases.add(lease);
    for (const oldest of this.#leases) if (this.#leases.size > previousLeasesMax) this.#leases.delete(oldest);
    this.#grantedRatio = Math.min(1, grantedMs / this.#options.ttlMs);
    this.#renewedSentMs = sentMs;
    this.#call = undefined;
    this.#onSuccess(lease);
  }

  /** The lease has expired, or is no longer needed. */
  end(): void {
    this.#lease = undefined;
  }

  onDue(lease: LeaseId): void {
    if (lease !== this.#lease || this.#call !== undefined) return;
    this.#call = this.#outbox.newCall();
    this.#sentMs = this.#outbox.nowMs;
    this.#outbox.push({ kind: 'renew', call: this.#call, lease });
  }

  /** Undefined for a reply that is no longer waited for. */
  onReply(call: number, outcome: Outcome<unknown>): 'renewed' | 'failed' | 'expired' | undefined {
    const lease = this.#lease;
    if (call !== this.#call || lease === undefined) return undefined;
    this.#call = undefined;
    if (outcome.ok) {
      this.#renewedSentMs = Math.max(this.#renewedSentMs, this.#sentMs);
      this.#onSuccess(lease);
      return 'renewed';
    }
    this.#lastFailureMs = this.#outbox.nowMs;
    if (outcome.error.code === 'LEASE_EXPIRED') {
      this.end();
      return 'expired';
    }
    this.#outbox.scheduleIn(registrationBackoffMs(this.#options, this.#failures, this.#random) * this.#grantedRatio, {
      kind: 'renew',
      lease,
    });
    this.#failures += 1;
    return 'failed';
  }

  /** No other node can have taken over from this one. */
  isCertainlyHeld(nowMs: number): boolean {
    return this.#lease !== undefined && nowMs < this.#renewedSentMs + this.#options.certainForMs * this.#grantedRatio;
  }

  isOver(nowMs: number): boolean {
    return this.#lease === undefined || this.sinceRenewalMs(nowMs) > this.#options.ttlMs * this.#grantedRatio;
  }

  sinceRenewalMs(nowMs: number): number {
    return nowMs - this.#renewedSentMs;
  }

  #onSuccess(lease: LeaseId): void {
    this.#failures = 0;
    const { renewAfterMs, certainForMs, ttlMs } = this.#options;
    const sinceSentMs = this.sinceRenewalMs(this.#outbox.nowMs);
    this.#outbox.scheduleIn(renewAfterMs * this.#grantedRatio, { kind: 'renew', lease });
    this.#outbox.scheduleIn(certainForMs * this.#grantedRatio - sinceSentMs, { kind: 'lease' });
    this.#outbox.scheduleIn(ttlMs * this.#grantedRatio - sinceSentMs + 1, { kind: 'lease' });
  }
}

/** Doubles up to the maximum. Jitter only shortens the delay, so it never exceeds the maximum. */
export function registrationBackoffMs(
  { backoffMinMs, backoffMaxMs }: Pick<RegistrationOptions, 'backoffMinMs' | 'backoffMaxMs'>,
  failures: number,
  random: Random,
): number {
  return Math.min(backoffMaxMs, backoffMinMs * 2 ** Math.min(failures, 16)) * random.between(0.75, 1);
}
