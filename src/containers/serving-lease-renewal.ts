/**
 * When to request the serving lease and until when it holds, counted from the sending of the request.
 *
 *   request --granted--> holds until 0.8 of the lease after the request; renewed after a fifth of the lease
 *           --no reply, refused--> retried sooner, with jitter; the last grant still holds until its end
 *           --table behind--> retried soon
 *           --superseded--> a later generation of this node, or the registry of another group: ends at once
 *
 * The leader reassigns containers after 1.1 of the lease at the earliest, which leaves room for clock drift. A reply of
 * an older term is ignored. A grant may arrive after containers were reassigned: then it counts only when the address
 * table shows that too, so that the node never serves a container that it no longer owns.
 */
import type { TimerExpired, Schedule, CancelTimer } from '../base/runtime/loop.ts';
import type { Random } from '../base/random.ts';
import type { RegistryEpoch } from '../base/registry.ts';
import { groupIdOf } from '../base/registry-epoch.ts';

export type ReceivedServingGrant = {
  readonly leaseMs: number;
  readonly term: number;
  /** The revision that the address table must have applied first; see the message. */
  readonly revokedRevision: number;
};

export type ServingLeaseReply =
  | ({ readonly kind: 'granted' } & ReceivedServingGrant)
  /** A later generation of this node exists, or the leader belongs to another manager group. */
  | { readonly kind: 'superseded' }
  /** The address table has not applied the required revision yet. */
  | { readonly kind: 'behind' }
  | { readonly kind: 'failed' };

export type ServingLeaseTimer = { readonly kind: 'request'; readonly id: number } | { readonly kind: 'end' };

export type ServingLeaseInput =
  | { readonly kind: 'start' }
  | { readonly kind: 'leaderChanged' }
  /** The address table has applied that revision. */
  | { readonly kind: 'applied'; readonly revision: number; readonly epoch: RegistryEpoch }
  | { readonly kind: 'replied'; readonly id: number; readonly reply: ServingLeaseReply }
  | TimerExpired<ServingLeaseTimer>;

export type ServingLeaseEffect =
  /** Replaces any earlier request. Ends with the input `replied` with this id, within the timeout. */
  | { readonly kind: 'request'; readonly id: number; readonly timeoutMs: number }
  | { readonly kind: 'report'; readonly holds: boolean };

type Effect = ServingLeaseEffect | Schedule<ServingLeaseTimer> | CancelTimer;

/** Shares of the lease. Tests check that timeout < interval, and that several requests fit before the stop. */
export const servingLeaseShares = { stop: 0.8, interval: 0.2, timeout: 0.18, retryMin: 0.02 } as const;

/** Bounds the first retry of a long lease: a new leader grants within moments, and recovers nothing here until then. */
const retryMsMax = 250;

export class ServingLeaseRenewal {
  readonly #random: Random;
  /** As configured, until the first grant. */
  #leaseMs: number;
  #term = 0;
  #untilMs = -Infinity;
  #appliedRevision = 0;
  /** Of `#appliedRevision`; undefined before the table is loaded. */
  #epoch: RegistryEpoch | undefined;
  #revokedRevision = 0;
  #pending: { readonly id: number; readonly sentMs: number } | undefined;
  #nextId = 1;
  #failures = 0;
  #reported = false;
  #effects: Effect[] = [];

  constructor(random: Random, leaseMs: number) {
    this.#random = random;
    this.#leaseMs = leaseMs;
  }

  /** The revision that the address table has applied. */
  get appliedRevision(): number {
    return this.#appliedRevision;
  }

  get epoch(): RegistryEpoch | undefined {
    return this.#epoch;
  }

  holds(nowMs: number): boolean {
    return nowMs < this.#untilMs && this.#appliedRevision >= this.#revokedRevision;
  }

