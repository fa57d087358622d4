/**
 * The HTTP server that sample load tests call. It counts the requests that it served, so that a report can be compared
 * with them. Loopback only.
 *
 *   GET /             a page                      POST /buy             sells; returns the number of sales
 *   GET /slow?ms=50   replies after 50 ms         GET /flaky?every=10   returns status 500 every tenth time
 *   GET /count        requests by path, without those of /count
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

const requestBytesMax = 1_048_576;
const slowMs = 50;
const slowMsMax = 60_000;
const flakyEvery = 10;

const page = `<!doctype html><title>shop</title><h1>A shop with one thing to sell</h1><p>POST /buy buys it.</p>\n`;

type Request = { readonly method: string; readonly path: string; readonly query: string; readonly isLast: boolean };

export type SampleTarget = {
  readonly url: string;
  /** Requests by path; requests of unknown paths are counted as `other`. */
  readonly counts: Readonly<Record<string, number>>;
  close(): Promise<void>;
};

/** With port 0 the system chooses a free port. */
export async function startSampleTarget(port = 0): Promise<SampleTarget> {
  const counts: Record<string, number> = { '/': 0, '/buy': 0, '/slow': 0, '/flaky': 0, other: 0 };
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    serve(socket, counts);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, counts, close: () => closeAll(server, sockets) };
}

async function closeAll(server: Server, sockets: ReadonlySet<Socket>): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  for (const socket of sockets) socket.destroy();
  await closed;
}

/** Handles the requests of one connection in order, one at a time. */
function serve(socket: Socket, counts: Record<string, number>): void {
  let text = '';
  let isWaiting = false;
  const handleAll = (): void => {
    while (!isWaiting && !socket.destroyed) {
      const found = requestIn(text);
      if (found === undefined) return;
      if (found === 'bad') return void socket.end(response('400 Bad Request', '', true));
      text = text.slice(found.length);
      const { reply, afterMs } = replyTo(found.request, counts);
      const send = (): void => void (found.request.isLast ? socket.end(reply) : socket.write(reply));
      if (afterMs === 0) {
        send();
        continue;
      }
      isWaiting = true;
      setTimeout(() => {
        isWaiting = false;
        send();
        handleAll();
      }, afterMs);
    }
  };
  socket.on('error', () => undefined);
  socket.on('data', (chunk) => {
    text = text === '' ? chunk.toString('latin1') : text + chunk.toString('latin1');
    handleAll();
  });
}

function requestIn(text: string): 'bad' | { readonly request: Request; readonly length: number } | undefined {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd < 0) return text.length > requestBytesMax ? 'bad' : undefined;
  const head = text.slice(0, headEnd + 2);
  const [, method, path, query] = /^([A-Z]+) (\/[^ ?]*)(\?[^ ]*)? HTTP\/1\.[01]\r\n/.exec(head) ?? [];
  if (method === undefined || path === undefined || /\r\ntransfer-encoding:/i.test(head)) return 'bad';
  const bodyBytes = Number(/\r\ncontent-length: *(\d+)\r\n/i.exec(head)?.[1] ?? 0);
  const length = headEnd + 4 + bodyBytes;
  if (length > requestBytesMax) return 'bad';
  if (text.length < length) return undefined;
  const isLast = /\r\nconnection: *close\r\n/i.test(head);
  return { request: { method, path, query: query ?? '', isLast }, length };
}

function replyTo(request: Request, counts: Record<string, number>): { reply: string; afterMs: number } {
  const { method, path, query, isLast } = request;
  const now = (status: string, body: string): { reply: string; afterMs: number } => ({
    reply: response(status, method === 'HEAD' ? '' : body, isLast),
    afterMs: 0,
  });
  if (path === '/count') return now('200 OK', JSON.stringify({ total: totalOf(counts), paths: counts }));
  const key = Object.hasOwn(counts, path) ? path : 'other';
  const count = (counts[key] ?? 0) + 1;
  counts[key] = count;
  if (path === '/') return now('200 OK', page);
  if (path === '/buy')
    return method === 'POST' ? now('200 OK', `{"sold":${count}}`) : now('405 Method Not Allowed', '');
  if (path === '/slow') return { ...now('200 OK', 'at last\n'), afterMs: numberIn(query, 'ms', slowMs, slowMsMax) };
  if (path !== '/flaky') return now('404 Not Found', 'there is no such page\n');
  const every = numberIn(query, 'every', flakyEvery, Number.MAX_SAFE_INTEGER);
  return count % every === 0 ? now('500 Internal Server Error', 'not this time\n') : now('200 OK', 'fine\n');
}

function response(status: string, body: string, isLast: boolean): string {
  const type = body.startsWith('{') ? 'application/json' : body.startsWith('<') ? 'text/html' : 'text/plain';
  const last = isLast ? 'connection: close\r\n' : '';
  return `HTTP/1.1 ${status}\r\ncontent-type: ${type}\r\n${last}content-length: ${body.length}\r\n\r\n${body}`;
}

function numberIn(query: string, name: string, fallback: number, max: number): number {
  const value = Number(new URLSearchParams(query).get(name) ?? fallback);
  return Number.isSafeInteger(value) && value > 0 ? Math.min(value, max) : fallback;
}

function totalOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
