/** Requests to a node: its errors keep their code, an absent node is UNREACHABLE, events arrive whole. */
import assert from 'node:assert/strict';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, test } from 'node:test';
import { isRemusterError } from '../../base/errors.ts';
import { request, getJson, postJson, readEvents } from './http-client.ts';
import type { ClusterTarget } from './target.ts';

let server: Server | undefined;

afterEach(() => {
  server?.close();
  server?.closeAllConnections();
  server = undefined;
});

async function serving(listener: RequestListener): Promise<ClusterTarget> {
  const own = createServer(listener);
  server = own;
  await new Promise<void>((resolve) => own.listen(0, '127.0.0.1', () => resolve()));
  return { addr: `http://127.0.0.1:${(own.address() as AddressInfo).port}`, token: 'secret-token' };
}

test('a request sends JSON and the token, and returns the JSON of the reply', async () => {
  const target = await serving((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    request.on('end', () =>
      response.end(JSON.stringify({ method: request.method, auth: request.headers.authorization, body })),
    );
  });
  assert.deepEqual(await postJson(target, '/x', { a: 1 }), {
    method: 'POST',
    auth: 'Bearer secret-token',
    body: '{"a":1}',
  });
  assert.deepEqual(await getJson({ ...target, token: undefined }, '/x'), { method: 'GET', body: '' });
});

test('a coded error of the node keeps its code, and any other error gets a code by its HTTP status', async () => {
  const target = await serving((request, response) => {
    const coded = request.url === '/coded';
    response.writeHead(coded ? 429 : 401);
    response.end(coded ? '{"error":{"code":"CAPACITY","message":"full"}}' : 'go away');
  });
  await assert.rejects(
    getJson(target, '/coded'),
    (error) => isRemusterError(error, 'CAPACITY') && error.message === 'full',
  );
  await assert.rejects(getJson(target, '/plain'), (error) => isRemusterError(error, 'UNAUTHENTICATED'));
  assert.deepEqual(await request(target, 'GET', '/plain'), { status: 401, body: 'go away' });
});

test('a refused connection and a truncated reply are UNREACHABLE', async () => {
  const target = await serving((request, response) => {
    response.writeHead(200, { 'content-length': '100' });
    response.write('half');
    setImmediate(() => request.socket.destroy());
  });
  await assert.rejects(getJson(target, '/'), (error) => isRemusterError(error, 'UNREACHABLE'));
  const own = server;
  await new Promise((resolve) => own?.close(resolve));
  await assert.rejects(getJson(target, '/'), (error) => isRemusterError(error, 'UNREACHABLE'));
});

test('readEvents assembles events from chunks cut at any byte', async () => {
  const target = await serving((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const pieces = [': hello\n\n', 'id: 1\nda', 'ta: {"seq":1}\n\nid: 2\ndata: {"se', 'q":2}\n', '\n'];
    for (const piece of pieces) response.write(piece);
    response.end();
  });
  const seen: unknown[] = [];
  for await (const event of readEvents(target, '/v1/events')) seen.push(event);
  assert.deepEqual(seen, [{ seq: 1 }, { seq: 2 }]);
});
