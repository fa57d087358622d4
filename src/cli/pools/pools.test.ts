/** The commands about pools and containers as a shell runs them, against a fake node with scripted replies. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serializeError, isRemusterError, RemusterError } from '../../base/errors.ts';
import { containerNote } from './pools.ts';
import type { ContainerView, PoolDescription } from '../../placement/operations/pool-views.ts';

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
const timeoutMs = 30_000;
const server = createServer((request, response) => void serve(request, response));
const requests: string[] = [];
/** Scripted replies by method and path, one per request; the last one repeats. */
const replies = new Map<string, (object | RemusterError)[]>();
let addr = '';

before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  addr = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

after(() => {
  server.close();
  server.closeAllConnections();
});

beforeEach(() => {
  requests.length = 0;
  replies.clear();
});

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += String(chunk);
  const { pathname } = new URL(request.url ?? '', addr);
  requests.push(`${request.method} ${request.url}${body === '' ? '' : ` ${body}`}`);
  const queue = replies.get(`${request.method} ${pathname}`) ?? [];
  const reply = (queue.length > 1 ? queue.shift() : queue[0]) ?? new RemusterError('UNKNOWN_METHOD');
  response.writeHead(isRemusterError(reply) ? reply.row.httpStatus : 200);
  const shape = isRemusterError(reply) ? { error: serializeError(reply) } : { schemaVersion: 1, ...reply };
  response.end(JSON.stringify(shape));
}

type Ran = { readonly exitCode: number; readonly out: string; readonly err: string };

function run(...args: string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const env = { ...process.env, NO_COLOR: '1', REMUSTER_ADDR: addr };
    execFile(process.execPath, [main, ...args], { env, timeout: timeoutMs }, (error, out, err) =>
      resolve({ exitCode: error === null ? 0 : Number(error.code), out, err }),
    );
  });
}

const facts: PoolDescription = {
  ...{ name: 'visits', id: '1.0', module: 'counter', moduleVersion: 0, containers: 2, copies: 2 },
  ...{ durability: 'copies', restart: false, params: null, state: 'active' },
};

function container(id: number, others: Partial<ContainerView> = {}): ContainerView {
  return {
    ...{ id, owner: 'w1', copies: ['w1', 'w2'], inSync: ['w1', 'w2'], version: 7, fence: '1', phase: 'serving' },
    ...{ move: null, moduleVersion: 0, failures: 0, note: '', ...others },
  };
}

function pool(serving: number, state = 'active'): object {
  const containers = [container(0), container(1, { owner: null, note: 'no copy is alive' })];
  return { ...facts, state, serving, inSync: serving, containers, containerCount: 2, more: false };
}

const move = { to: 'w2', cause: 'admin', step: 'copying' } as const;
const moveArgs = ['container', 'migrate', 'visits/0', '--to', 'w2'];

test('a move is shown with what its owner does, not with the step of the record', () => {
  const noteOf = (step: 'copying' | 'handing' | 'handed'): string =>
    containerNote({ move: { ...move, step }, note: '' });
  assert.equal(noteOf('copying'), 'to w2 (admin, copying its state)');
  assert.equal(noteOf('handing'), 'to w2 (admin, finishing its calls)');
  assert.equal(noteOf('handed'), 'to w2 (admin, handed over)');
});

test('pool create waits until all containers serve or the timeout has passed', async () => {
  replies.set('POST /v1/pools', [{ ...facts, created: true }]);
  replies.set('GET /v1/pools/visits', [pool(0), pool(1), pool(2)]);
  const args = ['pool', 'create', 'visits', '--module', 'counter', '--containers', '2', '--params', '{"a":1}'];
  const created = await run(...args, '-o', 'json');
  assert.equal(created.exitCode, 0, created.err);
  assert.deepEqual(JSON.parse(created.out), { schemaVersion: 1, ...facts, created: true, serving: 2, inSync: 2 });
  assert.equal(requests[0], 'POST /v1/pools {"name":"visits","module":"counter","containers":2,"params":{"a":1}}');
  replies.set('GET /v1/pools/visits', [pool(1)]);
  assert.equal((await run(...args, '--timeout', '100ms')).exitCode, 4);
  requests.length = 0;
  assert.equal((await run(...args, '--detach')).exitCode, 0);
  assert.equal(requests.length, 1, '--detach does not poll');
  assert.equal((await run(...args, '--params', '{')).exitCode, 2);
  assert.equal((await run('pool', 'create', 'visits', '--module', 'counter')).exitCode, 2);
  replies.set('POST /v1/pools', [new RemusterError('PRECONDITION', 'pool visits exists already')]);
  const refused = await run(...args, '-o', 'json');
  assert.equal(refused.exitCode, 5);
  assert.equal((JSON.parse(refused.err) as { error: { code: string } }).error.code, 'PRECONDITION');
});

type PrintedError = {
  readonly error: { readonly code: string; readonly stateChanged: string; readonly retryable: boolean };
};

function printedError({ err }: Ran): PrintedError['error'] {
  return (JSON.parse(err) as PrintedError).error;
}

test('a printed error has the stateChanged of the reply', async () => {
  const args = ['pool', 'create', 'visits', '--module', 'counter', '--containers', '2', '-o', 'json'];
  for (const stateChanged of ['no', 'maybe'] as const) {
    replies.set('POST /v1/pools', [new RemusterError('PRECONDITION', 'not now', stateChanged)]);
    const { code, stateChanged: printed, retryable } = printedError(await run(...args));
    assert.deepEqual([code, printed, retryable], ['PRECONDITION', stateChanged, false]);
  }
});

