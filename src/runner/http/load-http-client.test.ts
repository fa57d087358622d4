import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { HttpOptions } from '../definition/http-types.ts';
import { responseText, hasErrorCode, rawServer, testClient } from '../../../test/support/runner/http-servers.ts';

const timeout = 60_000;

describe('a response', { timeout }, () => {
  it('has status, headers, body and duration, and is recorded once', async (t) => {
    const words =
      'HTTP/1.1 201 Made\r\nX-One: 1\r\nset-cookie: a\r\nSet-Cookie: b\r\ncontent-length: 9\r\n\r\n{"n":"x"}';
    const server = await rawServer(t, () => words);
    const { http, ended } = testClient(t);
    const response = await http.get(`${server.url}/a?b=c`);
    assert.equal(response.status, 201);
    assert.equal(response.text(), '{"n":"x"}');
    assert.deepEqual(response.json(), { n: 'x' });
    assert.deepEqual(Buffer.from(response.bytes).toString(), '{"n":"x"}');
    assert.equal(response.headers.get('x-ONE'), '1');
    assert.equal(response.headers.get('Set-Cookie'), 'a, b');
    assert.equal(response.headers.get('x-two'), undefined);
    assert.equal(response.headers.has('content-length'), true);
    assert.deepEqual(response.headers.entries()[0], ['x-one', '1']);
    assert.ok(response.durationMs > 0);
    const { line, head } = server.received[0]!;
    assert.equal(line, 'GET /a?b=c HTTP/1.1');
    assert.match(head, new RegExp(`\r\nhost: ${server.url.slice('http://'.length)}\r\n`));
    const { durationUs, ...rest } = ended[0]!;
    assert.deepEqual(rest, { bytesIn: words.length, bytesOut: head.length + 2, ok: true });
    assert.equal(durationUs, response.durationMs * 1_000);
    assert.equal(ended.length, 1);
  });

  it('is decoded as UTF-8, with any framing', async (t) => {
    const text = 'gr\u00fc\u00df dich \u{1f600}';
    const bytes = Buffer.from(text).toString('latin1');
    const chunked = `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${bytes.length.toString(16)}\r\n${bytes}\r\n0\r\n\r\n`;
    const server = await rawServer(t, ({ line }) => (line.includes('chunked') ? chunked : responseText(bytes)));
    const { http } = testClient(t);
    for (const path of ['/plain', '/chunked']) {
      const response = await http.get(server.url + path);
      assert.equal(response.text(), text);
      assert.deepEqual(Buffer.from(response.bytes), Buffer.from(text));
      assert.throws(() => response.json(), hasErrorCode('BAD_ARGUMENT'));
    }
  });

  it('of status 400 and above is returned, and recorded as failed', async (t) => {
    const server = await rawServer(t, () => responseText('no', '503 Service Unavailable'));
    const { http, ended } = testClient(t);
    assert.equal((await http.get(server.url)).status, 503);
    assert.deepEqual(
      ended.map(({ ok }) => ok),
      [false],
    );
  });

  it('to HEAD ends with its head', async (t) => {
    const server = await rawServer(t, ({ line }) =>
      line.startsWith('HEAD') ? 'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n' : responseText('body'),
    );
    const { http } = testClient(t);
    assert.equal((await http.head(server.url)).text(), '');
    assert.equal((await http.get(server.url)).text(), 'body');
    assert.equal(server.opened, 1);
  });
});

