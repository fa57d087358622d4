/** Counters and round-trip buckets of membership for the metrics. Nothing is decided by them. */

/** Upper bounds of the buckets, in milliseconds; what is longer is counted in the last one. */
export const rttBucketsMs = [0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000] as const;

export type MembershipCounterName =
  | 'probes'
  | 'acks'
  | 'probes.indirect'
  | 'probes.failed'
  | 'nacks'
  | 'suspicions'
  | 'suspicions.false'
  | 'refutations'
  | 'deaths'
  | 'gossip.claims'
  | 'syncs'
  | 'heartbeats'
  | 'pauses';

export class MembershipCounters {
  readonly #counts = new Map<string, number>();
  readonly #roundTrips = Array.from({ length: rttBucketsMs.length + 1 }, () => 0);
  #roundTripSumMs = 0;

  increment(what: MembershipCounterName, amount = 1): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + amount);
  }

  observeRtt(ms: number): void {
    const found = rttBucketsMs.findIndex((boundMs) => ms <= boundMs);
    const place = found < 0 ? rttBucketsMs.length : found;
    this.#roundTrips[place] = (this.#roundTrips[place] ?? 0) + 1;
    this.#roundTripSumMs += ms;
  }

  /** By name; a bucket is `rttCommand.<its place>`, their sum `rttCommand.sumUs`. */
  snapshot(): Readonly<Record<string, number>> {
    const buckets = this.#roundTrips.map((count, place) => [`roundTrip.${place}`, count] as const);
    const sum = ['roundTrip.sumUs', Math.round(this.#roundTripSumMs * 1_000)] as const;
    return Object.fromEntries([...this.#counts, ...buckets, sum]);
  }
}