  step(nowMs: number, input: ServingLeaseInput): readonly Effect[] {
    // A process that was paused past the end reports the end before it handles the input.
    this.#reportChange(nowMs);
    this.#handle(nowMs, input);
    this.#reportChange(nowMs);
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #handle(nowMs: number, input: ServingLeaseInput): void {
    if (input.kind === 'replied') {
      // A reply to an earlier request adds nothing to the pending one.
      if (input.id === this.#pending?.id) this.#onReply(nowMs, this.#pending.sentMs, input.reply);
    } else if (input.kind === 'applied') this.#onApplied(input.revision, input.epoch);
    else if (input.kind !== 'expired') this.#request(nowMs);
    else if (input.timer.kind === 'request' && input.timer.id === this.#nextId) this.#request(nowMs);
  }

  /** Grants and revisions of another epoch say nothing about this one: the containers may have other owners now. */
  #onApplied(revision: number, epoch: RegistryEpoch): void {
    if (epoch === this.#epoch) {
      this.#appliedRevision = Math.max(this.#appliedRevision, revision);
      return;
    }
    const former = this.#epoch;
    this.#epoch = epoch;
    this.#appliedRevision = revision;
    if (former === undefined) return;
    // Terms of another group do not compare with those of the former one.
    if (groupIdOf(epoch) !== groupIdOf(former)) this.#term = 0;
    this.#untilMs = -Infinity;
    this.#revokedRevision = 0;
    this.#pending = undefined;
  }

  #request(nowMs: number): void {
    const id = this.#nextId;
    this.#nextId += 1;
    this.#pending = { id, sentMs: nowMs };
    this.#effects.push({ kind: 'request', id, timeoutMs: this.#leaseMs * servingLeaseShares.timeout });
    // The next request is sent even if no reply ever arrives.
    this.#schedule(nowMs + this.#leaseMs * servingLeaseShares.interval);
  }

  #onReply(nowMs: number, sentMs: number, reply: ServingLeaseReply): void {
    this.#pending = undefined;
    if (reply.kind === 'granted' && reply.term >= this.#term) return this.#onGranted(sentMs, reply);
    if (reply.kind === 'superseded') this.#untilMs = -Infinity;
    const { interval, retryMin } = servingLeaseShares;
    // The leader knows this node, and the table will catch up within moments.
    const failures = reply.kind === 'behind' ? Math.min(1, this.#failures) : this.#failures;
    const intervalMs = this.#leaseMs * interval;
    const firstMs = reply.kind === 'superseded' ? intervalMs : Math.min(this.#leaseMs * retryMin, retryMsMax);
    this.#failures = failures + 1;
    this.#schedule(nowMs + Math.min(intervalMs, firstMs * 2 ** failures) * this.#random.between(0.5, 1));
  }

  #onGranted(sentMs: number, { leaseMs, term, revokedRevision }: ReceivedServingGrant): void {
    const untilMs = sentMs + leaseMs * servingLeaseShares.stop;
    // A new leader does not know the grants of the former one, so only its own grants count.
    this.#untilMs = term > this.#term ? untilMs : Math.max(this.#untilMs, untilMs);
    this.#term = term;
    this.#revokedRevision = Math.max(this.#revokedRevision, revokedRevision);
    this.#leaseMs = leaseMs;
    this.#failures = 0;
    this.#schedule(sentMs + leaseMs * servingLeaseShares.interval);
    this.#effects.push({ kind: 'cancelTimer', key: 'end' });
    this.#effects.push({ kind: 'schedule', key: 'end', atMs: this.#untilMs, timer: { kind: 'end' } });
  }

  #schedule(atMs: number): void {
    this.#effects.push({ kind: 'cancelTimer', key: 'request' });
    this.#effects.push({ kind: 'schedule', key: 'request', atMs, timer: { kind: 'request', id: this.#nextId } });
  }

  #reportChange(nowMs: number): void {
    const holds = this.holds(nowMs);
    if (holds === this.#reported) return;
    this.#reported = holds;
    this.#effects.push({ kind: 'report', holds });
  }
}
