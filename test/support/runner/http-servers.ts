import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { systemClock } from '../../../src/io/system/clock.ts';
import type { HttpClient, HttpRequestRecord } from '../../../src/runner/definition/http-types.ts';
import { LoadHttpClient } from '../../../src/runner/http/load-http-client.ts';
import type { HttpLimits } from '../../../src/runner/http/http-limits.ts';
import { dialSocket, latin1 } from '../../../src/runner/http/node-sockets.ts';

/** A request as it came: its head, a character for each byte, and its body. */
export type ReceivedRequest = {
  readonly line: string;
  readonly head: string;
  readonly body: string;
  readonly socket: Socket;
};

export type RawHttpServer = {
  readonly url: string;
  readonly heard: ReceivedRequest[];
  /** Connections that were opened, and that are open now. */
  opened: number;
  readonly open: Set<Socket>;
};

/** Answers each request with what `answer` gives, byte for byte; undefined answers nothing. */
export async function rawServer(
  t: TestContext,
  answer: (heard: ReceivedRequest, count: number) => string | undefined,
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
        const heard: ReceivedRequest = { ...request, socket };
        state.heard.push(heard);
        const words = answer(heard, state.heard.length);
        if (words !== undefined) socket.write(words, 'latin1');
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
  const state: RawHttpServer = { url: `http://127.0.0.1:${port}`, heard: [], opened: 0, open };
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
  const recorder = { httpEnded: (one: HttpRequestRecord) => void ended.push(one) };
  const client = new LoadHttpClient({ clock: systemClock(), dial: dialSocket, latin1 }, limits);
  const close = (): void => client.close();
  t.after(close);
  return { http: client.clientFor(recorder), ended, connections: () => client.connections, close };
}

export function responseText(body: string, status = '200 OK', headers = ''): string {
  return `HTTP/1.1 ${status}\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;
}

/** A wait for what others do, with an end. */
export async function waitUntil(what: string, isSo: () => boolean): Promise<void> {
  for (let i = 0; !isSo(); i++) {
    if (i > 6_000) throw new Error(`still waiting: ${what}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 10);
    });
  }
}

export function hasErrorCode(code: string): (error: unknown) => boolean {
  return (error) => (error as { code?: unknown }).code === code;
}
