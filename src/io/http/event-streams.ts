/**
 * Server-sent events for a bounded number of clients with bounded buffers. Keep-alive comments detect closed
 * connections. A slow client is disconnected and resumes by last event id.
 */
import type { ServerResponse } from 'node:http';
import { RemusterError } from '../../base/errors.ts';
import type { ServerSentEvent, SendServerSentEvent } from '../../base/http-routes.ts';

export type EventStreamLimits = {
  readonly clientsMax: number;
  readonly bufferBytesMax: number;
  readonly keepAliveMs: number;
};

export const defaultEventStreamLimits: EventStreamLimits = {
  clientsMax: 100,
  bufferBytesMax: 1_000_000,
  keepAliveMs: 15_000,
};

export class EventStreams {
  readonly #limits: EventStreamLimits;
  readonly #clients = new Set<ServerResponse>();

  constructor(limits: EventStreamLimits) {
    this.#limits = limits;
  }

  open(response: ServerResponse, start: (send: SendServerSentEvent, end: () => void) => () => void): void {
    if (this.#clients.size >= this.#limits.clientsMax) {
      throw new RemusterError('CAPACITY', `${this.#limits.clientsMax} event streams are open already`);
    }
    this.#clients.add(response);
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'x-accel-buffering': 'no',
      // `close` ends the connection with the stream, so that a closing server does not wait for it.
      connection: 'close',
    });
    response.flushHeaders();
    const write = (text: string): boolean => this.#write(response, text);
    const keepAlive = setInterval(() => write(':\n\n'), this.#limits.keepAliveMs);
    let stop: (() => void) | undefined;
    let isClosed = false;
    response.once('close', () => {
      isClosed = true;
      clearInterval(keepAlive);
      this.#clients.delete(response);
      stop?.();
    });
    response.on('error', () => response.destroy());
    try {
      stop = start(
        (event) => write(encodeEvent(event)),
        () => response.end(),
      );
    } catch (error) {
      response.destroy();
      throw error;
    }
    // The connection may have closed while `start` was sending.
    if (isClosed) stop();
  }

  close(): void {
    for (const response of this.#clients) response.end();
  }

  #write(response: ServerResponse, text: string): boolean {
    if (response.destroyed || response.writableEnded || !this.#clients.has(response)) return false;
    response.write(text);
    if (response.writableLength <= this.#limits.bufferBytesMax) return true;
    response.destroy();
    return false;
  }
}

function encodeEvent({ id, event, data }: ServerSentEvent): string {
  const lines = [`data: ${JSON.stringify(data) ?? 'null'}`];
  if (event !== undefined) lines.unshift(`event: ${oneLine(event)}`);
  if (id !== undefined) lines.unshift(`id: ${oneLine(id)}`);
  return `${lines.join('\n')}\n\n`;
}

function oneLine(text: string): string {
  return text.replaceAll(/[\0\r\n]/g, ' ');
}
