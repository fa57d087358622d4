/**
 * One writing turn at a time, in order of arrival; all of its changes count when it returns, or none. The next turn
 * does not wait for the commit of the one before.
 *
 * A method that does not end keeps the turn for a grace period after its deadline and then loses it; its context is
 * ended, so it cannot affect later turns.
 */
import { CompactingSet } from '../../../base/collections/compacting-map.ts';
import { failure, RemusterError, success } from '../../../base/errors.ts';
import { isThenable } from '../../../base/runtime/thenable.ts';
import type { Cancel, StoreWrite } from '../../../base/ports.ts';
import { encodeDetachedValue } from '../../../messages/codec/value.ts';
import { CallChanges } from '../state/container-contents.ts';
import { CallContext } from './call-context.ts';
import type { DeadlineEntry } from './call-deadlines.ts';
import { decodeArgs, methodFailure, isAsyncIterable, type ModuleMethod } from './module-methods.ts';
import { PendingCall } from './pending-call.ts';
import type { DedupResult } from '../state/dedup-table.ts';
import type { InternalTurn, Turn, TurnPorts } from './turn.ts';

type Running = {
  readonly turn: Turn;
  readonly ctx: CallContext;
  readonly changes: CallChanges;
  /** Its changes no longer count. */
  hasEnded: boolean;
  deadline: DeadlineEntry | undefined;
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
    if (this.#queue.size === 0 && this.#canStart()) {
      this.#start(turn);
      this.startNext();
      return;
    }
    this.#queue.add(turn);
    if (turn instanceof PendingCall) turn.queue = this.#queue;
  }

  /** Starts the next turns while it can. */
  startNext(): void {
    while (this.#queue.size > 0 && this.#canStart()) {
      const [turn] = this.#queue as Iterable<Turn>;
      if (turn === undefined) return;
      this.#queue.delete(turn);
      this.#start(turn);
    }
    this.#ports.turnEnded();
  }

  /** Removes and returns the waiting calls, in order. */
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

  /** Ends the running turn without effect, and all waiting internal turns. The caller ends the waiting calls. */
  close(error: RemusterError): void {
    const running = this.#running;
    this.#running = undefined;
    if (running !== undefined) this.#abandon(running, error);
    const internal = [...this.#queue];
    this.#queue.clear();
    for (const turn of internal) if (!(turn instanceof PendingCall)) turn.done({ ok: false, error });
  }

  #canStart(): boolean {
    return this.#running === undefined && !this.#ports.isCommitQueueFull() && this.#ports.canServe();
  }

  #start(turn: Turn): void {
    if (turn instanceof PendingCall) this.#startCall(turn);
    else this.#startInternal(turn);
  }

  #startCall(pending: PendingCall): void {
    const { clock, contents, inbox, reply } = this.#ports;
    const { call } = pending;
    const nowMs = clock.nowMs();
    pending.queue = undefined;
    if (pending.deadlineMs <= nowMs) return inbox.expired(pending);
    const recorded = contents.dedup.find(call.id, nowMs);
    if (recorded !== undefined) return reply(pending, outcomeOf(recorded));
    const method = this.#methods.get(call.method);
    if (method === undefined) return reply(pending, failure('UNKNOWN_METHOD', `there is no method ${call.method}`));
    let args: unknown[];
    try {
      args = decodeArgs(call.args);
    } catch (error) {
      return reply(pending, { ok: false, error: methodFailure(error) });
    }
    pending.stage = 'running';
    this.#run(pending, pending.deadlineMs, (ctx) => method.run(ctx, ...args));
  }

  #startInternal(turn: InternalTurn): void {
    this.#run(turn, this.#ports.clock.nowMs() + turn.timeMsMax, turn.run);
  }

  #run(turn: Turn, deadlineMs: number, run: InternalTurn['run']): void {
    const { contextInfo, contents, limits } = this.#ports;
    const changes = new CallChanges(contents, limits, contextInfo.now);
    const id = turn instanceof PendingCall ? turn.call.id : undefined;
    const ctx = new CallContext(contextInfo, changes.state, changes.timers, id, deadlineMs);
    const running: Running = { turn, ctx, changes, hasEnded: false, deadline: undefined, cancelGrace: undefined };
    this.#running = running;
    let result: unknown;
    try {
      result = run(ctx, changes);
    } catch (thrown) {
      return this.#onFailed(running, thrown);
    }
    if (isThenable(result)) this.#await(running, deadlineMs, result);
    else this.#onReturned(running, result);
  }

  #await(running: Running, deadlineMs: number, result: PromiseLike<unknown>): void {
    const { turn } = running;
    if (turn instanceof PendingCall) turn.stop = (error) => this.#abandon(running, error);
    else {
      const onExpired = (): void => {
        const error = new RemusterError('DEADLINE', `${turn.name} has not ended in ${Math.round(turn.timeMsMax)} ms`);
        this.#abandon(running, error);
      };
      running.deadline = { deadlineMs, listIndex: -1, onExpired };
      this.#ports.inbox.deadlines.add(running.deadline);
    }
    result.then(
      (value) => this.#onSettled(running, () => this.#onReturned(running, value)),
      (thrown: unknown) => this.#onSettled(running, () => this.#onFailed(running, thrown)),
    );
  }

  #onSettled(running: Running, end: () => void): void {
    if (running.deadline !== undefined) this.#ports.inbox.deadlines.delete(running.deadline);
    if (!running.hasEnded) end();
    else if (this.#running === running) this.#running = undefined;
    running.cancelGrace?.();
    this.startNext();
  }

  #onReturned(running: Running, value: unknown): void {
    const { turn } = running;
    if (!(turn instanceof PendingCall)) return this.#commitInternal(running, turn);
    let result: Uint8Array;
    try {
      if (isAsyncIterable(value)) throw new TypeError('only a readonly method can return a result stream');
      result = encodeDetachedValue(value, this.#ports.limits.resultBytesMax);
      this.#checkSize(running, result.length);
    } catch (thrown) {
      return this.#onFailed(running, thrown);
    }
    this.#commitResult(running, turn, { value: result });
  }

  #onFailed(running: Running, thrown: unknown): void {
    const { turn } = running;
    const error = methodFailure(thrown, running.ctx.hasCalled);
    if (turn instanceof PendingCall) return this.#commitResult(running, turn, { error });
    this.#finish(running);
    turn.done({ ok: false, error });
  }

  /** A commit that replication refuses would close the container. */
  #checkSize({ changes }: Running, resultBytes: number): void {
    const { commitBytesMax } = this.#ports.limits;
    if (changes.writtenBytes + resultBytes <= commitBytesMax) return;
    throw new RemusterError('TOO_LARGE', `the writes and the result of a call exceed ${commitBytesMax} bytes`, 'no');
  }

  #commitInternal(running: Running, turn: InternalTurn): void {
    try {
      this.#checkSize(running, 0);
    } catch (thrown) {
      return this.#onFailed(running, thrown);
    }
    this.#finish(running);
    if (!this.#ports.canServe()) return turn.done(failure('NO_QUORUM'));
    const rows: StoreWrite[] = [...(turn.rows ?? [])];
    this.#apply(running, rows);
    this.#ports.commit(rows, running.changes.writtenBytes, turn);
  }

  #commitResult(running: Running, pending: PendingCall, recorded: DedupResult): void {
    const { contents, clock, commit, canServe } = this.#ports;
    this.#finish(running);
    // Without the lease another node may own the container by now. The changes are dropped, as if the call had not run.
    if (!canServe())
      return this.#ports.inbox.end(pending, failure('NO_QUORUM', undefined, running.ctx.hasCalled ? 'maybe' : 'no'));
    pending.outcome = outcomeOf(recorded);
    // A retryable error is not recorded: the caller should retry.
    if ('error' in recorded && recorded.error.row.retryable) return this.#ports.reply(pending, pending.outcome);
    const rows: StoreWrite[] = [];
    if ('value' in recorded) this.#apply(running, rows);
    contents.dedup.record(pending.call, recorded, clock.nowMs(), rows);
    pending.stage = 'committing';
    const resultBytes = 'value' in recorded ? recorded.value.length : recorded.error.message.length;
    commit(rows, running.changes.writtenBytes + resultBytes, pending);
  }

  #apply({ changes }: Running, rows: StoreWrite[]): void {
    changes.collectRows(rows);
    changes.apply();
    if (!changes.timers.isEmpty) this.#ports.timersChanged();
  }

  #finish(running: Running): void {
    this.#running = undefined;
    if (running.turn instanceof PendingCall) running.turn.stop = undefined;
    running.hasEnded = true;
    running.changes.end();
    running.ctx.end();
  }

  /** The turn stays taken until the method has ended, or for the grace period. */
  #abandon(running: Running, error: RemusterError): void {
    const { turn, ctx, changes } = running;
    if (running.hasEnded) return;
    running.hasEnded = true;
    changes.end();
    ctx.abort(error);
    ctx.end();
    if (!(turn instanceof PendingCall)) turn.done({ ok: false, error });
    if (this.#running !== running) return;
    const { clock, limits, log, contextInfo } = this.#ports;
    running.cancelGrace = clock.schedule(limits.graceMs, () => {
      if (this.#running !== running) return;
      const name = turn instanceof PendingCall ? turn.call.method : turn.name;
      log('warn', 'a method runs on after its deadline', {
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
  recorded: DedupResult,
): ReturnType<typeof success<{ value: Uint8Array }>> | ReturnType<typeof failure> {
  return 'value' in recorded ? success({ value: recorded.value }) : { ok: false, error: recorded.error };
}