test('an error after a successful change never claims that no state has changed', async () => {
  replies.set('POST /v1/pools', [{ ...facts, created: true }]);
  replies.set('GET /v1/pools/visits', [new RemusterError('UNKNOWN_POOL')]);
  const args = ['pool', 'create', 'visits', '--module', 'counter', '--containers', '2', '-o', 'json'];
  const { code, stateChanged } = printedError(await run(...args));
  assert.deepEqual([code, stateChanged], ['UNKNOWN_POOL', 'maybe']);
});

test('pool list and pool show print pools and containers', async () => {
  replies.set('GET /v1/pools', [{ items: [{ ...facts, serving: 2, inSync: 1 }] }]);
  replies.set('GET /v1/pools/visits', [pool(1)]);
  replies.set('GET /v1/pools/nope', [new RemusterError('UNKNOWN_POOL')]);
  assert.match((await run('pool', 'list')).out, /visits +counter +2 +2 +1 +2 +active/);
  const shown = await run('pool', 'show', 'visits');
  assert.match(shown.out, /active: 1 of 2 containers serve/);
  assert.match(shown.out, /0 +w1 +serving +w1,w2 +w1,w2 +7/);
  assert.match(shown.out, /1 +none .* no copy is alive/);
  const json = JSON.parse((await run('pool', 'show', 'visits', '-o', 'json')).out) as object;
  assert.deepEqual(json, { schemaVersion: 1, ...pool(1) });
  assert.equal((await run('pool', 'show', 'nope')).exitCode, 1);
});

test('pool delete needs --yes without a terminal, has a dry run, and waits until the pool is deleted', async () => {
  replies.set('GET /v1/pools/visits', [pool(2)]);
  assert.equal((await run('pool', 'delete', 'visits')).exitCode, 2, 'there is no terminal to ask');
  const dry = await run('pool', 'delete', 'visits', '--dry-run', '-o', 'json');
  assert.equal((JSON.parse(dry.out) as { dryRun: boolean }).dryRun, true);
  assert.ok(requests.every((one) => one.startsWith('GET')));
  replies.set('DELETE /v1/pools/visits', [{ ...facts, state: 'deleting' }]);
  replies.set('GET /v1/pools/visits', [pool(2), pool(2, 'deleting'), new RemusterError('UNKNOWN_POOL')]);
  const deleted = await run('pool', 'delete', 'visits', '--yes', '--reason', 'old', '-o', 'json');
  assert.equal(deleted.exitCode, 0, deleted.err);
  assert.equal((JSON.parse(deleted.out) as { deleted: boolean }).deleted, true);
  assert.ok(requests.includes('DELETE /v1/pools/visits?reason=old'));
});

test('container migrate waits until the new owner serves; it exits with 1 when cancelled, 4 on a timeout', async () => {
  replies.set('POST /v1/containers/visits/0/migrate', [{ pool: 'visits', id: 0, from: 'w1', to: 'w2', moving: true }]);
  const showContainer = (...views: Partial<ContainerView>[]): void =>
    void replies.set(
      'GET /v1/containers/visits/0',
      views.map((one) => Object.assign(container(0, one), { pool: 'visits' })),
    );
  showContainer({ move }, { owner: 'w2', phase: 'opening' }, { owner: 'w2' });
  const moved = await run(...moveArgs, '-o', 'json');
  assert.equal(moved.exitCode, 0, moved.err);
  const { moving, moved: isMoved } = JSON.parse(moved.out) as { moving: boolean; moved: boolean };
  assert.deepEqual([moving, isMoved], [false, true]);
  showContainer({ move }, { note: 'the move to w2 was cancelled: its serving lease is over' });
  const stayed = await run(...moveArgs);
  assert.equal(stayed.exitCode, 1);
  assert.match(stayed.out, /no: the move to w2 was cancelled: its serving lease is over/);
  showContainer({ move });
  assert.equal((await run(...moveArgs, '--timeout', '100ms')).exitCode, 4);
  assert.equal((await run(...moveArgs, '--detach')).exitCode, 0);
  assert.equal((await run('container', 'migrate', 'visits', '--to', 'w2')).exitCode, 2);
  assert.equal((await run('container', 'migrate', 'visits/0')).exitCode, 2);
});

test('container show and container explain describe one container', async () => {
  replies.set('GET /v1/containers/visits/0', [{ pool: 'visits', ...container(0, { move }) }]);
  replies.set('GET /v1/containers/visits/0/explain', [
    { pool: 'visits', id: 0, owner: 'w1', reasons: ['w1 owns it.', 'w2 could take over.'], recoverableBy: ['w2'] },
  ]);
  replies.set('GET /v1/containers/visits/9', [new RemusterError('UNKNOWN_CONTAINER')]);
  assert.match((await run('container', 'show', 'visits/0')).out, /NOTE +to w2 \(admin, copying its state\)/);
  assert.equal((await run('container', 'explain', 'visits/0')).out, 'w1 owns it.\nw2 could take over.\n');
  const json = JSON.parse((await run('container', 'explain', 'visits/0', '-o', 'json')).out) as object;
  assert.ok('reasons' in json && 'schemaVersion' in json);
  assert.equal((await run('container', 'show', 'visits/9')).exitCode, 1);
});
