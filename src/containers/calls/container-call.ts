/**
 * One call of one container: find the owner, send, follow owner hints, retry with the same call id. Ends exactly once.
 * Asks only whom the table names, and never believes from hearsay that an owner is gone. Never asks another container.
 *
 *   attempt --owner known--> asked --answer--> over
 *      ^                       |  silent: watch the table, then probe the owner; unknown there: attempt
 *      +--- pausing <--refused-+
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
import type { CallTimerList, DeadlineWaiter } from './alarms.ts';
import type { CallRouterOptions } from './call-options.ts';
import { encodeContainerCall } from './call-messages.ts';
import { CallRetryBudget } from './call-retry.ts';
import { afterUncertainAttempt, isRetryableCallError } from './verdicts.ts';

export type ContainerCallPorts = {
  readonly self: { readonly id: NodeId };
  readonly clock: Clock;
  readonly random: Random;
  readonly streams: Pick<Streams, 'request'>;
  readonly table: AddressTable;
  /** Undefined on nodes that own nothing. Looked at anew for each call. */
  readonly hosting: ContainerHosting | undefined;
  addressOf(node: NodeId, nowMs: number): Address | undefined;
  /** A hint: it stretches pauses and decides nothing else. */
  isAlive(node: NodeId): boolean;
  count(name: string): void;
};

/** What a part needs of the call it belongs to. */
export type ContainerCallRequest = Pick<
  RoutedCall,
  'method' | 'args' | 'id' | 'lowestPending' | 'timeoutMs' | 'retryTimeoutMs'
>;

/** Who hears of the end, once; it may be before whoever began has returned. */
export type Completion<T> = { complete(outcome: Outcome<T>): void };

/** What can be given up. */
export type CancellableCall = { cancel(): void };

/** Which container is asked. */
export type ContainerTarget = { readonly pool: KnownPool; readonly container: number };

export type ContainerCallContext = {
  readonly ports: ContainerCallPorts;
  readonly options: CallRouterOptions;
  readonly alarms: CallTimerList;
  /** The items of a flow that its owner said it would give. */
  openStream(
    address: Address,
    place: ContainerTarget,
    call: ContainerCallRequest,
    timeoutMs: number,
  ): AsyncIterable<Uint8Array>;
};

const nothing: Cancel = () => {};
/** With an owner that is held to be dead it is the table that ends the pause. */
const deadPauseMs = 250;

export class ContainerCall implements DeadlineWaiter, ContainerTarget, CancellableCall {
  wakeAtMs = Infinity;
  before: DeadlineWaiter | undefined;
  after: DeadlineWaiter | undefined;
  readonly pool: KnownPool;
  readonly container: number;
  readonly #site: ContainerCallContext;
  readonly #call: ContainerCallRequest;
  readonly #hearer: Completion<CallOutput>;
  readonly #tally: { open: number } | undefined;
  readonly #patience: CallRetryBudget;
  #phase: 'pausing' | 'here' | 'asked' = 'pausing';
  #over = false;
  /** Attempts without an answer. */
  #unanswered = 0;
  /** An attempt has ended in a way that does not exclude an effect. */
  #hasFailedOpen = false;
  /** Of the sending that counts; the answer of an earlier one is taken if it is one, its refusal is not. */
  #number = 0;
  #asked: NodeId | undefined;
  #heardMs: number;
  #isProbing = false;
  /** The table is just being told: what it says about that is no news. */
  #isCorrecting = false;
  #cancel: Cancel = nothing;
  #cancelEarlier: Cancel = nothing;
  #cancelProbe: Cancel = nothing;
  #unwatch: Cancel | undefined;
  /** What an owner that had lost the container told, as long as the table has not caught up. */
  #ownerHint: { readonly owner: NodeId | undefined; readonly version: number } | undefined;
  #lastWords = 'nobody owns it, as far as this node knows';

