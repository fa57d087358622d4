/**
 * Readonly calls: they overlap each other and the writing turn, and never read the changes of an unfinished one.
 * Bounded; further calls wait.
 */
import { type Done, failure, type Outcome, RemusterError, success } from '../../../base/errors.ts';
import { isThenable } from '../../../base/runtime/thenable.ts';
import type { Cancel } from '../../../base/ports.ts';
import { encodeValue } from '../../../messages/codec/value.ts';
import type { IncomingCall, CallOutput } from '../../contract.ts';
import { CallContext } from './call-context.ts';
import { ResultStreamSource } from './result-stream-source.ts';
import { decodeArgs, methodFailure, isAsyncIterable, type ModuleMethod, undeclaredStream } from './module-methods.ts';
import type { PendingCall } from './pending-call.ts';
import { noTimers } from '../state/timer-table.ts';
import type { TurnPorts } from './turn.ts';

type Reader = {
  readonly pending: PendingCall;
  readonly ctx: CallContext;
  stream: ResultStreamSource | undefined;
  hasEnded: boolean;
};

export type ReadSlotsPorts = TurnPorts & {
  /** The state in memory is durable. */
  readonly isDurable: () => boolean;
  readonly whenDurable: () => Promise<void>;
  /** Starts a call that waited for a read slot. */
  readonly resume: (pending: PendingCall) => void;
  /** Counts a call that ended without becoming pending. */
  readonly recordEnded: (durationMs: number, isOk: boolean) => void;
};

