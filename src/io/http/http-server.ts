/**
 * The HTTP server of the operator API: guard, route, body, handler, reply. Every reply has security headers, every
 * failure is a serialized error. Knows no route.
 */
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { RemusterError, serializeError, isRemusterError } from '../../base/errors.ts';
import type { ApiResponse, ApiRoute } from '../../base/http-routes.ts';
import type { Log } from '../../base/ports.ts';
import { readJsonBody } from './json-body.ts';
import { type EventStreamLimits, EventStreams, defaultEventStreamLimits } from './event-streams.ts';
import { writeChunkedReply } from './chunked-reply.ts';
import { RequestGuard } from './request-guard.ts';
import { RouteTable } from './route-table.ts';

export type HttpServerOptions = {
  readonly host: string;
  /** 0: the system chooses a free port. */
  readonly port: number;
  readonly routes: readonly ApiRoute[];
  readonly token?: string | undefined;
  readonly log: Log;
  readonly events?: EventStreamLimits;
  /** The server replies with DEADLINE when a handler takes longer. */
  readonly replyMsMax?: number;
};

export type HttpServer = { readonly port: number; close(): Promise<void> };

const closeMsMax = 2_000;
const replyMsMaxDefault = 120_000;

const securityHeaders = {
  'content-security-policy': "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

export async function openHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const handler = new RequestHandler(options);
  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 5_000, maxHeaderSize: 16_384 },
    (request, response) => void handler.serve(request, response),
  );
  server.maxConnections = 1_000;
  server.on('clientError', (_error, socket) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
    else socket.destroy();
  });
  await listen(server, options);
  return { port: (server.address() as AddressInfo).port, close: () => close(server, handler) };
}

async function listen(server: Server, { host, port }: HttpServerOptions): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => {
      const code = 'code' in error ? String(error.code) : error.message;
      reject(new RemusterError('UNREACHABLE', `cannot listen for HTTP on ${host}:${port}: ${code}`));
    });
    server.listen({ host, port, exclusive: true }, resolve);
  });
}

/** Ends event streams and idle connections at once, and running requests after a grace period. */
async function close(server: Server, handler: RequestHandler): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  handler.close();
  const timer = setTimeout(() => server.closeAllConnections(), closeMsMax);
  await closed;
  clearTimeout(timer);
}

class RequestHandler {
  readonly #guard: RequestGuard;
  readonly #table: RouteTable;
  readonly #events: EventStreams;
  readonly #log: Log;
  readonly #replyMsMax: number;

  constructor({
    host,
    token,
    routes,
    log,
    events = defaultEventStreamLimits,
    replyMsMax = replyMsMaxDefault,
  }: HttpServerOptions) {
    this.#guard = new RequestGuard({ host, token });
    this.#table = new RouteTable(routes);
    this.#events = new EventStreams(events);
    this.#log = log;
    this.#replyMsMax = replyMsMax;
  }

  close(): void {
    this.#events.close();
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value);
    try {
      this.#write(response, await this.#handle(request, response));
    } catch (error) {
      this.#writeError(request, response, error);
    }
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<ApiResponse> {
    const url = parseUrl(request.url ?? '/');
    this.#guard.check(request, url.pathname);
    const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '');
    const match = this.#table.find(method, url.pathname);
    if (match.kind === 'unknown')
      throw new RemusterError('UNKNOWN_METHOD', `there is nothing at ${url.pathname.slice(0, 200)}`);
    if (match.kind === 'wrongMethod') {
      response.setHeader('allow', match.allowed.join(', '));
      const text = `this path does not support ${method}, only ${match.allowed.join(', ')}`;
      return { status: 405, json: { error: serializeError(new RemusterError('UNKNOWN_METHOD', text)) } };
    }
    const lastEventId = request.headers['last-event-id'];
    const reply = match.route.handler({
      params: match.params,
      query: Object.fromEntries(url.searchParams),
      body: await readJsonBody(request),
      lastEventId: typeof lastEventId === 'string' ? lastEventId : undefined,
    });
    return withDeadline(this.#replyMsMax, reply);
  }

  #write(response: ServerResponse, reply: ApiResponse): void {
    if ('sse' in reply && response.req.method === 'HEAD') end(response, 200, '', 'text/event-stream');
    else if ('sse' in reply) this.#events.open(response, reply.sse);
    else if ('chunks' in reply) void this.#writeChunks(response, reply);
    else if ('json' in reply) end(response, reply.status, JSON.stringify(reply.json) ?? 'null', 'application/json');
    else end(response, reply.status, reply.text, reply.contentType);
  }

  /** A failure in the middle breaks the connection, so that the client does not take the reply for complete. */
  async #writeChunks(response: ServerResponse, reply: Extract<ApiResponse, { chunks: unknown }>): Promise<void> {
    try {
      await writeChunkedReply(response, reply);
    } catch (error) {
      if (!isRemusterError(error)) this.#log('error', 'an HTTP handler failed', { method: response.req.method, error });
      response.destroy();
    }
  }

  #writeError(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (request.destroyed && !request.complete) {
      response.destroy();
      return;
    }
    const serialized = serializeError(error);
    if (serialized.code === 'INTERNAL') this.#log('error', 'an HTTP handler failed', { method: request.method, error });
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const status = isRemusterError(error) ? error.row.httpStatus : 500;
    if (status === 401) response.setHeader('www-authenticate', 'Bearer');
    if (status === 429 || status === 503) response.setHeader('retry-after', '1');
    // The rest of a refused body is not read.
    if (!request.complete) response.setHeader('connection', 'close');
    end(response, status, JSON.stringify({ error: serialized }), 'application/json');
  }
}

function parseUrl(target: string): URL {
  const url = target.startsWith('/') ? URL.parse(`http://localhost${target}`) : null;
  if (url === null) throw new RemusterError('BAD_ARGUMENT', 'the request target is not a path');
  return url;
}

function end(response: ServerResponse, status: number, text: string, contentType: string): void {
  const body = Buffer.from(text);
  const type = contentType.includes('charset') ? contentType : `${contentType}; charset=utf-8`;
  response.writeHead(status, { 'content-type': type, 'content-length': body.length });
  response.end(body);
}

async function withDeadline<T>(timeoutMs: number, reply: Promise<T>): Promise<T> {
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => timeout.reject(new RemusterError('DEADLINE', `no reply within ${timeoutMs} ms`)),
    timeoutMs,
  );
  try {
    return await Promise.race([reply, timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
