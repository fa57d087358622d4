/**
 * One call from arrival to end: its waiters, deadline and stage. Each waiter gets exactly one reply. Never decides when
 * it runs.
 *
 *   waiting --turn--> running --method returned--> committing --all it has read is durable--> ended
 *                        +------method is a generator--> streaming --last item, or the reader stops--+
 */
import { type Done, failure, type Outcome, type RemusterError } from '../../../base/errors.ts';
import type { Cancel } from '../../../base/ports.ts';
import type { IncomingCall, CallOutput } from '../../contract.ts';

/** The inbox of the call. */
type PendingCallOwner = {
  /** The deadline has passed. */
  expired(pending: PendingCall): void;
  /** The last waiter has cancelled. */
  abandoned(pending: PendingCall): void;
};

export class PendingCall {
  readonly call: IncomingCall;
  readonly arrivedMs: number;
  readonly deadlineMs: number;
  stage: 'waiting' | 'running' | 'streaming' | 'committing' | 'ended' = 'waiting';
  /** The queue in which it waits for a turn or a commit. */
  queue: { delete(pending: PendingCall): unknown } | undefined;
  /** While it runs: ends the method without effect. */
  stop: ((error: RemusterError) => void) | undefined;
  /** Its commit is pending. */
  isWriting = false;
  /** The reply, sent when everything that it has read is durable. */
  outcome: Outcome<CallOutput> | undefined;
  /** See `TurnDeadlines`. */
  listIndex = -1;
  /** See `CallIndex`. */
  nextInChain: PendingCall | undefined;
  readonly #owner: PendingCallOwner;
  #waiters: Done<CallOutput>[] = [];

  constructor(call: IncomingCall, nowMs: number, owner: PendingCallOwner) {
    this.call = call;
    this.arrivedMs = nowMs;
    this.deadlineMs = nowMs + call.remainingMs;
    this.#owner = owner;
  }

  get counter(): number {
    return this.call.id.counter;
  }

  get waiters(): number {
    return this.#waiters.length;
  }

  /** Adds a waiter. Its cancellation replies to it; the cancellation of the last waiter abandons the call. */
  attach(done: Done<CallOutput>): Cancel {
    // The same function may wait twice; a wrapper distinguishes the second.
    const waiter: Done<CallOutput> = this.#waiters.includes(done) ? (outcome) => done(outcome) : done;
    this.#waiters.push(waiter);
    return () => {
      const at = this.#waiters.indexOf(waiter);
      if (at >= 0) {
        this.#waiters.splice(at, 1);
        waiter(failure('CANCELLED'));
      } else if (this.stage !== 'streaming') return;
      // A result stream goes on after the reply, until its reader stops.
      if (this.#waiters.length === 0 && this.stage !== 'ended') this.#owner.abandoned(this);
    };
  }

  /** Only the first waiter gets the result stream: it can be read once. */
  replyStream(outcome: Outcome<CallOutput>): void {
    const [first, ...others] = this.#waiters;
    this.#waiters = [];
    first?.(outcome);
    for (const waiter of others) waiter(failure('FENCED', 'another request of this call reads the result stream'));
  }

  /** Replies to all current waiters; the method may go on. */
  replyAll(outcome: Outcome<CallOutput>): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter(outcome);
  }

  onExpired(): void {
    this.#owner.expired(this);
  }
}
