/**
 * One connection with one request at a time. Turns socket events into the end of its exchange; its pool decides what
 * happens next.
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
  /** `isOpen`: the connection can be used again. */
  responded(connection: HttpConnection, exchange: Exchange, answer: BufferedResponse, isOpen: boolean): void;
  /** It is over, and with it the request that was under way. */
  lost(connection: HttpConnection, exchange: Exchange | undefined, error: RemusterError): void;
};

/** Asking these again does no harm: nobody can tell once from twice (RFC 9110, 9.2.2). */
const repeatable: readonly string[] = ['GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS'];

export class HttpConnection implements SocketEvents {
  readonly dialledMs: number;
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #reader: ResponseReader;
  readonly #events: HttpConnectionEvents;
  readonly #wire: RawSocket;
  #exchange: Exchange | undefined;
  #isOpen = false;
  #isOver = false;
  /** Requests that it has carried, and bytes of the answer to the last. */
  #sent = 0;
  #answerBytes = 0;

  constructor(ports: HttpConnectionPorts, address: SocketAddress, events: HttpConnectionEvents) {
    this.#clock = ports.clock;
    this.#reader = ports.reader;
    this.#events = events;
    this.dialledMs = ports.clock.nowMs();
    this.#wire = ports.dial(address, this);
  }

  get exchange(): Exchange | undefined {
    return this.#exchange;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  send(exchange: Exchange): void {
    this.#exchange = exchange;
    this.#sent += 1;
    this.#answerBytes = 0;
    this.#reader.begin(exchange.method === 'HEAD');
    const { text, body } = exchange;
    exchange.bytesOut += body === undefined ? text.length : text.length + body.length;
    this.#wire.write(text, body);
  }

  /** Could the request that broke with it have met a connection that the server was just closing? */
  isSafeToResend({ method }: Exchange): boolean {
    return this.#sent > 1 && this.#answerBytes === 0 && repeatable.includes(method);
  }

  /** Nothing is told afterwards. */
  close(): void {
    this.#isOver = true;
    this.#exchange = undefined;
    this.#wire.close();
  }

  opened(): void {
    if (this.#isOver) return;
    this.#isOpen = true;
    this.#events.opened(this);
  }

  read(bytes: Uint8Array, length: number): void {
    const exchange = this.#exchange;
    if (this.#isOver) return;
    if (exchange === undefined)
      return this.#lose(new RemusterError('MALFORMED', 'the server spoke without being asked'));
    this.#answerBytes += length;
    exchange.bytesIn += length;
    let end: number;
    try {
      end = this.#reader.read(bytes, 0, length);
    } catch (error) {
      return this.#lose(error as RemusterError);
    }
    // Whatever follows an answer was not asked for.
    if (end >= 0) this.#finish(exchange, this.#reader.isKeptAlive && end === length && !exchange.closesConnection);
  }

  closed(fault: SocketError | undefined): void {
    if (this.#isOver) return;
    const exchange = this.#exchange;
    if (exchange !== undefined && fault === undefined && this.#reader.closed()) return this.#finish(exchange, false);
    const { code, message } = fault ?? { code: 'UNREACHABLE' as const, message: 'the server closed the connection' };
    this.#lose(new RemusterError(exchange !== undefined && code === 'UNREACHABLE' ? 'CONNECTION_LOST' : code, message));
  }

  #finish(exchange: Exchange, isOpen: boolean): void {
    const { status, text, bodyAt, bytes } = this.#reader;
    const answer = new BufferedResponse(status, this.#clock.nowMs() - exchange.startedMs, text, bodyAt, bytes);
    this.#exchange = undefined;
    if (!isOpen) this.close();
    this.#events.responded(this, exchange, answer, isOpen);
  }

  #lose(error: RemusterError): void {
    const exchange = this.#exchange;
    this.close();
    this.#events.lost(this, exchange, error);
  }
}
