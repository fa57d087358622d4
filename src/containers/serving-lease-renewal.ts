/**
 * When to ask for the serving lease and until when it holds, counted from sending the request. Stops at 0.8 of the
 * lease; ignores replies of an older term.
 *
 *   ask --granted--> holds until 0.8 of the lease after the asking; asks again after a fifth of the lease
 *       --nothing, refused--> asks again sooner, with jitter; still holds until the time of the last grant is over
 *       --the own table is behind--> the same, and soon
 *       --a later life of this node exists--> holds no longer, at once
 *
 * The leader gives the containers away after 1.1 of the lease at the earliest: there is room for clocks that run
 * differently. An answer of an earlier term than the latest known one counts for nothing. And a grant may come after
 * something was given to others: then it counts only when the own table says so too, or the node would serve what is no
 * longer its own.
 */
import type { TimerExpired, Schedule, CancelTimer } from '../base/runtime/loop.ts';
import type { Random } from '../base/random.ts';

export type ReceivedServingGrant = {
  readonly leaseMs: number;
  readonly term: number;
  /** What the table has to have reached first; see the message. */
  readonly revokedRevision: number;
};

export type ServingLeaseReply =
  | ({ readonly kind: 'granted' } & ReceivedServingGrant)
  /** There is a later generation of this node. */
  | { readonly kind: 'superseded' }
  /** The own table does not show yet what it has to show. */
  | { readonly kind: 'behind' }
  | { readonly kind: 'failed' };

export type ServingLeaseTimer = { readonly kind: 'ask'; readonly id: number } | { readonly kind: 'end' };

export type ServingLeaseInput =
  | { readonly kind: 'begin' }
  | { readonly kind: 'leaderChanged' }
  /** The address table has got that far. */
  | { readonly kind: 'applied'; readonly revision: number }
  | { readonly kind: 'answered'; readonly id: number; readonly answer: ServingLeaseReply }
  | TimerExpired<ServingLeaseTimer>;

export type ServingLeaseEffect =
  /** Whatever was asked before is not waited for any more. Ends in `answered` with this id, within the time. */
  | { readonly kind: 'ask'; readonly id: number; readonly timeoutMs: number }
  | { readonly kind: 'tell'; readonly holds: boolean };

type Effect = ServingLeaseEffect | Schedule<ServingLeaseTimer> | CancelTimer;

/** Parts of the lease. The order is checked by the tests: timeout < interval, and several tries before the stop. */
export const servingLeaseShares = { stop: 0.8, interval: 0.2, timeout: 0.18, retryMin: 0.02 } as const;

/** However long the lease is: one who has just begun to lead grants in a moment, and until then recovers nothing here. */
const retryMsMax = 250;

export class ServingLeaseRenewal {
  readonly #random: Random;
  /** As configured, until the leader has said. */
  #leaseMs: number;
  #term = 0;
  #untilMs = -Infinity;
  #appliedRevision = 0;
  #revokedRevision = 0;
  #asked: { readonly id: number; readonly sentMs: number } | undefined;
  #nextId = 1;
  #failures = 0;
  #told = false;
  #effects: Effect[] = [];

  constructor(random: Random, leaseMs: number) {
    this.#random = random;
    this.#leaseMs = leaseMs;
  }

  /** How far the address table has got. */
  get appliedRevision(): number {
    return this.#appliedRevision;
  }

  holds(nowMs: number): boolean {
    return nowMs < this.#untilMs && this.#appliedRevision >= this.#revokedRevision;
  }

  step(nowMs: number, input: ServingLeaseInput): readonly Effect[] {
    // Who slept through the end hears of it before anything new begins.
    this.#tell(nowMs);
    this.#take(nowMs, input);
    this.#tell(nowMs);
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  #take(nowMs: number, input: ServingLeaseInput): void {
    if (input.kind === 'answered') {
      // One that is not waited for any more was asked before this one: it can add nothing.
      if (input.id === this.#asked?.id) this.#answered(nowMs, this.#asked.sentMs, input.answer);
    } else if (input.kind === 'applied') this.#appliedRevision = Math.max(this.#appliedRevision, input.revision);
    else if (input.kind !== 'expired') this.#ask(nowMs);
    else if (input.timer.kind === 'ask' && input.timer.id === this.#nextId) this.#ask(nowMs);
  }

  #ask(nowMs: number): void {
    const id = this.#nextId;
    this.#nextId += 1;
    this.#asked = { id, sentMs: nowMs };
    this.#effects.push({ kind: 'ask', id, timeoutMs: this.#leaseMs * servingLeaseShares.timeout });
    // Also when no answer should ever come.
    this.#schedule(nowMs + this.#leaseMs * servingLeaseShares.interval);
  }

  #answered(nowMs: number, sentMs: number, answer: ServingLeaseReply): void {
    this.#asked = undefined;
    if (answer.kind === 'granted' && answer.term >= this.#term) return this.#granted(sentMs, answer);
    if (answer.kind === 'superseded') this.#untilMs = -Infinity;
    const { interval, retryMin } = servingLeaseShares;
    // Who is behind has been heard by the leader, and is there in a moment.
    const tries = answer.kind === 'behind' ? Math.min(1, this.#failures) : this.#failures;
    const intervalMs = this.#leaseMs * interval;
    const firstMs = answer.kind === 'superseded' ? intervalMs : Math.min(this.#leaseMs * retryMin, retryMsMax);
    this.#failures = tries + 1;
    this.#schedule(nowMs + Math.min(intervalMs, firstMs * 2 ** tries) * this.#random.between(0.5, 1));
  }

  #granted(sentMs: number, { leaseMs, term, revokedRevision }: ReceivedServingGrant): void {
    const untilMs = sentMs + leaseMs * servingLeaseShares.stop;
    // A new leader knows nothing of what the former one granted, so only its own word counts from now on.
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
    this.#effects.push({ kind: 'cancelTimer', key: 'ask' });
    this.#effects.push({ kind: 'schedule', key: 'ask', atMs, timer: { kind: 'ask', id: this.#nextId } });
  }

  #tell(nowMs: number): void {
    const holds = this.holds(nowMs);
    if (holds === this.#told) return;
    this.#told = holds;
    this.#effects.push({ kind: 'tell', holds });
  }
}
