/**
 * All open calls of a container by id, so that a retry joins the running call. Holds calls while the container is not
 * open. Bounded in number and bytes.
 */
import { CompactingSet } from '../../../base/collections/compacting-map.ts';
import { CounterIndex } from '../../../base/collections/counter-index.ts';
import { type Done, failure, type Outcome, RemusterError, withStateChanged } from '../../../base/errors.ts';
import type { CallId } from '../../../base/ids.ts';
import type { Cancel, Clock } from '../../../base/ports.ts';
import type { IncomingCall, CallOutput } from '../../contract.ts';
import { TurnDeadlines } from './call-deadlines.ts';
import type { HostingLimits } from '../../hosting-limits.ts';
import { PendingCall } from './pending-call.ts';

const notCancellable: Cancel = () => {};

export class Inbox {
  /** The deadlines of calls and of internal turns. */
  readonly deadlines: TurnDeadlines;
  readonly #limits: HostingLimits;
  readonly #onEnded: (pending: PendingCall, isOk: boolean) => void;
  readonly #calls = new CallIndex();
  /** Calls without a turn, because the container is not open. */
  readonly #waiting = new CompactingSet<PendingCall>();
  #bytes = 0;

  constructor(clock: Clock, limits: HostingLimits, ended: (pending: PendingCall, isOk: boolean) => void) {
    this.#limits = limits;
    this.#onEnded = ended;
    this.deadlines = new TurnDeadlines(clock);
  }

  get size(): number {
    return this.#calls.size;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  find(id: CallId): PendingCall | undefined {
    return this.#calls.find(id);
  }

  /** Attaches a retry to a call that is already here. */
  join(pending: PendingCall, done: Done<CallOutput>): Cancel {
    if (pending.waiters < this.#limits.waitersMax) return pending.attach(done);
    done(failure('CAPACITY', 'too many retries of this call wait for its result', 'maybe'));
    return notCancellable;
  }

  /** Undefined: the inbox is full. */
  admit(call: IncomingCall, nowMs: number): PendingCall | undefined {
    const { callsMax, callBytesMax } = this.#limits;
    if (this.#calls.size >= callsMax || this.#bytes + call.args.length > callBytesMax) return undefined;
    const pending = new PendingCall(call, nowMs, this);
    this.#calls.add(pending);
    this.#bytes += call.args.length;
    this.deadlines.add(pending);
    return pending;
  }

  wait(pending: PendingCall): void {
    pending.queue = this.#waiting;
    this.#waiting.add(pending);
  }

  /** Removes and returns the waiting calls, in order. */
  removeWaiting(): PendingCall[] {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const pending of waiting) pending.queue = undefined;
    return waiting;
  }

  /** Puts calls that did not get a turn back, before the calls that arrived later. */
  returnWaiting(pending: readonly PendingCall[]): void {
    for (const call of [...pending, ...this.removeWaiting()]) this.wait(call);
  }

  /** Replies to all waiters and removes the call. */
  end(pending: PendingCall, outcome: Outcome<CallOutput>): void {
    this.leave(pending);
    pending.stage = 'ended';
    this.deadlines.delete(pending);
    this.#onEnded(pending, outcome.ok);
    pending.replyAll(outcome);
  }

  /** The call cannot be joined any more; its deadline stays. */
  leave(pending: PendingCall): void {
    pending.queue?.delete(pending);
    pending.queue = undefined;
    if (this.#calls.delete(pending)) this.#bytes -= pending.call.args.length;
  }

  /** Replies to all waiters. Calls that have not started end; running ones go on, and retries may join them. */
  replyAll(error: RemusterError): void {
    for (const pending of this.#calls.all()) {
      if (pending.stage === 'waiting') this.end(pending, { ok: false, error: withStateChanged(error, 'no') });
      else pending.replyAll({ ok: false, error });
    }
  }

  /** Ends all calls that have had a turn. */
  failStarted(error: RemusterError): void {
    for (const pending of this.#calls.all()) {
      if (pending.stage !== 'waiting') this.end(pending, { ok: false, error });
    }
  }

  /** Ends all calls that wait for a turn. */
  failWaiting(error: RemusterError): void {
    for (const pending of [...this.#waiting]) this.end(pending, { ok: false, error });
  }

  expired(pending: PendingCall): void {
    this.#fail(pending, new RemusterError('DEADLINE'));
  }

  abandoned(pending: PendingCall): void {
    // Its commit is pending and counts: the result is remembered for a retry.
    if (pending.stage !== 'committing') this.#fail(pending, new RemusterError('CANCELLED'));
  }

  #fail(pending: PendingCall, error: RemusterError): void {
    const { stop } = pending;
    this.end(pending, { ok: false, error });
    stop?.(error);
  }
}

/**
 * Calls by id without a string for each: calls of different callers with the same number form a chain, which is hardly
 * ever longer than there are callers. Finds the newest first.
 */
class CallIndex {
  readonly #calls = new CounterIndex<PendingCall>();

  get size(): number {
    return this.#calls.size;
  }

  find(id: CallId): PendingCall | undefined {
    let pending = this.#calls.find(id.counter);
    while (pending !== undefined && !isSameCall(pending.call.id, id)) pending = pending.nextInChain;
    return pending;
  }

  add(pending: PendingCall): void {
    this.#calls.add(pending);
  }

  /** False: it was not there. */
  delete(pending: PendingCall): boolean {
    return this.#calls.delete(pending);
  }

  all(): PendingCall[] {
    return this.#calls.all();
  }
}

function isSameCall(a: CallId, b: CallId): boolean {
  return a.counter === b.counter && a.generation === b.generation && a.session === b.session;
}
