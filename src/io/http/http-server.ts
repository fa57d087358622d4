/**
 * HTTP server of operators: guard, route, body, handler, reply. Every reply has security headers, every failure the one
 * error shape. Knows no route.
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
  /** Zero lets the system choose. */
  readonly port: number;
  readonly routes: readonly ApiRoute[];
  readonly token?: string | undefined;
  readonly log: Log;
  readonly events?: EventStreamLimits;
  /** A handler that takes longer is answered with DEADLINE. */
  readonly answerMsMax?: number;
};

export type HttpServer = { readonly port: number; close(): Promise<void> };

const closeMsMax = 2_000;
const answerMsMaxDefault = 120_000;

const securityHeaders = {
  'content-security-policy': "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
} as const;

export async function openHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const site = new RequestHandler(options);
  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 5_000, maxHeaderSize: 16_384 },
    (request, response) => void site.serve(request, response),
  );
  server.maxConnections = 1_000;
  server.on('clientError', (_error, socket) => {
    if (socket.writable) socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
    else socket.destroy();
  });
  await listen(server, options);
  return { port: (server.address() as AddressInfo).port, close: () => close(server, site) };
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

/** Ends event streams and idle connections at once, gives running requests a moment, then cuts. */
async function close(server: Server, site: RequestHandler): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  site.close();
  const cut = setTimeout(() => server.closeAllConnections(), closeMsMax);
  await closed;
  clearTimeout(cut);
}

class RequestHandler {
  readonly #guard: RequestGuard;
  readonly #table: RouteTable;
  readonly #events: EventStreams;
  readonly #log: Log;
  readonly #answerMsMax: number;

  constructor({
    host,
    token,
    routes,
    log,
    events = defaultEventStreamLimits,
    answerMsMax = answerMsMaxDefault,
  }: HttpServerOptions) {
    this.#guard = new RequestGuard({ host, token });
    this.#table = new RouteTable(routes);
    this.#events = new EventStreams(events);
    this.#log = log;
    this.#answerMsMax = answerMsMax;
  }

  close(): void {
    this.#events.close();
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value);
    try {
      this.#write(response, await this.#answer(request, response));
    } catch (error) {
      this.#refuse(request, response, error);
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<ApiResponse> {
    const url = parseUrl(request.url ?? '/');
    this.#guard.check(request, url.pathname);
    const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '');
    const match = this.#table.find(method, url.pathname);
    if (match.kind === 'unknown') throw new RemusterError('UNKNOWN_METHOD', 'there is nothing at this path');
    if (match.kind === 'wrongMethod') {
      response.setHeader('allow', match.allowed.join(', '));
      return {
        status: 405,
        json: { error: serializeError(new RemusterError('UNKNOWN_METHOD', 'not with this method')) },
      };
    }
    const lastEventId = request.headers['last-event-id'];
    const answer = match.route.handler({
      params: match.params,
      query: Object.fromEntries(url.searchParams),
      body: await readJsonBody(request),
      lastEventId: typeof lastEventId === 'string' ? lastEventId : undefined,
    });
    return within(this.#answerMsMax, answer);
  }

  #write(response: ServerResponse, answer: ApiResponse): void {
    if ('sse' in answer && response.req.method === 'HEAD') end(response, 200, '', 'text/event-stream');
    else if ('sse' in answer) this.#events.open(response, answer.sse);
    else if ('chunks' in answer) void this.#stream(response, answer);
    else if ('json' in answer) end(response, answer.status, JSON.stringify(answer.json) ?? 'null', 'application/json');
    else end(response, answer.status, answer.text, answer.contentType);
  }

  /** What breaks in the middle breaks the connection: a client sees that it has not got everything. */
  async #stream(response: ServerResponse, answer: Extract<ApiResponse, { chunks: unknown }>): Promise<void> {
    try {
      await writeChunkedReply(response, answer);
    } catch (error) {
      if (!isRemusterError(error)) this.#log('error', 'an HTTP handler failed', { method: response.req.method, error });
      response.destroy();
    }
  }

  #refuse(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    if (request.destroyed && !request.complete) {
      response.destroy();
      return;
    }
    const shape = serializeError(error);
    if (shape.code === 'INTERNAL') this.#log('error', 'an HTTP handler failed', { method: request.method, error });
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const status = isRemusterError(error) ? error.row.httpStatus : 500;
    if (status === 401) response.setHeader('www-authenticate', 'Bearer');
    if (status === 429 || status === 503) response.setHeader('retry-after', '1');
    // What is left of a body that was refused is not read.
    if (!request.complete) response.setHeader('connection', 'close');
    end(response, status, JSON.stringify({ error: shape }), 'application/json');
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

async function within<T>(timeoutMs: number, answer: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => late.reject(new RemusterError('DEADLINE', `no answer within ${timeoutMs} ms`)),
    timeoutMs,
  );
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
