/**
 * One writing turn at a time, in arrival order; all of its changes count on return, or none. The next turn does not
 * wait for the commit of the one before.
 *
 * A method that does not end keeps the turn for a grace after its deadline and then loses it; its context is dead, so
 * it can do nothing to those who come after it.
 */
import { CompactingSet } from '../../../base/collections/compacting-map.ts';
import { failure, RemusterError, success } from '../../../base/errors.ts';
import type { Cancel, StoreWrite } from '../../../base/ports.ts';
import { encodeDetachedValue } from '../../../messages/codec/value.ts';
import { CallChanges } from '../state/container-contents.ts';
import { CallContext } from './call-context.ts';
import type { DeadlineEntry } from './call-deadlines.ts';
import { decodeArgs, methodFailure, isAsyncIterable, isThenable, type ModuleMethod } from './module-methods.ts';
import { PendingCall } from './pending-call.ts';
import type { DedupResult } from '../state/dedup-table.ts';
import type { InternalTurn, Turn, TurnPorts } from './turn.ts';

type Running = {
  readonly turn: Turn;
  readonly ctx: CallContext;
  readonly changes: CallChanges;
  /** Nothing that it does counts any more. */
  isOver: boolean;
  limit: DeadlineEntry | undefined;
  cancelGrace: Cancel | undefined;
};

export class WriteQueue {
  readonly #ports: TurnPorts;
  readonly #methods: ReadonlyMap<string, ModuleMethod>;
  readonly #queue = new CompactingSet<Turn>();
  #running: Running | undefined;

  constructor(ports: TurnPorts, methods: ReadonlyMap<string, ModuleMethod>) {
    this.#ports = ports;
    this.#methods = methods;
  }

  get isIdle(): boolean {
    return this.#running === undefined && this.#queue.size === 0;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  add(turn: Turn): void {
    if (this.#queue.size === 0 && this.#canBegin()) {
      this.#begin(turn);
      this.startNext();
      return;
    }
    this.#queue.add(turn);
    if (turn instanceof PendingCall) turn.queue = this.#queue;
  }

  /** Begins what may begin now. */
  startNext(): void {
    while (this.#queue.size > 0 && this.#canBegin()) {
      const [turn] = this.#queue as Iterable<Turn>;
      if (turn === undefined) return;
      this.#queue.delete(turn);
      this.#begin(turn);
    }
    this.#ports.turnEnded();
  }

  /** The calls that wait for their turn, in order; they wait here no more. */
  removeCalls(): PendingCall[] {
    const calls: PendingCall[] = [];
    for (const turn of this.#queue) {
      if (!(turn instanceof PendingCall)) continue;
      this.#queue.delete(turn);
      turn.queue = undefined;
      calls.push(turn);
    }
    return calls;
  }

  /** Ends what runs without effect, and everything of our own that waits. Calls are the business of the caller. */
  close(error: RemusterError): void {
    const running = this.#running;
    this.#running = undefined;
    if (running !== undefined) this.#giveUp(running, error);
    const internal = [...this.#queue];
    this.#queue.clear();
    for (const turn of internal) if (!(turn instanceof PendingCall)) turn.done({ ok: false, error });
  }

  #canBegin(): boolean {
    return this.#running === undefined && !this.#ports.isCommitQueueFull() && this.#ports.canServe();
  }