const notCancellable: Cancel = () => {};

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

  /** Runs a call that has just arrived. */
  call(call: IncomingCall, method: ModuleMethod, nowMs: number, done: Done<CallOutput>): Cancel {
    const { inbox, limits } = this.#ports;
    if (this.#readers.size >= limits.readersMax) return this.#enqueue(call, nowMs, done);
    const deadlineMs = nowMs + call.remainingMs;
    if (deadlineMs <= nowMs) return this.#replyNow(nowMs, failure('DEADLINE'), done);
    const ctx = this.#contextOf(call, deadlineMs);
    const result = this.#run(method, ctx, call.args);
    if (result.ok && this.#isAsynchronous(result.value)) {
      const pending = inbox.admit(call, nowMs);
      if (pending === undefined) {
        ctx.abort(new RemusterError('CAPACITY'));
        return this.#replyNow(nowMs, inboxFull(), done);
      }
      const cancel = pending.attach(done);
      this.#startReader(pending, ctx, result.value);
      return cancel;
    }
    ctx.end();
    const outcome = this.#outcomeOf(result);
    if (this.#ports.isDurable()) return this.#replyNow(nowMs, outcome, done);
    const pending = inbox.admit(call, nowMs);
    if (pending === undefined) return this.#replyNow(nowMs, inboxFull(), done);
    const cancel = pending.attach(done);
    this.#ports.reply(pending, outcome);
    return cancel;
  }

  /** Runs a call that had to wait. */
  add(pending: PendingCall, method: ModuleMethod): void {
    const { limits, inbox, clock, reply } = this.#ports;
    if (this.#readers.size >= limits.readersMax) {
      pending.queue = this.#queue;
      this.#queue.add(pending);
      return;
    }
    if (pending.deadlineMs <= clock.nowMs()) return inbox.expired(pending);
    const ctx = this.#contextOf(pending.call, pending.deadlineMs);
    const result = this.#run(method, ctx, pending.call.args);
    if (result.ok && this.#isAsynchronous(result.value)) return this.#startReader(pending, ctx, result.value);
    ctx.end();
    reply(pending, this.#outcomeOf(result));
  }

  removeCalls(): PendingCall[] {
    const calls = [...this.#queue];
    this.#queue.clear();
    for (const pending of calls) pending.queue = undefined;
    return calls;
  }

  /** Result streams may be endless, so they are stopped, not awaited. */
  stopResultStreams(error: RemusterError): void {
    for (const reader of [...this.#readers]) if (reader.stream !== undefined) this.#stop(reader, error);
  }

  close(error: RemusterError): void {
    for (const reader of [...this.#readers]) this.#stop(reader, error);
  }

  #enqueue(call: IncomingCall, nowMs: number, done: Done<CallOutput>): Cancel {
    const pending = this.#ports.inbox.admit(call, nowMs);
    if (pending === undefined) return this.#replyNow(nowMs, inboxFull(), done);
    pending.queue = this.#queue;
    this.#queue.add(pending);
    return pending.attach(done);
  }

  #replyNow(startedMs: number, outcome: Outcome<CallOutput>, done: Done<CallOutput>): Cancel {
    const nowMs = this.#ports.clock.nowMs();
    const allowed = this.#ports.canServe(nowMs) ? outcome : failure('NO_QUORUM');
    this.#ports.recordEnded(nowMs - startedMs, allowed.ok);
    done(allowed);
    return notCancellable;
  }

  #contextOf(call: IncomingCall, deadlineMs: number): CallContext {
    const { contextInfo, contents } = this.#ports;
    return new CallContext(contextInfo, contents.view, noTimers, call.id, deadlineMs);
  }

  #run(method: ModuleMethod, ctx: CallContext, args: Uint8Array): Outcome<unknown> {
    try {
      const value = method.run(ctx, ...decodeArgs(args));
      if (isAsyncIterable(value) && !method.isStreaming) throw undeclaredStream(method.name);
      return success(value);
    } catch (thrown) {
      return { ok: false, error: methodFailure(thrown, ctx.hasCalled) };
    }
  }

  #isAsynchronous(value: unknown): value is PromiseLike<unknown> | AsyncIterable<unknown> {
    return isThenable(value) || isAsyncIterable(value);
  }

  #startReader(pending: PendingCall, ctx: CallContext, result: PromiseLike<unknown> | AsyncIterable<unknown>): void {
    const reader: Reader = { pending, ctx, stream: undefined, hasEnded: false };
    this.#readers.add(reader);
    pending.stage = 'running';
    pending.stop = (error) => this.#stop(reader, error);
    if (!isThenable(result)) return this.#stream(reader, result);
    result.then(
      (value) => this.#onSettled(reader, success(value)),
      (thrown: unknown) => this.#onSettled(reader, { ok: false, error: methodFailure(thrown, ctx.hasCalled) }),
    );
  }

  #onSettled(reader: Reader, result: Outcome<unknown>): void {
    if (reader.hasEnded) return;
    const { pending, ctx } = reader;
    this.#leave(reader);
    const isStream = result.ok && isAsyncIterable(result.value);
    const error = isStream ? methodFailure(undeclaredStream(pending.call.method), ctx.hasCalled) : undefined;
    this.#ports.reply(pending, this.#outcomeOf(error === undefined ? result : { ok: false, error }));
    this.#next();
  }

  #stream(reader: Reader, items: AsyncIterable<unknown>): void {
    const { limits, whenDurable, canServe, inbox } = this.#ports;
    const { pending } = reader;
    const stream = new ResultStreamSource(items, {
      itemBytesMax: limits.resultBytesMax,
      whenDurable,
      servingError: () => (canServe() ? undefined : new RemusterError('NO_QUORUM')),
      ended: () => this.#onStreamEnded(reader),
    });
    reader.stream = stream;
    // From now on only its deadline or its reader ends the stream; a retry starts the method again.
    inbox.leave(pending);
    pending.stage = 'streaming';
    pending.replyStream(success({ stream }));
  }

  #onStreamEnded(reader: Reader): void {
    const { pending } = reader;
    if (!reader.hasEnded) {
      reader.ctx.abort(new RemusterError('CANCELLED'));
      this.#leave(reader);
    }
    if (pending.stage !== 'ended') this.#ports.inbox.end(pending, success({ value: new Uint8Array() }));
    this.#next();
  }

  #stop(reader: Reader, error: RemusterError): void {
    if (reader.hasEnded) return;
    reader.ctx.abort(error);
    this.#leave(reader);
    reader.stream?.stop(error);
    this.#next();
  }

  #leave(reader: Reader): void {
    reader.hasEnded = true;
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
  return failure('CAPACITY', 'too many calls of this container are open');
}
