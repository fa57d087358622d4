/**
 * Renews the lease of the registration and knows until when it certainly holds, counted from sending the last good
 * renewal. The registry received it later, so its own count ends later. Never gives up.
 */
import type { Outcome } from '../base/errors.ts';
import type { Random } from '../base/random.ts';
import type { LeaseId } from '../base/registry.ts';
import type { RegistrationOutbox } from './registration-types.ts';
import type { RegistrationOptions } from './registration-options.ts';

const formerLeasesMax = 16;

export class LeaseRenewal {
  readonly #options: RegistrationOptions;
  readonly #random: Random;
  readonly #out: RegistrationOutbox;
  /** All of this life, so that an answer that came late is recognised. */
  readonly #leases = new Set<LeaseId>();
  #lease: LeaseId | undefined;
  /** Less than one if the registry grants less than was asked for. */
  #share = 1;
  #goodSentMs = 0;
  #call: number | undefined;
  #sentMs = 0;
  #failures = 0;
  #lastFailureMs = 0;

  constructor(options: RegistrationOptions, random: Random, out: RegistrationOutbox) {
    this.#options = options;
    this.#random = random;
    this.#out = out;
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
    for (const oldest of this.#leases) if (this.#leases.size > formerLeasesMax) this.#leases.delete(oldest);
    this.#share = Math.min(1, grantedMs / this.#options.ttlMs);
    this.#goodSentMs = sentMs;
    this.#call = undefined;
    this.#succeeded(lease);
  }

  /** The registry does not know the lease any more, or nobody needs it. */
  end(): void {
    this.#lease = undefined;
  }

  onDue(lease: LeaseId): void {
    if (lease !== this.#lease || this.#call !== undefined) return;
    this.#call = this.#out.newCall();
    this.#sentMs = this.#out.nowMs;
    this.#out.push({ kind: 'renew', call: this.#call, lease });
  }

  /** Undefined: nobody waits for this answer any more. */
  onReply(call: number, outcome: Outcome<unknown>): 'good' | 'failed' | 'expired' | undefined {
    const lease = this.#lease;
    if (call !== this.#call || lease === undefined) return undefined;
    this.#call = undefined;
    if (outcome.ok) {
      this.#goodSentMs = Math.max(this.#goodSentMs, this.#sentMs);
      this.#succeeded(lease);
      return 'good';
    }
    this.#lastFailureMs = this.#out.nowMs;
    if (outcome.error.code === 'LEASE_EXPIRED') {
      this.end();
      return 'expired';
    }
    this.#out.scheduleIn(registrationBackoffMs(this.#options, this.#failures, this.#random) * this.#share, {
      kind: 'renew',
      lease,
    });
    this.#failures += 1;
    return 'failed';
  }

  /** Nobody else can have been given what we hold. */
  isCertainlyHeld(nowMs: number): boolean {
    return this.#lease !== undefined && nowMs < this.#goodSentMs + this.#options.certainForMs * this.#share;
  }

  isOver(nowMs: number): boolean {
    return this.#lease === undefined || this.sinceRenewalMs(nowMs) > this.#options.ttlMs * this.#share;
  }

  sinceRenewalMs(nowMs: number): number {
    return nowMs - this.#goodSentMs;
  }

  #succeeded(lease: LeaseId): void {
    this.#failures = 0;
    const { renewAfterMs, certainForMs, ttlMs } = this.#options;
    const sinceSentMs = this.sinceRenewalMs(this.#out.nowMs);
    this.#out.scheduleIn(renewAfterMs * this.#share, { kind: 'renew', lease });
    this.#out.scheduleIn(certainForMs * this.#share - sinceSentMs, { kind: 'lease' });
    this.#out.scheduleIn(ttlMs * this.#share - sinceSentMs + 1, { kind: 'lease' });
  }
}

/** Doubles up to the maximum. The jitter only shortens, so that the maximum is one. */
export function registrationBackoffMs(
  { backoffMinMs, backoffMaxMs }: Pick<RegistrationOptions, 'backoffMinMs' | 'backoffMaxMs'>,
  failures: number,
  random: Random,
): number {
  return Math.min(backoffMaxMs, backoffMinMs * 2 ** Math.min(failures, 16)) * random.between(0.75, 1);
}
