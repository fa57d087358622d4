/**
 * Why bytes from the network were rejected: a counter, and at most one log line per reason and interval, so that an
 * attacker cannot fill the disk.
 */
import { isRemusterError } from '../../../base/errors.ts';
import type { Clock, Log } from '../../../base/ports.ts';
import type { TransportCounters, Rejection } from './transport-counters.ts';

export class RejectedError extends Error {
  override readonly name = 'RejectedError';
  readonly reason: Rejection;

  constructor(reason: Rejection) {
    super(reason);
    this.reason = reason;
  }
}

/** Undefined for an error that is not caused by received bytes, but by a bug of this node. */
export function rejectionReasonOf(error: unknown): Rejection | undefined {
  if (error instanceof RejectedError) return error.reason;
  if (isRemusterError(error, 'TOO_LARGE')) return 'tooLarge';
  if (isRemusterError(error, 'UNAUTHENTICATED')) return 'unauthenticated';
  if (isRemusterError(error, 'INCOMPATIBLE_VERSION')) return 'version';
  return isRemusterError(error, 'MALFORMED') ? 'malformed' : undefined;
}

/** A detail for the log, on which an operator can act. */
export function detailOf(error: unknown): string | undefined {
  return isRemusterError(error, 'INCOMPATIBLE_VERSION') ? `${error.code}: ${error.message}` : undefined;
}

const logIntervalMs = 10_000;

export class RejectionLog {
  readonly #counters: TransportCounters;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #loggedAtMs = new Map<Rejection, number>();

  constructor(counters: TransportCounters, clock: Clock, log: Log) {
    this.#counters = counters;
    this.#clock = clock;
    this.#log = log;
  }

  count(reason: Rejection, from: string, detail?: string): void {
    this.#counters.reject(reason);
    const nowMs = this.#clock.nowMs();
    if (nowMs - (this.#loggedAtMs.get(reason) ?? -Infinity) < logIntervalMs) return;
    this.#loggedAtMs.set(reason, nowMs);
    // Every session starts with an unproven datagram: not worth a warning.
    this.#log(reason === 'unproven' ? 'debug' : 'warn', 'refused', {
      reason,
      from,
      ...(detail === undefined ? {} : { detail }),
    });
  }
}
