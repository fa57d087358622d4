/**
 * One request to the cluster, resent with the same bytes to the same or other nodes until it gets a reply, its deadline
 * passes or its retries end. Ends exactly once.
 *
 *   sent --reply--> done
 *    |  ^
 *    |  '-- retryable error: once more to the same node if the connection broke, else to the next node
 *    '----> backoff after a round through all nodes, then from the first again
 */
import {
  type Done,
  type ErrorCode,
  type Outcome,
  RemusterError,
  failure,
  isRemusterError,
  withPossibleEffect,
} from '../base/errors.ts';
import type { Address, Cancel, Clock, Streams } from '../base/ports.ts';
import type { Random } from '../base/random.ts';
import { type Message, decodeMessage } from '../messages/catalogue.ts';
import type { LivenessListener, LivenessMonitor } from './liveness-monitor.ts';
import { type ServerList, addressKey } from './server-list.ts';

export type ClientContext = {
  readonly clock: Clock;
  readonly random: Random;
  readonly streams: Streams;
  readonly servers: ServerList;
  readonly liveness: LivenessMonitor;
  /** How many other nodes are tried before a backoff. */
  readonly tryNewServers: number;
};

/** The meaning of a reply; `retry`: another node, or the same one later, may succeed. */
export type ClassifiedReply<T> = { readonly outcome: Outcome<T> } | { readonly retry: RemusterError };

export type ClusterRequest<T> = {
  readonly body: Uint8Array;
  /** By the clock of the context; Infinity: it ends only with a reply or a cancellation. */
  readonly deadlineMs: number;
  /** It is not resent after this moment. */
  readonly retryUntilMs: number;
  /** Its meaning depends on the node, so it is resent only if it was surely not started. */
  readonly isBoundToNode: boolean;
  classify(reply: Message): ClassifiedReply<T>;
  /** Timeout of one attempt; then the next node is tried. */
  readonly attemptMs?: number;
  /** Further retryable errors, besides those of every request. */
  isRetryable?(error: RemusterError): boolean;
  /** True if no further attempt makes sense after this error and so many failures. */
  isPermanent?(error: RemusterError, failures: number): boolean;
};

/** The node did not execute the request, or its reply was lost: with the same call id a retry is safe. */
const retryable: readonly ErrorCode[] = [
  'CANCELLED',
  'CAPACITY',
  'DRAINED',
  'NETWORK_TIMEOUT',
  'RATE_LIMITED',
  'UNREACHABLE',
];
const backoffMsMin = 50;
const backoffMsMax = 1_000;
/** Timeout of one attempt of a request without a deadline. */
const attemptMsMax = 60_000;
const nothing: Cancel = () => {};

export class RetryingRequest<T> implements LivenessListener {
  readonly #context: ClientContext;
  readonly #request: ClusterRequest<T>;
  readonly #done: Done<T>;
  /** Nodes tried in this round. Both sets are created on demand: almost every request needs one attempt. */
  #tried: Set<string> | undefined;
  #triedTwice: Set<string> | undefined;
  /** The node of the attempt under way. */
  #target: Address | undefined;
  #attempt = 0;
  #rounds = 0;
  #failures = 0;
  /** An attempt may have had an effect. */
  #isUncertain = false;
  #isDone = false;
  #cancel: Cancel = nothing;

  constructor(context: ClientContext, request: ClusterRequest<T>, done: Done<T>) {
    this.#context = context;
    this.#request = request;
    this.#done = done;
  }

  start(): void {
    this.#send(this.#context.servers.current);
  }

  /** Ends the request with the error, unless it has ended. */
  cancel(error: RemusterError): void {
    if (this.#isDone) return;
    const cancel = this.#cancel;
    this.#finish({ ok: false, error });
    cancel();
  }

  onUnresponsive(address: Address): void {
    if (this.#isDone || this.#target === undefined || addressKey(this.#target) !== addressKey(address)) return;
    const cancel = this.#cancel;
    this.#attempt += 1;
    this.#target = undefined;
    this.#onFailure(address, new RemusterError('NETWORK_TIMEOUT', 'the node does not respond'), false);
    cancel();
  }

  #send(address: Address): void {
    const { clock, streams, liveness } = this.#context;
    const { body, deadlineMs, attemptMs = attemptTimeoutMs(deadlineMs) } = this.#request;
    const remainingMs = deadlineMs - clock.nowMs();
    if (remainingMs <= 0) return this.#giveUp('DEADLINE', undefined);
    this.#attempt += 1;
    const attempt = this.#attempt;
    this.#target = address;
    liveness.startWaiting(address, this);
    this.#cancel = streams.request(address, body, Math.min(remainingMs, attemptMs), (outcome) => {
      if (this.#isDone || attempt !== this.#attempt) return;
      liveness.stopWaiting(address, this, outcome.ok);
      this.#target = undefined;
      this.#onOutcome(address, outcome);
    });
  }

