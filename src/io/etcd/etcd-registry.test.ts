/** Faults of single exchanges of the etcd registry, injected by a proxy in front of a real etcd. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, after, before, describe, it } from 'node:test';

import { type EtcdServer, startEtcd } from '../../../test/support/etcd/etcd-server.ts';
import {
  type EtcdFaultProxy,
  type ExchangeFate,
  startEtcdFaultProxy,
} from '../../../test/support/etcd/etcd-fault-proxy.ts';
import type { Outcome } from '../../base/errors.ts';
import { type TransactionResult, registryLimits } from '../../base/registry.ts';
import { outcomeOf, realWorld } from '../../../test/simulation/conformance/harness.ts';
import {
  RegistryCaller,
  WatchRecorder,
  allKeys,
  keyIsAbsent,
  putOp,
  readOp,
  deleteOp,
  formatEntries,
  buildTransaction,
} from '../../../test/simulation/conformance/registry-harness.ts';
import { systemClock } from '../system/clock.ts';
import type { EtcdOptions } from './etcd-options.ts';
import { type EtcdRegistry, etcdRegistry } from './etcd-registry.ts';

const clock = systemClock();
const ends: (() => Promise<void>)[] = [];
let server: EtcdServer;
let tests = 0;

before(async () => {
  [server] = (await startEtcd({ after: (end) => ends.push(end) }, { withoutFsync: true })) as [EtcdServer];
});
after(() => Promise.all(ends.map((end) => end())));

type Harness = { registry: EtcdRegistry; here: RegistryCaller; direct: RegistryCaller; proxy: EtcdFaultProxy };

function openRegistry(t: TestContext, options: Partial<EtcdOptions> & Pick<EtcdOptions, 'endpoints'>): EtcdRegistry {
  const registry = etcdRegistry({ namespace: `test${tests}/`, clock, ...options });
  t.after(() => registry.close());
  return registry;
}

/** `here` calls etcd through the proxy, `direct` without it. */
async function harness(t: TestContext, options: Partial<EtcdOptions> = {}): Promise<Harness> {
  tests += 1;
  const proxy = await startEtcdFaultProxy(server.endpoint);
  t.after(() => proxy.close());
  const registry = openRegistry(t, { endpoints: [proxy.endpoint], ...options });
  const direct = new RegistryCaller(realWorld, openRegistry(t, { endpoints: [server.endpoint] }));
  return { registry, here: new RegistryCaller(realWorld, registry), direct, proxy };
}

/** Applies the fate to the first `count` transactions; all other calls pass. */
function firstTransactions(count: number, fate: ExchangeFate): (path: string) => ExchangeFate {
  let left = count;
  return (path) => (path === '/v3/kv/txn' && left-- > 0 ? fate : 'pass');
}

function codeOf(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'ok' : outcome.error.code;
}

function transact(registry: EtcdRegistry, parts: Parameters<typeof buildTransaction>[0], timeoutMs: number) {
  return outcomeOf<TransactionResult>((done) => registry.transact(buildTransaction(parts), { timeoutMs }, done));
}

/** A fake etcd. `reply` gets the path and how often it was requested before; without a reply the connection breaks. */
async function fakeEtcd(t: TestContext, reply: (path: string, before: number) => object | undefined): Promise<string> {
  const requests = new Map<string, number>();
  const fake = createServer((request, response) => {
    const path = request.url ?? '';
    const before = requests.get(path) ?? 0;
    requests.set(path, before + 1);
    const body = reply(path, before);
    request.resume().on('end', () => {
      if (body === undefined) request.socket.destroy();
      else response.end(JSON.stringify(body));
    });
  });
  await new Promise<void>((done) => fake.listen(0, '127.0.0.1', done));
  t.after(() => {
    fake.close();
    fake.closeAllConnections();
  });
  return `http://127.0.0.1:${(fake.address() as AddressInfo).port}`;
}

function effectOf(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'ok' : `${outcome.error.code} ${outcome.error.stateChanged}`;
}

function results({ results }: TransactionResult): string[] {
  return results.map((result) => {
    if (result.kind === 'read') return formatEntries(result.entries);
    return result.kind === 'delete' ? `deleted ${result.deleted}` : 'put';
  });
}

const limit = { timeout: 60_000 };

