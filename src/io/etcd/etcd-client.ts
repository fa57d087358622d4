/**
 * Calls an etcd cluster: fails over between endpoints and retries until the deadline. Promises "nothing changed" only
 * if no attempt can have had an effect. Compared with etcd3 (decision 18): 37 packages, no release for two years, and
 * a write in doubt is left to the caller.
 */
import { type ErrorCode, RemusterError } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';
import { EtcdHttp, type EtcdHeaders, type EtcdStreamEvents } from './etcd-http.ts';
import { type EtcdLimits, type EtcdOptions, etcdLimits, etcdTimeoutMsMax } from './etcd-options.ts';
import { type EtcdOutcome, classifyEtcdReply } from './etcd-outcome.ts';

export type EtcdBody = Readonly<Record<string, unknown>>;

export type EtcdCall = {
  readonly path: string;
  /** Called for each attempt; `uncertain` when an earlier one may have been carried out. */
  readonly body: (attempt: { readonly uncertain: boolean }) => EtcdBody;
  /** A member of etcd that sees no leader refuses at once instead of letting us wait. */
  readonly needsLeader: boolean;
  /** False for what has no effect however often it is made, so that a lost answer leaves no doubt. */
  readonly isWrite: boolean;
  readonly deadlineMs: number;
};

export type EtcdReply =
  | { readonly kind: 'value'; readonly body: EtcdBody; readonly uncertain: boolean }
  | { readonly kind: 'refused'; readonly error: RemusterError; readonly etcdSays: string };

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
  readonly #pauses = new Set<() => void>();
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

  /** The present endpoint; `failed` turns to the next one, unless somebody has done so already. */
  get endpoint(): number {
    return this.#endpoint;
  }

  failed(endpoint: number): void {
    if (endpoint === this.#endpoint) this.#endpoint = (endpoint + 1) % this.#options.endpoints.length;
  }

  deadlineMs(timeoutMs = this.limits.timeoutMs): number {
    return this.nowMs + Math.min(Math.max(0, timeoutMs), etcdTimeoutMsMax);
  }

  async call(call: EtcdCall): Promise<EtcdReply> {
    let trouble: RetryState = { code: 'DEADLINE', reason: 'no time was left', uncertain: false };
    for (let attempt = 0; this.nowMs < call.deadlineMs && this.#open; attempt++) {
      const endpoint = this.#endpoint;
      const body = call.body({ uncertain: trouble.uncertain });
      const verdict = await this.#attempt(
        { endpoint, path: call.path, body, needsLeader: call.needsLeader },
        call.deadlineMs,
      );
      if (verdict.kind === 'value') return { ...verdict, uncertain: trouble.uncertain };
      if (verdict.kind === 'refused' && !(trouble.uncertain && isDoubtful(verdict.error))) return verdict;
      trouble = troubleAfter(trouble, verdict, call);
      if (verdict.kind === 'again') this.failed(endpoint);
      await this.#backoff(attempt, call.deadlineMs);
    }
    return refusal(this.#open ? trouble : { ...trouble, code: 'CANCELLED', reason: 'the registry was closed' });
  }

  /** One attempt at one endpoint, for somebody who depends on that endpoint. */
  attempt(endpoint: number, path: string, body: EtcdBody): Promise<EtcdOutcome> {
    return this.#attempt({ endpoint, path, body, needsLeader: false }, this.nowMs + this.limits.attemptMs);
  }

  stream(endpoint: number, path: string, body: EtcdBody, events: EtcdStreamEvents): Cancel {
    return this.#http.stream(this.#url(endpoint, path), body, this.#headers(true), events);
  }

  /** Waits, but not beyond `close`. */
  delay(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        this.#pauses.delete(end);
        cancel();
        resolve();
      };
      const cancel = this.#options.clock.schedule(delayMs, end);
      this.#pauses.add(end);
      if (!this.#open) end();
    });
  }

  close(): void {
    this.#open = false;
    this.#http.close();
    for (const end of this.#pauses) end();
  }

  async #attempt({ endpoint, path, body, needsLeader }: Attempt, deadlineMs: number): Promise<EtcdOutcome> {
    const refused = await this.#signIn(endpoint, deadlineMs);
    if (refused !== undefined) return refused;
    const headers = this.#headers(needsLeader);
    const reply = await this.#http.post(this.#url(endpoint, path), body, headers, this.#attemptMs(deadlineMs));
    const verdict = classifyEtcdReply(reply);
    if (verdict.kind !== 'authenticate') return verdict;
    this.#token = undefined;
    return this.#options.user === undefined ? nameless : verdict;
  }

  /** Gets the token that stands for name and password; etcd forgets it after a while, and then it is got again. */
  async #signIn(endpoint: number, deadlineMs: number): Promise<EtcdOutcome | undefined> {
    const { user } = this.#options;
    if (user === undefined || this.#token !== undefined) return undefined;
    const url = this.#url(endpoint, '/v3/auth/authenticate');
    const verdict = classifyEtcdReply(await this.#http.post(url, user, {}, this.#attemptMs(deadlineMs)));
    // Signing in changes nothing, however it failed.
    if (verdict.kind === 'again') return { ...verdict, happened: 'no' };
    if (verdict.kind !== 'value') return verdict;
    this.#token = String(verdict.body['token']);
    return undefined;
  }

  #attemptMs(deadlineMs: number): number {
    return Math.max(0, Math.min(this.limits.attemptMs, deadlineMs - this.nowMs));
  }

  /** The first change of endpoint is made at once, later ones after growing pauses. */
  async #backoff(attempt: number, deadlineMs: number): Promise<void> {
    const { pauseMsMin, pauseMsMax } = this.limits;
    const rounds = Math.floor(attempt / this.#options.endpoints.length);
    const wantedMs = Math.min(pauseMsMax, pauseMsMin * 2 ** Math.min(rounds, 10));
    const delayMs = Math.min(wantedMs, deadlineMs - this.nowMs);
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

const nameless: EtcdOutcome = {
  kind: 'refused',
  error: new RemusterError('UNAUTHENTICATED', 'etcd asks for a user and a password'),
  etcdSays: 'user name is empty',
};

/** These etcd may say before it looks at the marks of executed transactions: they tell nothing of earlier attempts. */
function isDoubtful({ code }: RemusterError): boolean {
  return code === 'STORE_FULL' || code === 'FORBIDDEN' || code === 'UNAUTHENTICATED';
}

function troubleAfter(
  before: RetryState,
  verdict: Exclude<EtcdOutcome, { kind: 'value' }>,
  { isWrite }: EtcdCall,
): RetryState {
  if (verdict.kind === 'again') {
    const { code, reason, happened } = verdict;
    const uncertain = before.uncertain || (isWrite && happened === 'maybe');
    // That one server is down says less than that another one sees no majority.
    return before.code === 'NO_QUORUM' && code === 'UNREACHABLE'
      ? { ...before, uncertain }
      : { code, reason, uncertain };
  }
  const code = verdict.kind === 'refused' ? verdict.error.code : 'UNAUTHENTICATED';
  const reason = verdict.kind === 'refused' ? verdict.etcdSays : 'etcd asks for a user and a password';
  return { code, reason, uncertain: before.uncertain };
}

function refusal({ code, reason, uncertain }: RetryState): EtcdReply {
  const ours = uncertain && code !== 'CANCELLED' ? 'DEADLINE' : code;
  const text = uncertain ? `it may have happened, but no answer came from etcd (${reason})` : `etcd: ${reason}`;
  return { kind: 'refused', error: new RemusterError(ours, text, uncertain ? 'maybe' : 'no'), etcdSays: reason };
}

function checkEndpoint(endpoint: string): void {
  const protocol = URL.canParse(endpoint) ? new URL(endpoint).protocol : '';
  if (protocol !== 'http:' && protocol !== 'https:')
    throw new RemusterError('BAD_ARGUMENT', `${endpoint} is no endpoint of etcd: expected http://host:port`);
}
