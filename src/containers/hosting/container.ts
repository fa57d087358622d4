/**
 * One owned container across fences: at most one activation at a time, ended at once when the record says otherwise.
 * Calls wait in its inbox, never elsewhere.
 *
 *   closed --our fence--> opening --> open --handing--> plugged --> handed
 *     ^                      |          |                  |          |
 *     +------ the log is closed: another fence, another owner, a failure
 */
import { type Done, type ErrorCode, failure, type Outcome, RemusterError } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { Cancel, LogLevel } from '../../base/ports.ts';
import type { ContainerMove, ContainerRecord } from '../../placement/state/container-records.ts';
import type { IncomingCall, CallOutput, ContainerChange } from '../contract.ts';
import type { Context, ModuleDefinition } from '../module.ts';
import { Handover } from './handover.ts';
import { Inbox } from './turns/inbox.ts';
import type { HostingLimits } from '../hosting-limits.ts';
import type { CallMetrics } from './call-metrics.ts';
import { ContainerStartup } from './container-startup.ts';
import type { HostingPorts } from './hosting-ports.ts';
import type { Activation } from './activation.ts';

/** A change that says that we own the container. */
export type OwnedContainerChange = ContainerChange & { readonly record: ContainerRecord };

/** Under one fence. */
type OwnershipPeriod = {
  readonly change: OwnedContainerChange;
  readonly opening: ContainerStartup;
  tenure: Activation | undefined;
  handing: Handover | undefined;
  /** Where it was not moved to after all; the record may not say so yet. */
  cancelledMoveTo: string | undefined;
};

export type ContainerParts = {
  readonly ports: HostingPorts;
  readonly limits: HostingLimits;
  readonly meter: CallMetrics;
  /** It has opened or closed. */
  readonly onOpenChanged: () => void;
};

export class Container {
  readonly inbox: Inbox;
  readonly #parts: ContainerParts;
  readonly #ports: HostingPorts;
  /** The last record, if it says that we own the container. */
  #owned: OwnedContainerChange | undefined;
  #hold: OwnershipPeriod | undefined;
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
      parts.meter.recordEnded(clock.nowMs() - pending.arrivedMs, isOk);
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
  get isIdle(): boolean {
    return this.#owned === undefined && this.#hold === undefined && !this.#isClosing;
  }

  /** Of the module that is open. */
  get definition(): ModuleDefinition | undefined {
    return this.#hold?.tenure?.definition;
  }

  get owned(): OwnedContainerChange | undefined {
    return this.#owned;
  }

  /** Undefined when the record says that we do not own it. */
  changed(owned: OwnedContainerChange | undefined): void {
    this.#owned = owned;
    const hold = this.#hold;
    if (owned === undefined) {
      this.#close('it has another owner');
      this.inbox.failWaiting(new RemusterError('STALE_TABLE'));
    } else if (hold !== undefined && owned.record.fence > hold.change.record.fence) {
      this.#close('it is opened anew');
    } else if (hold?.tenure !== undefined && owned.record.fence === hold.change.record.fence) {
      this.#follow(hold, hold.tenure, owned.record);
    }
    this.#consider();
  }

  call(call: IncomingCall, done: Done<CallOutput>): Cancel {
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
    this.#hold?.opening.proceed();
    this.#hold?.tenure?.leaseRegained();
  }

  modulesChanged(): void {
    this.#hold?.opening.proceed();
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
    this.inbox.failWaiting(new RemusterError('NO_QUORUM', 'this node is stopping', 'no'));
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

  #isHanded({ record }: OwnedContainerChange): boolean {
    if (record.move?.step === 'handed') return true;
    return this.#spent?.isHanded === true && this.#spent.fence === record.fence;
  }