  #onOutcome(address: Address, outcome: Outcome<Uint8Array>): void {
    if (outcome.ok) return this.#onReply(address, outcome.value);
    const { error } = outcome;
    if (error.code === 'DEADLINE' && this.#request.deadlineMs === Infinity) {
      this.#isUncertain = true;
      return this.#send(address);
    }
    const isRetryable = retryable.includes(error.code) || this.#request.isRetryable?.(error) === true;
    if (isRetryable) return this.#onFailure(address, error, error.code === 'NETWORK_TIMEOUT');
    this.#finish(outcome);
  }

  #onReply(address: Address, bytes: Uint8Array): void {
    let classified: ClassifiedReply<T>;
    try {
      classified = this.#request.classify(decodeMessage(bytes));
    } catch (error) {
      return this.#finish(isRemusterError(error) ? { ok: false, error } : failure('INTERNAL'));
    }
    if ('retry' in classified) this.#onFailure(address, classified.retry, false);
    else this.#finish(classified.outcome);
  }

  /** `canRepeat`: only the connection may be lost, so the same node gets the request once more. */
  #onFailure(address: Address, error: RemusterError, canRepeat: boolean): void {
    const { retryUntilMs, isBoundToNode } = this.#request;
    const key = addressKey(address);
    this.#failures += 1;
    if (error.stateChanged !== 'no') this.#isUncertain = true;
    if (isBoundToNode && error.stateChanged !== 'no') return this.#finish({ ok: false, error });
    if (this.#request.isPermanent?.(error, this.#failures) === true) return this.#finish({ ok: false, error });
    if (this.#context.clock.nowMs() >= retryUntilMs) return this.#endRetries(address, error);
    if (canRepeat && this.#triedTwice?.has(key) !== true) {
      (this.#triedTwice ??= new Set()).add(key);
      return this.#send(address);
    }
    const { servers, tryNewServers } = this.#context;
    servers.demote(address);
    const tried = (this.#tried ??= new Set());
    tried.add(key);
    const next = tried.size > tryNewServers ? undefined : servers.nextUntried(tried);
    if (next === undefined) this.#backOff(address, error);
    else this.#send(next);
  }

  #backOff(address: Address, error: RemusterError): void {
    const { clock, random } = this.#context;
    const { deadlineMs, retryUntilMs } = this.#request;
    const delayMs = Math.min(backoffMsMax, backoffMsMin * 2 ** this.#rounds) * random.between(0.5, 1);
    const remainingMs = Math.min(deadlineMs, retryUntilMs) - clock.nowMs();
    this.#rounds = Math.min(this.#rounds + 1, 20);
    this.#tried = undefined;
    this.#triedTwice = undefined;
    this.#cancel = clock.schedule(Math.min(delayMs, remainingMs), () => {
      if (this.#isDone) return;
      if (clock.nowMs() >= Math.min(deadlineMs, retryUntilMs)) this.#endRetries(address, error);
      else this.#send(this.#context.servers.current);
    });
  }

  /** A request with a single attempt ends with its own error. */
  #endRetries(address: Address, error: RemusterError): void {
    if (this.#failures === 1) return this.#finish({ ok: false, error });
    this.#giveUp('NETWORK_TIMEOUT', `${addressKey(address)}: ${error.message}`);
  }

  #giveUp(code: 'DEADLINE' | 'NETWORK_TIMEOUT', lastError: string | undefined): void {
    const message =
      lastError === undefined ? undefined : `no node of the cluster replied in time; the last error: ${lastError}`;
    this.#finish(failure(code, message, this.#isUncertain ? 'maybe' : 'no'));
  }

  #finish(outcome: Outcome<T>): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#cancel = nothing;
    if (this.#target !== undefined) this.#context.liveness.stopWaiting(this.#target, this, false);
    // The last node may not have executed the request; an earlier attempt at another node may have.
    if (outcome.ok || !this.#isUncertain) this.#done(outcome);
    else this.#done({ ok: false, error: withPossibleEffect(outcome.error) });
  }
}

function attemptTimeoutMs(deadlineMs: number): number {
  return deadlineMs === Infinity ? attemptMsMax : Infinity;
}
