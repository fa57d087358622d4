/** The sample target of load tests, over real connections. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { type TestContext, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../io/system/clock.ts';
import type { HttpClient } from '../../runner/definition/http-types.ts';
import { openHttp } from '../../runner/http/open-http.ts';
import { startSampleTarget } from './sample-target.ts';

function client(t: TestContext): HttpClient {
  const connections = openHttp({ clock: systemClock() });
  t.after(() => connections.close());
  return connections.clientFor({ recordRequest: () => {} });
}

describe('the sample target', { timeout: 60_000 }, () => {
  it('serves its pages and counts requests by path', async (t) => {
    const target = await startSampleTarget();
    t.after(() => target.close());
    const http = client(t);
    assert.match((await http.get(`${target.url}/`)).text(), /shop/);
    assert.deepEqual((await http.post(`${target.url}/buy`, { json: { n: 1 } })).json(), { sold: 1 });
    assert.deepEqual((await http.post(`${target.url}/buy`, { json: { n: 1 } })).json(), { sold: 2 });
    assert.equal((await http.get(`${target.url}/buy`)).status, 405);
    assert.equal((await http.get(`${target.url}/slow?ms=1`)).status, 200);
    assert.equal((await http.get(`${target.url}/else`)).status, 404);
    const statuses: number[] = [];
    for (let i = 0; i < 6; i++) statuses.push((await http.get(`${target.url}/flaky?every=3`)).status);
    assert.deepEqual(statuses, [200, 200, 500, 200, 200, 500]);
    const paths = { '/': 1, '/buy': 3, '/slow': 1, '/flaky': 6, other: 1 };
    assert.deepEqual((await http.get(`${target.url}/count`)).json(), { total: 12, paths });
    assert.deepEqual(target.counts, paths);
  });

  it('counts every request of 50 concurrent clients', async (t) => {
    const target = await startSampleTarget();
    t.after(() => target.close());
    const http = client(t);
    const users = Array.from({ length: 50 }, async () => {
      for (let i = 0; i < 40; i++) await http.get(`${target.url}/`);
    });
    await Promise.all(users);
    assert.equal(target.counts['/'], 2_000);
  });

  it('replies in order on one connection, and with 400 to a malformed request', async (t) => {
    const target = await startSampleTarget();
    t.after(() => target.close());
    const socket = connect({ port: Number(new URL(target.url).port), host: '127.0.0.1' });
    t.after(() => socket.destroy());
    socket.write('GET /slow?ms=20 HTTP/1.1\r\n\r\nGET /count HTTP/1.1\r\n\r\nnonsense\r\n\r\n');
    const received: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => received.push(chunk));
    await once(socket, 'close');
    assert.match(
      Buffer.concat(received).toString(),
      /^HTTP\/1.1 200[^]*at last\n[^]*"total":1[^]*HTTP\/1.1 400[^]*close/,
    );
  });

  it('runs as a child process that ends with its parent', async (t) => {
    const file = fileURLToPath(new URL('sample-target-main.ts', import.meta.url));
    const child = spawn(process.execPath, [file], { stdio: ['pipe', 'pipe', 'inherit'] });
    t.after(() => child.kill('SIGKILL'));
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const { ready, url } = JSON.parse(line.toString()) as { ready: boolean; url: string };
    assert.equal(ready, true);
    assert.match((await client(t).get(`${url}/`)).text(), /shop/);
    const exited = once(child, 'exit');
    child.stdin.end();
    await exited;
  });
});
