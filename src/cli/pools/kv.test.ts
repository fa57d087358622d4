/** The kv commands as a shell runs them, against a fake node that serves `POST /v1/call` with the kv module. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serializeError, isRemusterError, RemusterError } from '../../base/errors.ts';
import type { Context, Methods, State, StateRange } from '../../containers/module.ts';
import { kv } from '../../modules/kv/kv.ts';

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
const timeoutMs = 30_000;
const requests: unknown[] = [];
const server = createServer((request, response) => void serve(request, response));
let addr = '';

before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  addr = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

after(() => {
  server.close();
  server.closeAllConnections();
});

type CallRequest = { pool: string; method: string; args: unknown[]; route: unknown; timeoutMs: number };

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += String(chunk);
  const call = JSON.parse(text) as CallRequest;
  requests.push([request.method, request.url, call.pool, call.method, call.route]);
  try {
    if (call.pool !== 'kv') throw new RemusterError('UNKNOWN_POOL');
    const method = (kv.methods as Methods)[call.method];
    const run = typeof method === 'function' ? method : method?.run;
    response.end(JSON.stringify({ result: run?.(context, ...call.args) }));
  } catch (error) {
    response.writeHead(isRemusterError(error) ? error.row.httpStatus : 500);
    response.end(JSON.stringify({ error: serializeError(error) }));
  }
}

const entries = new Map<string, unknown>();
const state = {
  get: (key: string) => entries.get(key),
  set: (key: string, value: unknown) => void entries.set(key, value),
  delete: (key: string) => entries.delete(key),
  entries: ({ prefix = '', from = '', limit = 1_000 }: StateRange = {}) =>
    [...entries]
      .filter(([key]) => key.startsWith(prefix) && key >= from)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, limit),
} as unknown as State;
const context = {
  state,
  pool: { name: 'kv', containers: 1, params: null },
  container: 0,
  now: () => Date.now(),
  timers: { set: () => {}, cancel: () => {} },
} as unknown as Context;

type Ran = { readonly exitCode: number; readonly out: string; readonly err: string };

function run(...args: string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const env = { ...process.env, NO_COLOR: '1', REMUSTER_ADDR: addr };
    execFile(process.execPath, [main, 'kv', ...args], { env, timeout: timeoutMs }, (error, out, err) =>
      resolve({ exitCode: error === null ? 0 : Number(error.code), out, err }),
    );
  });
}

test('put, get and delete call the container of the key, list calls all, and values keep their type', async () => {
  assert.deepEqual(JSON.parse((await run('put', 'a', '{"n":1}', '-o', 'json')).out), {
    schemaVersion: 1,
    key: 'a',
    version: 1,
  });
  assert.equal((await run('put', 'b', 'plain text', '--ttl', '1h')).exitCode, 0);
  assert.deepEqual(JSON.parse((await run('get', 'a', '-o', 'json')).out), {
    schemaVersion: 1,
    key: 'a',
    value: { n: 1 },
    version: 1,
  });
  assert.match((await run('get', 'b')).out, /plain text/);
  assert.deepEqual((await run('list', '-o', 'name')).out.split('\n').filter(Boolean), ['a', 'b']);
  assert.equal((await run('delete', 'a', '--yes')).exitCode, 0);
  assert.deepEqual(requests[0], ['POST', '/v1/call', 'kv', 'put', { hash: 'a' }]);
  assert.deepEqual(requests[4], ['POST', '/v1/call', 'kv', 'list', { broadcast: true }]);
});

test('kv list --watch prints again after a change, and exits with 130 on SIGINT', { timeout: timeoutMs }, async () => {
  entries.clear();
  await run('put', 'seen', '1');
  const env = { ...process.env, NO_COLOR: '1', REMUSTER_ADDR: addr };
  const watching = spawn(process.execPath, [main, 'kv', 'list', '--watch', '-o', 'jsonl'], { env });
  const lines = createInterface(watching.stdout)[Symbol.asyncIterator]();
  const keyOfNext = async (): Promise<unknown> =>
    (JSON.parse((await lines.next()).value ?? '{}') as { key?: string }).key;
  assert.equal(await keyOfNext(), 'seen');
  await run('put', 'then', '2');
  assert.deepEqual([await keyOfNext(), await keyOfNext()], ['seen', 'then']);
  const exited = once(watching, 'exit');
  watching.kill('SIGINT');
  const [exitCode] = (await exited) as [number];
  assert.equal(exitCode, 130);
  assert.equal((await lines.next()).done, true);
});

test('a failed kv command prints the error code and exits with its exit code', async () => {
  const missing = await run('get', 'none');
  assert.deepEqual([missing.exitCode, missing.err.includes('UNKNOWN_KEY')], [1, true]);
  const condition = await run('put', 'seen', '2', '--if-version', '0');
  assert.deepEqual([condition.exitCode, condition.err.includes('PRECONDITION')], [5, true]);
  const usage = await run('put', 'b', '2', '--ttl', 'soon');
  assert.equal(usage.exitCode, 2);
  const unsure = await run('delete', 'seen');
  assert.deepEqual([unsure.exitCode, unsure.err.includes('--yes')], [2, true]);
  const nowhere = await run('get', 'a', '--pool', 'other');
  assert.equal(nowhere.exitCode, 1);
  assert.match(nowhere.err, /remuster pool create other --module kv --containers 16/);
});
