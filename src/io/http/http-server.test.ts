import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingHttpHeaders, request as httpRequest } from 'node:http';
import { type Socket, connect } from 'node:net';
import { type TestContext, describe, it } from 'node:test';
import { RemusterError } from '../../base/errors.ts';
import type { ApiRoute, SendServerSentEvent } from '../../base/http-routes.ts';
import { type HttpServer, type HttpServerOptions, openHttpServer } from './http-server.ts';

const token = 'a token of the operator';

const echo: ApiRoute = {
  method: 'POST',
  path: '/v1/echo/:name',
  handler: async ({ params, query, body }) => ({ status: 200, json: { params, query, body: body ?? null } }),
};

function failing(path: string, error: unknown): ApiRoute {
  return { method: 'GET', path, handler: () => Promise.reject(error) };
}

const upText = { status: 200, text: 'up 1\n', contentType: 'text/plain' };
const routes: ApiRoute[] = [
  echo,
  { method: 'GET', path: '/livez', handler: async () => ({ status: 200, json: { ok: true } }) },
  { method: 'GET', path: '/metrics', handler: async () => upText },
  failing('/coded', new RemusterError('NO_QUORUM', 'two of three voters are gone', 'no')),
  failing('/bug', new TypeError('x is not a function at /home/me/secret.ts:3')),
  { method: 'GET', path: '/never', handler: () => new Promise(() => undefined) },
];

type TestServer = HttpServer & { readonly logged: string[] };

async function open(t: TestContext, options: Partial<HttpServerOptions> = {}): Promise<TestServer> {
  const logged: string[] = [];
  const server = await openHttpServer({
    host: '127.0.0.1',
    port: 0,
    routes,
    log: (level, message) => logged.push(`${level} ${message}`),
    ...options,
  });
  t.after(() => server.close());
  return { ...server, logged };
}

type Reply = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly code: string;
};

/** Uses node:http, because fetch does not allow a wrong Host header. */
async function request(
  { port }: HttpServer,
  target: string,
  options: { method?: string; headers?: Record<string, string>; body?: string | Uint8Array } = {},
): Promise<Reply> {
  const call = httpRequest({
    host: '127.0.0.1',
    port,
    path: target,
    method: options.method ?? (options.body === undefined ? 'GET' : 'POST'),
    headers: { ...(options.body === undefined ? {} : { 'content-type': 'application/json' }), ...options.headers },
    agent: false,
  });
  call.end(options.body);
  const [response] = (await once(call, 'response')) as [
    NodeJS.ReadableStream & { statusCode: number; headers: IncomingHttpHeaders },
  ];
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += String(chunk);
  const shape = text.startsWith('{"error"') ? (JSON.parse(text) as { error: { code: string } }).error.code : '';
  return { status: response.statusCode, headers: response.headers, text, code: shape };
}

