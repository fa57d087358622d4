/**
 * One container that this node owns, from the first record that says so to the one that does not. It opens a tenure for
 * each fence under which we are the owner, one after the other, and ends it at once when the record says otherwise. Calls
 * wait in its inbox across tenures; they never go to another container.
 *
 *   closed --our fence--> opening --> open --handing--> plugged --> handed
 *     ^                      |          |                  |          |
 *     +------ the log is closed: another fence, another owner, a failure
 */
import { type Done, type ErrorCode, failure, type Outcome, RemusterError } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { Cancel, LogLevel } from '../../base/ports.ts';
import type { ContainerMove, ContainerRecord } from '../../registry/placement/records.ts';
import type { ArrivedCall, CallAnswer, ContainerChange } from '../contract.ts';
import type { Context, ModuleDefinition } from '../module.ts';
import { Handing } from './handing.ts';
import { Inbox } from './inbox.ts';
import type { HostingLimits } from './limits.ts';
import type { CallMeter } from './meter.ts';
import { Opening } from './opening.ts';
import type { HostingPorts } from './ports.ts';
import type { Tenure } from './tenure.ts';

/** A change that says that we own the container. */
export type OwnedChange = ContainerChange & { readonly record: ContainerRecord };

/** Under one fence. */
type Hold = {
  readonly change: OwnedChange;
  readonly opening: Opening;
  tenure: Tenure | undefined;
  handing: Handing | undefined;
  /** Where it was not moved to after all; the record may not say so yet. */
  withdrawnTo: string | undefined;
};

export type ContainerParts = {
  readonly ports: HostingPorts;
  readonly limits: HostingLimits;
  readonly meter: CallMeter;
  /** It has opened or closed. */
  readonly shifted: () => void;
};

export class Container {
  readonly inbox: Inbox;
  readonly #parts: ContainerParts;
  readonly #ports: HostingPorts;
  /** The last record, if it says that we own the container. */
  #owned: OwnedChange | undefined;
  #hold: Hold | undefined;
  /** The last fence under which it will not be opened again. */
  #spent: { readonly fence: Fence; readonly isHanded: boolean } | undefined;
  #isClosing = false;
  #isStopping = false;
  #closed: (() => void) | undefined;
  #cancelRetry: Cancel | undefined;

  constructor(parts: ContainerParts) {
    this.#parts = parts;
    this.#ports = parts.ports;
    const { clock } = parts.ports;
    this.inbox = new Inbox(clock, parts.limits, (pending, isOk) => {
      parts.meter.ended(clock.nowMs() - pending.arrivedMs, isOk);
    });
  }

  get isOpen(): boolean {
    return this.#hold?.tenure !== undefined;
  }

  /** Calls get their turns. */
  get isServing(): boolean {
    return this.#hold?.tenure?.isOpen === true;
  }

  /** Nobody needs it any more. */
  get isVacant(): boolean {
    return this.#owned === undefined && this.#hold === undefined && !this.#isClosing;
  }

  /** Of the module that is open. */
  get definition(): ModuleDefinition | undefined {
    return this.#hold?.tenure?.definition;
  }

  get owned(): OwnedChange | undefined {
    return this.#owned;
  }

  /** Undefined when the record says that we do not own it. */
  changed(owned: OwnedChange | undefined): void {
    this.#owned = owned;
    const hold = this.#hold;
    if (owned === undefined) {
      this.#close('it has another owner');
      this.inbox.endWaiting(new RemusterError('STALE_TABLE'));
    } else if (hold !== undefined && owned.record.fence > hold.change.record.fence) {
      this.#close('it is opened anew');
    } else if (hold?.tenure !== undefined && owned.record.fence === hold.change.record.fence) {
      this.#follow(hold, hold.tenure, owned.record);
    }
    this.#consider();
  }

