/**
 * Times of registration, all derived from the TTL, so that a short TTL in a test keeps every relation. Invariant: a
 * node doubts its registration before it expires, and it expires before the leader marks the node as lost.
 */
import { RemusterError } from '../base/errors.ts';
import { registryLimits } from '../base/registry.ts';

/** The mode of a late return: a node whose registration expired while others stayed registered. */
export const rejoinPolicies = ['drained', 'active', 'auto'] as const;
export type RejoinPolicy = (typeof rejoinPolicies)[number];

export type RegistrationOptions = {
  readonly ttlMs: number;
  /** After a successful renewal; a failed one is retried with backoff. */
  readonly renewAfterMs: number;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  /** For one registry request. */
  readonly callTimeoutMs: number;
  /** How long the registration certainly holds, counted from sending the last successful renewal. */
  readonly certainForMs: number;
  /** How long the leader waits after the registration has expired before it marks the node as lost. */
  readonly regrantDelayMs: number;
  /** For one reconcile of what this node holds. */
  readonly reconcileTimeoutMs: number;
  /** How long a starting node waits after a leader change for a survivor that confirms the epoch. */
  readonly survivorGraceMs: number;
  readonly rejoin: RejoinPolicy;
  /** With `rejoin: auto`: how long no renewal may fail before the node activates itself. */
  readonly rejoinHoldMs: number;
  /** The mode of a node that joins a running cluster for the first time. */
  readonly firstJoin: 'active' | 'drained';
};

const registrationTtlMs = 32_000;
const rejoinHoldMs = 60_000;

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
    rejoinHoldMs: rejoinHoldMs * scale,
    firstJoin: 'active',
    ...chosen,
  };
  check(options);
  return options;
}

function check({ ttlMs, renewAfterMs, certainForMs, backoffMaxMs, callTimeoutMs }: RegistrationOptions): void {
  if (ttlMs < registryLimits.ttlMsMin || ttlMs > registryLimits.ttlMsMax)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `a registration TTL of ${ttlMs} ms is out of bounds: ${registryLimits.ttlMsMin} to ${registryLimits.ttlMsMax} ms`,
    );
  if (renewAfterMs + callTimeoutMs + backoffMaxMs >= certainForMs)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `renewAfterMs + callTimeoutMs + backoffMaxMs must be below certainForMs (${Math.round(certainForMs)} ms): ` +
        'a failed renewal needs time for a retry',
    );
  if (certainForMs >= ttlMs)
    throw new RemusterError(
      'BAD_ARGUMENT',
      `certainForMs (${Math.round(certainForMs)} ms) must be below ttlMs (${ttlMs} ms)`,
    );
}
