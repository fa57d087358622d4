/**
 * Calls an etcd cluster: fails over between endpoints and retries until the deadline. Reports "nothing changed" only if
 * no attempt can have had an effect. Decision 18 compares it with the package etcd3, which has 37 dependencies and no
 * release for two years, and leaves a write of unknown outcome to the caller.
 */
import { type ErrorCode, RemusterError, withPossibleEffect } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import { EtcdHttp, type EtcdHeaders, type EtcdStreamEvents } from './etcd-http.ts';
import { type EtcdLimits, type EtcdOptions, etcdLimits, etcdTimeoutMsMax } from './etcd-options.ts';
import { type EtcdOutcome, classifyEtcdReply } from './etcd-outcome.ts';

export type EtcdBody = Readonly<Record<string, unknown>>;

export type EtcdCall = {
  readonly path: string;
  /** Called for each attempt; `uncertain` if an earlier attempt may have been executed. */
  readonly body: (attempt: { readonly uncertain: boolean }) => EtcdBody;
  /** An etcd member that sees no leader then refuses at once instead of waiting for one. */
  readonly needsLeader: boolean;
  /** False for a call without effect: a lost reply then leaves no uncertainty. */
  readonly isWrite: boolean;
  readonly deadlineMs: number;
};

export type EtcdReply =
  | { readonly kind: 'value'; readonly body: EtcdBody; readonly uncertain: boolean }
  | { readonly kind: 'refused'; readonly error: RemusterError; readonly etcdMessage: string };

type Attempt = {
  readonly endpoint: number;
  readonly path: string;
  readonly body: EtcdBody;
  readonly needsLeader: boolean;
};

type RetryState = { readonly code: ErrorCode; readonly reason: string; readonly uncertain: boolean };

export class EtcdClient {
  readonly limits: EtcdLimits;
  readonly #options: EtcdOptions;
  readonly #http: EtcdHttp;
  /** Ends the pending delays on `close`. */
  readonly #delays = new Set<() => void>();
  #endpoint = 0;
  #token: string | undefined;
  #open = true;

  constructor(options: EtcdOptions) {
    if (options.endpoints.length === 0) throw new RemusterError('BAD_ARGUMENT', 'etcd needs at least one endpoint');
    for (const endpoint of options.endpoints) checkEndpoint(endpoint);
    this.#options = options;
    this.limits = { ...etcdLimits, ...options.limits };
    this.#http = new EtcdHttp({ clock: options.clock, tls: options.tls, limits: this.limits });
  }

  get isOpen(): boolean {
    return this.#open;
  }

  get nowMs(): number {
    return this.#options.clock.nowMs();
  }

  /** Index of the current endpoint. */
  get endpoint(): number {
    return this.#endpoint;
  }