describe('a request', { timeout }, () => {
  it('carries JSON, text and bytes with their length', async (t) => {
    const server = await rawServer(t, () => responseText('ok'));
    const { http } = testClient(t);
    await http.post(`${server.url}/1`, { json: { n: 1 } });
    await http.put(`${server.url}/2`, { json: 'gr\u00fc\u00df' });
    await http.patch(`${server.url}/3`, { body: 'plain', headers: { 'Content-Type': 'text/plain', x: 'y' } });
    await http.post(`${server.url}/4`, { body: Uint8Array.of(0, 255, 128) });
    await http.post(`${server.url}/5`);
    await http.delete(`${server.url}/6`);
    await http.request(`${server.url}/7`, { method: 'OPTIONS' });
    await http.request(`${server.url}/8`);
    assert.deepEqual(
      server.received.map(({ line }) => line.slice(0, -' HTTP/1.1'.length)),
      ['POST /1', 'PUT /2', 'PATCH /3', 'POST /4', 'POST /5', 'DELETE /6', 'OPTIONS /7', 'GET /8'],
    );
    assert.deepEqual(
      server.received.map(({ body }) => body),
      ['{"n":1}', Buffer.from('"gr\u00fc\u00df"').toString('latin1'), 'plain', '\0\xff\x80', '', '', '', ''],
    );
    const heads = server.received.map(({ head }) => head);
    assert.match(heads[0]!, /\r\ncontent-type: application\/json\r\ncontent-length: 7\r\n/);
    assert.match(heads[1]!, /\r\ncontent-length: 8\r\n/);
    assert.match(heads[2]!, /\r\nContent-Type: text\/plain\r\nx: y\r\n/);
    assert.match(heads[4]!, /\r\ncontent-length: 0\r\n/);
    assert.doesNotMatch(heads[5]! + heads[6]! + heads[7]!, /content-length/);
    assert.equal(server.opened, 1);
  });

  it('can set its own host and user agent', async (t) => {
    const server = await rawServer(t, () => responseText('ok'));
    const { http } = testClient(t);
    await http.get(server.url, { headers: { Host: 'shop.example', 'User-Agent': 'me' } });
    assert.equal(server.received[0]!.head, 'GET / HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: me\r\n');
  });

  it('that is invalid is refused, recorded as failed and not sent', async (t) => {
    const server = await rawServer(t, () => responseText('ok'));
    const { http, ended } = testClient(t);
    const cyclic: Record<string, unknown> = {};
    cyclic['self'] = cyclic;
    const bad: readonly (readonly [string, HttpOptions?])[] = [
      ['nonsense'],
      ['/path'],
      ['ftp://127.0.0.1/'],
      ['http://'],
      ['http://user:word@127.0.0.1/'],
      ['http://127.0.0.1:0/'],
      ['http://127.0.0.1:70000/'],
      [undefined as unknown as string],
      [server.url, { headers: { 'a b': 'c' } }],
      [server.url, { headers: { a: 'b\r\nc: d' } }],
      [server.url, { headers: { a: '\u{1f600}' } }],
      [server.url, { headers: { a: {} as unknown as string } }],
      [server.url, { headers: { 'Content-Length': '5' } }],
      [server.url, { headers: { 'transfer-encoding': 'chunked' } }],
      [server.url, { json: 1, body: 'x' }],
      [server.url, { json: cyclic }],
      [server.url, { json: () => 1 }],
      [server.url, { body: 5 as unknown as string }],
      [server.url, { timeoutMs: 0 }],
      [server.url, { timeoutMs: Number.NaN }],
      [server.url, { redirectsMax: -1 }],
    ];
    for (const [url, options] of bad) await assert.rejects(http.post(url, options), hasErrorCode('BAD_ARGUMENT'), url);
    await assert.rejects(http.request(server.url, { method: 'GET / HTTP/1.1' as 'GET' }), hasErrorCode('BAD_ARGUMENT'));
    assert.equal(ended.length, bad.length + 1);
    assert.ok(ended.every(({ ok }) => !ok));
    assert.equal(server.opened, 0);
  });

  it('resolves URLs like a browser', async (t) => {
    const server = await rawServer(t, () => responseText('ok'));
    const { http } = testClient(t);
    const { port } = new URL(server.url);
    const paths = ['', '/', '?q', '/a b', '/a#b', '/a/../b', '/%41', '/\u00fc', '/a\\b', '/x?y=z w'];
    // Twice: the cache gives the same result.
    for (const path of [...paths, ...paths]) await http.get(server.url + path);
    await http.get(`HTTP://LOCALHOST:${port}/big`);
    const expected = ['/', '/', '/?q', '/a%20b', '/a', '/b', '/%41', '/%C3%BC', '/a/b', '/x?y=z%20w'];
    assert.deepEqual(
      server.received.map(({ line }) => line.split(' ')[1]),
      [...expected, ...expected, '/big'],
    );
    assert.match(server.received.at(-1)!.head, new RegExp(`\r\nhost: localhost:${port}\r\n`));
  });
});

describe('a redirect', { timeout }, () => {
  it('is followed with the right method and body', async (t) => {
    const moved = (status: string): string => responseText('', status, 'location: /there\r\n');
    const server = await rawServer(t, ({ line }) =>
      line.includes('/there') ? responseText('here') : moved(`${line.split('/')[1]!.slice(0, 3)} Moved`),
    );
    const { http, ended } = testClient(t);
    for (const status of [301, 302, 303, 307, 308]) {
      assert.equal((await http.post(`${server.url}/${status}`, { json: 1 })).text(), 'here');
    }
    await http.head(`${server.url}/303`);
    const there = server.received.filter(({ line }) => line.includes('/there'));
    assert.deepEqual(
      there.map(({ line, body }) => `${line.split(' ')[0]} ${body}`),
      ['GET ', 'GET ', 'GET ', 'POST 1', 'POST 1', 'HEAD '],
    );
    assert.equal(ended.length, 6);
    assert.equal(server.opened, 1);
    const first = server.received.slice(0, 2).reduce((sum, { head, body }) => sum + head.length + 2 + body.length, 0);
    assert.equal(ended[0]!.bytesOut, first);
  });

  it('is the response itself beyond redirectsMax, or without a valid location', async (t) => {
    const locations = new Map([
      ['/nowhere', ''],
      ['/mail', 'location: mailto:a@b\r\n'],
      ['/bad', 'location: http://[\r\n'],
    ]);
    const server = await rawServer(t, ({ line }) =>
      responseText('', '302 Found', locations.get(line.split(' ')[1]!) ?? 'location: again\r\n'),
    );
    const { http } = testClient(t);
    assert.equal((await http.get(server.url, { redirectsMax: 0 })).status, 302);
    assert.equal(server.received.length, 1);
    assert.equal((await http.get(server.url, { redirectsMax: 3 })).status, 302);
    assert.equal(server.received.length, 5);
    for (const path of locations.keys()) assert.equal((await http.get(server.url + path)).status, 302);
    assert.equal(server.received.length, 8);
  });

  it('to another origin drops credentials', async (t) => {
    const other = await rawServer(t, () => responseText('other'));
    const server = await rawServer(t, ({ line }) =>
      responseText('', '307 Moved', line.includes('/away') ? `location: ${other.url}/x\r\n` : 'location: /away\r\n'),
    );
    const { http } = testClient(t);
    const headers = { Authorization: 'secret', cookie: 'secret', 'x-kept': 'yes' };
    assert.equal((await http.get(server.url, { headers })).text(), 'other');
    assert.match(server.received[1]!.head, /Authorization: secret/);
    assert.doesNotMatch(other.received[0]!.head, /secret/);
    assert.match(other.received[0]!.head, /x-kept: yes/);
  });

  it('to an invalid address is an error', async (t) => {
    const server = await rawServer(t, () => responseText('', '302 Found', 'location: http://127.0.0.1:0/\r\n'));
    const { http, ended } = testClient(t);
    await assert.rejects(http.get(server.url), hasErrorCode('BAD_ARGUMENT'));
    assert.equal(ended.length, 1);
  });
});
