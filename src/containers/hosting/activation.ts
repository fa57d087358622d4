/**
 * One open container under one fence: turns, commits, answers. Answers leave only in commit order and while the lease
 * holds. Ends once, for good.
 *
 *   call -> reading or writing turn -> commit line -> log.commit -> in order -> answer
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
  readonly meter: CallMetrics;
  /** A commit failed: it cannot go on. */
  readonly failed: (error: RemusterError) => void;
};

export class Activation {
  readonly definition: ModuleDefinition;
  readonly #parts: ActivationParts;
  readonly #methods: ReadonlyMap<string, ModuleMethod>;
  readonly #line: CommitQueue<Turn | (() => void)>;
  readonly #reading: ReadSlots;
  readonly #writing: WriteQueue;
  readonly #timers: TimerRunner;
  #phase: 'closed to calls' | 'open' | 'ended' = 'closed to calls';
  #idle: (() => void) | undefined;

  constructor(parts: ActivationParts) {
    const { ports, limits, inbox, contents, contextInfo } = parts;
    this.definition = parts.definition;
    this.#parts = parts;
    this.#methods = methodsOf(parts.definition, transferMethods(contents));
    this.#line = new CommitQueue(limits.commitsMax);
    const turnPorts: TurnPorts = {
      clock: ports.clock,
      limits,
      log: ports.log,
      contextInfo,
      contents,
      inbox,
      canServe: (nowMs) => this.#mayServe(nowMs),
      isCommitQueueFull: () => this.#line.isFull || this.#line.bytes >= limits.inFlightBytesMax,
      commit: (rows, bytes, turn) => this.#commit(rows, bytes, turn),
      answer: (pending, outcome) => this.#answer(pending, outcome),
      timersChanged: () => this.#timers.arm(),
      turnEnded: () => this.#checkIdle(),
    };
    this.#writing = new WriteQueue(turnPorts, this.#methods);
    this.#reading = new ReadSlots({
      ...turnPorts,
      isDurable: () => this.#line.isEmpty,
      durable: () => this.#durable(),
      resume: (pending) => this.resume(pending),
      answered: (durationMs, isOk) => parts.meter.recordEnded(durationMs, isOk),
    });
    this.#timers = new TimerRunner({
      ...turnPorts,
      timers: contents.timers,
      methods: this.#methods,
      run: (turn) => this.#writing.add(turn),
    });
  }

  get isOpen(): boolean {
    return this.#phase === 'open';
  }

  /** Calls may come, and timers run. */
  open(): void {
    if (this.#phase !== 'closed to calls') return;
    this.#phase = 'open';
    for (const pending of this.#parts.inbox.removeWaiting()) this.resume(pending);
    this.#timers.start();
  }

  /** Calls wait in the inbox again, those too whose turn has not come. What runs goes on, except flows. */
  plug(): void {
    if (this.#phase !== 'open') return;
    this.#phase = 'closed to calls';
    this.#timers.stop();
    this.#returnCalls();
    this.#reading.stopResultStreams(new RemusterError('PLUGGED'));
  }

  call(call: IncomingCall, nowMs: number, done: Done<CallOutput>): Cancel | undefined {
    const method = this.#methods.get(call.method);
    if (method?.isReadonly === true) return this.#reading.call(call, method, nowMs, done);
    const pending = this.#parts.inbox.admit(call, nowMs);
    if (pending === undefined) return undefined;
    const cancel = pending.attach(done);
    this.#writing.add(pending);
    return cancel;
  }

  /** For a call that had to wait. */
  resume(pending: PendingCall): void {
    if (this.#phase !== 'open') return this.#parts.inbox.wait(pending);
    const method = this.#methods.get(pending.call.method);
    if (method?.isReadonly === true) this.#reading.add(pending, method);
    else this.#writing.add(pending);
  }

  /** As a writing turn, also while calls cannot come. Ends when what it wrote is durable. */
  run(turn: InternalTurn): void {
    if (this.#phase === 'ended') turn.done(failure('FENCED'));
    else this.#writing.add(turn);
  }

  /** Calls back once, as soon as no turn is taken and nothing is being committed. */
  whenIdle(idle: () => void): void {
    this.#idle = idle;
    this.#checkIdle();
  }

  /** The lease holds again. */
  leaseRegained(): void {
    this.#writing.startNext();
    if (this.#phase === 'open') this.#timers.arm();
  }

  /**
   * Everybody who has had a turn gets the error; those who wait for one stay in the inbox. `notWritten` is for those
   * whose writes surely were not and will not be kept.
   */
  end(error: RemusterError, notWritten = error): void {
    if (this.#phase === 'ended') return;
    this.#phase = 'ended';
    this.#idle = undefined;
    const { inbox, contents } = this.#parts;
    this.#timers.stop();
    this.#returnCalls();
    this.#writing.close(error);
    this.#reading.close(error);
    contents.view.end();
    for (const item of this.#line.failAll()) {
      if (item instanceof PendingCall) inbox.end(item, { ok: false, error: item.isWriting ? notWritten : error });
      else if (typeof item === 'function') item();
      else item.done({ ok: false, error });
    }
    inbox.failStarted(error);
  }

  #returnCalls(): void {
    const calls = [...this.#reading.removeCalls(), ...this.#writing.removeCalls()];
    this.#parts.inbox.returnWaiting(calls.toSorted((a, b) => a.arrivedMs - b.arrivedMs));
  }

  #mayServe(nowMs?: number): boolean {
    return this.#phase !== 'ended' && this.#parts.ports.lease.holds(nowMs);
  }

  #commit(rows: readonly StoreWrite[], bytes: number, turn: Turn): void {
    if (rows.length === 0) return this.#behind(turn);
    const commit = this.#line.begin(bytes);
    this.#line.append(turn);
    if (turn instanceof PendingCall) {
      turn.queue = this.#line;
      turn.isWriting = true;
    }
    this.#parts.log.commit(rows, (outcome) => {
      try {
        this.#committed(commit, outcome);
      } catch (error) {
        this.#parts.ports.halted(error);
      }
    });
  }

  #committed(commit: number, outcome: Outcome<void>): void {
    if (this.#phase === 'ended') return;
    if (!outcome.ok) return this.#parts.failed(outcome.error);
    this.#line.complete(commit, (item) => this.#release(item));
    this.#writing.startNext();
  }

  #answer(pending: PendingCall, outcome: Outcome<CallOutput>): void {
    pending.outcome = outcome;
    pending.stage = 'committing';
    this.#behind(pending);
  }

  /** Its turn is over when everything that it could have seen is durable. */
  #behind(turn: Turn): void {
    if (this.#line.isEmpty) return this.#release(turn);
    this.#line.append(turn);
    if (turn instanceof PendingCall) turn.queue = this.#line;
  }

  #release(item: Turn | (() => void)): void {
    if (typeof item === 'function') item();
    else if (!(item instanceof PendingCall)) item.done(success(undefined));
    else {
      // It has left the line, and need not be looked for there.
      item.queue = undefined;
      const outcome = item.outcome ?? failure('INTERNAL');
      this.#parts.inbox.end(item, this.#mayServe() ? outcome : failure('NO_QUORUM'));
    }
  }

  #durable(): Promise<void> {
    if (this.#line.isEmpty) return Promise.resolve();
    return new Promise((resolve) => {
      this.#line.append(resolve);
    });
  }

  #checkIdle(): void {
    if (this.#idle === undefined || !this.#writing.isIdle || !this.#reading.isIdle || !this.#line.isEmpty) return;
    const idle = this.#idle;
    this.#idle = undefined;
    idle();
  }
}
