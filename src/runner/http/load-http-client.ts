/**
 * Lean HTTP/1.1 client for load tests: connections are pooled and shared by all users. Each request ends once and is
 * recorded once. No cookies, compression or cache. Undici (decision 18) takes about twice the CPU per request and has
 * its own timers.
 */
import { RemusterError } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { HttpClient, HttpConnections, HttpOptions, HttpRecorder, HttpResponse } from '../definition/http-types.ts';
import type { BufferedResponse } from './buffered-response.ts';
import { HttpConnection, type HttpConnectionEvents } from './http-connection.ts';
import { Exchange } from './exchange.ts';
import { type HttpLimits, httpLimits } from './http-limits.ts';
import { OriginPool, type OriginPoolPorts } from './origin-pool.ts';
import { resolveRedirect } from './redirect.ts';
import { parseMethod, buildRequestText } from './request-text.ts';
import { ResponseReader } from './response-reader.ts';
import { TargetCache } from './request-target.ts';
import { UserHttpClient } from './user-http.ts';
import type { DialSocket, DecodeLatin1, SocketAddress } from './socket-port.ts';

export type LoadHttpClientPorts = {
  readonly clock: Pick<Clock, 'nowMs' | 'schedule'>;
  readonly dial: DialSocket;
  readonly latin1: DecodeLatin1;
};

const redirectsLimit = 100;

export class LoadHttpClient implements HttpConnections {
  readonly #ports: LoadHttpClientPorts;
  readonly #limits: HttpLimits;
  readonly #targets: TargetCache;
  readonly #pools = new Map<string, OriginPool>();
  /** Pools with requests that wait because of `connectionsMax`. */
  readonly #waitingPools = new Set<OriginPool>();
  #connections = 0;
  #wakeMs = Infinity;
  #cancelWake: Cancel = () => {};
  #isClosed = false;

  constructor(ports: LoadHttpClientPorts, limits: Partial<HttpLimits> = {}) {
    this.#ports = ports;
    this.#limits = { ...httpLimits, ...limits };
    this.#targets = new TargetCache(this.#limits.targetsMax);
  }

  clientFor(recorder: HttpRecorder): HttpClient {
    return new UserHttpClient(this, recorder);
  }

  /** Connections that are open or being dialled. */
  get connections(): number {
    return this.#connections;
  }

