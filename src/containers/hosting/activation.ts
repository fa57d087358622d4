/**
 * One open container under one fence: turns, commits, replies. Replies leave only in commit order and while the serving
 * lease holds. Ends once; a new activation follows under another fence.
 *
 *   call -> read slot or write queue -> commit queue -> log.commit -> in order -> reply
 */
import { type Done, failure, type Outcome, RemusterError, success } from '../../base/errors.ts';
import type { Cancel, StoreWrite } from '../../base/ports.ts';
import type { IncomingCall, CallOutput, ContainerLog } from '../contract.ts';
import type { ModuleDefinition } from '../module.ts';
import { CommitQueue } from './turns/commit-queue.ts';
import type { ContainerContents } from './state/container-contents.ts';
import type { ContextInfo } from './turns/call-context.ts';
import type { Inbox } from './turns/inbox.ts';
import type { HostingLimits } from '../hosting-limits.ts';
import type { CallMetrics } from './call-metrics.ts';
import { type ModuleMethod, methodsOf } from './turns/module-methods.ts';
import { PendingCall } from './turns/pending-call.ts';
import type { HostingPorts } from './hosting-ports.ts';
import { ReadSlots } from './turns/read-slots.ts';
import { TimerRunner } from './turns/timer-runner.ts';
import { transferMethods } from './bulk-transfer.ts';
import type { InternalTurn, Turn, TurnPorts } from './turns/turn.ts';
import { WriteQueue } from './turns/write-queue.ts';

export type ActivationParts = {
  readonly ports: HostingPorts;
  readonly limits: HostingLimits;
  readonly definition: ModuleDefinition;
  readonly contextInfo: ContextInfo;
  readonly contents: ContainerContents;
  readonly log: ContainerLog;
  readonly inbox: Inbox;
  readonly metrics: CallMetrics;
  /** A commit failed: the activation cannot go on. */
  readonly failed: (error: RemusterError) => void;
};

export class Activation {
  readonly definition: ModuleDefinition;
  readonly #parts: ActivationParts;
  readonly #methods: ReadonlyMap<string, ModuleMethod>;
  readonly #commitQueue: CommitQueue<Turn | (() => void)>;
  readonly #readSlots: ReadSlots;
  readonly #writeQueue: WriteQueue;
  readonly #timers: TimerRunner;
  #phase: 'plugged' | 'open' | 'ended' = 'plugged';
  #idle: (() => void) | undefined;

