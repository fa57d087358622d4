/**
 * Server-sent events for a bounded number of clients with bounded buffers. A comment is sent now and then, to notice a
 * client that is gone. A slow client is disconnected and resumes by last event id.
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
  readonly #bounds: EventStreamLimits;
  readonly #clients = new Set<ServerResponse>();

  constructor(bounds: EventStreamLimits) {
    this.#bounds = bounds;
  }

  open(response: ServerResponse, start: (send: SendServerSentEvent, end: () => void) => () => void): void {
    if (this.#clients.size >= this.#bounds.clientsMax) {
      throw new RemusterError('CAPACITY', `more than ${this.#bounds.clientsMax} event streams`);
    }
    this.#clients.add(response);
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'x-accel-buffering': 'no',
      // The connection ends with the stream, so that closing the server does not wait for it.
      connection: 'close',
    });
    response.flushHeaders();
    const write = (text: string): boolean => this.#write(response, text);
    const beat = setInterval(() => write(':\n\n'), this.#bounds.keepAliveMs);
    let stop: (() => void) | undefined;
    let isOver = false;
    response.once('close', () => {
      isOver = true;
      clearInterval(beat);
      this.#clients.delete(response);
      stop?.();
    });
    response.on('error', () => response.destroy());
    try {
      stop = start(
        (event) => write(printed(event)),
        () => response.end(),
      );
    } catch (error) {
      response.destroy();
      throw error;
    }
    // The client may have been cut off while `start` was sending.
    if (isOver) stop();
  }

  close(): void {
    for (const response of this.#clients) response.end();
  }

  #write(response: ServerResponse, text: string): boolean {
    if (response.destroyed || response.writableEnded || !this.#clients.has(response)) return false;
    response.write(text);
    if (response.writableLength <= this.#bounds.bufferBytesMax) return true;
    response.destroy();
    return false;
  }
}

function printed({ id, event, data }: ServerSentEvent): string {
  const lines = [`data: ${JSON.stringify(data) ?? 'null'}`];
  if (event !== undefined) lines.unshift(`event: ${oneLine(event)}`);
  if (id !== undefined) lines.unshift(`id: ${oneLine(id)}`);
  return `${lines.join('\n')}\n\n`;
}

function oneLine(text: string): string {
  return text.replaceAll(/[\0\r\n]/g, ' ');
}
