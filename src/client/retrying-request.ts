/**
 * One request to the cluster, resent with the same bytes to this node or others until it has a reply, its deadline
 * passes or retries end. Ends exactly once.
 *
 *   asking --answer--> over
 *     |  ^
 *     |  '-- the same node once more if the connection broke, else another one
 *     '----> pausing: all were tried; then from the first again
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
  readonly silence: LivenessMonitor;
  /** How many other nodes are tried before a pause. */
  readonly tryNewServers: number;
};

/** What the answer of a node means; `again`: this node could not help, another one may. */
export type ClassifiedReply<T> = { readonly outcome: Outcome<T> } | { readonly retry: RemusterError };

export type ClusterRequest<T> = {
  readonly body: Uint8Array;
  /** When it ends at the latest, by the clock of the site; Infinity: when somebody ends it. */
  readonly deadlineMs: number;
  /** After this moment it is not sent again. */
  readonly retryUntilMs: number;
  /** It means something else to each node, so it is only sent again if nobody can have got it. */
  readonly isBoundToNode: boolean;
  classify(answer: Message): ClassifiedReply<T>;
  /** How long one node is waited for, when that is shorter than all of it. What comes later may come from another one. */
  readonly attemptMs?: number;
  /** Errors that another node, or the same a moment later, may not have; besides those of every question. */
  isRetryable?(error: RemusterError): boolean;
  /** An error after so many times of which no further attempt makes sense. */
  isPermanent?(error: RemusterError, times: number): boolean;
};

/** This node could not help, or its answer was lost: with the same call id another attempt does no harm. */
const retryable: readonly ErrorCode[] = [
  'CANCELLED',
  'CAPACITY',
  'DRAINED',
  'NETWORK_TIMEOUT',
  'RATE_LIMITED',
  'UNREACHABLE',
];
const backoffMsMin = 50;
const pauseMsMax = 1_000;
/** Of one question that has no end of its own. */
const attemptMsMax = 60_000;
const nothing: Cancel = () => {};

export class RetryingRequest<T> implements LivenessListener {
  readonly #site: ClientContext;
  readonly #question: ClusterRequest<T>;
  readonly #done: Done<T>;
  /** In this round. Made when they are needed: almost every question is asked once. */
  #tried: Set<string> | undefined;
  #askedTwice: Set<string> | undefined;
  #asked: Address | undefined;
  #number = 0;
  #rounds = 0;
  #failures = 0;
  /** An attempt has ended in a way that does not exclude an effect. */
  #isUncertain = false;
  #over = false;
  #cancel: Cancel = nothing;

  constructor(site: ClientContext, question: ClusterRequest<T>, done: Done<T>) {
    this.#site = site;
    this.#question = question;
    this.#done = done;
  }

  start(): void {
    this.#ask(this.#site.servers.current);
  }

  /** `done` is told, unless it is over. */
  cancel(error: RemusterError): void {
    if (this.#over) return;
    const cancel = this.#cancel;
    this.#finish({ ok: false, error });
    cancel();
  }

  onUnresponsive(address: Address): void {
    if (this.#over || this.#asked === undefined || addressKey(this.#asked) !== addressKey(address)) return;
    const cancel = this.#cancel;
    this.#number += 1;
    this.#asked = undefined;
    this.#failed(address, new RemusterError('NETWORK_TIMEOUT', 'it has fallen silent'), false);
    cancel();
  }

  #ask(address: Address): void {
    const { clock, streams, silence } = this.#site;
    const { body, deadlineMs, attemptMs = timeoutOf(deadlineMs) } = this.#question;
    const remainingMs = deadlineMs - clock.nowMs();
    if (remainingMs <= 0) return this.#giveUp('DEADLINE', undefined);
    this.#number += 1;
    const number = this.#number;
    this.#asked = address;
    silence.startWaiting(address, this);
    this.#cancel = streams.request(address, body, Math.min(remainingMs, attemptMs), (outcome) => {
      if (this.#over || number !== this.#number) return;
      silence.stopWaiting(address, this, outcome.ok);
      this.#asked = undefined;
      this.#answered(address, outcome);
    });
  }