describe('the HTTP server', { timeout: 30_000 }, () => {
  it('passes params, query and body to the handler, and replies with its JSON or text', async (t) => {
    const server = await open(t);
    const reply = await request(server, '/v1/echo/a%20b?x=1&x=2&y', { body: '{"n":[1]}' });
    assert.equal(reply.headers['content-type'], 'application/json; charset=utf-8');
    assert.deepEqual(JSON.parse(reply.text), { params: { name: 'a b' }, query: { x: '2', y: '' }, body: { n: [1] } });
    const metrics = await request(server, '/metrics');
    assert.deepEqual(
      [metrics.status, metrics.text, metrics.headers['content-type']],
      [200, 'up 1\n', 'text/plain; charset=utf-8'],
    );
    assert.equal((await request(server, '/metrics', { method: 'HEAD' })).text, '');
  });

  it('sends security headers with every reply', async (t) => {
    const server = await open(t);
    for (const path of ['/livez', '/nothing', '/bug']) {
      const { headers } = await request(server, path);
      assert.match(String(headers['content-security-policy']), /default-src 'self'.*frame-ancestors 'none'/);
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.equal(headers['cache-control'], 'no-store');
      assert.equal(headers['access-control-allow-origin'], undefined);
      assert.equal(headers['x-powered-by'], undefined);
    }
  });

  it('replies to every failure with a serialized error, without details of a bug', async (t) => {
    const server = await open(t);
    const coded = await request(server, '/coded');
    assert.equal(coded.status, 503);
    assert.equal(coded.headers['retry-after'], '1');
    const { error } = JSON.parse(coded.text) as { error: Record<string, unknown> };
    assert.deepEqual(Object.keys(error), ['code', 'message', 'hint', 'stateChanged', 'retryable']);
    assert.deepEqual(
      [error['code'], error['message'], error['stateChanged']],
      // The instance overrides the `maybe` of its row in the error table.
      ['NO_QUORUM', 'two of three voters are gone', 'no'],
    );
    const bug = await request(server, '/bug');
    assert.deepEqual([bug.status, bug.code], [500, 'INTERNAL']);
    assert.doesNotMatch(bug.text, /secret|TypeError|not a function/);
    assert.deepEqual(server.logged, ['error an HTTP handler failed']);
    const unknown = await request(server, '/v2/nothing');
    assert.deepEqual([unknown.status, unknown.code], [404, 'UNKNOWN_METHOD']);
    const wrong = await request(server, '/v1/echo/x');
    assert.deepEqual([wrong.status, wrong.headers.allow], [405, 'POST']);
  });

  it('replies with DEADLINE when the handler does not reply in time', async (t) => {
    const reply = await request(await open(t, { replyMsMax: 50 }), '/never');
    assert.deepEqual([reply.status, reply.code], [504, 'DEADLINE']);
  });

  it('accepts only JSON bodies within the size limit', async (t) => {
    const server = await open(t);
    const post = (body: string | Uint8Array, headers: Record<string, string> = {}) =>
      request(server, '/v1/echo/x', { body, headers });
    assert.equal((await post('{"a":')).code, 'BAD_ARGUMENT');
    assert.equal((await post('{}', { 'content-type': 'text/plain' })).code, 'BAD_ARGUMENT');
    assert.equal((await post(Uint8Array.from([0x22, 0xff, 0x22]))).code, 'BAD_ARGUMENT');
    assert.equal((await post('{"__proto__":{"admin":true},"\\u005f_proto__":1,"a":1}')).text.includes('admin'), false);
    const exact = `"${'x'.repeat(9_999_998)}"`;
    assert.equal((await post(exact)).status, 200);
    const tooLarge = await request(server, '/v1/echo/x', {
      body: '',
      headers: { 'content-length': '10000001' },
      method: 'POST',
    });
    assert.deepEqual([tooLarge.status, tooLarge.code], [413, 'TOO_LARGE']);
  });

  it('replies to garbage with 400 and keeps running', async (t) => {
    const server = await open(t);
    const socket = connect(server.port, '127.0.0.1');
    socket.end('\u0016\u0003\u0001 this is not HTTP\r\n\r\n');
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    assert.match(chunk.toString(), /^HTTP\/1.1 400/);
    assert.equal((await request(server, '/%ff%zz')).status, 404);
    assert.equal((await request(server, '/v1/echo/%ff', { body: '{}' })).code, 'BAD_ARGUMENT');
    assert.equal((await request(server, '//')).status, 404);
    assert.equal((await request(server, '/livez')).status, 200);
  });

  it('refuses foreign Host and Origin headers', async (t) => {
    const server = await open(t);
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await request(server, '/livez', { headers })).status;
    for (const host of [
      'hostile.example',
      `hostile.example:${server.port}`,
      'localhost.hostile.example',
      '8.8.8.8',
      'a@localhost',
    ]) {
      assert.equal(await status({ host }), 403, host);
    }
    for (const host of ['localhost', `LOCALHOST:${server.port}`, '127.0.0.1', '[::1]:80'])
      assert.equal(await status({ host }), 200, host);
    const host = `127.0.0.1:${server.port}`;
    assert.equal(await status({ host, origin: `http://${host}` }), 200);
    for (const origin of ['http://hostile.example', 'null', 'http://127.0.0.1:1', `http://${host}.hostile.example`]) {
      assert.equal(await status({ host, origin }), 403, origin);
    }
  });

  it('refuses on loopback writes without the token, if there is one', async (t) => {
    const server = await open(t, { token });
    const post = (headers: Record<string, string>) => request(server, '/v1/echo/x', { body: '{}', headers });
    const missing = await post({});
    assert.deepEqual(
      [missing.status, missing.code, missing.headers['www-authenticate']],
      [401, 'UNAUTHENTICATED', 'Bearer'],
    );
    assert.equal((await post({ authorization: 'Bearer wrong' })).status, 401);
    assert.equal((await request(server, '/metrics')).status, 200);
    const other = await open(t, { token: 'one-word' });
    const good = await request(other, '/v1/echo/x', { body: '{}', headers: { authorization: 'Bearer one-word' } });
    assert.equal(good.status, 200);
  });

  it('requires a token off loopback, and refuses there everything but probes without it', async (t) => {
    await assert.rejects(open(t, { host: '0.0.0.0' }), { code: 'BAD_ARGUMENT' });
    const server = await open(t, { host: '0.0.0.0', token: 'one-word' });
    assert.equal((await request(server, '/livez')).status, 200);
    assert.equal((await request(server, '/metrics')).status, 401);
    assert.equal((await request(server, '/nothing')).status, 401);
    assert.equal((await request(server, '/metrics', { headers: { authorization: 'Bearer one-word' } })).status, 200);
    assert.equal((await request(server, '/metrics', { headers: { authorization: 'Bearer one-word2' } })).status, 401);
  });

  it('refuses to open on a port in use', async (t) => {
    const { port } = await open(t);
    await assert.rejects(open(t, { port }), { code: 'UNREACHABLE' });
  });
});