  #begin(turn: Turn): void {
    if (turn instanceof PendingCall) this.#beginCall(turn);
    else this.#beginInternal(turn);
  }

  #beginCall(pending: PendingCall): void {
    const { clock, contents, inbox, answer } = this.#ports;
    const { call } = pending;
    const nowMs = clock.nowMs();
    pending.queue = undefined;
    if (pending.deadlineMs <= nowMs) return inbox.expired(pending);
    const given = contents.dedup.find(call.id, nowMs);
    if (given !== undefined) return answer(pending, outcomeOf(given));
    const method = this.#methods.get(call.method);
    if (method === undefined) return answer(pending, failure('UNKNOWN_METHOD', `there is no method ${call.method}`));
    let args: unknown[];
    try {
      args = decodeArgs(call.args);
    } catch (error) {
      return answer(pending, { ok: false, error: methodFailure(error) });
    }
    pending.stage = 'running';
    this.#run(pending, pending.deadlineMs, (ctx) => method.run(ctx, ...args));
  }

  #beginInternal(turn: InternalTurn): void {
    this.#run(turn, this.#ports.clock.nowMs() + turn.timeMsMax, turn.run);
  }

  #run(turn: Turn, deadlineMs: number, run: InternalTurn['run']): void {
    const { contextInfo, contents, limits } = this.#ports;
    const changes = new CallChanges(contents, limits, contextInfo.now);
    const id = turn instanceof PendingCall ? turn.call.id : undefined;
    const ctx = new CallContext(contextInfo, changes.state, changes.timers, id, deadlineMs);
    const running: Running = { turn, ctx, changes, isOver: false, limit: undefined, cancelGrace: undefined };
    this.#running = running;
    let result: unknown;
    try {
      result = run(ctx, changes);
    } catch (thrown) {
      return this.#failed(running, thrown);
    }
    if (isThenable(result)) this.#await(running, deadlineMs, result);
    else this.#returned(running, result);
  }

  #await(running: Running, deadlineMs: number, result: PromiseLike<unknown>): void {
    const { turn } = running;
    if (turn instanceof PendingCall) turn.stop = (error) => this.#giveUp(running, error);
    else {
      const onExpired = (): void => {
        const error = new RemusterError('DEADLINE', `${turn.name} has not ended in ${turn.timeMsMax} ms`);
        this.#giveUp(running, error);
      };
      running.limit = { deadlineMs, place: -1, onExpired };
      this.#ports.inbox.deadlines.add(running.limit);
    }
    result.then(
      (value) => this.#settled(running, () => this.#returned(running, value)),
      (thrown: unknown) => this.#settled(running, () => this.#failed(running, thrown)),
    );
  }

  #settled(running: Running, end: () => void): void {
    if (running.limit !== undefined) this.#ports.inbox.deadlines.delete(running.limit);
    if (!running.isOver) end();
    else if (this.#running === running) this.#running = undefined;
    running.cancelGrace?.();
    this.startNext();
  }

  #returned(running: Running, value: unknown): void {
    const { turn } = running;
    if (!(turn instanceof PendingCall)) return this.#succeeded(running, turn);
    let result: Uint8Array;
    try {
      if (isAsyncIterable(value)) throw new TypeError('only a readonly method can give a flow of items');
      result = encodeDetachedValue(value, this.#ports.limits.resultBytesMax);
      this.#checkSize(running, result.length);
    } catch (thrown) {
      return this.#failed(running, thrown);
    }
    this.#answered(running, turn, { value: result });
  }

  #failed(running: Running, thrown: unknown): void {
    const { turn } = running;
    const error = methodFailure(thrown, running.ctx.hasCalled);
    if (turn instanceof PendingCall) return this.#answered(running, turn, { error });
    this.#finish(running);
    turn.done({ ok: false, error });
  }

  /** A commit that nobody can take would be the end of the container. */
  #checkSize({ changes }: Running, resultBytes: number): void {
    const { commitBytesMax } = this.#ports.limits;
    if (changes.writtenBytes + resultBytes <= commitBytesMax) return;
    throw new RemusterError('TOO_LARGE', `what a call writes and returns exceeds ${commitBytesMax} bytes`, 'no');
  }

  #succeeded(running: Running, turn: InternalTurn): void {
    try {
      this.#checkSize(running, 0);
    } catch (thrown) {
      return this.#failed(running, thrown);
    }
    this.#finish(running);
    if (!this.#ports.canServe()) return turn.done(failure('NO_QUORUM'));
    const rows: StoreWrite[] = [...(turn.rows ?? [])];
    this.#apply(running, rows);
    this.#ports.commit(rows, running.changes.writtenBytes, turn);
  }

  #answered(running: Running, pending: PendingCall, answer: DedupResult): void {
    const { contents, clock, commit, canServe } = this.#ports;
    this.#finish(running);
    // Without the lease somebody else may own it by now. As nothing was changed, it may as well not have run.
    if (!canServe())
      return this.#ports.inbox.end(pending, failure('NO_QUORUM', undefined, running.ctx.hasCalled ? 'maybe' : 'no'));
    pending.outcome = outcomeOf(answer);
    // An error that another time may not give is not kept: the caller is meant to try again.
    if ('error' in answer && answer.error.row.retryable) return this.#ports.answer(pending, pending.outcome);
    const rows: StoreWrite[] = [];
    if ('value' in answer) this.#apply(running, rows);
    contents.dedup.record(pending.call, answer, clock.nowMs(), rows);
    pending.stage = 'committing';
    const answerBytes = 'value' in answer ? answer.value.length : answer.error.message.length;
    commit(rows, running.changes.writtenBytes + answerBytes, pending);
  }

  #apply({ changes }: Running, rows: StoreWrite[]): void {
    changes.collectRows(rows);
    changes.apply();
    if (!changes.timers.isEmpty) this.#ports.timersChanged();
  }

  #finish(running: Running): void {
    this.#running = undefined;
    if (running.turn instanceof PendingCall) running.turn.stop = undefined;
    running.isOver = true;
    running.changes.end();
    running.ctx.end();
  }

  /** The turn stays taken until the method has ended, or for the grace. */
  #giveUp(running: Running, error: RemusterError): void {
    const { turn, ctx, changes } = running;
    if (running.isOver) return;
    running.isOver = true;
    changes.end();
    ctx.abort(error);
    ctx.end();
    if (!(turn instanceof PendingCall)) turn.done({ ok: false, error });
    if (this.#running !== running) return;
    const { clock, limits, log, contextInfo } = this.#ports;
    running.cancelGrace = clock.schedule(limits.graceMs, () => {
      if (this.#running !== running) return;
      const name = turn instanceof PendingCall ? turn.call.method : turn.name;
      log('warn', 'a method goes on after its time', {
        pool: contextInfo.pool.name,
        container: contextInfo.container,
        method: name,
      });
      this.#running = undefined;
      this.startNext();
    });
  }
}

function outcomeOf(
  answer: DedupResult,
): ReturnType<typeof success<{ value: Uint8Array }>> | ReturnType<typeof failure> {
  return 'value' in answer ? success({ value: answer.value }) : { ok: false, error: answer.error };
}
