/**
 * All unfinished calls of a container by id, so a resend joins the running call. Holds calls while the container is not
 * open. Bounded in number and bytes.
 */
import { CompactingSet } from '../../../base/collections/compacting-map.ts';
import { type Done, failure, type Outcome, RemusterError, withStateChanged } from '../../../base/errors.ts';
import type { CallId } from '../../../base/ids.ts';
import type { Cancel, Clock } from '../../../base/ports.ts';
import type { IncomingCall, CallOutput } from '../../contract.ts';
import { CallIndex } from './call-index.ts';
import { TurnDeadlines } from './call-deadlines.ts';
import type { HostingLimits } from '../../hosting-limits.ts';
import { PendingCall } from './pending-call.ts';

const nothing: Cancel = () => {};

export class Inbox {
  /** For everything in this container that has an end, calls or not. */
  readonly deadlines: TurnDeadlines;
  readonly #limits: HostingLimits;
  readonly #ended: (pending: PendingCall, isOk: boolean) => void;
  readonly #calls = new CallIndex();
  /** Have no turn yet, because the container is not open. */
  readonly #waiting = new CompactingSet<PendingCall>();
  #bytes = 0;

  constructor(clock: Clock, limits: HostingLimits, ended: (pending: PendingCall, isOk: boolean) => void) {
    this.#limits = limits;
    this.#ended = ended;
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

  /** One more request of a call that is here already. */
  join(pending: PendingCall, done: Done<CallOutput>): Cancel {
    if (pending.waiters < this.#limits.waitersMax) return pending.attach(done);
    done(failure('CAPACITY', 'too many requests of this call wait for its answer', 'maybe'));
    return nothing;
  }

  /** Undefined: there is no room for it. */
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

  /** Those who wait, in order; they wait no more. */
  removeWaiting(): PendingCall[] {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const pending of waiting) pending.queue = undefined;
    return waiting;
  }

  /** Puts calls whose turn did not come back before those who came later. */
  returnWaiting(pending: readonly PendingCall[]): void {
    for (const one of [...pending, ...this.removeWaiting()]) this.wait(one);
  }

  /** Answers everybody and forgets the call. */
  end(pending: PendingCall, outcome: Outcome<CallOutput>): void {
    this.leave(pending);
    pending.stage = 'over';
    this.deadlines.delete(pending);
    this.#ended(pending, outcome.ok);
    pending.answer(outcome);
  }

  /** It cannot be joined any more; its deadline stays. */
  leave(pending: PendingCall): void {
    pending.queue?.delete(pending);
    pending.queue = undefined;
    if (this.#calls.delete(pending)) this.#bytes -= pending.call.args.length;
  }

  /** Answers everybody. What has not begun is over; what runs goes on, and may be joined again. */
  answerAll(error: RemusterError): void {
    for (const pending of this.#calls.all()) {
      if (pending.stage === 'waiting') this.end(pending, { ok: false, error: withStateChanged(error, 'no') });
      else pending.answer({ ok: false, error });
    }
  }

  /** Those who have had their turn will get no other answer. */
  failStarted(error: RemusterError): void {
    for (const pending of this.#calls.all()) {
      if (pending.stage !== 'waiting') this.end(pending, { ok: false, error });
    }
  }

  /** Those who have not had their turn will not get one. */
  failWaiting(error: RemusterError): void {
    for (const pending of [...this.#waiting]) this.end(pending, { ok: false, error });
  }

  expired(pending: PendingCall): void {
    this.#giveUp(pending, new RemusterError('DEADLINE'));
  }

  abandoned(pending: PendingCall): void {
    // What it wrote is on its way and counts: the answer is kept for whoever sends the call again.
    if (pending.stage !== 'committing') this.#giveUp(pending, new RemusterError('CANCELLED'));
  }

  #giveUp(pending: PendingCall, error: RemusterError): void {
    const { stop } = pending;
    this.end(pending, { ok: false, error });
    stop?.(error);
  }
}