  /** Opens it if it is ours and can be. */
  #consider(): void {
    const owned = this.#owned;
    if (owned === undefined || this.#hold !== undefined || this.#isClosing || this.#isStopping) return;
    if (owned.record.fence === this.#spent?.fence || this.#isHanded(owned)) return;
    const { ports, limits, meter } = this.#parts;
    const opening: ContainerStartup = new ContainerStartup({
      ports,
      limits,
      meter,
      inbox: this.inbox,
      change: owned,
      ready: (tenure) => this.#ready(hold, tenure),
      failed: (error) => this.#failed(hold, error),
      onDelayed: (note) => this.#blame(owned, note),
    });
    const hold: OwnershipPeriod = {
      change: owned,
      opening,
      tenure: undefined,
      handing: undefined,
      cancelledMoveTo: undefined,
    };
    this.#hold = hold;
    opening.proceed();
  }

  #ready(hold: OwnershipPeriod, tenure: Activation): void {
    if (this.#hold !== hold) return;
    hold.tenure = tenure;
    const { pool, container, record } = hold.change;
    const { fence, opening } = record;
    this.#ports.tell({ kind: 'opened', pool: pool.name, container, fence, opening });
    this.#parts.onOpenChanged();
    this.#follow(hold, tenure, this.#owned?.record.fence === fence ? this.#owned.record : record);
    if (hold.handing === undefined) tenure.open();
  }

  /** Does what the record of our own fence asks for: only moves do. */
  #follow(hold: OwnershipPeriod, tenure: Activation, { move }: ContainerRecord): void {
    if (move?.step === 'handed') return this.#handed(hold);
    if (move?.step !== 'handing') {
      hold.cancelledMoveTo = undefined;
      hold.handing?.cancel();
    } else if (hold.handing !== undefined) {
      if (hold.handing.move.to !== move.to) hold.handing.cancel();
    } else if (hold.cancelledMoveTo !== move.to && !this.#isStopping) {
      this.#hand(hold, tenure, move);
    }
  }

  #hand(hold: OwnershipPeriod, tenure: Activation, move: ContainerMove): void {
    const { ports, limits } = this.#parts;
    const { change } = hold;
    hold.handing = new Handover({
      ports,
      limits,
      change,
      move,
      tenure,
      onHandedOver: () => this.#handed(hold),
      onCancelled: (reason) => {
        this.#log('info', 'a move was given up', new RemusterError('PRECONDITION', reason));
        hold.handing = undefined;
        hold.cancelledMoveTo = move.to;
        tenure.open();
      },
    });
    hold.handing.begin();
  }

  #handed(hold: OwnershipPeriod): void {
    if (this.#hold !== hold) return;
    this.#spent = { fence: hold.change.record.fence, isHanded: true };
    this.#close('it was handed over');
    this.inbox.failWaiting(new RemusterError('STALE_TABLE'));
  }

  /** It could not be opened, or cannot go on. */
  #failed(hold: OwnershipPeriod, error: RemusterError): void {
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
  #blame(change: OwnedContainerChange, note: string): void {
    this.#amend(change, (record) => {
      const opening = record.phase === 'serving' && record.opening === 'init' ? 'recover' : record.opening;
      return { ...record, phase: 'opening', opening, failures: record.failures + 1, note };
    });
  }

  /** Again and again, until it is done or we do not own the container under that fence any more. */
  #amend(change: OwnedContainerChange, amendment: (record: ContainerRecord) => ContainerRecord | undefined): void {
    const { fence } = change.record;
    if (this.#isStopping || this.#owned?.record.fence !== fence) return;
    this.#ports.replication.updateRecord(change, fence, amendment, (outcome) => {
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
      this.#parts.onOpenChanged();
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
    this.#parts.onOpenChanged();
  }

  #log(level: LogLevel, message: string, { code, message: reason }: RemusterError): void {
    const { pool, container } = this.#owned ?? this.#hold?.change ?? {};
    this.#ports.log(level, message, { pool: pool?.name, container, code, reason });
  }
}

function refused(done: Done<CallOutput>, code: ErrorCode): Cancel {
  done(failure(code, undefined, 'no'));
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
