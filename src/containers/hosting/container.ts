/**
 * One owned container across fences: at most one activation at a time, which ends at once when the record names another
 * owner or fence. Calls wait in its inbox, never elsewhere.
 *
 *   closed --owned--> starting --> open --handing--> plugged --> handed
 *     ^                  |          |                  |          |
 *     +------ the log is closed: another fence, another owner, a failure
 */
import { type Done, type ErrorCode, failure, type Outcome, RemusterError } from '../../base/errors.ts';
import type { Fence } from '../../base/fence.ts';
import type { Cancel, LogLevel } from '../../base/ports.ts';
import type { ContainerMove, ContainerRecord } from '../../placement/state/container-records.ts';
import type { IncomingCall, CallOutput, OwnedContainerChange } from '../contract.ts';
import type { Context, ModuleDefinition } from '../module.ts';
import { Handover } from './handover.ts';
import { WorkDrain } from './work-drain.ts';
import { Inbox } from './turns/inbox.ts';
import type { HostingLimits } from '../hosting-limits.ts';
import type { CallMetrics } from './call-metrics.ts';
import { ContainerStartup } from './container-startup.ts';
import type { HostingPorts } from './hosting-ports.ts';
import type { Activation } from './activation.ts';

/** Ownership under one fence. */
type OwnershipPeriod = {
  readonly change: OwnedContainerChange;
  readonly startup: ContainerStartup;
  activation: Activation | undefined;
  handover: Handover | undefined;
  /** The target of a cancelled move; the record may still name it. */
  cancelledMoveTo: string | undefined;
};

export type ContainerParts = {
  readonly ports: HostingPorts;
  readonly limits: HostingLimits;
  readonly metrics: CallMetrics;
  /** The container has opened or closed. */
  readonly onOpenChanged: () => void;
};

export class Container {
  readonly inbox: Inbox;
  readonly #parts: ContainerParts;
  readonly #ports: HostingPorts;
  /** The last record, if it names this node as owner. */
  #owned: OwnedContainerChange | undefined;
  #period: OwnershipPeriod | undefined;
  /** The last fence under which the container must not be opened again. */
  #finished: { readonly fence: Fence; readonly isHanded: boolean } | undefined;
  #isClosing = false;
  #isStopping = false;
  #closed: (() => void) | undefined;
  #cancelRetry: Cancel | undefined;

  constructor(parts: ContainerParts) {
    this.#parts = parts;
    this.#ports = parts.ports;
    const { clock } = parts.ports;
    this.inbox = new Inbox(clock, parts.limits, (pending, isOk) => {
      parts.metrics.recordEnded(clock.nowMs() - pending.arrivedMs, isOk);
    });
  }

  get isOpen(): boolean {
    return this.#period?.activation !== undefined;
  }

  /** Calls run. */
  get isServing(): boolean {
    return this.#period?.activation?.isOpen === true;
  }

  /** Not owned, and closed: this object can be dropped. */
  get isIdle(): boolean {
    return this.#owned === undefined && this.#period === undefined && !this.#isClosing;
  }

  /** The module of the current activation. */
  get definition(): ModuleDefinition | undefined {
    return this.#period?.activation?.definition;
  }

  get owned(): OwnedContainerChange | undefined {
    return this.#owned;
  }

  /** `owned` is undefined when the record names another owner. */
  changed(owned: OwnedContainerChange | undefined): void {
    this.#owned = owned;
    const period = this.#period;
    if (owned === undefined) {
      this.#close('the container has another owner');
      this.inbox.failWaiting(new RemusterError('STALE_TABLE'));
    } else if (period !== undefined && owned.record.fence > period.change.record.fence) {
      this.#close('the container is opened under a new fence');
    } else if (period?.activation !== undefined && owned.record.fence === period.change.record.fence) {
      this.#followMove(period, period.activation, owned.record);
    }
    this.#startIfPossible();
  }