describe('a transaction whose reply is lost', limit, () => {
  it('is retried and executed once', async (t) => {
    const { here, direct, proxy } = await harness(t);
    await here.write(putOp('k', '0'));
    proxy.fate = firstTransactions(3, 'loseReply');
    const { revision, succeeded } = await here.write(putOp('k', '1'), putOp('other', '1'));
    const entry = await direct.entry('k');
    assert.deepEqual([entry?.version, entry?.modRevision, succeeded], [2, revision, true]);
    assert.equal(proxy.paths.filter((path) => path === '/v3/kv/txn').length, 5);
    assert.equal((await here.write(putOp('k', '2'))).revision, revision + 1);
  });

  it('returns the reply of its execution, although every key has changed since', async (t) => {
    const { here, direct, proxy } = await harness(t);
    await here.write(putOp('a', '1'), putOp('b', '1'), putOp('c', '1'));
    proxy.fate = (path) => {
      if (path !== '/v3/kv/txn') return 'pass';
      proxy.fate = () => 'hang';
      return 'loseReply';
    };
    const first = here.write(
      readOp(allKeys),
      putOp('b', '2'),
      readOp('b'),
      deleteOp({ from: 'c', to: 'x' }),
      readOp('a'),
    );
    // The second attempt is in flight while another client writes.
    while ((await direct.contents()) !== 'a=1 b=2') await new Promise(setImmediate);
    await direct.write(deleteOp({ from: '', to: 'y' }), putOp('z', '9'));
    proxy.fate = () => 'pass';
    assert.deepEqual(results(await first), ['a=1 b=1 c=1', 'put', 'b=2', 'deleted 1', 'a=1']);
    assert.equal(await here.contents(), 'z=9');
  });

  it('returns the branch of its execution, also if its conditions have changed since', async (t) => {
    const { here, proxy } = await harness(t);
    proxy.fate = firstTransactions(1, 'loseReply');
    const create = { compare: [keyIsAbsent('k')], then: [putOp('k', 'mine')], otherwise: [putOp('late', 'yes')] };
    assert.equal((await here.transact(create)).succeeded, true);
    proxy.fate = firstTransactions(1, 'loseReply');
    assert.equal((await here.transact(create)).succeeded, false);
    assert.equal(await here.contents(), 'k=mine late=yes');
    assert.equal((await here.entry('late'))?.version, 1);
  });

  it('reports that it has happened, but no results, when the history is compacted', async (t) => {
    const { here, registry, direct, proxy } = await harness(t);
    await here.write(putOp('a', '1'));
    proxy.fate = (path) => {
      if (path !== '/v3/kv/txn') return 'pass';
      proxy.fate = () => 'hang';
      return 'loseReply';
    };
    const lost = transact(registry, { then: [readOp('a'), putOp('a', '2')] }, 20_000);
    while ((await direct.contents()) !== 'a=2') await new Promise(setImmediate);
    await direct.write(putOp('a', '3'));
    await server.compact();
    proxy.fate = () => 'pass';
    const outcome = await lost;
    assert.equal(codeOf(outcome), 'DEADLINE');
    assert.match(outcome.ok ? '' : outcome.error.message, /has happened/);
  });
});

describe('an attempt that etcd executes late', limit, () => {
  it('has no effect after a later attempt got its reply', async (t) => {
    const { here, proxy } = await harness(t);
    await here.write(putOp('k', '0'));
    proxy.fate = firstTransactions(1, 'late');
    await here.write(putOp('k', '1'));
    await here.write(putOp('k', '2'));
    await proxy.releaseLate();
    assert.deepEqual([await here.contents(), (await here.entry('k'))?.version], ['k=2', 3]);
  });

  it('has no effect after a later attempt that only read', async (t) => {
    const { here, direct, proxy } = await harness(t);
    await direct.write(putOp('k', 'theirs'));
    proxy.fate = firstTransactions(1, 'late');
    const create = { compare: [keyIsAbsent('k')], then: [putOp('k', 'mine')], otherwise: [readOp('k')] };
    assert.deepEqual(results(await here.transact(create)), ['k=theirs']);
    await direct.write(deleteOp('k'));
    await proxy.releaseLate();
    assert.equal(await direct.contents(), '');
    assert.equal((await here.transact(create)).succeeded, true);
  });

  it('is not mistaken for the next transaction in its slot', async (t) => {
    const { here, registry, proxy } = await harness(t);
    await here.write(putOp('k', '0'));
    proxy.fate = (path) => (path === '/v3/kv/txn' ? 'late' : 'pass');
    assert.equal(codeOf(await transact(registry, { then: [putOp('k', 'timed out')] }, 200)), 'DEADLINE');
    await proxy.releaseLate();
    assert.equal(await here.contents(), 'k=timed out');
    proxy.fate = () => 'pass';
    await here.write(putOp('next', '1'));
    assert.equal(await here.contents(), 'k=timed out next=1');
  });
});

