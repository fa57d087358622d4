/**
 * One call of one container: finds the owner, sends, follows owner hints, retries with the same call id. Ends exactly
 * once. Sends only to the owner that the address table or a newer hint names; never to another container.
 *
 *   attempt --owner known--> sent --reply--> ended
 *      ^                       |  no reply: watch the table, then probe the owner; call unknown there: attempt
 *      +- backingOff <-refused-+
 *            |   the table names another owner: attempt at once
 */
import {
  type Outcome,
  RemusterError,
  type StateChanged,
  parseErrorCode,
  failure,
  isRemusterError,
  success,
  withStateChanged,
} from '../../base/errors.ts';
import type { NodeId } from '../../base/ids.ts';
import type { Address, Cancel, Clock, Streams } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { CallMessageOf } from '../../messages/calls.ts';
import { encodeMessage, tryDecodeMessage } from '../../messages/catalogue.ts';
import type { AddressTable, CallOutput, ContainerHosting, KnownPool, RoutedCall } from '../contract.ts';
import type { CallTimerList, DeadlineWaiter } from './call-timer-list.ts';
import type { CallRouterOptions } from './call-options.ts';
import { encodeContainerCall } from './call-messages.ts';
import { CallRetryBudget, afterUncertainAttempt, isRetryableCallError } from './call-retry.ts';

export type ContainerCallPorts = {
  readonly self: { readonly id: NodeId };
  readonly clock: Clock;
  readonly random: Random;
  readonly streams: Pick<Streams, 'request'>;
  readonly table: AddressTable;
  /** Undefined on nodes that own no containers. Read for each call. */
  readonly hosting: ContainerHosting | undefined;
  addressOf(node: NodeId, nowMs: number): Address | undefined;
  /** A hint of membership: it only lengthens the backoff. */
  isAlive(node: NodeId): boolean;
  count(name: string): void;
};

/** The fields of a call that are the same for all containers of a fan-out. */
export type ContainerCallRequest = Pick<
  RoutedCall,
  'method' | 'args' | 'id' | 'lowestPending' | 'timeoutMs' | 'retryTimeoutMs'
>;

/** Receives the outcome once, perhaps before the function that started the call returns. */
export type Completion<T> = { complete(outcome: Outcome<T>): void };

export type CancellableCall = { cancel(): void };

export type ContainerTarget = { readonly pool: KnownPool; readonly container: number };

export type ContainerCallContext = {
  readonly ports: ContainerCallPorts;
  readonly options: CallRouterOptions;
  readonly timers: CallTimerList;
  /** Opens the result stream of a method that is a generator. */
  openStream(
    address: Address,
    target: ContainerTarget,
    call: ContainerCallRequest,
    timeoutMs: number,
  ): AsyncIterable<Uint8Array>;
};

const notCancellable: Cancel = () => {};
/** The least backoff if membership holds the owner for dead: the table will name another owner. */
const deadOwnerDelayMs = 250;

export class ContainerCall implements DeadlineWaiter, ContainerTarget, CancellableCall {
  wakeAtMs = Infinity;
  before: DeadlineWaiter | undefined;
  after: DeadlineWaiter | undefined;
  readonly pool: KnownPool;
  readonly container: number;
  readonly #context: ContainerCallContext;
  readonly #call: ContainerCallRequest;
  readonly #completion: Completion<CallOutput>;
  readonly #tally: { open: number } | undefined;
  readonly #budget: CallRetryBudget;
  #phase: 'backingOff' | 'local' | 'sent' = 'backingOff';
  #hasEnded = false;
  /** Attempts without a reply yet. */
  #openAttempts = 0;
  /** An attempt has failed that may have changed state. */
  #hasUncertainAttempt = false;
  /** The current attempt. A result of an earlier attempt counts; its refusal does not. */
  #attemptNumber = 0;
  #calledOwner: NodeId | undefined;
  #lastReplyMs: number;
  #isProbing = false;
  /** The hint comes from this call: it ignores the change that the table reports. */
  #isAddingHint = false;
  #cancel: Cancel = notCancellable;
  #cancelEarlier: Cancel = notCancellable;
  #cancelProbe: Cancel = notCancellable;
  #unwatch: Cancel | undefined;
  /** The owner named by a node that lost the container, until the table has caught up. */
  #ownerHint: { readonly owner: NodeId | undefined; readonly version: number } | undefined;
  #lastRefusal = 'the address table names no owner';