  /** `tally` counts down when it is over: for a call that is one part. */
  constructor(
    site: ContainerCallContext,
    pool: KnownPool,
    container: number,
    call: ContainerCallRequest,
    hearer: Completion<CallOutput>,
    tally?: { open: number },
  ) {
    const { retryTimeoutMs = site.options.retryTimeoutMs } = call;
    this.pool = pool;
    this.container = container;
    this.#site = site;
    this.#call = call;
    this.#hearer = hearer;
    this.#tally = tally;
    const nowMs = site.ports.clock.nowMs();
    this.#heardMs = nowMs;
    this.#patience = new CallRetryBudget(nowMs, call.timeoutMs, retryTimeoutMs, site.options.probeAfterMs);
  }

  /** It may be over before this returns. */
  start(): void {
    this.#attempt(this.#heardMs);
  }

  cancel(): void {
    this.#finish(failure('CANCELLED', undefined, this.#soFar));
  }

  /** What can be promised of all attempts so far. */
  get #soFar(): StateChanged {
    return this.#hasFailedOpen || this.#unanswered !== 0 ? 'maybe' : 'no';
  }

  onDeadline(nowMs: number): void {
    if (this.#phase === 'here') this.#patience.ownerHasCall(nowMs);
    const over = this.#patience.exhausted(nowMs);
    if (over !== undefined) this.#giveUp(over);
    else if (this.#phase === 'pausing') this.#rested(nowMs);
    else if (this.#phase === 'asked') this.#silent(nowMs);
    else this.#wakeAt(this.#patience.expiresAtMs);
  }

  #rested(nowMs: number): void {
    this.#patience.backoffElapsed();
    this.#attempt(nowMs);
  }

  #attempt(nowMs: number = this.#site.ports.clock.nowMs()): void {
    const { ports } = this.#site;
    const { pool, container } = this;
    const over = this.#patience.exhausted(nowMs);
    if (over !== undefined) return this.#giveUp(over);
    if (this.#number > 0 && ports.table.poolByNumber(pool.record.major) === undefined)
      return this.#finish(failure('UNKNOWN_POOL', `the pool "${pool.name}" is gone`, this.#soFar));
    const owner = this.#owner();
    this.#number += 1;
    this.#asked = owner;
    if (owner === undefined) return this.#pause(`nobody owns container ${container}`);
    if (owner === ports.self.id) return this.#askHere(nowMs);
    const address = ports.addressOf(owner, nowMs);
    if (address === undefined) return this.#pause(`the address of its owner ${owner} is not known`);
    this.#send(address, nowMs);
  }

  #owner(): NodeId | undefined {
    const { table } = this.#site.ports;
    const { pool, container } = this;
    const told = this.#ownerHint;
    if (told !== undefined && told.version > table.versionOf(pool, container)) return told.owner;
    this.#ownerHint = undefined;
    return table.ownerOf(pool, container);
  }

  #askHere(nowMs: number): void {
    const { ports } = this.#site;
    const { hosting } = ports;
    if (hosting === undefined) return this.#pause('this node is named as its owner, and owns nothing');
    const number = this.#number;
    this.#phase = 'here';
    const { pool, container } = this;
    const { method, args, id, lowestPending } = this.#call;
    const remainingMs = this.#patience.remainingMs(nowMs);
    this.#unanswered += 1;
    const cancel = hosting.call({ pool, container, method, args, id, lowestPending, remainingMs }, (outcome) => {
      this.#unanswered -= 1;
      if (this.#over) return outcome.ok ? discardOutput(outcome.value) : undefined;
      if (number === this.#number) this.#cancel = nothing;
      if (outcome.ok) this.#finish(outcome);
      else this.#attemptFailed(number, outcome.error);
    });
    if (this.#over || number !== this.#number || this.#phase !== 'here') return;
    this.#cancel = cancel;
    this.#wakeAt(this.#patience.expiresAtMs);
  }

  #send(address: Address, nowMs: number): void {
    const { ports, options } = this.#site;
    const { pool, container } = this;
    const number = this.#number;
    if (number > 1) ports.count('calls.resent');
    let body: Uint8Array;
    try {
      body = encodeContainerCall(this.#call, pool, container, ports.table.versionOf(pool, container));
    } catch (error) {
      if (isRemusterError(error)) return this.#finish({ ok: false, error: withStateChanged(error, this.#soFar) });
      throw error;
    }
    this.#phase = 'asked';
    this.#unanswered += 1;
    this.#heardMs = nowMs;
    this.#cancel = ports.streams.request(address, body, this.#patience.remainingMs(nowMs), (outcome) =>
      this.#answered(number, address, outcome),
    );
    this.#wakeAt(
      Math.min(this.#patience.expiresAtMs, nowMs + Math.min(options.watchAfterMs, this.#patience.probeAfterMs)),
    );
    // Somebody told us of this owner before the table did: it may already be another one.
    if (this.#ownerHint !== undefined) this.#watch();
  }

  #answered(number: number, address: Address, outcome: Outcome<Uint8Array>): void {
    this.#unanswered -= 1;
    if (this.#over) return;
    if (number === this.#number) this.#cancel = nothing;
    if (!outcome.ok) return this.#attemptFailed(number, outcome.error);
    const answer = tryDecodeMessage(outcome.value);
    if (answer?.kind === 'callReply') this.#succeeded(answer, address);
    else if (answer?.kind === 'callError') this.#refused(number, answer);
    else this.#attemptFailed(number, new RemusterError('INTERNAL', 'the answer of the owner cannot be read'));
  }

  #succeeded({ value, version }: CallMessageOf<'callReply'>, address: Address): void {
    const { ports } = this.#site;
    const { pool, container } = this;
    if (version > ports.table.versionOf(pool, container)) ports.count('calls.behind');
    if (value !== undefined) return this.#finish(success({ value }));
    const remainingMs = this.#patience.remainingMs(ports.clock.nowMs());
    this.#finish(success({ flow: this.#site.openStream(address, this, this.#call, remainingMs) }));
  }

  #refused(number: number, refusal: CallMessageOf<'callError'>): void {
    const { message, owner, version, stateChanged } = refusal;
    const code = parseErrorCode(refusal.code);
    const { ports } = this.#site;
    const { table } = ports;
    const { pool, container } = this;
    const isHint = code === 'STALE_TABLE' && version > table.versionOf(pool, container);
    if (!isHint || number !== this.#number)
      return this.#attemptFailed(number, new RemusterError(code, message, stateChanged));
    if (stateChanged !== 'no') this.#hasFailedOpen = true;
    ports.count('calls.corrected');
    this.#ownerHint = { owner, version };
    this.#isCorrecting = true;
    table.addOwnerHint(pool, container, owner, version);
    this.#isCorrecting = false;
    if (this.#patience.mayFollowHint()) this.#attempt();
    else this.#pause(message);
  }

  #attemptFailed(number: number, error: RemusterError): void {
    const wasOpen = this.#soFar === 'maybe';
    if (error.stateChanged !== 'no') this.#hasFailedOpen = true;
    if (number !== this.#number) return;
    const { code, message } = error;
    const { clock } = this.#site.ports;
    const isOurs = code === 'DEADLINE' && this.#phase === 'asked';
    if (isOurs) return this.#giveUp(this.#patience.exhausted(clock.nowMs()) ?? 'DEADLINE');
    if (isRetryableCallError(code)) return this.#pause(`${code}: ${message}`);
    this.#finish({ ok: false, error: wasOpen ? afterUncertainAttempt(error) : error });
  }

  #pause(why: string): void {
    const { ports, options } = this.#site;
    const nowMs = ports.clock.nowMs();
    this.#lastWords = why;
    this.#phase = 'pausing';
    // What was sent so far counts no more, except that an answer to it is taken.
    this.#number += 1;
    const pauseMs = this.#patience.backoffMs(ports.random, options);
    const isDead = this.#asked !== undefined && this.#asked !== ports.self.id && !ports.isAlive(this.#asked);
    this.#wakeAt(Math.min(this.#patience.expiresAtMs, nowMs + (isDead ? Math.max(pauseMs, deadPauseMs) : pauseMs)));
    this.#watch();
  }

  /** Once, and until the end: the table is asked for the present owner each time. */
  #watch(): void {
    const { table } = this.#site.ports;
    const { pool, container } = this;
    try {
      this.#unwatch ??= table.watchOwner(pool, container, () => this.#ownerChanged());
    } catch (error) {
      // Too many watch already: then this one only looks again after each pause.
      if (!isRemusterError(error, 'CAPACITY')) throw error;
    }
  }

  #ownerChanged(): void {
    if (this.#over || this.#phase === 'here' || this.#isCorrecting) return;
    const owner = this.#owner();
    if (owner === undefined || owner === this.#asked) return;
    const isAsked = this.#phase === 'asked';
    if (isAsked) this.#cancel();
    if (this.#patience.mayFollowHint()) this.#attempt();
    else if (isAsked) this.#pause('its owner changes again and again');
  }

  #silent(nowMs: number): void {
    const { probeAfterMs } = this.#patience;
    this.#watch();
    const owner = this.#owner();
    if (owner !== undefined && owner !== this.#asked) return this.#ownerChanged();
    if (nowMs - this.#heardMs >= probeAfterMs) {
      this.#heardMs = nowMs;
      if (!this.#isProbing) this.#probe(nowMs);
    }
    this.#wakeAt(Math.min(this.#patience.expiresAtMs, this.#heardMs + probeAfterMs));
  }

  #probe(nowMs: number): void {
    const { ports } = this.#site;
    const { pool, container } = this;
    const { id } = this.#call;
    const address = this.#asked === undefined ? undefined : ports.addressOf(this.#asked, nowMs);
    if (address === undefined) return;
    ports.count('calls.probed');
    const number = this.#number;
    this.#isProbing = true;
    const body = encodeMessage({ kind: 'queryCallStatus', ...id, pool: pool.record.major, container });
    this.#cancelProbe = ports.streams.request(address, body, this.#patience.probeAfterMs, (outcome) => {
      this.#isProbing = false;
      const answer = outcome.ok ? tryDecodeMessage(outcome.value) : undefined;
      if (this.#over || number !== this.#number || this.#phase !== 'asked') return;
      if (answer?.kind === 'queryCallStatusReply') this.#stands(answer.status);
    });
  }

  #stands(standing: CallMessageOf<'queryCallStatusReply'>['status']): void {
    const nowMs = this.#site.ports.clock.nowMs();
    if (standing === 'unknown') {
      // Its answer may be on the way and is taken if it comes; only the one before that is given up.
      this.#cancelEarlier();
      this.#cancelEarlier = this.#cancel;
      return this.#attempt();
    }
    this.#heardMs = nowMs;
    this.#patience.ownerHasCall(nowMs);
    this.#wakeAt(Math.min(this.#patience.expiresAtMs, nowMs + this.#patience.probeAfterMs));
  }

  #wakeAt(atMs: number): void {
    this.wakeAtMs = atMs;
    this.#site.alarms.set(this);
  }

  #giveUp(code: 'NETWORK_TIMEOUT' | 'DEADLINE'): void {
    const { pool, container } = this;
    const { timeoutMs, retryTimeoutMs = this.#site.options.retryTimeoutMs } = this.#call;
    this.#site.ports.count(`calls.${code === 'DEADLINE' ? 'late' : 'lost'}`);
    const stateChanged = this.#soFar;
    const silence = stateChanged === 'no' ? 'no owner had it' : 'no owner was heard of that has it';
    const limit = code === 'DEADLINE' ? `within ${timeoutMs} ms` : `and ${silence} for ${retryTimeoutMs} ms`;
    const words = `container ${container} of "${pool.name}" did not answer ${limit}`;
    const text = this.#phase === 'pausing' ? `${words}; the last word: ${this.#lastWords}` : words;
    this.#finish(failure(code, text, stateChanged));
  }

  #finish(outcome: Outcome<CallOutput>): void {
    if (this.#over) return;
    this.#over = true;
    this.#site.alarms.delete(this);
    this.#cancel();
    this.#cancelEarlier();
    this.#cancelProbe();
    this.#unwatch?.();
    if (this.#tally !== undefined) this.#tally.open -= 1;
    this.#hearer.complete(outcome);
  }
}

/** Nobody will read it any more. */
export function discardOutput(answer: CallOutput): void {
  if ('flow' in answer) void answer.flow[Symbol.asyncIterator]().return?.();
}
