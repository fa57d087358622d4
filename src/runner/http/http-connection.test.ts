import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import {
  responseText,
  hasErrorCode,
  rawServer,
  testClient,
  waitUntil,
} from '../../../test/support/runner/http-servers.ts';

const timeout = 60_000;

describe('HTTP connections', { timeout }, () => {
  it('are kept alive, each with one request at a time', async (t) => {
    const server = await rawServer(t, ({ line }) => responseText(line.split(' ')[1]!));
    const { http, connections } = testClient(t);
    for (let i = 0; i < 20; i++) assert.equal((await http.get(`${server.url}/${i}`)).text(), `/${i}`);
    assert.equal(server.opened, 1);
    const paths = Array.from({ length: 30 }, (_, i) => `/${i}`);
    const answers = await Promise.all(paths.map((path) => http.get(server.url + path)));
    assert.deepEqual(
      answers.map((answer) => answer.text()),
      paths,
    );
    assert.ok(server.opened <= 30);
    await waitUntil('all are open', () => server.opened === connections());
  });

  it('are bounded: further requests wait, and too many waiting ones are refused', async (t) => {
    const server = await rawServer(t, () => responseText('ok'));
    const { http, ended } = testClient(t, { connectionsMax: 2, waitingMax: 10 });
    const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => http.get(server.url)));
    const refused = outcomes.filter(({ status }) => status === 'rejected');
    assert.equal(refused.length, 10);
    for (const outcome of refused) assert.ok(hasErrorCode('CAPACITY')((outcome as PromiseRejectedResult).reason));
    assert.equal(server.opened, 2);
    assert.equal(ended.length, 20);
    assert.equal(ended.filter(({ ok }) => ok).length, 10);
  });

  it('are closed for another server when all are in use', async (t) => {
    const servers = await Promise.all([1, 2, 3].map((n) => rawServer(t, () => responseText(String(n)))));
    const { http, connections } = testClient(t, { connectionsMax: 1 });
    const requests = [0, 1, 2, 0, 1, 2].map((i) => http.get(servers[i]!.url));
    const answers = await Promise.all(requests);
    assert.equal(answers.map((answer) => answer.text()).join(''), '123123');
    assert.equal((await http.get(servers[1]!.url)).text(), '2');
    assert.equal(connections(), 1);
  });

  it('of an unused server are closed when another server needs a pool', async (t) => {
    const silent = await rawServer(t, () => undefined);
    const servers = await Promise.all([1, 2, 3].map((n) => rawServer(t, () => responseText(String(n)))));
    const { http, close } = testClient(t, { originsMax: 2 });
    for (const { url } of servers) await http.get(url);
    await waitUntil('the first is closed', () => servers[0]!.open.size === 0);
    const requests = [http.get(silent.url), http.get(`${silent.url}/again`)];
    await waitUntil('the requests are received', () => silent.received.length === 2);
    assert.equal((await http.get(servers[0]!.url)).text(), '1');
    const small = testClient(t, { originsMax: 1 });
    const alone = small.http.get(silent.url);
    await assert.rejects(small.http.get(servers[0]!.url), hasErrorCode('CAPACITY'));
    close();
    small.close();
    for (const request of [...requests, alone]) await assert.rejects(request, hasErrorCode('CANCELLED'));
  });

  it('are closed when either side sends connection: close', async (t) => {
    const server = await rawServer(t, ({ line }) =>
      responseText('ok', '200 OK', line.includes('/end') ? 'connection: close\r\n' : ''),
    );
    const { http, connections } = testClient(t);
    for (let i = 0; i < 3; i++) await http.get(`${server.url}/end`);
    assert.equal(server.opened, 3);
    for (let i = 0; i < 3; i++) await http.get(server.url, { headers: { connection: 'close' } });
    assert.equal(server.opened, 6);
    assert.equal(connections(), 0);
  });

  it('with bytes after the response are not reused', async (t) => {
    const server = await rawServer(t, () => `${responseText('ok')}HTTP/1.1 200 OK\r\n`);
    const { http } = testClient(t);
    for (let i = 0; i < 3; i++) assert.equal((await http.get(server.url)).text(), 'ok');
    assert.equal(server.opened, 3);
  });

  it('are closed when the server sends data without a request', async (t) => {
    const server = await rawServer(t, () => responseText('ok'));
    const { http, connections } = testClient(t);
    await http.get(server.url);
    for (const socket of server.open) socket.write('HTTP/1.1 408 Request Timeout\r\n\r\n');
    await waitUntil('it is closed', () => connections() === 0);
    assert.equal((await http.get(server.url)).text(), 'ok');
  });

  it('dropped by the server are replaced, but only idempotent requests are resent', async (t) => {
    const counts = new Map<unknown, number>();
    const server = await rawServer(t, ({ socket }) => {
      counts.set(socket, (counts.get(socket) ?? 0) + 1);
      if (counts.get(socket)! < 3) return responseText('ok');
      socket.destroy();
      return undefined;
    });
    const { http, ended } = testClient(t);
    for (let i = 0; i < 9; i++) assert.equal((await http.get(server.url)).text(), 'ok');
    assert.equal(ended.length, 9);
    assert.equal(server.received.length, 9 + 4);
    await http.post(server.url);
    await assert.rejects(http.post(server.url), hasErrorCode('CONNECTION_LOST'));
    assert.equal(ended.at(-1)!.ok, false);
  });
});