describe('the etcd registry', limit, () => {
  it('reports that nothing changed only when that is certain', async (t) => {
    const { registry, here, proxy } = await harness(t);
    await here.write(putOp('k', '0'));
    const put = async (): Promise<string> => codeOf(await transact(registry, { then: [putOp('k', '1')] }, 300));
    proxy.fate = () => 'hang';
    assert.equal(await put(), 'DEADLINE');
    proxy.fate = () => 'refuse';
    assert.equal(await put(), 'DEADLINE');
    await proxy.close();
    assert.equal(await put(), 'UNREACHABLE');
  });

  it('promises that nothing changed when it refuses a call before anything was sent', async (t) => {
    const { registry, proxy } = await harness(t);
    const large = putOp('k', 'x'.repeat(registryLimits.valueBytesMax + 1));
    assert.equal(effectOf(await transact(registry, { then: [large] }, 300)), 'TOO_LARGE no');
    const many = Array.from({ length: registryLimits.transactionOpsMax + 1 }, () => putOp('k', ''));
    assert.equal(effectOf(await transact(registry, { then: many }, 300)), 'TOO_LARGE no');
    registry.close();
    assert.equal(effectOf(await transact(registry, { then: [putOp('k', '')] }, 300)), 'CANCELLED no');
    assert.deepEqual(proxy.paths, []);
  });

  it('promises that nothing changed when etcd refuses the lease of the first attempt', async (t) => {
    const refusal = { code: 9, message: 'etcdserver: too many leases' };
    const endpoint = await fakeEtcd(t, (path) => ({ error: `${refusal.message} at ${path}`, ...refusal }));
    const registry = openRegistry(t, { endpoints: [endpoint] });
    assert.equal(effectOf(await transact(registry, { then: [putOp('k', '')] }, 2_000)), 'PRECONDITION no');
  });

  it('promises nothing when etcd refuses a retry of a transaction that may have happened', async (t) => {
    const endpoint = await fakeEtcd(t, (path, before) => {
      if (path === '/v3/lease/grant') return { ID: '1', TTL: '3600' };
      return before === 0 ? undefined : { error: 'malformed', code: 3, message: 'etcdserver: malformed' };
    });
    const registry = openRegistry(t, { endpoints: [endpoint] });
    assert.equal(effectOf(await transact(registry, { then: [putOp('k', '')] }, 2_000)), 'BAD_ARGUMENT maybe');
  });

  it('bounds the calls in flight, and cancels them on close', async (t) => {
    const { registry, proxy } = await harness(t, { limits: { callsMax: 5, connectionsMax: 2 } });
    proxy.fate = () => 'hang';
    const range = () => outcomeOf((done) => registry.range(allKeys, {}, done));
    const calls = [...Array.from({ length: 5 }, range), range()];
    assert.equal(codeOf(await calls[5]!), 'CAPACITY');
    registry.close();
    assert.deepEqual(new Set((await Promise.all(calls.slice(0, 5))).map(codeOf)), new Set(['CANCELLED']));
    assert.equal(codeOf(await range()), 'CANCELLED');
  });

  it('reports an endpoint that is not etcd, and halves a range whose reply is too large', async (t) => {
    const notEtcd = createServer((_, response) => response.end('<html>'));
    await new Promise<void>((done) => notEtcd.listen(0, '127.0.0.1', done));
    t.after(() => notEtcd.close());
    const endpoint = `http://127.0.0.1:${(notEtcd.address() as AddressInfo).port}`;
    const registry = openRegistry(t, { endpoints: [endpoint] });
    assert.equal(codeOf(await outcomeOf((done) => registry.range(allKeys, { timeoutMs: 200 }, done))), 'MALFORMED');
    notEtcd.closeAllConnections();

    const { here } = await harness(t, { limits: { replyBytesMax: 20_000 } });
    for (let i = 0; i < 5; i++) await here.write(putOp(`k${i}`, 'x'.repeat(5_000)));
    const { entries, more } = await here.range();
    assert.ok(entries.length >= 1 && more, `${entries.length} ${more}`);
    assert.throws(() => openRegistry(t, { endpoints: ['127.0.0.1:2379'] }), { code: 'BAD_ARGUMENT' });
    assert.throws(() => openRegistry(t, { endpoints: [] }), { code: 'BAD_ARGUMENT' });
  });
});

