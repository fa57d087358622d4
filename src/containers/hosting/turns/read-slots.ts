/**
 * Readonly calls: they overlap each other and the writer, and see no uncommitted turn. Bounded; calls beyond the bound
 * wait.
 */
import { type Done, failure, type Outcome, RemusterError, success } from '../../../base/errors.ts';
import type { Cancel } from '../../../base/ports.ts';
import { encodeValue } from '../../../messages/codec/value.ts';
import type { IncomingCall, CallOutput } from '../../contract.ts';
import { CallContext } from './call-context.ts';
import { ResultStreamSource } from './result-stream-source.ts';
import { decodeArgs, methodFailure, isAsyncIterable, isThenable, type ModuleMethod } from './module-methods.ts';
import type { PendingCall } from './pending-call.ts';
import { noTimers } from '../state/timer-table.ts';
import type { TurnPorts } from './turn.ts';

type Reader = {
  readonly pending: PendingCall;
  readonly ctx: CallContext;
  flow: ResultStreamSource | undefined;
  isOver: boolean;
};

export type ReadSlotsPorts = TurnPorts & {
  /** Everything that is in memory now is durable. */
  readonly isDurable: () => boolean;
  readonly durable: () => Promise<void>;
  /** Gives a turn to a call that waited for fewer readers. */
  readonly resume: (pending: PendingCall) => void;
  /** Counts a call that was never pending. */
  readonly answered: (durationMs: number, isOk: boolean) => void;
};

const nothing: Cancel = () => {};

export class ReadSlots {
  readonly #ports: ReadSlotsPorts;
  readonly #readers = new Set<Reader>();
  readonly #queue = new Set<PendingCall>();

  constructor(ports: ReadSlotsPorts) {
    this.#ports = ports;
  }

  get isIdle(): boolean {
    return this.#readers.size === 0;
  }

  /** A call that has just arrived. */
  call(call: IncomingCall, method: ModuleMethod, nowMs: number, done: Done<CallOutput>): Cancel {
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
  add(pending: PendingCall, method: ModuleMethod): void {
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

  removeCalls(): PendingCall[] {
    const calls = [...this.#queue];
    this.#queue.clear();
    for (const pending of calls) pending.queue = undefined;
    return calls;
  }

  /** Flows may be endless: nobody waits for their end. */
  stopResultStreams(error: RemusterError): void {
    for (const reader of [...this.#readers]) if (reader.flow !== undefined) this.#stop(reader, error);
  }

  close(error: RemusterError): void {
    for (const reader of [...this.#readers]) this.#stop(reader, error);
  }

  #enqueue(call: IncomingCall, nowMs: number, done: Done<CallOutput>): Cancel {
    const pending = this.#ports.inbox.admit(call, nowMs);
    if (pending === undefined) return this.#answerNow(nowMs, inboxFull(), done);
    pending.queue = this.#queue;
    this.#queue.add(pending);
    return pending.attach(done);
  }

  #answerNow(startedMs: number, outcome: Outcome<CallOutput>, done: Done<CallOutput>): Cancel {
    const nowMs = this.#ports.clock.nowMs();
    const allowed = this.#ports.canServe(nowMs) ? outcome : failure('NO_QUORUM');
    this.#ports.answered(nowMs - startedMs, allowed.ok);
    done(allowed);
    return nothing;
  }

  #contextOf(call: IncomingCall, deadlineMs: number): CallContext {
    const { contextInfo, contents } = this.#ports;
    return new CallContext(contextInfo, contents.view, noTimers, call.id, deadlineMs);
  }

  #run(method: ModuleMethod, ctx: CallContext, args: Uint8Array): Outcome<unknown> {
    try {
      return success(method.run(ctx, ...decodeArgs(args)));
    } catch (thrown) {
      return { ok: false, error: methodFailure(thrown, ctx.hasCalled) };
    }
  }

  #isLong(value: unknown): value is PromiseLike<unknown> | AsyncIterable<unknown> {
    return isThenable(value) || isAsyncIterable(value);
  }

  #goOn(pending: PendingCall, ctx: CallContext, result: PromiseLike<unknown> | AsyncIterable<unknown>): void {
    const reader: Reader = { pending, ctx, flow: undefined, isOver: false };
    this.#readers.add(reader);
    pending.stage = 'running';
    pending.stop = (error) => this.#stop(reader, error);
    if (!isThenable(result)) return this.#flow(reader, result);
    result.then(
      (value) => this.#settled(reader, success(value)),
      (thrown: unknown) => this.#settled(reader, { ok: false, error: methodFailure(thrown, ctx.hasCalled) }),
    );
  }

  #settled(reader: Reader, result: Outcome<unknown>): void {
    if (reader.isOver) return;
    if (result.ok && isAsyncIterable(result.value)) return this.#flow(reader, result.value);
    const { pending } = reader;
    this.#leave(reader);
    this.#ports.answer(pending, this.#outcomeOf(result));
    this.#next();
  }

  #flow(reader: Reader, items: AsyncIterable<unknown>): void {
    const { limits, durable, canServe, inbox } = this.#ports;
    const { pending } = reader;
    const flow = new ResultStreamSource(items, {
      itemBytesMax: limits.resultBytesMax,
      durable,
      servingError: () => (canServe() ? undefined : new RemusterError('NO_QUORUM')),
      ended: () => this.#flowEnded(reader),
    });
    reader.flow = flow;
    // Only its deadline and its reader end it now; a request that is sent again begins anew.
    inbox.leave(pending);
    pending.stage = 'flowing';
    pending.answerStream(success({ stream: flow }));
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
    while (this.#queue.size > 0 && this.#readers.size < limits.readersMax && this.#ports.canServe()) {
      const [pending] = this.#queue;
      if (pending === undefined) return;
      this.#queue.delete(pending);
      pending.queue = undefined;
      this.#ports.resume(pending);
    }
  }

  #outcomeOf(result: Outcome<unknown>): Outcome<CallOutput> {
    if (!result.ok) return result;
    try {
      return success({ value: encodeValue(result.value, this.#ports.limits.resultBytesMax) });
    } catch (thrown) {
      return { ok: false, error: methodFailure(thrown) };
    }
  }
}

function inboxFull(): Outcome<never> {
  return failure('CAPACITY', 'too many calls of this container wait for their answers');
}