describe('a failed HTTP request', { timeout }, () => {
  it('ends at once when the connection is refused', async (t) => {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    const { http, ended, connections } = testClient(t);
    const requests = Array.from({ length: 10 }, () => http.get(`http://127.0.0.1:${port}/`));
    for (const request of requests) await assert.rejects(request, hasErrorCode('UNREACHABLE'));
    assert.equal(ended.length, 10);
    assert.equal(connections(), 0);
  });

  it('has CONNECTION_LOST when the connection ends within the response', async (t) => {
    const starts = ['', 'HTTP/1.1 200', 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345'];
    const chunks = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12345\r\n';
    const server = await rawServer(t, ({ line, socket }) => {
      socket.end([...starts, chunks][Number(line.split(' ')[1]!.slice(1))]!);
      return undefined;
    });
    const { http, ended, connections } = testClient(t);
    for (let i = 0; i < 4; i++) await assert.rejects(http.get(`${server.url}/${i}`), hasErrorCode('CONNECTION_LOST'));
    assert.equal(ended.length, 4);
    assert.equal(connections(), 0);
  });

  it('is one without a length whose connection was reset, not closed', async (t) => {
    const server = await rawServer(t, ({ line, socket }) => {
      const text = 'HTTP/1.1 200 OK\r\n\r\nall of it';
      if (line.includes('/end')) socket.end(text);
      // The reset comes after the client has read the start.
      else socket.write(text, () => setTimeout(() => socket.resetAndDestroy(), 50));
      return undefined;
    });
    const { http, ended } = testClient(t);
    assert.equal((await http.get(`${server.url}/end`)).text(), 'all of it');
    await assert.rejects(http.get(`${server.url}/break`), hasErrorCode('CONNECTION_LOST'));
    assert.deepEqual(
      ended.map(({ ok }) => ok),
      [true, false],
    );
  });

  it('with a malformed response closes its connection, and no other request fails', async (t) => {
    const responses = ['nonsense', 'HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n', responseText('ok')];
    const server = await rawServer(t, ({ line }) => responses[Number(line.split(' ')[1]!.slice(1))]);
    const { http, ended } = testClient(t, { bodyBytesMax: 1_000 });
    await assert.rejects(http.get(`${server.url}/0`), hasErrorCode('MALFORMED'));
    await assert.rejects(http.get(`${server.url}/1`), hasErrorCode('TOO_LARGE'));
    assert.equal((await http.get(`${server.url}/2`)).text(), 'ok');
    assert.deepEqual(
      ended.map(({ ok }) => ok),
      [false, false, true],
    );
    assert.equal(server.opened, 3);
  });

  it('ends at its deadline together with its connection', async (t) => {
    const server = await rawServer(t, ({ line }) =>
      line.includes('/never') ? undefined : 'HTTP/1.1 200 OK\r\ncontent-l',
    );
    const { http, ended, close } = testClient(t);
    const slow = http.get(`${server.url}/never`, { timeoutMs: 50_000 });
    const requests = ['/never', '/half', '/never'].map((path) => http.get(server.url + path, { timeoutMs: 50 }));
    for (const request of requests) await assert.rejects(request, hasErrorCode('DEADLINE'));
    await waitUntil('only the slow one is left', () => server.open.size === 1);
    assert.equal(ended.length, 3);
    close();
    await assert.rejects(slow, hasErrorCode('CANCELLED'));
  });

  it('ends at its deadline while it waits for a connection', async (t) => {
    const server = await rawServer(t, () => undefined);
    const { http, close } = testClient(t, { connectionsMax: 1 });
    const first = http.get(server.url, { timeoutMs: 50_000 });
    await waitUntil('the only connection is busy', () => server.received.length === 1);
    await assert.rejects(http.get(server.url, { timeoutMs: 50 }), hasErrorCode('DEADLINE'));
    assert.equal(server.received.length, 1);
    close();
    await assert.rejects(first, hasErrorCode('CANCELLED'));
  });

  it('is not recorded when the run ends first', async (t) => {
    const server = await rawServer(t, () => undefined);
    const { http, ended, close } = testClient(t, { connectionsMax: 1 });
    const requests = [http.get(server.url), http.get(server.url)];
    await waitUntil('the request is received', () => server.received.length === 1);
    close();
    for (const request of [...requests, http.get(server.url)]) await assert.rejects(request, hasErrorCode('CANCELLED'));
    assert.equal(ended.length, 0);
    await waitUntil('it is closed', () => server.open.size === 0);
  });
});

describe('the HTTP client with servers of Node', { timeout }, () => {
  it('sends and receives large bodies, chunked and with a length', async (t) => {
    const body = Buffer.alloc(3_000_000, 'all work and no play ');
    const server = createHttpServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        const whole = Buffer.concat(parts);
        if (request.url === '/length') response.end(whole);
        else for (let i = 0; i <= whole.length; i += 100_000) response.write(whole.subarray(i, i + 100_000));
        response.end();
      });
    });
    server.listen(0, 'localhost');
    await once(server, 'listening');
    t.after(() => server.closeAllConnections());
    t.after(() => server.close());
    const { http, connections } = testClient(t);
    const base = `http://localhost:${(server.address() as AddressInfo).port}`;
    for (const path of ['/length', '/chunked', '/length']) {
      const answer = await http.post(base + path, { body });
      assert.equal(Buffer.compare(answer.bytes, body), 0, path);
    }
    assert.equal(connections(), 1);
  });

  it('speaks https, and checks certificates unless any is allowed', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'remuster-https-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
    const files = ['-subj', '/CN=localhost', '-keyout', keyFile, '-out', certFile];
    execFileSync('openssl', ['req', '-x509', ...kind, ...files], { stdio: 'pipe' });
    const tls = { key: readFileSync(keyFile), cert: readFileSync(certFile) };
    const server = createHttpsServer(tls, (request, response) => response.end(request.url));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.closeAllConnections());
    t.after(() => server.close());
    const { http, connections } = testClient(t);
    const base = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    await assert.rejects(http.get(`${base}/a`), hasErrorCode('UNREACHABLE'));
    for (let i = 0; i < 3; i++)
      assert.equal((await http.get(`${base}/${i}`, { anyCertificate: true })).text(), `/${i}`);
    assert.equal(connections(), 1);
    await assert.rejects(http.get(`${base}/a`), hasErrorCode('UNREACHABLE'));
  });

  it('fails with FORBIDDEN in a process without the right to use the network', { skip: !canDenyNetwork() }, () => {
    const [client, sockets, clock] = ['./load-http-client.ts', './node-sockets.ts', '../../io/system/clock.ts'].map(
      (file) => JSON.stringify(new URL(file, import.meta.url).href),
    );
    const code = `
      import { LoadHttpClient } from ${client};
      import { dialSocket, latin1 } from ${sockets};
      import { systemClock } from ${clock};
      const client = new LoadHttpClient({ clock: systemClock(), dial: dialSocket, latin1 });
      const http = client.clientFor({ recordRequest: () => {} });
      for (const url of ['http://127.0.0.1:9/', 'http://localhost:9/', 'https://127.0.0.1:9/']) {
        await http.get(url).then(() => console.log('answered'), (error) => console.log(error.code));
      }
      client.close();`;
    const flags = ['--permission', '--allow-fs-read=*', '--input-type=module', '--eval', code];
    const output = execFileSync(process.execPath, flags, { encoding: 'utf8', timeout });
    assert.deepEqual(output.trim().split('\n'), ['FORBIDDEN', 'FORBIDDEN', 'FORBIDDEN']);
  });
});

function canDenyNetwork(): boolean {
  return process.allowedNodeEnvironmentFlags.has('--allow-net');
}
