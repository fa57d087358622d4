/** Counters and round-trip buckets of membership for the metrics. The protocol never reads them. */

/** Upper bounds of the buckets; one more bucket counts what is longer. */
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

  increment(name: MembershipCounterName, amount = 1): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + amount);
  }

  observeRtt(ms: number): void {
    const found = rttBucketsMs.findIndex((boundMs) => ms <= boundMs);
    const index = found < 0 ? rttBucketsMs.length : found;
    this.#roundTrips[index] = (this.#roundTrips[index] ?? 0) + 1;
    this.#roundTripSumMs += ms;
  }

  /** By name; a bucket is `roundTrip.<index>`, the sum of all samples `roundTrip.sumUs`. */
  snapshot(): Readonly<Record<string, number>> {
    const buckets = this.#roundTrips.map((count, index) => [`roundTrip.${index}`, count] as const);
    const sum = ['roundTrip.sumUs', Math.round(this.#roundTripSumMs * 1_000)] as const;
    return Object.fromEntries([...this.#counts, ...buckets, sum]);
  }
}
