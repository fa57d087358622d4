/**
 * Lean HTTP/1.1 client for load: pooled connections shared by all users. Each request ends once and is recorded once.
 * No cookies, compression or cache. Compared with undici (decision 18): it takes about twice the CPU for each request
 * and has timers of its own.
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

const redirectsOfOneMax = 100;

export class LoadHttpClient implements HttpConnections {
  readonly #ports: LoadHttpClientPorts;
  readonly #limits: HttpLimits;
  readonly #targets: TargetCache;
  readonly #pools = new Map<string, OriginPool>();
  /** Pools with requests that wait because there are as many connections as there may be. */
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

  /** How many connections are open or being opened. */
  get connections(): number {
    return this.#connections;
  }

  /** Ends what is under way with CANCELLED, which is told to nobody but its callers, and takes nothing new. */
  close(): void {
    this.#isClosed = true;
    this.#cancelWake();
    const error = new RemusterError('CANCELLED', 'the run has ended');
    for (const pool of this.#pools.values()) pool.close(error);
    this.#pools.clear();
    this.#waitingPools.clear();
  }

  /** For UserHttpClient. */
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
        if (!this.#isClosed) recorder.httpEnded({ durationUs, bytesIn: 0, bytesOut: 0, ok: false });
        reject(error);
      }
    });
  }

  /** Throws when the request cannot even be sent. */
  #start(exchange: Exchange): void {
    if (this.#isClosed) throw new RemusterError('CANCELLED', 'the run has ended');
    const { target, options } = exchange;
    const { origin } = target;
    exchange.setRequest(buildRequestText(exchange.method, target, options));
    // Connections to servers that were not checked are for those who asked for that.
    const anyCertificate = options?.anyCertificate === true;
    const name = anyCertificate ? `${origin.name} unchecked` : origin.name;
    (this.#pools.get(name) ?? this.#addPool(name, { ...origin, anyCertificate })).start(exchange);
  }

  #answered(exchange: Exchange, answer: BufferedResponse): void {
    const { status } = answer;
    if (status > 300 && status < 309 && exchange.redirectsLeft > 0 && this.#follow(exchange, answer)) return;
    const { bytesIn, bytesOut } = exchange;
    exchange.recorder.httpEnded({ durationUs: answer.durationMs * 1_000, bytesIn, bytesOut, ok: status < 400 });
    exchange.resolve(answer);
  }

  /** False when there is nowhere to go. */
  #follow(exchange: Exchange, answer: BufferedResponse): boolean {
    const redirect = resolveRedirect(exchange, answer);
    if (redirect === undefined) return false;
    exchange.redirectsLeft -= 1;
    exchange.method = redirect.method;
    exchange.options = redirect.options;
    try {
      exchange.target = this.#targets.resolve(redirect.url);
      this.#start(exchange);
    } catch (error) {
      this.#failed(exchange, error as RemusterError);
    }
    return true;
  }

  #failed(exchange: Exchange, error: RemusterError): void {
    const durationUs = (this.#ports.clock.nowMs() - exchange.startedMs) * 1_000;
    const { bytesIn, bytesOut } = exchange;
    if (!this.#isClosed) exchange.recorder.httpEnded({ durationUs, bytesIn, bytesOut, ok: false });
    exchange.reject(error);
  }

  #addPool(name: string, address: SocketAddress): OriginPool {
    if (this.#pools.size >= this.#limits.originsMax) this.#dropUnusedPool();
    const ports: OriginPoolPorts = {
      dial: (events) => this.#dial(address, pool, events),
      gone: () => this.#gone(),
      isConnectionWanted: () => this.#waitingPools.size > 0,
      answered: (exchange, answer) => this.#answered(exchange, answer),
      failed: (exchange, error) => this.#failed(exchange, error),
    };
    const pool = new OriginPool(ports, this.#limits);
    this.#pools.set(name, pool);
    return pool;
  }

  #dropUnusedPool(): void {
    for (const [name, pool] of this.#pools) {
      if (!pool.isUnused) continue;
      this.#pools.delete(name);
      return pool.close(new RemusterError('CANCELLED', 'nobody asks this server'));
    }
    throw new RemusterError('CAPACITY', `requests to ${this.#limits.originsMax} servers are under way`);
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

  #gone(): void {
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

  /** One timer for all: it is set to the first deadline, and looks at all that is under way when it fires. */
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
    throw new RemusterError('BAD_ARGUMENT', `timeoutMs is more than 0 and at most ${this.#limits.timeoutMsMax}`);
  }

  #redirectsMax(options: HttpOptions | undefined): number {
    const redirectsMax = options?.redirectsMax;
    if (redirectsMax === undefined) return this.#limits.redirectsMax;
    if (Number.isSafeInteger(redirectsMax) && redirectsMax >= 0 && redirectsMax <= redirectsOfOneMax)
      return redirectsMax;
    throw new RemusterError('BAD_ARGUMENT', `redirectsMax is a number from 0 to ${redirectsOfOneMax}`);
  }
}