describe('a watch whose stream breaks', limit, () => {
  it('resumes without a gap or a duplicate', async (t) => {
    const { here, direct, registry, proxy } = await harness(t);
    const { revision } = await here.write(putOp('n', '0'));
    const world = { ...realWorld, registry, other: registry, clock };
    const watched = new WatchRecorder(world, allKeys, revision + 1);
    t.after(() => watched.end());
    for (let i = 1; i <= 60; i++) {
      await direct.write(putOp('n', String(i)));
      if (i % 10 !== 0) continue;
      await watched.until(({ seen }) => seen.length >= i - 3);
      proxy.cutStreams();
    }
    await watched.until(({ seen }) => seen.length >= 60);
    assert.deepEqual(
      watched.seen,
      Array.from({ length: 60 }, (_, i) => `+n=${i + 1}`),
    );
  });

  it('leaves an endpoint that does not reply', async (t) => {
    const { direct, proxy } = await harness(t);
    const endpoints = [proxy.endpoint, server.endpoint];
    const registry = openRegistry(t, { endpoints, limits: { watchCheckMs: 50, attemptMs: 200 } });
    const { revision } = await direct.write(putOp('start'));
    const watched = new WatchRecorder({ ...realWorld, registry, other: registry, clock }, allKeys, revision);
    t.after(() => watched.end());
    await watched.until(({ seen }) => seen.length === 1);
    assert.ok(proxy.paths.includes('/v3/watch'));
    proxy.fate = () => 'hang';
    proxy.cutStreams();
    await direct.write(putOp('a'));
    await watched.until(({ seen }) => seen.length === 2);
    assert.deepEqual(watched.seen, ['+start=', '+a=']);
  });

  it('reports that it fell behind a compaction, also exactly at the compacted revision', async (t) => {
    const { direct, registry, proxy } = await harness(t);
    const { revision } = await direct.write(putOp('a'), putOp('b'));
    const watched = new WatchRecorder({ ...realWorld, registry, other: registry, clock }, allKeys, revision);
    await watched.until(({ seen }) => seen.length === 1);
    proxy.fate = () => 'refuse';
    proxy.cutStreams();
    await direct.write(deleteOp('a'));
    await server.compact();
    proxy.fate = () => 'pass';
    await watched.until(({ compactions }) => compactions.length === 1);
    assert.deepEqual([watched.seen.length, watched.compactions], [1, [revision + 2]]);
  });
});

describe('the etcd registry with credentials', limit, () => {
  it('authenticates with user and password, and again when the token expired', async (t) => {
    const [own] = (await startEtcd(t, { withoutFsync: true })) as [EtcdServer];
    await own.post('/v3/auth/user/add', { name: 'root', password: 'correct' });
    await own.post('/v3/auth/role/add', { name: 'root' });
    await own.post('/v3/auth/user/grant', { user: 'root', role: 'root' });
    await own.post('/v3/auth/enable', {});
    const endpoints = [own.endpoint];
    const registry = openRegistry(t, { endpoints, user: { name: 'root', password: 'correct' } });
    const here = new RegistryCaller(realWorld, registry);
    const { revision } = await here.write(putOp('k', 'v'));
    const watched = new WatchRecorder({ ...realWorld, registry, other: registry, clock }, allKeys, revision);
    t.after(() => watched.end());
    await watched.until(({ seen }) => seen.length === 1);
    // etcd loses its tokens when it restarts.
    await own.kill('SIGTERM');
    await own.start();
    const other = openRegistry(t, { endpoints, user: { name: 'root', password: 'correct' } });
    await new RegistryCaller(realWorld, other).write(putOp('k', 'w'));
    await watched.until(({ seen }) => seen.length === 2);
    assert.equal(await here.contents(), 'k=w');
    const wrong = openRegistry(t, { endpoints, user: { name: 'root', password: 'wrong' } });
    const anonymous = openRegistry(t, { endpoints });
    for (const registry of [wrong, anonymous])
      assert.equal(codeOf(await transact(registry, { then: [putOp('k', 'x')] }, 500)), 'UNAUTHENTICATED');
  });

  it('connects over TLS if it trusts etcd and has a client certificate', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'remuster-etcd-tls-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=etcd'];
    const names = ['-addext', 'subjectAltName=IP:127.0.0.1'];
    execFileSync('openssl', ['req', '-x509', ...curve, ...names, '-keyout', key, '-out', cert], { stdio: 'pipe' });
    const args = ['--cert-file', cert, '--key-file', key, '--client-cert-auth', '--trusted-ca-file', cert];
    const [own] = (await startEtcd(t, { withoutFsync: true, scheme: 'https', args })) as [EtcdServer];
    const [certPem, keyPem] = [readFileSync(cert, 'utf8'), readFileSync(key, 'utf8')];
    const registry = openRegistry(t, { endpoints: [own.endpoint], tls: { caPem: certPem, certPem, keyPem } });
    const here = new RegistryCaller(realWorld, registry);
    const { revision } = await here.write(putOp('k', 'v'));
    const watched = new WatchRecorder({ ...realWorld, registry, other: registry, clock }, allKeys, revision);
    await watched.until(({ seen }) => seen.length === 1);
    watched.end();
    for (const tls of [{ caPem: certPem }, { certPem, keyPem }]) {
      const untrusted = openRegistry(t, { endpoints: [own.endpoint], tls });
      assert.notEqual(codeOf(await transact(untrusted, { then: [putOp('k', 'x')] }, 400)), 'ok');
    }
    assert.equal(await here.contents(), 'k=v');
  });
});
