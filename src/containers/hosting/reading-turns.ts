/**
 * Calls of readonly methods: they overlap with each other and with the writing turn, whose changes they do not see before
 * it has returned. Most return a plain value while nothing is being committed, and are answered on the spot without ever
 * being pending. Bounded in number; what is beyond waits.
 */
import { type Done, failure, type Outcome, RemusterError, success } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import { encodeValue } from '../../messages/codec/value.ts';
import type { ArrivedCall, CallAnswer } from '../contract.ts';
import { CallContext } from './context.ts';
import { Flow } from './flow.ts';
import { argsOf, failureOf, isFlow, isThenable, type Method } from './methods.ts';
import type { PendingCall } from './pending-call.ts';
import { noTimers } from './timer-table.ts';
import type { TurnPorts } from './turn.ts';

type Reader = {
  readonly pending: PendingCall;
  readonly ctx: CallContext;
  flow: Flow | undefined;
  isOver: boolean;
};

export type ReadingPorts = TurnPorts & {
  /** Everything that is in memory now is durable. */
  readonly isDurable: () => boolean;
  readonly durable: () => Promise<void>;
  /** Gives a turn to a call that waited for fewer readers. */
  readonly resume: (pending: PendingCall) => void;
  /** Counts a call that was never pending. */
  readonly answered: (durationMs: number, isOk: boolean) => void;
};

const nothing: Cancel = () => {};

export class ReadingTurns {
  readonly #ports: ReadingPorts;
  readonly #readers = new Set<Reader>();
  readonly #queue = new Set<PendingCall>();

  constructor(ports: ReadingPorts) {
    this.#ports = ports;
  }

  get isIdle(): boolean {
    return this.#readers.size === 0;
  }