  call(call: IncomingCall, done: Done<CallOutput>): Cancel {
    const { clock, lease } = this.#ports;
    if (this.#owned === undefined || this.#isHanded(this.#owned)) return refused(done, 'STALE_TABLE');
    const nowMs = clock.nowMs();
    if (this.#isStopping || !lease.holds(nowMs)) return refused(done, 'NO_QUORUM');
    const known = this.inbox.find(call.id);
    if (known !== undefined) return this.inbox.join(known, done);
    const activation = this.#period?.activation;
    if (activation?.isOpen === true) return activation.call(call, nowMs, done) ?? refused(done, 'CAPACITY');
    const pending = this.inbox.admit(call, nowMs);
    if (pending === undefined) return refused(done, 'CAPACITY');
    this.inbox.wait(pending);
    return pending.attach(done);
  }

  leaseChanged(holds: boolean): void {
    if (!holds) return this.inbox.replyAll(new RemusterError('NO_QUORUM'));
    this.#period?.startup.proceed();
    this.#period?.activation?.leaseRegained();
  }

  modulesChanged(): void {
    this.#period?.startup.proceed();
  }

  /** Runs a callback as a writing turn. */
  run(name: string, turn: (ctx: Context, definition: ModuleDefinition) => unknown): void {
    const activation = this.#period?.activation;
    const done = (outcome: Outcome<void>): void => {
      if (!outcome.ok) this.#log('warn', `${name} failed`, outcome.error);
    };
    activation?.run({
      name,
      timeMsMax: this.#parts.limits.callbackMsMax,
      run: (ctx) => turn(ctx, activation.definition),
      done,
    });
  }

  /** Ends when no turn runs, no work remains and the log is closed, or `stopMs` after `drainMs`. */
  stop(done: () => void, drainMs: number): void {
    const { clock } = this.#ports;
    const { stopMs } = this.#parts.limits;
    this.#isStopping = true;
    this.#cancelRetry?.();
    const activation = this.#period?.activation;
    this.#period?.handover?.stop();
    activation?.plug();
    this.inbox.failWaiting(new RemusterError('NO_QUORUM', 'this node is stopping', 'no'));
    const drain = activation === undefined ? undefined : this.#drainOf(activation, drainMs, () => close());
    const close = once(() => {
      drain?.stop();
      this.#close('this node is stopping');
    });
    const finish = once(() => {
      this.inbox.deadlines.stop();
      cancelDrain();
      cancelAll();
      done();
    });
    this.#closed = finish;
    const cancelDrain = clock.schedule(drainMs, close);
    const cancelAll = clock.schedule(drainMs + stopMs, finish);
    if (drain === undefined) close();
    else drain.start();
    if (!this.#isClosing && this.#period === undefined) finish();
  }

  #drainOf(activation: Activation, timeMsMax: number, close: () => void): WorkDrain {
    const { ports, limits } = this.#parts;
    return new WorkDrain({
      ...{ clock: ports.clock, activation, workPollMs: limits.workPollMs, timeMsMax: () => timeMsMax },
      canAsk: () => ports.lease.holds(),
      drained: close,
      failed: (error) => {
        this.#log('warn', 'workRemaining failed', error);
        close();
      },
    });
  }

  #isHanded({ record }: OwnedContainerChange): boolean {
    if (record.move?.step === 'handed') return true;
    return this.#finished?.isHanded === true && this.#finished.fence === record.fence;
  }

  /** Starts the container if this node owns it and nothing prevents it. */
  #startIfPossible(): void {
    const owned = this.#owned;
    if (owned === undefined || this.#period !== undefined || this.#isClosing || this.#isStopping) return;
    if (owned.record.fence === this.#finished?.fence || this.#isHanded(owned)) return;
    const { ports, limits, metrics } = this.#parts;
    const startup: ContainerStartup = new ContainerStartup({
      ports,
      limits,
      metrics,
      inbox: this.inbox,
      change: owned,
      ready: (activation) => this.#onReady(period, activation),
      failed: (error) => this.#onFailed(period, error),
      onDelayed: (note) => this.#reportFailure(owned, note),
    });
    const period: OwnershipPeriod = {
      change: owned,
      startup,
      activation: undefined,
      handover: undefined,
      cancelledMoveTo: undefined,
    };
    this.#period = period;
    startup.proceed();
  }

  #onReady(period: OwnershipPeriod, activation: Activation): void {
    if (this.#period !== period) return;
    period.activation = activation;
    const { pool, container, record } = period.change;
    const { fence, opening } = record;
    this.#ports.emit({ kind: 'opened', pool: pool.name, container, fence, opening });
    this.#parts.onOpenChanged();
    this.#followMove(period, activation, this.#owned?.record.fence === fence ? this.#owned.record : record);
    if (period.handover === undefined) activation.open();
  }

  /** Starts, continues or cancels the handover that the record requests. */
  #followMove(period: OwnershipPeriod, activation: Activation, { move }: ContainerRecord): void {
    if (move?.step === 'handed') return this.#onHandedOver(period);
    if (move?.step !== 'handing') {
      period.cancelledMoveTo = undefined;
      period.handover?.cancel();
    } else if (period.handover !== undefined) {
      if (period.handover.move.to !== move.to) period.handover.cancel();
    } else if (period.cancelledMoveTo !== move.to && !this.#isStopping) {
      this.#startHandover(period, activation, move);
    }
  }

  #startHandover(period: OwnershipPeriod, activation: Activation, move: ContainerMove): void {
    const { ports, limits } = this.#parts;
    const { change } = period;
    period.handover = new Handover({
      ports,
      limits,
      change,
      move,
      activation,
      onHandedOver: () => this.#onHandedOver(period),
      onCancelled: (reason) => {
        this.#log('info', 'a move was cancelled', new RemusterError('PRECONDITION', reason));
        period.handover = undefined;
        period.cancelledMoveTo = move.to;
        activation.open();
      },
    });
    period.handover.start();
  }