describe('a chunked reply', { timeout: 30_000 }, () => {
  function chunkRoute(produced: { ended: boolean; count: number }, count: number, fails = false): ApiRoute {
    async function* chunks(): AsyncGenerator<string> {
      try {
        for (; produced.count < count; produced.count++) yield 'x'.repeat(1_000);
        if (fails) throw new RemusterError('PLUGGED');
      } finally {
        produced.ended = true;
      }
    }
    const handler = async () => ({ status: 200, contentType: 'text/plain', chunks: chunks() });
    return { method: 'GET', path: '/chunks', handler };
  }

  it('arrives whole, and is produced only as fast as the client reads', async (t) => {
    const produced = { ended: false, count: 0 };
    const server = await open(t, { routes: [chunkRoute(produced, 300)] });
    assert.equal((await request(server, '/chunks')).text.length, 300_000);
    assert.ok(produced.ended);
    const endless = { ended: false, count: 0 };
    const other = await open(t, { routes: [chunkRoute(endless, 1_000_000)] });
    const client = connect(other.port, '127.0.0.1');
    client.on('error', () => undefined).pause();
    client.write('GET /chunks HTTP/1.1\r\nhost: localhost\r\n\r\n');
    let before = -1;
    while (endless.count === 0 || endless.count > before) {
      before = endless.count;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    assert.ok(endless.count < 100_000, 'the producer went on although the client did not read');
    client.destroy();
    while (!endless.ended) await new Promise((resolve) => setImmediate(resolve));
  });

  it('that fails in the middle breaks the connection', async (t) => {
    const server = await open(t, { routes: [chunkRoute({ ended: false, count: 0 }, 3, true)] });
    await assert.rejects(request(server, '/chunks'));
    assert.deepEqual(server.logged, []);
  });
});

describe('an event stream', { timeout: 30_000 }, () => {
  type Stream = {
    send: SendServerSentEvent;
    end: () => void;
    lastEventId: string | undefined;
    stopped: Promise<void>;
    stops: number;
  };

  function streaming(): { route: ApiRoute; next: () => Promise<Stream> } {
    const opened: Stream[] = [];
    let onOpen: ((stream: Stream) => void) | undefined;
    const route: ApiRoute = {
      method: 'GET',
      path: '/v1/events',
      handler: async ({ lastEventId }) => ({
        sse: (send, end) => {
          const { promise, resolve } = Promise.withResolvers<void>();
          const stream: Stream = { send, end, lastEventId, stopped: promise, stops: 0 };
          if (onOpen === undefined) opened.push(stream);
          else onOpen(stream);
          return () => {
            stream.stops += 1;
            resolve();
          };
        },
      }),
    };
    const next = async (): Promise<Stream> => opened.shift() ?? new Promise((resolve) => (onOpen = resolve));
    return { route, next };
  }

  function listen({ port }: HttpServer, headers = ''): Socket {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(`GET /v1/events HTTP/1.1\r\nhost: localhost\r\n${headers}\r\n`);
    return socket;
  }

  it('carries events and the last event id, and stops once when the client closes', async (t) => {
    const { route, next } = streaming();
    const server = await open(t, { routes: [route] });
    const client = listen(server, 'last-event-id: 41\r\n');
    let text = '';
    const ended = Promise.withResolvers<void>();
    client.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
      if (text.includes('second')) ended.resolve();
    });
    const stream = await next();
    assert.equal(stream.lastEventId, '41');
    assert.equal(stream.send({ id: '42', event: 'member.alive\ndata: forged', data: { name: 'first\nline' } }), true);
    assert.equal(stream.send({ data: 'second' }), true);
    await ended.promise;
    assert.match(text, /content-type: text\/event-stream/);
    assert.ok(text.includes('id: 42\nevent: member.alive data: forged\ndata: {"name":"first\\nline"}\n\n'));
    client.destroy();
    await stream.stopped;
    assert.equal(stream.send({ data: 'third' }), false);
    assert.equal(stream.stops, 1);
  });

  it('ends after its last event when the handler ends it', async (t) => {
    const { route, next } = streaming();
    const client = listen(await open(t, { routes: [route] })).setEncoding('utf8');
    const stream = await next();
    if (stream.send({ data: 'last' })) stream.end();
    const [chunks] = await Promise.all([client.toArray(), stream.stopped]);
    assert.match(chunks.join(''), /data: "last"/);
  });

  it('beyond the bound is refused, and an open one closes with the server', async (t) => {
    const { route, next } = streaming();
    const events = { clientsMax: 1, bufferBytesMax: 1_000, keepAliveMs: 1_000 };
    const server = await open(t, { routes: [route], events });
    const client = listen(server);
    t.after(() => client.destroy());
    const stream = await next();
    const refused = await request(server, '/v1/events');
    assert.deepEqual([refused.status, refused.code], [429, 'CAPACITY']);
    await server.close();
    await stream.stopped;
  });

  it('disconnects a client that reads too slowly', async (t) => {
    const { route, next } = streaming();
    const events = { clientsMax: 9, bufferBytesMax: 100_000, keepAliveMs: 1_000 };
    const server = await open(t, { routes: [route], events });
    const client = listen(server);
    client.pause();
    t.after(() => client.destroy());
    const stream = await next();
    const flood = { data: 'x'.repeat(50_000) };
    let sent = 0;
    while (stream.send(flood)) {
      sent += 1;
      assert.ok(sent < 10_000, 'the buffer has no bound');
      if (sent % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await stream.stopped;
    assert.equal(stream.stops, 1);
  });

  it('sends keep-alive comments', async (t) => {
    const { route } = streaming();
    const server = await open(t, {
      routes: [route],
      events: { clientsMax: 9, bufferBytesMax: 1_000, keepAliveMs: 10 },
    });
    const client = listen(server);
    t.after(() => client.destroy());
    let text = '';
    for await (const chunk of client.setEncoding('utf8')) {
      text += String(chunk);
      if (text.includes('\n:\n\n')) break;
    }
  });
});
