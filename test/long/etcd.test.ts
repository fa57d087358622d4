/** The registry, and leadership on top of it, on real etcd servers that are killed, stopped and cut off. */
import assert from 'node:assert/strict';
import { type TestContext, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import type { Outcome } from '../../src/base/errors.ts';
import type { Fence } from '../../src/base/fence.ts';
import { nodeIdFrom } from '../../src/base/ids.ts';
import type { RangeResult, TransactionResult } from '../../src/base/registry.ts';
import { systemClock } from '../../src/io/system/clock.ts';
import { type EtcdRegistry, etcdRegistry } from '../../src/io/etcd/etcd-registry.ts';
import { createLeaseLeadership } from '../../src/registry/lease-leadership.ts';
import { outcomeOf, realWorld } from '../simulation/conformance/harness.ts';
import { WatchRecorder, allKeys, putOp, buildTransaction } from '../simulation/conformance/registry-harness.ts';
import { type EtcdServer, startEtcd } from '../support/etcd/etcd-server.ts';
import { startEtcdFaultProxy } from '../support/etcd/etcd-fault-proxy.ts';

const clock = systemClock();
const limit = { timeout: 60_000 };

function opened(t: TestContext, endpoints: readonly string[]): EtcdRegistry {
  const registry = etcdRegistry({ endpoints, namespace: 'cluster/', clock });
  t.after(() => registry.close());
  return registry;
}

function watched(t: TestContext, registry: EtcdRegistry, fromRevision: number): WatchRecorder {
  const watch = new WatchRecorder({ ...realWorld, registry, other: registry, clock }, allKeys, fromRevision);
  t.after(() => watch.end());
  return watch;
}

function write(registry: EtcdRegistry, key: string, value: string, timeoutMs = 20_000) {
  const then = [putOp(key, value)];
  return outcomeOf<TransactionResult>((done) => registry.transact(buildTransaction({ then }), { timeoutMs }, done));
}

function range(registry: EtcdRegistry, options: { stale?: boolean; timeoutMs: number }) {
  return outcomeOf<RangeResult>((done) => registry.range(allKeys, options, done));
}

function codeOf(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'ok' : `${outcome.error.code}: ${outcome.error.message}`;
}

/** Clients that write numbers to keys of their own, one after the other, until `stop`. */
class Writers {
  readonly written: number[] = [];
  readonly #running: Promise<void>[];
  #wakeUp: () => void = () => undefined;
  #isStopped = false;

  constructor(registry: EtcdRegistry, count: number) {
    this.#running = Array.from({ length: count }, (_, i) => this.#write(registry, i));
  }

  get total(): number {
    return this.written.reduce((sum, one) => sum + one, 0);
  }

  /** Waits until this many more writes are acknowledged. */
  async awaitWrites(count: number): Promise<void> {
    const goal = this.total + count;
    while (this.total < goal) await new Promise<void>((done) => (this.#wakeUp = done));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#running);
  }

  async #write(registry: EtcdRegistry, index: number): Promise<void> {
    for (let n = 1; !this.#isStopped; n++) {
      const outcome = await write(registry, `w${index}`, String(n));
      assert.equal(codeOf(outcome), 'ok');
      this.written[index] = n;
      this.#wakeUp();
    }
  }
}

/** Every acknowledged write is present once, and the watch has delivered each write once and in order. */
async function assertExact(registry: EtcdRegistry, { written }: Writers, watch: WatchRecorder): Promise<void> {
  const outcome = await range(registry, { timeoutMs: 20_000 });
  assert.ok(outcome.ok);
  const { entries, revision } = outcome.value;
  assert.deepEqual(
    entries.map(({ key, version }) => `${key} ${version}`),
    written.map((n, i) => `w${i} ${n}`),
  );
  await watch.until(({ revisions }) => revisions.at(-1) === revision);
  for (const [index, count] of written.entries()) {
    const seen = watch.seen.filter((text) => text.startsWith(`+w${index}=`));
    assert.deepEqual(
      seen,
      Array.from({ length: count }, (_, n) => `+w${index}=${n + 1}`),
    );
  }
}

async function leaderOf(servers: readonly EtcdServer[]): Promise<EtcdServer> {
  const replies = await Promise.all(servers.map((server) => server.isLeader()));
  const leader = servers[replies.indexOf(true)];
  assert.ok(leader !== undefined, 'no server is the leader');
  return leader;
}

describe('writes and a watch on etcd', limit, () => {
  it('survive kill -9 and restart without a lost, repeated or missed write', async (t) => {
    const [server] = (await startEtcd(t)) as [EtcdServer];
    const registry = opened(t, [server.endpoint]);
    const watch = watched(t, registry, 1);
    const writers = new Writers(registry, 8);
    for (let kills = 0; kills < 3; kills++) {
      await writers.awaitWrites(50);
      await server.kill('SIGKILL');
      await server.start();
    }
    await writers.awaitWrites(50);
    await writers.stop();
    await assertExact(registry, writers, watch);
  });

  it('survive the loss of the leader of three; without a majority no write succeeds', async (t) => {
    const servers = await startEtcd(t, { members: 3 });
    const leader = await leaderOf(servers);
    const others = servers.filter((server) => server !== leader);
    const registry = opened(
      t,
      [leader, ...others].map(({ endpoint }) => endpoint),
    );
    const watch = watched(t, registry, 1);
    const writers = new Writers(registry, 8);
    await writers.awaitWrites(50);
    await leader.kill('SIGKILL');
    await writers.awaitWrites(50);
    await leader.start();
    // A stopped process keeps its connections and does not reply.
    const next = await leaderOf(others);
    await next.stop();
    await writers.awaitWrites(50);
    next.resume();
    await writers.stop();
    await assertExact(registry, writers, watch);

    const [last, ...gone] = servers as [EtcdServer, ...EtcdServer[]];
    await Promise.all(gone.map((server) => server.kill('SIGKILL')));
    // Until the last server has detected the loss of its quorum.
    for (let code = ''; !code.startsWith('NO_QUORUM'); code = codeOf(await write(registry, 'x', '1', 1_000)))
      assert.match(code, /^($|DEADLINE)/);
    assert.match(codeOf(await range(registry, { timeoutMs: 1_000 })), /^NO_QUORUM/);
    assert.equal(codeOf(await range(opened(t, [last.endpoint]), { timeoutMs: 5_000, stale: true })), 'ok');
    await Promise.all(gone.map((server) => server.start()));
    assert.equal(codeOf(await write(registry, 'y', '1')), 'ok');
  });
});

describe('leadership on etcd', limit, () => {
  it('passes to another node when the leader is cut off: it stops before the next one starts with a higher fence', async (t) => {
    const [server] = (await startEtcd(t, { withoutFsync: true })) as [EtcdServer];
    const log: string[] = [];
    const fences: Fence[] = [];
    let onChange: () => void = () => undefined;
    const join = async (name: string) => {
      const proxy = await startEtcdFaultProxy(server.endpoint);
      t.after(() => proxy.close());
      const registry = opened(t, [proxy.endpoint]);
      const identity = nodeIdFrom(new Uint8Array(16).fill(name.charCodeAt(0)));
      const leadership = createLeaseLeadership({ registry, clock, key: '/leader', identity, ttlMs: 2_000 });
      t.after(() => new Promise<void>((done) => leadership.stop(() => done())));
      leadership.watch({
        elected: (fence) => {
          fences.push(fence);
          log.push(`${name} elected`);
          onChange();
        },
        lost: (reason) => {
          assert.equal(leadership.isLeading(), false);
          log.push(`${name} lost: ${reason}`);
          onChange();
        },
        changed: () => onChange(),
      });
      return { proxy, leadership, registry, identity };
    };
    const until = async (check: () => boolean): Promise<void> => {
      while (!check()) await new Promise<void>((done) => (onChange = done));
    };
    const a = await join('a');
    await until(() => log.length === 1);
    const b = await join('b');
    await until(() => b.leadership.view().leader === a.identity);
    assert.deepEqual(b.leadership.view(), a.leadership.view());
    // Longer than the lease, so it was renewed.
    await pause(2_500);
    assert.deepEqual(log, ['a elected']);
    a.proxy.fate = () => 'hang';
    a.proxy.cutStreams();
    await until(() => log.length === 3);
    assert.deepEqual(log, ['a elected', 'a lost: the lease was not renewed in time', 'b elected']);

    a.proxy.fate = () => 'pass';
    await until(() => a.leadership.view().leader === b.identity);
    await new Promise<void>((done) => b.leadership.resign(() => done()));
    await until(() => log.length === 5);
    assert.deepEqual(log.slice(3), ['b lost: resigned', 'a elected']);

    // A revoked lease: the watch reports the loss at once.
    const entry = await range(a.registry, { timeoutMs: 5_000 });
    assert.ok(entry.ok);
    const { lease } = entry.value.entries[0]!;
    assert.equal(codeOf(await outcomeOf((done) => b.registry.revoke(lease!, {}, done))), 'ok');
    await until(() => log.length >= 7);
    assert.deepEqual([log[5], log[6]?.slice(2)], ['a lost: the key was taken away', 'elected']);
    for (let i = 1; i < fences.length; i++) assert.ok(fences[i]! > fences[i - 1]!);
  });
});