  /** Moves to the next endpoint, unless another caller has done so since. */
  onEndpointFailed(endpoint: number): void {
    if (endpoint === this.#endpoint) this.#endpoint = (endpoint + 1) % this.#options.endpoints.length;
  }

  deadlineMs(timeoutMs = this.limits.timeoutMs): number {
    return this.nowMs + Math.min(Math.max(0, timeoutMs), etcdTimeoutMsMax);
  }

  async call(call: EtcdCall): Promise<EtcdReply> {
    let state: RetryState = { code: 'DEADLINE', reason: 'no time was left', uncertain: false };
    for (let attempt = 0; this.nowMs < call.deadlineMs && this.#open; attempt++) {
      const endpoint = this.#endpoint;
      const body = call.body({ uncertain: state.uncertain });
      const outcome = await this.#attempt(
        { endpoint, path: call.path, body, needsLeader: call.needsLeader },
        call.deadlineMs,
      );
      if (outcome.kind === 'value') return { ...outcome, uncertain: state.uncertain };
      if (outcome.kind === 'refused' && !(state.uncertain && isInconclusive(outcome.error)))
        return state.uncertain ? { ...outcome, error: withPossibleEffect(outcome.error) } : outcome;
      state = nextRetryState(state, outcome, call);
      if (outcome.kind === 'retryable') this.onEndpointFailed(endpoint);
      await this.#backoff(attempt, call.deadlineMs);
    }
    return failedReply(this.#open ? state : { ...state, code: 'CANCELLED', reason: 'the registry was closed' });
  }

  /** One attempt at one endpoint, without failover: for a watch that depends on that endpoint. */
  attempt(endpoint: number, path: string, body: EtcdBody): Promise<EtcdOutcome> {
    return this.#attempt({ endpoint, path, body, needsLeader: false }, this.nowMs + this.limits.attemptMs);
  }

  stream(endpoint: number, path: string, body: EtcdBody, events: EtcdStreamEvents): Cancel {
    return this.#http.stream(this.#url(endpoint, path), body, this.#headers(true), events);
  }

  /** Ends early on `close`. */
  delay(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        this.#delays.delete(end);
        cancel();
        resolve();
      };
      const cancel = this.#options.clock.schedule(delayMs, end);
      this.#delays.add(end);
      if (!this.#open) end();
    });
  }

  close(): void {
    this.#open = false;
    this.#http.close();
    for (const end of this.#delays) end();
  }

  async #attempt({ endpoint, path, body, needsLeader }: Attempt, deadlineMs: number): Promise<EtcdOutcome> {
    const failure = await this.#authenticate(endpoint, deadlineMs);
    if (failure !== undefined) return failure;
    const headers = this.#headers(needsLeader);
    const reply = await this.#http.post(this.#url(endpoint, path), body, headers, this.#attemptMs(deadlineMs));
    const outcome = classifyEtcdReply(reply);
    if (outcome.kind !== 'authenticate') return outcome;
    this.#token = undefined;
    return this.#options.user === undefined ? noCredentials : outcome;
  }

  /** Requests a token for user and password. Tokens of etcd expire and are requested again then. */
  async #authenticate(endpoint: number, deadlineMs: number): Promise<EtcdOutcome | undefined> {
    const { user } = this.#options;
    if (user === undefined || this.#token !== undefined) return undefined;
    const url = this.#url(endpoint, '/v3/auth/authenticate');
    const outcome = classifyEtcdReply(await this.#http.post(url, user, {}, this.#attemptMs(deadlineMs)));
    // A failed authentication has not executed the call.
    if (outcome.kind === 'retryable') return { ...outcome, executed: 'no' };
    if (outcome.kind !== 'value') return outcome;
    this.#token = String(outcome.body['token']);
    return undefined;
  }

  #attemptMs(deadlineMs: number): number {
    return Math.max(0, Math.min(this.limits.attemptMs, deadlineMs - this.nowMs));
  }

  /** The delay doubles after each round over all endpoints. */
  async #backoff(attempt: number, deadlineMs: number): Promise<void> {
    const { retryDelayMsMin, retryDelayMsMax } = this.limits;
    const rounds = Math.floor(attempt / this.#options.endpoints.length);
    const backoffMs = Math.min(retryDelayMsMax, retryDelayMsMin * 2 ** Math.min(rounds, 10));
    const delayMs = Math.min(backoffMs, deadlineMs - this.nowMs);
    if (delayMs > 0) await this.delay(delayMs);
  }

  #url(endpoint: number, path: string): URL {
    return new URL(path, this.#options.endpoints[endpoint]);
  }

  #headers(needsLeader: boolean): EtcdHeaders {
    return {
      ...(needsLeader ? { 'grpc-metadata-hasleader': 'true' } : {}),
      ...(this.#token === undefined ? {} : { authorization: this.#token }),
    };
  }
}

const noCredentials: EtcdOutcome = {
  kind: 'refused',
  error: new RemusterError('UNAUTHENTICATED', 'etcd requires a user and a password'),
  etcdMessage: 'user name is empty',
};

/** etcd may reply these before it checks the marks of executed transactions, so earlier attempts remain uncertain. */
function isInconclusive({ code }: RemusterError): boolean {
  return code === 'STORE_FULL' || code === 'FORBIDDEN' || code === 'UNAUTHENTICATED';
}

function nextRetryState(
  before: RetryState,
  outcome: Exclude<EtcdOutcome, { kind: 'value' }>,
  { isWrite }: EtcdCall,
): RetryState {
  if (outcome.kind === 'retryable') {
    const { code, reason, executed } = outcome;
    const uncertain = before.uncertain || (isWrite && executed === 'maybe');
    // A lost quorum explains more than a single unreachable server.
    return before.code === 'NO_QUORUM' && code === 'UNREACHABLE'
      ? { ...before, uncertain }
      : { code, reason, uncertain };
  }
  const code = outcome.kind === 'refused' ? outcome.error.code : 'UNAUTHENTICATED';
  const reason = outcome.kind === 'refused' ? outcome.etcdMessage : 'etcd requires a user and a password';
  return { code, reason, uncertain: before.uncertain };
}

function failedReply({ code, reason, uncertain }: RetryState): EtcdReply {
  const errorCode = uncertain && code !== 'CANCELLED' ? 'DEADLINE' : code;
  const text = uncertain ? `etcd did not confirm the write, which may have happened (${reason})` : `etcd: ${reason}`;
  const error = new RemusterError(errorCode, text, uncertain ? 'maybe' : 'no');
  return { kind: 'refused', error, etcdMessage: reason };
}

function checkEndpoint(endpoint: string): void {
  const protocol = URL.canParse(endpoint) ? new URL(endpoint).protocol : '';
  if (protocol !== 'http:' && protocol !== 'https:')
    throw new RemusterError('BAD_ARGUMENT', `${endpoint} is not an etcd endpoint: expected http://host:port`);
}
