/** HTTP servers that respond byte for byte as a test wants, and a client to test against them. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { systemClock } from '../../../src/io/system/clock.ts';
import type { HttpClient, HttpRequestRecord } from '../../../src/runner/definition/http-types.ts';
import { LoadHttpClient } from '../../../src/runner/http/load-http-client.ts';
import type { HttpLimits } from '../../../src/runner/http/http-limits.ts';
import { dialSocket, latin1 } from '../../../src/runner/http/node-sockets.ts';

/** A received request: head and body, one character per byte. */
export type ReceivedRequest = {
  readonly line: string;
  readonly head: string;
  readonly body: string;
  readonly socket: Socket;
};

export type RawHttpServer = {
  readonly url: string;
  readonly received: ReceivedRequest[];
  /** Connections accepted so far; `open` has those that are open now. */
  opened: number;
  readonly open: Set<Socket>;
};

/** Responds to each request with the bytes of `respond`; undefined sends nothing. */
export async function rawServer(
  t: TestContext,
  respond: (received: ReceivedRequest, count: number) => string | undefined,
): Promise<RawHttpServer> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    state.opened += 1;
    open.add(socket);
    let text = '';
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    socket.on('close', () => open.delete(socket));
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      for (let request = requestIn(text); request !== undefined; request = requestIn(text)) {
        text = text.slice(request.length);
        const received: ReceivedRequest = { ...request, socket };
        state.received.push(received);
        const response = respond(received, state.received.length);
        if (response !== undefined) socket.write(response, 'latin1');
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    for (const socket of open) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  const { port } = server.address() as AddressInfo;
  const state: RawHttpServer = { url: `http://127.0.0.1:${port}`, received: [], opened: 0, open };
  return state;
}

function requestIn(text: string): { line: string; head: string; body: string; length: number } | undefined {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const head = text.slice(0, headEnd + 2);
  const bodyLength = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? 0);
  const length = headEnd + 4 + bodyLength;
  if (text.length < length) return undefined;
  return { line: head.slice(0, head.indexOf('\r\n')), head, body: text.slice(headEnd + 4, length), length };
}

export type TestClient = {
  readonly http: HttpClient;
  readonly ended: HttpRequestRecord[];
  readonly connections: () => number;
  readonly close: () => void;
};

export function testClient(t: TestContext, limits: Partial<HttpLimits> = {}): TestClient {
  const ended: HttpRequestRecord[] = [];
  const recorder = { recordRequest: (record: HttpRequestRecord) => void ended.push(record) };
  const client = new LoadHttpClient({ clock: systemClock(), dial: dialSocket, latin1 }, limits);
  const close = (): void => client.close();
  t.after(close);
  return { http: client.clientFor(recorder), ended, connections: () => client.connections, close };
}

export function responseText(body: string, status = '200 OK', headers = ''): string {
  return `HTTP/1.1 ${status}\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;
}

/** Waits until the condition holds, for a minute at most. */
export async function waitUntil(what: string, holds: () => boolean): Promise<void> {
  for (let i = 0; !holds(); i++) {
    if (i > 6_000) throw new Error(`still waiting: ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }
}

export function hasErrorCode(code: string): (error: unknown) => boolean {
  return (error) => (error as { code?: unknown }).code === code;
}