  /** A call that has just arrived. */
  call(call: ArrivedCall, method: Method, nowMs: number, done: Done<CallAnswer>): Cancel {
    const { inbox, limits } = this.#ports;
    if (this.#readers.size >= limits.readersMax) return this.#enqueue(call, nowMs, done);
    const deadlineMs = nowMs + call.remainingMs;
    if (deadlineMs <= nowMs) return this.#answerNow(nowMs, failure('DEADLINE'), done);
    const ctx = this.#contextOf(call, deadlineMs);
    const result = this.#run(method, ctx, call.args);
    if (result.ok && this.#isLong(result.value)) {
      const pending = inbox.admit(call, nowMs);
      if (pending === undefined) {
        ctx.abort(new RemusterError('CAPACITY'));
        return this.#answerNow(nowMs, inboxFull(), done);
      }
      const cancel = pending.attach(done);
      this.#goOn(pending, ctx, result.value);
      return cancel;
    }
    ctx.end();
    const outcome = this.#outcomeOf(result);
    if (this.#ports.isDurable()) return this.#answerNow(nowMs, outcome, done);
    const pending = inbox.admit(call, nowMs);
    if (pending === undefined) return this.#answerNow(nowMs, inboxFull(), done);
    const cancel = pending.attach(done);
    this.#ports.answer(pending, outcome);
    return cancel;
  }

  /** A call that had to wait. */
  add(pending: PendingCall, method: Method): void {
    const { limits, inbox, clock, answer } = this.#ports;
    if (this.#readers.size >= limits.readersMax) {
      pending.queue = this.#queue;
      this.#queue.add(pending);
      return;
    }
    if (pending.deadlineMs <= clock.nowMs()) return inbox.expired(pending);
    const ctx = this.#contextOf(pending.call, pending.deadlineMs);
    const result = this.#run(method, ctx, pending.call.args);
    if (result.ok && this.#isLong(result.value)) return this.#goOn(pending, ctx, result.value);
    ctx.end();
    answer(pending, this.#outcomeOf(result));
  }

  takeCalls(): PendingCall[] {
    const calls = [...this.#queue];
    this.#queue.clear();
    for (const pending of calls) pending.queue = undefined;
    return calls;
  }

  /** Flows may be endless: nobody waits for their end. */
  stopFlows(error: RemusterError): void {
    for (const reader of [...this.#readers]) if (reader.flow !== undefined) this.#stop(reader, error);
  }

  close(error: RemusterError): void {
    for (const reader of [...this.#readers]) this.#stop(reader, error);
  }

  #enqueue(call: ArrivedCall, nowMs: number, done: Done<CallAnswer>): Cancel {
    const pending = this.#ports.inbox.admit(call, nowMs);
    if (pending === undefined) return this.#answerNow(nowMs, inboxFull(), done);
    pending.queue = this.#queue;
    this.#queue.add(pending);
    return pending.attach(done);
  }

  #answerNow(startedMs: number, outcome: Outcome<CallAnswer>, done: Done<CallAnswer>): Cancel {
    const nowMs = this.#ports.clock.nowMs();
    const allowed = this.#ports.mayServe(nowMs) ? outcome : failure('NO_QUORUM');
    this.#ports.answered(nowMs - startedMs, allowed.ok);
    done(allowed);
    return nothing;
  }

  #contextOf(call: ArrivedCall, deadlineMs: number): CallContext {
    const { home, contents } = this.#ports;
    return new CallContext(home, contents.view, noTimers, call.id, deadlineMs);
  }

  #run(method: Method, ctx: CallContext, args: Uint8Array): Outcome<unknown> {
    try {
      return success(method.run(ctx, ...argsOf(args)));
    } catch (thrown) {
      return { ok: false, error: failureOf(thrown) };
    }
  }

  #isLong(value: unknown): value is PromiseLike<unknown> | AsyncIterable<unknown> {
    return isThenable(value) || isFlow(value);
  }

  #goOn(pending: PendingCall, ctx: CallContext, result: PromiseLike<unknown> | AsyncIterable<unknown>): void {
    const reader: Reader = { pending, ctx, flow: undefined, isOver: false };
    this.#readers.add(reader);
    pending.stage = 'running';
    pending.stop = (error) => this.#stop(reader, error);
    if (!isThenable(result)) return this.#flow(reader, result);
    result.then(
      (value) => this.#settled(reader, success(value)),
      (thrown: unknown) => this.#settled(reader, { ok: false, error: failureOf(thrown) }),
    );
  }

  #settled(reader: Reader, result: Outcome<unknown>): void {
    if (reader.isOver) return;
    if (result.ok && isFlow(result.value)) return this.#flow(reader, result.value);
    const { pending } = reader;
    this.#leave(reader);
    this.#ports.answer(pending, this.#outcomeOf(result));
    this.#next();
  }

  #flow(reader: Reader, items: AsyncIterable<unknown>): void {
    const { limits, durable, mayServe, inbox } = this.#ports;
    const { pending } = reader;
    const flow = new Flow(items, {
      itemBytesMax: limits.resultBytesMax,
      durable,
      obstacle: () => (mayServe() ? undefined : new RemusterError('NO_QUORUM')),
      ended: () => this.#flowEnded(reader),
    });
    reader.flow = flow;
    // Only its deadline and its reader end it now; a request that is sent again begins anew.
    inbox.leave(pending);
    pending.stage = 'flowing';
    pending.answerFlow(success({ flow }));
  }

  #flowEnded(reader: Reader): void {
    const { pending } = reader;
    if (!reader.isOver) {
      reader.ctx.abort(new RemusterError('CANCELLED'));
      this.#leave(reader);
    }
    if (pending.stage !== 'over') this.#ports.inbox.end(pending, success({ value: new Uint8Array() }));
    this.#next();
  }

  #stop(reader: Reader, error: RemusterError): void {
    if (reader.isOver) return;
    reader.ctx.abort(error);
    this.#leave(reader);
    reader.flow?.stop(error);
    this.#next();
  }

  #leave(reader: Reader): void {
    reader.isOver = true;
    reader.ctx.end();
    reader.pending.stop = undefined;
    this.#readers.delete(reader);
  }

  #next(): void {
    this.#ports.turnEnded();
    const { limits } = this.#ports;
    while (this.#queue.size > 0 && this.#readers.size < limits.readersMax && this.#ports.mayServe()) {
      const [pending] = this.#queue;
      if (pending === undefined) return;
      this.#queue.delete(pending);
      pending.queue = undefined;
      this.#ports.resume(pending);
    }
  }

  #outcomeOf(result: Outcome<unknown>): Outcome<CallAnswer> {
    if (!result.ok) return result;
    try {
      return success({ value: encodeValue(result.value, this.#ports.limits.resultBytesMax) });
    } catch (thrown) {
      return { ok: false, error: failureOf(thrown) };
    }
  }
}

function inboxFull(): Outcome<never> {
  return failure('CAPACITY', 'too many calls of this container wait for their answers');
}