  /** `tally` is decremented at the end, for a call of a single container. */
  constructor(
    context: ContainerCallContext,
    pool: KnownPool,
    container: number,
    call: ContainerCallRequest,
    completion: Completion<CallOutput>,
    tally?: { open: number },
  ) {
    const { retryTimeoutMs = context.options.retryTimeoutMs } = call;
    this.pool = pool;
    this.container = container;
    this.#context = context;
    this.#call = call;
    this.#completion = completion;
    this.#tally = tally;
    const nowMs = context.ports.clock.nowMs();
    this.#lastReplyMs = nowMs;
    this.#budget = new CallRetryBudget(nowMs, call.timeoutMs, retryTimeoutMs, context.options.probeAfterMs);
  }

  /** The call may end before this returns. */
  start(): void {
    this.#attempt(this.#lastReplyMs);
  }

  cancel(): void {
    this.#finish(failure('CANCELLED', undefined, this.#stateChangedSoFar));
  }

  /** Whether any attempt so far may have changed state. */
  get #stateChangedSoFar(): StateChanged {
    return this.#hasUncertainAttempt || this.#openAttempts !== 0 ? 'maybe' : 'no';
  }

  onDeadline(nowMs: number): void {
    if (this.#phase === 'local') this.#budget.ownerHasCall(nowMs);
    const exhausted = this.#budget.exhausted(nowMs);
    if (exhausted !== undefined) this.#timeOut(exhausted);
    else if (this.#phase === 'backingOff') this.#onBackoffElapsed(nowMs);
    else if (this.#phase === 'sent') this.#onNoReply(nowMs);
    else this.#wakeAt(this.#budget.expiresAtMs);
  }

  #onBackoffElapsed(nowMs: number): void {
    this.#budget.backoffElapsed();
    this.#attempt(nowMs);
  }

  #attempt(nowMs: number = this.#context.ports.clock.nowMs()): void {
    const { ports } = this.#context;
    const { pool, container } = this;
    const exhausted = this.#budget.exhausted(nowMs);
    if (exhausted !== undefined) return this.#timeOut(exhausted);
    if (this.#attemptNumber > 0 && ports.table.poolByNumber(pool.record.major) === undefined)
      return this.#finish(failure('UNKNOWN_POOL', `pool "${pool.name}" is deleted`, this.#stateChangedSoFar));
    const owner = this.#owner();
    this.#attemptNumber += 1;
    this.#calledOwner = owner;
    if (owner === undefined) return this.#onNotSent(`container ${container} has no owner`);
    if (owner === ports.self.id) return this.#callLocally(nowMs);
    const address = ports.addressOf(owner, nowMs);
    if (address === undefined) return this.#onNotSent(`the address of its owner ${owner} is unknown`);
    this.#send(address, nowMs);
  }

  #owner(): NodeId | undefined {
    const { table } = this.#context.ports;
    const { pool, container } = this;
    const hint = this.#ownerHint;
    if (hint !== undefined && hint.version > table.versionOf(pool, container)) return hint.owner;
    this.#ownerHint = undefined;
    return table.ownerOf(pool, container);
  }

  #callLocally(nowMs: number): void {
    const { ports } = this.#context;
    const { hosting } = ports;
    if (hosting === undefined) return this.#onNotSent('the table names this node as owner, and it hosts no containers');
    const number = this.#attemptNumber;
    this.#phase = 'local';
    const { pool, container } = this;
    const { method, args, id, lowestPending } = this.#call;
    const remainingMs = this.#budget.remainingMs(nowMs);
    this.#openAttempts += 1;
    const cancel = hosting.call({ pool, container, method, args, id, lowestPending, remainingMs }, (outcome) => {
      this.#openAttempts -= 1;
      if (this.#hasEnded) return outcome.ok ? discardOutput(outcome.value) : undefined;
      if (number === this.#attemptNumber) this.#cancel = notCancellable;
      if (outcome.ok) this.#finish(outcome);
      else this.#onAttemptFailed(number, outcome.error);
    });
    if (this.#hasEnded || number !== this.#attemptNumber || this.#phase !== 'local') return;
    this.#cancel = cancel;
    this.#wakeAt(this.#budget.expiresAtMs);
  }

  #send(address: Address, nowMs: number): void {
    const { ports, options } = this.#context;
    const { pool, container } = this;
    const number = this.#attemptNumber;
    if (number > 1) ports.count('calls.resent');
    let body: Uint8Array;
    try {
      body = encodeContainerCall(this.#call, pool, container, ports.table.versionOf(pool, container));
    } catch (error) {
      if (isRemusterError(error))
        return this.#finish({ ok: false, error: withStateChanged(error, this.#stateChangedSoFar) });
      throw error;
    }
    this.#phase = 'sent';
    this.#openAttempts += 1;
    this.#lastReplyMs = nowMs;
    this.#cancel = ports.streams.request(address, body, this.#budget.remainingMs(nowMs), (outcome) =>
      this.#onReply(number, address, outcome),
    );
    this.#wakeAt(Math.min(this.#budget.expiresAtMs, nowMs + Math.min(options.watchAfterMs, this.#budget.probeAfterMs)));
    // The owner is from a hint, which may already be stale.
    if (this.#ownerHint !== undefined) this.#watch();
  }

  #onReply(number: number, address: Address, outcome: Outcome<Uint8Array>): void {
    this.#openAttempts -= 1;
    if (this.#hasEnded) return;
    if (number === this.#attemptNumber) this.#cancel = notCancellable;
    if (!outcome.ok) return this.#onAttemptFailed(number, outcome.error);
    const reply = tryDecodeMessage(outcome.value);
    if (reply?.kind === 'callReply') this.#onCallReply(reply, address);
    else if (reply?.kind === 'callError') this.#onCallError(number, reply);
    else this.#onAttemptFailed(number, new RemusterError('INTERNAL', 'the reply of the owner cannot be decoded'));
  }

  #onCallReply({ value, version }: CallMessageOf<'callReply'>, address: Address): void {
    const { ports } = this.#context;
    const { pool, container } = this;
    if (version > ports.table.versionOf(pool, container)) ports.count('calls.behind');
    if (value !== undefined) return this.#finish(success({ value }));
    const remainingMs = this.#budget.remainingMs(ports.clock.nowMs());
    this.#finish(success({ stream: this.#context.openStream(address, this, this.#call, remainingMs) }));
  }

  #onCallError(number: number, refusal: CallMessageOf<'callError'>): void {
    const { message, owner, version, stateChanged } = refusal;
    const code = parseErrorCode(refusal.code);
    const { ports } = this.#context;
    const { table } = ports;
    const { pool, container } = this;
    const isHint = code === 'STALE_TABLE' && version > table.versionOf(pool, container);
    if (!isHint || number !== this.#attemptNumber)
      return this.#onAttemptFailed(number, new RemusterError(code, message, stateChanged));
    if (stateChanged !== 'no') this.#hasUncertainAttempt = true;
    ports.count('calls.corrected');
    this.#ownerHint = { owner, version };
    this.#isAddingHint = true;
    table.addOwnerHint(pool, container, owner, version);
    this.#isAddingHint = false;
    if (this.#budget.mayFollowHint()) this.#attempt();
    else this.#onNotSent(message);
  }

  #onAttemptFailed(number: number, error: RemusterError): void {
    const wasUncertain = this.#stateChangedSoFar === 'maybe';
    if (error.stateChanged !== 'no') this.#hasUncertainAttempt = true;
    if (number !== this.#attemptNumber) return;
    const { code, message } = error;
    const { clock } = this.#context.ports;
    const isOwnDeadline = code === 'DEADLINE' && this.#phase === 'sent';
    if (isOwnDeadline) return this.#timeOut(this.#budget.exhausted(clock.nowMs()) ?? 'DEADLINE');
    if (isRetryableCallError(code) && this.#budget.mayRetry) return this.#backOff(`${code}: ${message}`);
    this.#finish({ ok: false, error: wasUncertain ? afterUncertainAttempt(error) : error });
  }

  /** This attempt had no effect. */
  #onNotSent(reason: string): void {
    if (this.#budget.mayRetry) return this.#backOff(reason);
    this.#finish(failure('UNREACHABLE', `${reason}, and the call is not retried`, this.#stateChangedSoFar));
  }

  #backOff(reason: string): void {
    const { ports, options } = this.#context;
    const nowMs = ports.clock.nowMs();
    this.#lastRefusal = reason;
    this.#phase = 'backingOff';
    // From now on only a result of the earlier attempts counts.
    this.#attemptNumber += 1;
    const delayMs = this.#budget.backoffMs(ports.random, options);
    const isDead =
      this.#calledOwner !== undefined && this.#calledOwner !== ports.self.id && !ports.isAlive(this.#calledOwner);
    this.#wakeAt(Math.min(this.#budget.expiresAtMs, nowMs + (isDead ? Math.max(delayMs, deadOwnerDelayMs) : delayMs)));
    this.#watch();
  }

  /** Watches the owner from now to the end of the call. */
  #watch(): void {
    const { table } = this.#context.ports;
    const { pool, container } = this;
    try {
      this.#unwatch ??= table.watchOwner(pool, container, () => this.#ownerChanged());
    } catch (error) {
      // Too many watchers: this call reads the table after each backoff instead.
      if (!isRemusterError(error, 'CAPACITY')) throw error;
    }
  }

  #ownerChanged(): void {
    if (this.#hasEnded || this.#phase === 'local' || this.#isAddingHint) return;
    const owner = this.#owner();
    if (owner === undefined || owner === this.#calledOwner) return;
    const isSent = this.#phase === 'sent';
    if (isSent) this.#cancel();
    if (this.#budget.mayFollowHint()) this.#attempt();
    else if (isSent) this.#onNotSent('the owner changes too often');
  }

  #onNoReply(nowMs: number): void {
    const { probeAfterMs } = this.#budget;
    this.#watch();
    const owner = this.#owner();
    if (owner !== undefined && owner !== this.#calledOwner) return this.#ownerChanged();
    if (nowMs - this.#lastReplyMs >= probeAfterMs) {
      this.#lastReplyMs = nowMs;
      if (!this.#isProbing) this.#probe(nowMs);
    }
    this.#wakeAt(Math.min(this.#budget.expiresAtMs, this.#lastReplyMs + probeAfterMs));
  }

  #probe(nowMs: number): void {
    const { ports } = this.#context;
    const { pool, container } = this;
    const { id } = this.#call;
    const address = this.#calledOwner === undefined ? undefined : ports.addressOf(this.#calledOwner, nowMs);
    if (address === undefined) return;
    ports.count('calls.probed');
    const number = this.#attemptNumber;
    this.#isProbing = true;
    const body = encodeMessage({ kind: 'queryCallStatus', ...id, pool: pool.record.major, container });
    this.#cancelProbe = ports.streams.request(address, body, this.#budget.probeAfterMs, (outcome) => {
      this.#isProbing = false;
      const reply = outcome.ok ? tryDecodeMessage(outcome.value) : undefined;
      if (this.#hasEnded || number !== this.#attemptNumber || this.#phase !== 'sent') return;
      if (reply?.kind === 'queryCallStatusReply') this.#onCallStatus(reply.status);
    });
  }

  #onCallStatus(status: CallMessageOf<'queryCallStatusReply'>['status']): void {
    const nowMs = this.#context.ports.clock.nowMs();
    if (status === 'unknown' && this.#budget.mayRetry) {
      // The reply of this attempt may still arrive, and then counts; only the attempt before it is cancelled.
      this.#cancelEarlier();
      this.#cancelEarlier = this.#cancel;
      return this.#attempt();
    }
    this.#lastReplyMs = nowMs;
    if (status !== 'unknown') this.#budget.ownerHasCall(nowMs);
    this.#wakeAt(Math.min(this.#budget.expiresAtMs, nowMs + this.#budget.probeAfterMs));
  }

  #wakeAt(atMs: number): void {
    this.wakeAtMs = atMs;
    this.#context.timers.set(this);
  }

  #timeOut(code: 'NETWORK_TIMEOUT' | 'DEADLINE'): void {
    const { pool, container } = this;
    const { timeoutMs, retryTimeoutMs = this.#context.options.retryTimeoutMs } = this.#call;
    this.#context.ports.count(`calls.${code === 'DEADLINE' ? 'late' : 'lost'}`);
    const stateChanged = this.#stateChangedSoFar;
    const silence = stateChanged === 'no' ? 'no owner had the call' : 'no owner confirmed the call';
    const limitMs = Math.round(code === 'DEADLINE' ? timeoutMs : retryTimeoutMs);
    const limit = code === 'DEADLINE' ? `within ${limitMs} ms` : `and ${silence} for ${limitMs} ms`;
    const summary = `container ${container} of "${pool.name}" did not reply ${limit}`;
    const text = this.#phase === 'backingOff' ? `${summary}; last refusal: ${this.#lastRefusal}` : summary;
    this.#finish(failure(code, text, stateChanged));
  }

  #finish(outcome: Outcome<CallOutput>): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#context.timers.delete(this);
    this.#cancel();
    this.#cancelEarlier();
    this.#cancelProbe();
    this.#unwatch?.();
    if (this.#tally !== undefined) this.#tally.open -= 1;
    this.#completion.complete(outcome);
  }
}

/** Ends a result stream that has no reader. */
export function discardOutput(output: CallOutput): void {
  if ('stream' in output) void output.stream[Symbol.asyncIterator]().return?.();
}
