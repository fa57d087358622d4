/**
 * The connections to one origin and its queue of requests. Reuses the most recently used idle connection; dials one per
 * waiting request, within the limit of all origins.
 */
import { BoundedQueue } from '../../base/collections/bounded-queue.ts';
import { RemusterError } from '../../base/errors.ts';
import type { BufferedResponse } from './buffered-response.ts';
import type { HttpConnection, HttpConnectionEvents } from './http-connection.ts';
import type { Exchange } from './exchange.ts';

export type OriginPoolPorts = {
  /** Opens a connection; undefined at the limit of connections. */
  dial(events: HttpConnectionEvents): HttpConnection | undefined;
  connectionClosed(): void;
  /** Another pool waits for a connection: idle ones are closed. */
  isConnectionWanted(): boolean;
  responded(exchange: Exchange, response: BufferedResponse): void;
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

  /** No request is under way or waits. */
  get isUnused(): boolean {
    return this.#idle.length === this.#connections.size && this.#waiting.length === 0;
  }

  start(exchange: Exchange): void {
    const connection = this.#idle.pop();
    if (connection !== undefined) connection.send(exchange);
    else if (this.#waiting.push(exchange)) this.dialMore();
    else
      this.#ports.failed(
        exchange,
        new RemusterError('CAPACITY', `${this.#waiting.max} requests to this server are waiting, which is the maximum`),
      );
  }

  /** Also called when another pool has closed a connection. */
  dialMore(): void {
    while (this.#dialling < this.#waiting.length) {
      const connection = this.#ports.dial(this);
      if (connection === undefined) return;
      this.#connections.add(connection);
      this.#dialling += 1;
    }
  }

  /** Closes one idle connection; false if there is none. */
  closeIdle(): boolean {
    const connection = this.#idle.pop();
    if (connection === undefined) return false;
    connection.close();
    this.#remove(connection);
    return true;
  }

  opened(connection: HttpConnection): void {
    this.#dialling -= 1;
    this.#release(connection);
  }

  responded(connection: HttpConnection, exchange: Exchange, response: BufferedResponse, isOpen: boolean): void {
    if (isOpen) this.#release(connection);
    else this.#remove(connection);
    this.#ports.responded(exchange, response);
    if (!isOpen) this.dialMore();
  }

  lost(connection: HttpConnection, exchange: Exchange | undefined, error: RemusterError): void {
    const idleAt = this.#idle.indexOf(connection);
    if (idleAt >= 0) this.#idle.splice(idleAt, 1);
    this.#remove(connection);
    if (exchange !== undefined) {
      if (connection.isSafeToResend(exchange)) this.start(exchange);
      else this.#ports.failed(exchange, error);
    } else if (!connection.isOpen) this.#failOldestWaiting(error);
    this.dialMore();
  }

  /** Ends requests and connection attempts that are due. Returns the next due time; Infinity if there is none. */
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
      this.#remove(connection);
      if (exchange !== undefined) this.#ports.failed(exchange, deadlineError());
      else this.#failOldestWaiting(new RemusterError('UNREACHABLE', `no connection within ${this.#connectMs} ms`));
    }
    this.dialMore();
    return nextMs;
  }

  /** Ends all requests with the error. */
  close(error: RemusterError): void {
    for (const connection of this.#connections) {
      const { exchange } = connection;
      connection.close();
      this.#remove(connection);
      if (exchange !== undefined) this.#ports.failed(exchange, error);
    }
    this.#idle.length = 0;
    while (this.#waiting.length > 0) this.#failOldestWaiting(error);
  }

  #sweepWaiting(nowMs: number): number {
    let nextMs = Infinity;
    for (let count = this.#waiting.length; count > 0; count--) {
      const exchange = this.#waiting.shift()!;
      if (exchange.deadlineMs <= nowMs) this.#ports.failed(exchange, deadlineError());
      else {
        nextMs = Math.min(nextMs, exchange.deadlineMs);
        this.#waiting.push(exchange);
      }
    }
    return nextMs;
  }

  #release(connection: HttpConnection): void {
    const next = this.#waiting.shift();
    if (next !== undefined) connection.send(next);
    else if (this.#ports.isConnectionWanted()) {
      connection.close();
      this.#remove(connection);
    } else this.#idle.push(connection);
  }

  /** Removes a closed connection. */
  #remove(connection: HttpConnection): void {
    if (!connection.isOpen) this.#dialling -= 1;
    this.#connections.delete(connection);
    this.#ports.connectionClosed();
  }

  /** A failed connection attempt fails one request: each was dialled for one. */
  #failOldestWaiting(error: RemusterError): void {
    const exchange = this.#waiting.shift();
    if (exchange !== undefined) this.#ports.failed(exchange, error);
  }
}

function deadlineError(): RemusterError {
  return new RemusterError('DEADLINE', 'no complete response before the deadline of the request');
}