  constructor(parts: ActivationParts) {
    const { ports, limits, inbox, contents, contextInfo } = parts;
    this.definition = parts.definition;
    this.#parts = parts;
    this.#methods = methodsOf(parts.definition, transferMethods(contents));
    this.#commitQueue = new CommitQueue(limits.commitsMax);
    const turnPorts: TurnPorts = {
      clock: ports.clock,
      limits,
      log: ports.log,
      contextInfo,
      contents,
      inbox,
      canServe: (nowMs) => this.#canServe(nowMs),
      isCommitQueueFull: () => this.#commitQueue.isFull || this.#commitQueue.bytes >= limits.inFlightBytesMax,
      commit: (rows, bytes, turn) => this.#commit(rows, bytes, turn),
      reply: (pending, outcome) => this.#reply(pending, outcome),
      timersChanged: () => this.#timers.arm(),
      turnEnded: () => this.#checkIdle(),
    };
    this.#writeQueue = new WriteQueue(turnPorts, this.#methods);
    this.#readSlots = new ReadSlots({
      ...turnPorts,
      isDurable: () => this.#commitQueue.isEmpty,
      whenDurable: () => this.#whenDurable(),
      resume: (pending) => this.resume(pending),
      recordEnded: (durationMs, isOk) => parts.metrics.recordEnded(durationMs, isOk),
    });
    this.#timers = new TimerRunner({
      ...turnPorts,
      timers: contents.timers,
      methods: this.#methods,
      run: (turn) => this.#writeQueue.add(turn),
    });
  }

  get isOpen(): boolean {
    return this.#phase === 'open';
  }

  /** Starts waiting calls and timers. */
  open(): void {
    if (this.#phase !== 'plugged') return;
    this.#phase = 'open';
    for (const pending of this.#parts.inbox.removeWaiting()) this.resume(pending);
    this.#timers.start();
  }

  /** Calls without a turn return to the inbox, and new ones wait there. Running turns go on; result streams end. */
  plug(): void {
    if (this.#phase !== 'open') return;
    this.#phase = 'plugged';
    this.#timers.stop();
    this.#returnCalls();
    this.#readSlots.stopResultStreams(new RemusterError('PLUGGED'));
  }

  call(call: IncomingCall, nowMs: number, done: Done<CallOutput>): Cancel | undefined {
    const method = this.#methods.get(call.method);
    if (method?.isReadonly === true) return this.#readSlots.call(call, method, nowMs, done);
    const pending = this.#parts.inbox.admit(call, nowMs);
    if (pending === undefined) return undefined;
    const cancel = pending.attach(done);
    this.#writeQueue.add(pending);
    return cancel;
  }

  /** Starts a call that had to wait. */
  resume(pending: PendingCall): void {
    if (this.#phase !== 'open') return this.#parts.inbox.wait(pending);
    const method = this.#methods.get(pending.call.method);
    if (method?.isReadonly === true) this.#readSlots.add(pending, method);
    else this.#writeQueue.add(pending);
  }

  /** Runs a writing turn, even while plugged. Ends when its writes are durable. */
  run(turn: InternalTurn): void {
    if (this.#phase === 'ended') turn.done(failure('FENCED'));
    else this.#writeQueue.add(turn);
  }

  /** Calls back once, when no turn runs and no commit is pending. */
  whenIdle(idle: () => void): void {
    this.#idle = idle;
    this.#checkIdle();
  }

  /** The serving lease holds again. */
  leaseRegained(): void {
    this.#writeQueue.startNext();
    if (this.#phase === 'open') this.#timers.arm();
  }

  /**
   * Ends all calls that have had a turn with the error; calls without one stay in the inbox. `notWritten` is the error
   * of calls whose writes were certainly not committed.
   */
  end(error: RemusterError, notWritten = error): void {
    if (this.#phase === 'ended') return;
    this.#phase = 'ended';
    this.#idle = undefined;
    const { inbox, contents } = this.#parts;
    this.#timers.stop();
    this.#returnCalls();
    this.#writeQueue.close(error);
    this.#readSlots.close(error);
    contents.view.end();
    for (const item of this.#commitQueue.failAll()) {
      if (item instanceof PendingCall) inbox.end(item, { ok: false, error: item.isWriting ? notWritten : error });
      else if (typeof item === 'function') item();
      else item.done({ ok: false, error });
    }
    inbox.failStarted(error);
  }

  #returnCalls(): void {
    const calls = [...this.#readSlots.removeCalls(), ...this.#writeQueue.removeCalls()];
    this.#parts.inbox.returnWaiting(calls.toSorted((a, b) => a.arrivedMs - b.arrivedMs));
  }

  #canServe(nowMs?: number): boolean {
    return this.#phase !== 'ended' && this.#parts.ports.lease.holds(nowMs);
  }

  #commit(rows: readonly StoreWrite[], bytes: number, turn: Turn): void {
    if (rows.length === 0) return this.#releaseWhenDurable(turn);
    const commit = this.#commitQueue.begin(bytes);
    this.#commitQueue.append(turn);
    if (turn instanceof PendingCall) {
      turn.queue = this.#commitQueue;
      turn.isWriting = true;
    }
    this.#parts.log.commit(rows, (outcome) => {
      try {
        this.#onCommitted(commit, outcome);
      } catch (error) {
        this.#parts.ports.onHalt(error);
      }
    });
  }

  #onCommitted(commit: number, outcome: Outcome<void>): void {
    if (this.#phase === 'ended') return;
    if (!outcome.ok) return this.#parts.failed(outcome.error);
    this.#commitQueue.complete(commit, (item) => this.#release(item));
    this.#writeQueue.startNext();
  }

  #reply(pending: PendingCall, outcome: Outcome<CallOutput>): void {
    pending.outcome = outcome;
    pending.stage = 'committing';
    this.#releaseWhenDurable(pending);
  }

  /** Releases the turn when everything that it could have read is durable. */
  #releaseWhenDurable(turn: Turn): void {
    if (this.#commitQueue.isEmpty) return this.#release(turn);
    this.#commitQueue.append(turn);
    if (turn instanceof PendingCall) turn.queue = this.#commitQueue;
  }

  #release(item: Turn | (() => void)): void {
    if (typeof item === 'function') item();
    else if (!(item instanceof PendingCall)) item.done(success(undefined));
    else {
      // The call has left the commit queue: `inbox.end` need not search it there.
      item.queue = undefined;
      const outcome = item.outcome ?? failure('INTERNAL');
      this.#parts.inbox.end(item, this.#canServe() ? outcome : failure('NO_QUORUM'));
    }
  }

  #whenDurable(): Promise<void> {
    if (this.#commitQueue.isEmpty) return Promise.resolve();
    return new Promise((resolve) => {
      this.#commitQueue.append(resolve);
    });
  }

  #checkIdle(): void {
    if (this.#idle === undefined || !this.#writeQueue.isIdle || !this.#readSlots.isIdle || !this.#commitQueue.isEmpty)
      return;
    const idle = this.#idle;
    this.#idle = undefined;
    idle();
  }
}