  #answered(address: Address, outcome: Outcome<Uint8Array>): void {
    if (outcome.ok) return this.#judge(address, outcome.value);
    const { error } = outcome;
    if (error.code === 'DEADLINE' && this.#question.deadlineMs === Infinity) {
      this.#isUncertain = true;
      return this.#ask(address);
    }
    const mayPass = retryable.includes(error.code) || this.#question.isRetryable?.(error) === true;
    if (mayPass) return this.#failed(address, error, error.code === 'NETWORK_TIMEOUT');
    this.#finish(outcome);
  }

  #judge(address: Address, bytes: Uint8Array): void {
    let verdict: ClassifiedReply<T>;
    try {
      verdict = this.#question.classify(decodeMessage(bytes));
    } catch (error) {
      return this.#finish(isRemusterError(error) ? { ok: false, error } : failure('INTERNAL'));
    }
    if ('retry' in verdict) this.#failed(address, verdict.retry, false);
    else this.#finish(verdict.outcome);
  }

  /** `sameAgain`: the node may be back already, or only the connection was lost. */
  #failed(address: Address, error: RemusterError, sameAgain: boolean): void {
    const { retryUntilMs, isBoundToNode } = this.#question;
    const key = addressKey(address);
    this.#failures += 1;
    if (error.stateChanged !== 'no') this.#isUncertain = true;
    if (isBoundToNode && error.stateChanged !== 'no') return this.#finish({ ok: false, error });
    if (this.#question.isPermanent?.(error, this.#failures) === true) return this.#finish({ ok: false, error });
    if (this.#site.clock.nowMs() >= retryUntilMs) return this.#retriesOver(address, error);
    if (sameAgain && this.#askedTwice?.has(key) !== true) {
      (this.#askedTwice ??= new Set()).add(key);
      return this.#ask(address);
    }
    const { servers, tryNewServers } = this.#site;
    servers.demote(address);
    const tried = (this.#tried ??= new Set());
    tried.add(key);
    const next = tried.size > tryNewServers ? undefined : servers.nextUntried(tried);
    if (next === undefined) this.#pause(address, error);
    else this.#ask(next);
  }

  #pause(address: Address, error: RemusterError): void {
    const { clock, random } = this.#site;
    const { deadlineMs, retryUntilMs } = this.#question;
    const longestMs = Math.min(pauseMsMax, backoffMsMin * 2 ** this.#rounds) * random.between(0.5, 1);
    const leftMs = Math.min(deadlineMs, retryUntilMs) - clock.nowMs();
    this.#rounds = Math.min(this.#rounds + 1, 20);
    this.#tried = undefined;
    this.#askedTwice = undefined;
    this.#cancel = clock.schedule(Math.min(longestMs, leftMs), () => {
      if (this.#over) return;
      if (clock.nowMs() >= Math.min(deadlineMs, retryUntilMs)) this.#retriesOver(address, error);
      else this.#ask(this.#site.servers.current);
    });
  }

  /** Who wanted no second attempt hears why the first one failed. */
  #retriesOver(address: Address, error: RemusterError): void {
    if (this.#failures === 1) return this.#finish({ ok: false, error });
    this.#giveUp('NETWORK_TIMEOUT', `${addressKey(address)}: ${error.message}`);
  }

  #giveUp(code: 'DEADLINE' | 'NETWORK_TIMEOUT', lastWords: string | undefined): void {
    const words =
      lastWords === undefined ? undefined : `no node of the cluster could help in time; the last was ${lastWords}`;
    this.#finish(failure(code, words, this.#isUncertain ? 'maybe' : 'no'));
  }

  #finish(outcome: Outcome<T>): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancel = nothing;
    if (this.#asked !== undefined) this.#site.silence.stopWaiting(this.#asked, this, false);
    // The last node may have refused at its own door: its `no` does not speak for an earlier attempt at another node.
    if (outcome.ok || !this.#isUncertain) this.#done(outcome);
    else this.#done({ ok: false, error: withPossibleEffect(outcome.error) });
  }
}

function timeoutOf(endsMs: number): number {
  return endsMs === Infinity ? attemptMsMax : Infinity;
}