  call(call: ArrivedCall, done: Done<CallAnswer>): Cancel {
    const { clock, lease } = this.#ports;
    if (this.#owned === undefined || this.#isHanded(this.#owned)) return refused(done, 'STALE_TABLE');
    const nowMs = clock.nowMs();
    if (this.#isStopping || !lease.holds(nowMs)) return refused(done, 'NO_QUORUM');
    const known = this.inbox.find(call.id);
    if (known !== undefined) return this.inbox.join(known, done);
    const tenure = this.#hold?.tenure;
    if (tenure?.isOpen === true) return tenure.call(call, nowMs, done) ?? refused(done, 'CAPACITY');
    const pending = this.inbox.admit(call, nowMs);
    if (pending === undefined) return refused(done, 'CAPACITY');
    this.inbox.wait(pending);
    return pending.attach(done);
  }

  leaseChanged(holds: boolean): void {
    if (!holds) return this.inbox.answerAll(new RemusterError('NO_QUORUM'));
    this.#hold?.opening.advance();
    this.#hold?.tenure?.leaseReturned();
  }

  modulesChanged(): void {
    this.#hold?.opening.advance();
  }

  /** What is to be done in it besides calls, as a writing turn. */
  run(name: string, turn: (ctx: Context, definition: ModuleDefinition) => unknown): void {
    const tenure = this.#hold?.tenure;
    const done = (outcome: Outcome<void>): void => {
      if (!outcome.ok) this.#log('warn', `${name} failed`, outcome.error);
    };
    tenure?.run({
      name,
      timeMsMax: this.#parts.limits.callbackMsMax,
      run: (ctx) => turn(ctx, tenure.definition),
      done,
    });
  }

  /** Ends when nothing runs and the log is closed, or after a bound. */
  stop(done: () => void): void {
    const { clock } = this.#ports;
    const { stopMs } = this.#parts.limits;
    this.#isStopping = true;
    this.#cancelRetry?.();
    const tenure = this.#hold?.tenure;
    this.#hold?.handing?.stop();
    tenure?.plug();
    this.inbox.endWaiting(new RemusterError('NO_QUORUM', 'this node is stopping'));
    const close = once(() => this.#close('this node is stopping'));
    const finish = once(() => {
      this.inbox.deadlines.stop();
      cancelDrain();
      cancelAll();
      done();
    });
    this.#closed = finish;
    const cancelDrain = clock.schedule(stopMs, close);
    const cancelAll = clock.schedule(2 * stopMs, finish);
    if (tenure === undefined) close();
    else tenure.whenIdle(close);
    if (!this.#isClosing && this.#hold === undefined) finish();
  }

  #isHanded({ record }: OwnedChange): boolean {
    if (record.move?.step === 'handed') return true;
    return this.#spent?.isHanded === true && this.#spent.fence === record.fence;
  }

  /** Opens it if it is ours and can be. */
  #consider(): void {
    const owned = this.#owned;
    if (owned === undefined || this.#hold !== undefined || this.#isClosing || this.#isStopping) return;
    if (owned.record.fence === this.#spent?.fence || this.#isHanded(owned)) return;
    const { ports, limits, meter } = this.#parts;
    const opening: Opening = new Opening({
      ports,
      limits,
      meter,
      inbox: this.inbox,
      change: owned,
      ready: (tenure) => this.#ready(hold, tenure),
      failed: (error) => this.#failed(hold, error),
      delayed: (note) => this.#blame(owned, note),
    });
    const hold: Hold = { change: owned, opening, tenure: undefined, handing: undefined, withdrawnTo: undefined };
    this.#hold = hold;
    opening.advance();
  }

  #ready(hold: Hold, tenure: Tenure): void {
    if (this.#hold !== hold) return;
    hold.tenure = tenure;
    const { pool, container, record } = hold.change;
    const { fence, opening } = record;
    this.#ports.tell({ kind: 'opened', pool: pool.name, container, fence, opening });
    this.#parts.shifted();
    this.#follow(hold, tenure, this.#owned?.record.fence === fence ? this.#owned.record : record);
    if (hold.handing === undefined) tenure.open();
  }

  /** Does what the record of our own fence asks for: only moves do. */
  #follow(hold: Hold, tenure: Tenure, { move }: ContainerRecord): void {
    if (move?.step === 'handed') return this.#handed(hold);
    if (move?.step !== 'handing') {
      hold.withdrawnTo = undefined;
      hold.handing?.cancel();
    } else if (hold.handing !== undefined) {
      if (hold.handing.move.to !== move.to) hold.handing.cancel();
    } else if (hold.withdrawnTo !== move.to && !this.#isStopping) {
      this.#hand(hold, tenure, move);
    }
  }

  #hand(hold: Hold, tenure: Tenure, move: ContainerMove): void {
    const { ports, limits } = this.#parts;
    const { change } = hold;
    hold.handing = new Handing({
      ports,
      limits,
      change,
      move,
      tenure,
      handed: () => this.#handed(hold),
      resumed: (reason) => {
        this.#log('info', 'a move was given up', new RemusterError('PRECONDITION', reason));
        hold.handing = undefined;
        hold.withdrawnTo = move.to;
        tenure.open();
      },
    });
    hold.handing.begin();
  }

  #handed(hold: Hold): void {
    if (this.#hold !== hold) return;
    this.#spent = { fence: hold.change.record.fence, isHanded: true };
    this.#close('it was handed over');
    this.inbox.endWaiting(new RemusterError('STALE_TABLE'));
  }

  /** It could not be opened, or cannot go on. */
  #failed(hold: Hold, error: RemusterError): void {
    if (this.#hold !== hold) return;
    const { fence } = hold.change.record;
    this.#spent = { fence, isHanded: false };
    this.#log('warn', hold.tenure === undefined ? 'a container did not open' : 'a container cannot go on', error);
    this.#close(error.message, error.code === 'STORE_FULL' ? error : undefined);
    if (error.code !== 'NO_QUORUM') return this.#blame(hold.change, error.message);
    // Nobody is to blame, and nothing is known to be wrong: the same again, a little later.
    this.#cancelRetry = this.#ports.clock.schedule(this.#parts.limits.retryMs, () => {
      if (this.#spent?.fence === fence) this.#spent = undefined;
      this.#consider();
    });
  }

  /** The leader is to decide who tries next. What has been served once is not new any more. */
  #blame(change: OwnedChange, note: string): void {
    this.#amend(change, (record) => {
      const opening = record.phase === 'serving' && record.opening === 'init' ? 'recover' : record.opening;
      return { ...record, phase: 'opening', opening, failures: record.failures + 1, note };
    });
  }

  /** Again and again, until it is done or we do not own the container under that fence any more. */
  #amend(change: OwnedChange, amendment: (record: ContainerRecord) => ContainerRecord | undefined): void {
    const { fence } = change.record;
    if (this.#isStopping || this.#owned?.record.fence !== fence) return;
    this.#ports.copies.amend(change, fence, amendment, (outcome) => {
      if (outcome.ok || outcome.error.code === 'FENCED') return;
      this.#ports.clock.schedule(this.#parts.limits.retryMs, () => this.#amend(change, amendment));
    });
  }

  #close(reason: string, notWritten?: RemusterError): void {
    const hold = this.#hold;
    if (hold === undefined) return;
    const { tenure, opening, change } = hold;
    this.#hold = undefined;
    this.#isClosing = true;
    hold.handing?.stop();
    const error = new RemusterError('FENCED', `the container is closed: ${reason}`);
    tenure?.end(error, notWritten);
    if (tenure !== undefined) {
      const { pool, container, record } = change;
      this.#ports.tell({ kind: 'closed', pool: pool.name, container, fence: record.fence, reason });
      this.#parts.shifted();
    }
    opening.stop(error, (log) => {
      if (log === undefined) this.#hasClosed();
      else log.close(() => this.#hasClosed());
    });
  }

  #hasClosed(): void {
    this.#isClosing = false;
    this.#closed?.();
    this.#consider();
    this.#parts.shifted();
  }

  #log(level: LogLevel, message: string, { code, message: reason }: RemusterError): void {
    const { pool, container } = this.#owned ?? this.#hold?.change ?? {};
    this.#ports.log(level, message, { pool: pool?.name, container, code, reason });
  }
}

function refused(done: Done<CallAnswer>, code: ErrorCode): Cancel {
  done(failure(code));
  return nothing;
}

function once(run: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    run();
  };
}

const nothing: Cancel = () => {};
