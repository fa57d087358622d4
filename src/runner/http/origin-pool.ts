/**
 * Connections to one origin and its queue of requests. Reuses the most recent idle connection, dials one per waiting
 * request, within the global limit.
 */
import { BoundedQueue } from '../../base/collections/bounded-queue.ts';
import { RemusterError } from '../../base/errors.ts';
import type { BufferedResponse } from './buffered-response.ts';
import type { HttpConnection, HttpConnectionEvents } from './http-connection.ts';
import type { Exchange } from './exchange.ts';

export type OriginPoolPorts = {
  /** Opens a connection; undefined when there are as many as there may be. */
  dial(events: HttpConnectionEvents): HttpConnection | undefined;
  /** A connection that was dialled is over. */
  gone(): void;
  /** Somebody else waits for a connection to be given up: an idle one is not kept. */
  isConnectionWanted(): boolean;
  answered(exchange: Exchange, answer: BufferedResponse): void;
  failed(exchange: Exchange, error: RemusterError): void;
};

export class OriginPool implements HttpConnectionEvents {
  readonly #ports: OriginPoolPorts;
  readonly #connectMs: number;
  readonly #waiting: BoundedQueue<Exchange>;
  readonly #connections = new Set<HttpConnection>();
  readonly #idle: HttpConnection[] = [];
  #dialling = 0;

  constructor(ports: OriginPoolPorts, limits: { readonly waitingMax: number; readonly connectMs: number }) {
    this.#ports = ports;
    this.#connectMs = limits.connectMs;
    this.#waiting = new BoundedQueue(limits.waitingMax);
  }

  /** Nothing is under way or waits: it can be closed without anybody noticing. */
  get isUnused(): boolean {
    return this.#idle.length === this.#connections.size && this.#waiting.length === 0;
  }

  start(exchange: Exchange): void {
    const connection = this.#idle.pop();
    if (connection !== undefined) connection.send(exchange);
    else if (this.#waiting.push(exchange)) this.dialMore();
    else
      this.#ports.failed(exchange, new RemusterError('CAPACITY', `${this.#waiting.max} requests to one server wait`));
  }

  /** Also called when others have given a connection up. */
  dialMore(): void {
    while (this.#dialling < this.#waiting.length) {
      const connection = this.#ports.dial(this);
      if (connection === undefined) return;
      this.#connections.add(connection);
      this.#dialling += 1;
    }
  }

  /** Gives one idle connection up, if there is one. */
  closeIdle(): boolean {
    const connection = this.#idle.pop();
    if (connection === undefined) return false;
    connection.close();
    this.#forget(connection);
    return true;
  }

  opened(connection: HttpConnection): void {
    this.#dialling -= 1;
    this.#free(connection);
  }

  responded(connection: HttpConnection, exchange: Exchange, answer: BufferedResponse, isOpen: boolean): void {
    if (isOpen) this.#free(connection);
    else this.#forget(connection);
    this.#ports.answered(exchange, answer);
    if (!isOpen) this.dialMore();
  }

  lost(connection: HttpConnection, exchange: Exchange | undefined, error: RemusterError): void {
    const idleAt = this.#idle.indexOf(connection);
    if (idleAt >= 0) this.#idle.splice(idleAt, 1);
    this.#forget(connection);
    if (exchange !== undefined) {
      if (connection.isSafeToResend(exchange)) this.start(exchange);
      else this.#ports.failed(exchange, error);
    } else if (!connection.isOpen) this.#failFirst(error);
    this.dialMore();
  }

  /** Ends what is due. When the next one is due, Infinity if nothing is under way. */
  sweep(nowMs: number): number {
    let nextMs = this.#sweepWaiting(nowMs);
    for (const connection of this.#connections) {
      const { exchange } = connection;
      if (exchange === undefined && connection.isOpen) continue;
      const dueMs = exchange?.deadlineMs ?? connection.dialledMs + this.#connectMs;
      if (dueMs > nowMs) {
        nextMs = Math.min(nextMs, dueMs);
        continue;
      }
      connection.close();
      this.#forget(connection);
      if (exchange !== undefined) this.#ports.failed(exchange, tooLate());
      else this.#failFirst(new RemusterError('UNREACHABLE', `no connection within ${this.#connectMs} ms`));
    }
    this.dialMore();
    return nextMs;
  }

  /** Ends everything. */
  close(error: RemusterError): void {
    for (const connection of this.#connections) {
      const { exchange } = connection;
      connection.close();
      this.#forget(connection);
      if (exchange !== undefined) this.#ports.failed(exchange, error);
    }
    this.#idle.length = 0;
    while (this.#waiting.length > 0) this.#failFirst(error);
  }

  #sweepWaiting(nowMs: number): number {
    let nextMs = Infinity;
    for (let count = this.#waiting.length; count > 0; count--) {
      const exchange = this.#waiting.shift()!;
      if (exchange.deadlineMs <= nowMs) this.#ports.failed(exchange, tooLate());
      else {
        nextMs = Math.min(nextMs, exchange.deadlineMs);
        this.#waiting.push(exchange);
      }
    }
    return nextMs;
  }

  #free(connection: HttpConnection): void {
    const next = this.#waiting.shift();
    if (next !== undefined) connection.send(next);
    else if (this.#ports.isConnectionWanted()) {
      connection.close();
      this.#forget(connection);
    } else this.#idle.push(connection);
  }

  /** It is closed. */
  #forget(connection: HttpConnection): void {
    if (!connection.isOpen) this.#dialling -= 1;
    this.#connections.delete(connection);
    this.#ports.gone();
  }

  /** Each connection was dialled for one that waits. */
  #failFirst(error: RemusterError): void {
    const exchange = this.#waiting.shift();
    if (exchange !== undefined) this.#ports.failed(exchange, error);
  }
}

function tooLate(): RemusterError {
  return new RemusterError('DEADLINE', 'no whole answer within the time of the request');
}