  #onHandedOver(period: OwnershipPeriod): void {
    if (this.#period !== period) return;
    this.#finished = { fence: period.change.record.fence, isHanded: true };
    this.#close('the container was handed over');
    this.inbox.failWaiting(new RemusterError('STALE_TABLE'));
  }

  /** The startup or the activation failed. */
  #onFailed(period: OwnershipPeriod, error: RemusterError): void {
    if (this.#period !== period) return;
    const { fence } = period.change.record;
    this.#finished = { fence, isHanded: false };
    this.#log('warn', period.activation === undefined ? 'a container did not open' : 'a container cannot go on', error);
    this.#close(error.message, error.code === 'STORE_FULL' ? error : undefined);
    if (error.code !== 'NO_QUORUM') return this.#reportFailure(period.change, error.message);
    // Only the lease is missing: retry under the same fence.
    this.#cancelRetry = this.#ports.clock.schedule(this.#parts.limits.retryMs, () => {
      if (this.#finished?.fence === fence) this.#finished = undefined;
      this.#startIfPossible();
    });
  }

  /**
   * Records the failure, so that the leader chooses the next owner. A container that was served is not `init` any more.
   */
  #reportFailure(change: OwnedContainerChange, note: string): void {
    this.#updateRecord(change, (record) => {
      const opening = record.phase === 'serving' && record.opening === 'init' ? 'recover' : record.opening;
      return { ...record, phase: 'opening', opening, failures: record.failures + 1, note };
    });
  }

  /** Retries until the record is written or names another owner or fence. */
  #updateRecord(change: OwnedContainerChange, update: (record: ContainerRecord) => ContainerRecord | undefined): void {
    const { fence } = change.record;
    if (this.#isStopping || this.#owned?.record.fence !== fence) return;
    this.#ports.replication.updateRecord(change, fence, update, (outcome) => {
      if (outcome.ok || outcome.error.code === 'FENCED') return;
      this.#ports.clock.schedule(this.#parts.limits.retryMs, () => this.#updateRecord(change, update));
    });
  }

  #close(reason: string, notWritten?: RemusterError): void {
    const period = this.#period;
    if (period === undefined) return;
    const { activation, startup, change } = period;
    this.#period = undefined;
    this.#isClosing = true;
    period.handover?.stop();
    const error = new RemusterError('FENCED', `the container is closed: ${reason}`);
    activation?.end(error, notWritten);
    if (activation !== undefined) {
      const { pool, container, record } = change;
      this.#ports.emit({ kind: 'closed', pool: pool.name, container, fence: record.fence, reason });
      this.#parts.onOpenChanged();
    }
    startup.stop(error, (log) => {
      if (log === undefined) this.#onClosed();
      else log.close(() => this.#onClosed());
    });
  }

  #onClosed(): void {
    this.#isClosing = false;
    this.#closed?.();
    this.#startIfPossible();
    this.#parts.onOpenChanged();
  }

  #log(level: LogLevel, message: string, { code, message: reason }: RemusterError): void {
    const { pool, container } = this.#owned ?? this.#period?.change ?? {};
    this.#ports.log(level, message, { pool: pool?.name, container, code, reason });
  }
}

function refused(done: Done<CallOutput>, code: ErrorCode): Cancel {
  done(failure(code, undefined, 'no'));
  return notCancellable;
}

function once(run: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    run();
  };
}

const notCancellable: Cancel = () => {};
