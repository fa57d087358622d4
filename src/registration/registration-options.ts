/**
 * Times of registration, all derived from the TTL, so that a short one in a test keeps every relation. Invariant: stop
 * certain < registration over < given to another node.
 */
import { RemusterError } from '../base/errors.ts';
import { registryLimits } from '../base/registry.ts';

/** What becomes of a node that returns after its registration ran out while others went on. */
export const rejoinPolicies = ['drained', 'active', 'auto'] as const;
export type RejoinPolicy = (typeof rejoinPolicies)[number];

export type RegistrationOptions = {
  readonly ttlMs: number;
  /** After a successful renewal. After a failed one only the backoff counts. */
  readonly renewAfterMs: number;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  /** For one call to the registry. */
  readonly callTimeoutMs: number;
  /** Since the last good renewal was sent: so long the registration is certainly held. */
  readonly certainForMs: number;
  /** How much longer than the registration the leader waits before it gives things to others. */
  readonly regrantDelayMs: number;
  /** For one attempt to confirm what this node holds. */
  readonly reconcileTimeoutMs: number;
  /** How long a starting node waits for a sign that somebody lived on while the leader changed. */
  readonly survivorGraceMs: number;
  readonly rejoin: RejoinPolicy;
  /** With `rejoin: auto`: without a failed renewal. */
  readonly rejoinHoldMs: number;
  /** How a node that was never here enters a cluster that is already running. */
  readonly firstJoin: 'active' | 'drained';
};

const registrationTtlMs = 32_000;
const rejoinAfterMs = 60_000;

export function registrationOptions(chosen: Partial<RegistrationOptions> = {}): RegistrationOptions {
  const ttlMs = chosen.ttlMs ?? registrationTtlMs;
  const scale = ttlMs / registrationTtlMs;
  const options: RegistrationOptions = {
    ttlMs,
    renewAfterMs: ttlMs / 3,
    backoffMinMs: 1_000 * scale,
    backoffMaxMs: 5_000 * scale,
    callTimeoutMs: 4_000 * scale,
    certainForMs: 0.8 * ttlMs,
    regrantDelayMs: 0.1 * ttlMs,
    reconcileTimeoutMs: 20_000 * scale,
    survivorGraceMs: 2_000 * scale,
    rejoin: 'drained',
    rejoinHoldMs: rejoinAfterMs * scale,
    firstJoin: 'active',
    ...chosen,
  };
  check(options);
  return options;
}

function check({ ttlMs, renewAfterMs, certainForMs, backoffMaxMs, callTimeoutMs }: RegistrationOptions): void {
  if (ttlMs < registryLimits.ttlMsMin || ttlMs > registryLimits.ttlMsMax)
    throw new RemusterError('BAD_ARGUMENT', `a registration of ${ttlMs} ms is out of bounds`);
  if (renewAfterMs + callTimeoutMs + backoffMaxMs >= certainForMs)
    throw new RemusterError(
      'BAD_ARGUMENT',
      'a renewal that fails once must have time for another while the registration is certain',
    );
  if (certainForMs >= ttlMs)
    throw new RemusterError('BAD_ARGUMENT', 'a registration must be in doubt (certainForMs) before it is over');
}
