/**
 * One open container under one fence: what it holds, who has a turn, and what is on its way to the disks. From here
 * answers leave, and only while the lease holds and the tenure has not ended; whoever cannot be answered any more gets
 * an error that lets the caller send the call again. It ends once, for good: what comes after has a new one.
 *
 *   call -> reading or writing turn -> commit line -> log.commit -> in order -> answer
 */
import { type Done, failure, type Outcome, RemusterError, success } from '../../base/errors.ts';
import type { Cancel, StoreWrite } from '../../base/ports.ts';
import type { ArrivedCall, CallAnswer, ContainerLog } from '../contract.ts';
import type { ModuleDefinition } from '../module.ts';
import { CommitLine } from './commit-line.ts';
import type { Contents } from './contents.ts';
import type { ContextHome } from './context.ts';
import type { Inbox } from './inbox.ts';
import type { HostingLimits } from './limits.ts';
import type { CallMeter } from './meter.ts';
import { type Method, methodsOf } from './methods.ts';
import { PendingCall } from './pending-call.ts';
import type { HostingPorts } from './ports.ts';
import { ReadingTurns } from './reading-turns.ts';
import { TimerClock } from './timer-clock.ts';
import { transferMethods } from './transfer.ts';
import type { InternalTurn, Turn, TurnPorts } from './turn.ts';
import { WritingTurns } from './writing-turns.ts';

export type TenureParts = {
  readonly ports: HostingPorts;
  readonly limits: HostingLimits;
  readonly definition: ModuleDefinition;
  readonly home: ContextHome;
  readonly contents: Contents;
  readonly log: ContainerLog;
  readonly inbox: Inbox;
  readonly meter: CallMeter;
  /** A commit failed: it cannot go on. */
  readonly failed: (error: RemusterError) => void;
};

export class Tenure {
  readonly definition: ModuleDefinition;
  readonly #parts: TenureParts;
  readonly #methods: ReadonlyMap<string, Method>;
  readonly #line: CommitLine<Turn | (() => void)>;
  readonly #reading: ReadingTurns;
  readonly #writing: WritingTurns;
  readonly #timers: TimerClock;
  #phase: 'closed to calls' | 'open' | 'ended' = 'closed to calls';
  #idle: (() => void) | undefined;

  constructor(parts: TenureParts) {
    const { ports, limits, inbox, contents, home } = parts;
    this.definition = parts.definition;
    this.#parts = parts;
    this.#methods = methodsOf(parts.definition, transferMethods(contents));
    this.#line = new CommitLine(limits.commitsMax);
    const turnPorts: TurnPorts = {
      clock: ports.clock,
      limits,
      log: ports.log,
      home,
      contents,
      inbox,
      mayServe: (nowMs) => this.#mayServe(nowMs),
      isCrowded: () => this.#line.isFull || this.#line.bytes >= limits.underwayBytesMax,
      commit: (rows, bytes, turn) => this.#commit(rows, bytes, turn),
      answer: (pending, outcome) => this.#answer(pending, outcome),
      timersChanged: () => this.#timers.arm(),
      turnEnded: () => this.#checkIdle(),
    };
    this.#writing = new WritingTurns(turnPorts, this.#methods);
    this.#reading = new ReadingTurns({
      ...turnPorts,
      isDurable: () => this.#line.isSettled,
      durable: () => this.#durable(),
      resume: (pending) => this.resume(pending),
      answered: (durationMs, isOk) => parts.meter.ended(durationMs, isOk),
    });
    this.#timers = new TimerClock({
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
    for (const pending of this.#parts.inbox.takeWaiting()) this.resume(pending);
    this.#timers.start();
  }

  /** Calls wait in the inbox again, those too whose turn has not come. What runs goes on, except flows. */
  plug(): void {
    if (this.#phase !== 'open') return;
    this.#phase = 'closed to calls';
    this.#timers.stop();
    this.#returnCalls();
    this.#reading.stopFlows(new RemusterError('PLUGGED'));
  }

  call(call: ArrivedCall, nowMs: number, done: Done<CallAnswer>): Cancel | undefined {
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
  leaseReturned(): void {
    this.#writing.pump();
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
    for (const item of this.#line.abandon()) {
      if (item instanceof PendingCall) inbox.end(item, { ok: false, error: item.isWriting ? notWritten : error });
      else if (typeof item === 'function') item();
      else item.done({ ok: false, error });
    }
    inbox.endStarted(error);
  }

  #returnCalls(): void {
    const calls = [...this.#reading.takeCalls(), ...this.#writing.takeCalls()];
    this.#parts.inbox.returnWaiting(calls.toSorted((a, b) => a.arrivedMs - b.arrivedMs));
  }

  #mayServe(nowMs?: number): boolean {
    return this.#phase !== 'ended' && this.#parts.ports.lease.holds(nowMs);
  }

  #commit(rows: readonly StoreWrite[], bytes: number, turn: Turn): void {
    if (rows.length === 0) return this.#behind(turn);
    const commit = this.#line.issue(bytes);
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
    this.#line.ended(commit, (item) => this.#release(item));
    this.#writing.pump();
  }

  #answer(pending: PendingCall, outcome: Outcome<CallAnswer>): void {
    pending.outcome = outcome;
    pending.stage = 'committing';
    this.#behind(pending);
  }

  /** Its turn is over when everything that it could have seen is durable. */
  #behind(turn: Turn): void {
    if (this.#line.isSettled) return this.#release(turn);
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
    if (this.#line.isSettled) return Promise.resolve();
    return new Promise((resolve) => {
      this.#line.append(resolve);
    });
  }

  #checkIdle(): void {
    if (this.#idle === undefined || !this.#writing.isIdle || !this.#reading.isIdle || !this.#line.isSettled) return;
    const idle = this.#idle;
    this.#idle = undefined;
    idle();
  }
}