  /** Ends pending requests with CANCELLED, without a record, and refuses new ones. */
  close(): void {
    this.#isClosed = true;
    this.#cancelWake();
    const error = new RemusterError('CANCELLED', 'the run has ended');
    for (const pool of this.#pools.values()) pool.close(error);
    this.#pools.clear();
    this.#waitingPools.clear();
  }

  /** Used by UserHttpClient. */
  send(recorder: HttpRecorder, method: string, url: string, options: HttpOptions | undefined): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      const startedMs = this.#ports.clock.nowMs();
      try {
        const target = this.#targets.resolve(url);
        const exchange = new Exchange(parseMethod(method), target, options, recorder, resolve, reject);
        exchange.startedMs = startedMs;
        exchange.deadlineMs = startedMs + this.#timeoutMs(options);
        exchange.redirectsLeft = this.#redirectsMax(options);
        this.#start(exchange);
        if (exchange.deadlineMs < this.#wakeMs) this.#wakeAt(exchange.deadlineMs);
      } catch (error) {
        const durationUs = (this.#ports.clock.nowMs() - startedMs) * 1_000;
        if (!this.#isClosed) recorder.recordRequest({ durationUs, bytesIn: 0, bytesOut: 0, ok: false });
        reject(error);
      }
    });
  }

  /** Throws if the request is invalid. */
  #start(exchange: Exchange): void {
    if (this.#isClosed) throw new RemusterError('CANCELLED', 'the run has ended');
    const { target, options } = exchange;
    const { origin } = target;
    exchange.setRequest(buildRequestText(exchange.method, target, options));
    // Connections without a certificate check are for requests that allow any certificate only.
    const anyCertificate = options?.anyCertificate === true;
    const name = anyCertificate ? `${origin.name} unchecked` : origin.name;
    (this.#pools.get(name) ?? this.#addPool(name, { ...origin, anyCertificate })).start(exchange);
  }

  #onResponse(exchange: Exchange, response: BufferedResponse): void {
    const { status } = response;
    if (status > 300 && status < 309 && exchange.redirectsLeft > 0 && this.#followRedirect(exchange, response)) return;
    const { bytesIn, bytesOut } = exchange;
    exchange.recorder.recordRequest({ durationUs: response.durationMs * 1_000, bytesIn, bytesOut, ok: status < 400 });
    exchange.resolve(response);
  }

  /** False if the response is not a redirect that can be followed. */
  #followRedirect(exchange: Exchange, response: BufferedResponse): boolean {
    const redirect = resolveRedirect(exchange, response);
    if (redirect === undefined) return false;
    exchange.redirectsLeft -= 1;
    exchange.method = redirect.method;
    exchange.options = redirect.options;
    try {
      exchange.target = this.#targets.resolve(redirect.url);
      this.#start(exchange);
    } catch (error) {
      this.#onFailed(exchange, error as RemusterError);
    }
    return true;
  }

  #onFailed(exchange: Exchange, error: RemusterError): void {
    const durationUs = (this.#ports.clock.nowMs() - exchange.startedMs) * 1_000;
    const { bytesIn, bytesOut } = exchange;
    if (!this.#isClosed) exchange.recorder.recordRequest({ durationUs, bytesIn, bytesOut, ok: false });
    exchange.reject(error);
  }

  #addPool(name: string, address: SocketAddress): OriginPool {
    if (this.#pools.size >= this.#limits.originsMax) this.#dropUnusedPool();
    const ports: OriginPoolPorts = {
      dial: (events) => this.#dial(address, pool, events),
      connectionClosed: () => this.#onConnectionClosed(),
      isConnectionWanted: () => this.#waitingPools.size > 0,
      responded: (exchange, response) => this.#onResponse(exchange, response),
      failed: (exchange, error) => this.#onFailed(exchange, error),
    };
    const pool = new OriginPool(ports, this.#limits);
    this.#pools.set(name, pool);
    return pool;
  }

  #dropUnusedPool(): void {
    for (const [name, pool] of this.#pools) {
      if (!pool.isUnused) continue;
      this.#pools.delete(name);
      return pool.close(new RemusterError('CANCELLED', 'the pool was unused'));
    }
    throw new RemusterError(
      'CAPACITY',
      `requests to ${this.#limits.originsMax} servers are under way, which is the maximum`,
    );
  }

  #dial(address: SocketAddress, pool: OriginPool, events: HttpConnectionEvents): HttpConnection | undefined {
    const { connectionsMax, connectMs } = this.#limits;
    if (this.#connections >= connectionsMax) for (const other of this.#pools.values()) if (other.closeIdle()) break;
    if (this.#connections >= connectionsMax) {
      this.#waitingPools.add(pool);
      return undefined;
    }
    this.#connections += 1;
    const { dial, clock, latin1 } = this.#ports;
    const reader = new ResponseReader(this.#limits, latin1);
    const connection = new HttpConnection({ dial, reader, clock }, address, events);
    const dueMs = connection.dialledMs + connectMs;
    if (dueMs < this.#wakeMs) this.#wakeAt(dueMs);
    return connection;
  }

  #onConnectionClosed(): void {
    this.#connections -= 1;
    while (this.#waitingPools.size > 0 && this.#connections < this.#limits.connectionsMax) {
      const [pool] = this.#waitingPools as Iterable<OriginPool> as [OriginPool];
      this.#waitingPools.delete(pool);
      pool.dialMore();
    }
  }

  #wakeAt(dueMs: number): void {
    this.#cancelWake();
    this.#wakeMs = dueMs;
    const delayMs = Math.max(0, dueMs - this.#ports.clock.nowMs());
    this.#cancelWake = this.#ports.clock.schedule(delayMs, () => this.#sweep());
  }

  /** One timer for all requests, set to the first deadline; each sweep ends the requests that are due. */
  #sweep(): void {
    this.#wakeMs = Infinity;
    const nowMs = this.#ports.clock.nowMs();
    let nextMs = Infinity;
    for (const pool of this.#pools.values()) nextMs = Math.min(nextMs, pool.sweep(nowMs));
    if (nextMs < this.#wakeMs) this.#wakeAt(nextMs);
  }

  #timeoutMs(options: HttpOptions | undefined): number {
    const timeoutMs = options?.timeoutMs;
    if (timeoutMs === undefined) return this.#limits.timeoutMs;
    if (timeoutMs > 0 && timeoutMs <= this.#limits.timeoutMsMax) return timeoutMs;
    throw new RemusterError(
      'BAD_ARGUMENT',
      `timeoutMs must be more than 0 and at most ${this.#limits.timeoutMsMax}, not ${timeoutMs}`,
    );
  }

  #redirectsMax(options: HttpOptions | undefined): number {
    const redirectsMax = options?.redirectsMax;
    if (redirectsMax === undefined) return this.#limits.redirectsMax;
    if (Number.isSafeInteger(redirectsMax) && redirectsMax >= 0 && redirectsMax <= redirectsLimit) return redirectsMax;
    throw new RemusterError(
      'BAD_ARGUMENT',
      `redirectsMax must be a whole number from 0 to ${redirectsLimit}, not ${redirectsMax}`,
    );
  }
}
