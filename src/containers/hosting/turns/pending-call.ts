/**
 * One call from arrival to end: its waiters, deadline and stage. Each waiter is answered exactly once. Never decides
 * when it runs.
 *
 *   waiting --its turn--> running --its method has returned--> committing --everything it saw is durable--> over
 *                            +----it gives item after item---> flowing ----its end, or its reader has enough--+
 */
import { type Done, failure, type Outcome, type RemusterError } from '../../../base/errors.ts';
import type { Cancel } from '../../../base/ports.ts';
import type { IncomingCall, CallOutput } from '../../contract.ts';

/** What a pending call asks of those who look after it. */
type PendingCallOwner = {
  /** Its time is over. */
  expired(pending: PendingCall): void;
  /** Nobody waits for it any more. */
  abandoned(pending: PendingCall): void;
};

export class PendingCall {
  readonly call: IncomingCall;
  readonly arrivedMs: number;
  readonly deadlineMs: number;
  stage: 'waiting' | 'running' | 'flowing' | 'committing' | 'over' = 'waiting';
  /** Where it waits, for its turn or for a commit. */
  queue: { delete(pending: PendingCall): unknown } | undefined;
  /** While it runs: ends the work without effect. */
  stop: ((error: RemusterError) => void) | undefined;
  /** What it wrote is on its way to the disks. */
  isWriting = false;
  /** What it will be answered once everything it saw is durable. */
  outcome: Outcome<CallOutput> | undefined;
  /** See deadlines.ts. */
  place = -1;
  /** See call-index.ts. */
  nextInChain: PendingCall | undefined;
  readonly #care: PendingCallOwner;
  #waiters: Done<CallOutput>[] = [];

  constructor(call: IncomingCall, nowMs: number, care: PendingCallOwner) {
    this.call = call;
    this.arrivedMs = nowMs;
    this.deadlineMs = nowMs + call.remainingMs;
    this.#care = care;
  }

  get counter(): number {
    return this.call.id.counter;
  }

  get waiters(): number {
    return this.#waiters.length;
  }

  /** One more who waits. Cancelling answers that one; when it was the last, the work is given up. */
  attach(done: Done<CallOutput>): Cancel {
    // The same function may wait twice, and is then told apart by a box.
    const waiter: Done<CallOutput> = this.#waiters.includes(done) ? (outcome) => done(outcome) : done;
    this.#waiters.push(waiter);
    return () => {
      const at = this.#waiters.indexOf(waiter);
      if (at >= 0) {
        this.#waiters.splice(at, 1);
        waiter(failure('CANCELLED'));
      } else if (this.stage !== 'flowing') return;
      // A flow goes on after it was answered, until its reader has enough.
      if (this.#waiters.length === 0 && this.stage !== 'over') this.#care.abandoned(this);
    };
  }

  /** The first who waits gets the flow: it can be read once. */
  answerStream(outcome: Outcome<CallOutput>): void {
    const [first, ...others] = this.#waiters;
    this.#waiters = [];
    first?.(outcome);
    for (const waiter of others) waiter(failure('FENCED', 'another request of this call reads what it gives'));
  }

  /** Everybody who waits now; the work may go on. */
  answer(outcome: Outcome<CallOutput>): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter(outcome);
  }

  onExpired(): void {
    this.#care.expired(this);
  }
}
