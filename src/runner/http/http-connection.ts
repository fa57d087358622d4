/**
 * One connection with one request at a time. Turns socket events into the end of its exchange; the pool decides what
 * follows.
 */
import { RemusterError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { BufferedResponse } from './buffered-response.ts';
import type { Exchange } from './exchange.ts';
import type { ResponseReader } from './response-reader.ts';
import type { DialSocket, RawSocket, SocketAddress, SocketEvents, SocketError } from './socket-port.ts';

export type HttpConnectionPorts = {
  readonly dial: DialSocket;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly reader: ResponseReader;
};

export type HttpConnectionEvents = {
  opened(connection: HttpConnection): void;
  /** `isOpen`: the connection can carry another request. */
  responded(connection: HttpConnection, exchange: Exchange, response: BufferedResponse, isOpen: boolean): void;
  /** The connection is closed, and the request under way has failed. */
  lost(connection: HttpConnection, exchange: Exchange | undefined, error: RemusterError): void;
};

/** Idempotent methods: repeating such a request has the effect of one (RFC 9110, 9.2.2). */
const idempotent: readonly string[] = ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'];

export class HttpConnection implements SocketEvents {
  readonly dialledMs: number;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #reader: ResponseReader;
  readonly #events: HttpConnectionEvents;
  readonly #socket: RawSocket;
  #exchange: Exchange | undefined;
  #isOpen = false;
  #isClosed = false;
  #requests = 0;
  /** Received bytes of the response to the last request. */
  #responseBytes = 0;

  constructor(ports: HttpConnectionPorts, address: SocketAddress, events: HttpConnectionEvents) {
    this.#clock = ports.clock;
    this.#reader = ports.reader;
    this.#events = events;
    this.dialledMs = ports.clock.nowMs();
    this.#socket = ports.dial(address, this);
  }

  get exchange(): Exchange | undefined {
    return this.#exchange;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  send(exchange: Exchange): void {
    this.#exchange = exchange;
    this.#requests += 1;
    this.#responseBytes = 0;
    this.#reader.reset(exchange.method === 'HEAD');
    const { text, body } = exchange;
    exchange.bytesOut += body === undefined ? text.length : text.length + body.length;
    this.#socket.write(text, body);
  }

  /** True if the server may have closed a kept-alive connection while an idempotent request was on its way. */
  isSafeToResend({ method }: Exchange): boolean {
    return this.#requests > 1 && this.#responseBytes === 0 && idempotent.includes(method);
  }

  /** No events follow. */
  close(): void {
    this.#isClosed = true;
    this.#exchange = undefined;
    this.#socket.close();
  }

  opened(): void {
    if (this.#isClosed) return;
    this.#isOpen = true;
    this.#events.opened(this);
  }

  read(bytes: Uint8Array, length: number): void {
    const exchange = this.#exchange;
    if (this.#isClosed) return;
    if (exchange === undefined)
      return this.#lose(new RemusterError('MALFORMED', 'the server sent data without a request'));
    this.#responseBytes += length;
    exchange.bytesIn += length;
    let end: number;
    try {
      end = this.#reader.read(bytes, 0, length);
    } catch (error) {
      return this.#lose(error as RemusterError);
    }
    // Bytes after the response belong to no request: the connection is not used again.
    if (end >= 0) this.#finish(exchange, this.#reader.isKeptAlive && end === length && !exchange.closesConnection);
  }

  closed(fault: SocketError | undefined): void {
    if (this.#isClosed) return;
    const exchange = this.#exchange;
    if (exchange !== undefined && fault === undefined && this.#reader.closed()) return this.#finish(exchange, false);
    const { code, message } = fault ?? { code: 'UNREACHABLE' as const, message: 'the server closed the connection' };
    this.#lose(new RemusterError(exchange !== undefined && code === 'UNREACHABLE' ? 'CONNECTION_LOST' : code, message));
  }

  #finish(exchange: Exchange, isOpen: boolean): void {
    const { status, text, bodyAt, bytes } = this.#reader;
    const response = new BufferedResponse(status, this.#clock.nowMs() - exchange.startedMs, text, bodyAt, bytes);
    this.#exchange = undefined;
    if (!isOpen) this.close();
    this.#events.responded(this, exchange, response, isOpen);
  }

  #lose(error: RemusterError): void {
    const exchange = this.#exchange;
    this.close();
    this.#events.lost(this, exchange, error);
  }
}
