/** Four nodes with a pool: calls, moves, and the loss of nodes during calls (CH-1 to CH-4, CH-15, CH-19). */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { ClusterSession } from '../../src/client/index.ts';
import type { PoolHandle } from '../../src/containers/module.ts';
import type { Agent } from '../support/processes/process-lab.ts';
import { counter, type Place } from '../support/processes/counter-module.ts';
import { httpCall, get, until } from '../support/processes/manager-requests.ts';
import { withDeadline, PoolCluster } from '../support/processes/pool-cluster.ts';

type Pool = PoolHandle<(typeof counter)['methods']>;
type PoolContext = { readonly cluster: PoolCluster; readonly session: ClusterSession; readonly pool: Pool };

const both = 'manager,worker';
const all = [0, 1, 2, 3];
const holdMs = 100;
const roundsOfPools = 12;
/** Longer than any call here: a killed node is known to be dead, so no takeover waits for the end of its lease. */
const args = ['--serving-lease', '120s', '--call-retry', '160s'];

/** Every container replies once, in the order of their numbers. */
async function holdEverywhere(pool: Pool, ms = holdMs): Promise<readonly Place[]> {
  const places = await withDeadline('a broadcast', pool.broadcast().hold(ms));
  assert.deepEqual(
    places.map(({ container }) => container),
    all,
  );
  return places;
}

async function heldEverywhere(pool: Pool): Promise<readonly number[]> {
  return await withDeadline('a broadcast', pool.broadcast().held());
}

test('in a cluster of four nodes and four containers', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both, b: both, c: both, d: 'worker' }, args);
  const session = await cluster.session();
  const pool = await cluster.pool(counter, 'counters', { containers: 4, copies: 2 }, session);
  const shared = { cluster, session, pool };
  await context.test(
    'a call reaches one container by its hash, or all of them (CH-1)',
    async () => await calls(shared),
  );
  await context.test('a pool that is deleted and recreated is empty', async () => await recreates(shared));
  await context.test('a container that has moved is found by its callers (CH-3)', async () => await moves(shared));
  await context.test(
    'a container moves while all containers are busy (CH-4)',
    async () => await movesInBroadcast(shared),
  );
  await context.test(
    'a container is recovered elsewhere when its node is killed (CH-2)',
    async () => await recovers(shared),
  );
  await context.test(
    'a node restarts while all containers are busy (CH-15)',
    async (inner) => await restarts(inner, shared),
  );
  await context.test('no other node exits when the leader is killed (CH-19)', async () => await leaderless(shared));
  await context.test(
    'a container is recovered once when the leader is killed meanwhile',
    async () => await leaderDies(shared),
  );
  await cluster.end();
});

async function calls({ cluster, pool }: PoolContext): Promise<void> {
  assert.equal((await withDeadline('a call', pool.hash(3).hold(holdMs))).container, 3);
  const places = await holdEverywhere(pool);
  const owners = (await cluster.containers('counters')).map(({ owner }) => owner);
  assert.deepEqual(
    places.map(({ node }) => node),
    owners,
  );
  assert.equal(new Set(owners).size, 4, `one on each node: ${owners.join()}`);
  assert.deepEqual(await heldEverywhere(pool), [1, 1, 1, 2]);
  cluster.assertNoUnexpectedExit();
}

/** Through one node, waiting for its replies only: a pool is callable as soon as create returns. */
async function recreates({ cluster }: PoolContext): Promise<void> {
  const [node] = cluster.up as [Agent, ...Agent[]];
  const spec = { name: 'again', module: counter.name, containers: 3, copies: 2 };
  for (let round = 0; round < roundsOfPools; round++) {
    const created = await httpCall(node, 'POST', '/v1/pools', spec);
    assert.equal(created.body['created'], true, JSON.stringify(created));
    for (const id of [0, 1, 2]) {
      const call = { pool: 'again', method: 'add', args: [1], route: { id } };
      assert.equal(
        (await httpCall(node, 'POST', '/v1/call', call)).body['result'],
        1,
        `round ${round}, container ${id}`,
      );
    }
    assert.equal((await httpCall(node, 'DELETE', '/v1/pools/again')).code, 'OK');
    await until('the pool is gone', async () => {
      const { items } = (await get(node, '/v1/pools')) as { items: readonly { name: string }[] };
      return items.some(({ name }) => name === 'again') ? undefined : true;
    });
  }
  cluster.assertNoUnexpectedExit();
}

async function moves({ cluster, pool }: PoolContext): Promise<void> {
  assert.equal(await withDeadline('a call', pool.hash(0).add(5)), 5);
  const before = await cluster.containers('counters');
  const from = await cluster.owner('counters', 0);
  const [to] = cluster.others(from);
  await cluster.migrate('counters', 0, to);
  assert.equal(await withDeadline('a call', pool.hash(0).add(1)), 6);
  assert.deepEqual(await withDeadline('a call', pool.hash(0).where()), { container: 0, node: to.name });
  const after = await cluster.containers('counters');
  const moved = after.filter(({ owner }, id) => owner !== before[id]!.owner).map(({ id }) => id);
  assert.deepEqual(moved, [0]);
  cluster.assertNoUnexpectedExit();
}

async function movesInBroadcast({ cluster, pool }: PoolContext): Promise<void> {
  const [from, ...others] = (await cluster.awaitHealthy('counters')).map(({ owner }) => owner);
  const before = await heldEverywhere(pool);
  // To a node that has a container already.
  const to = cluster.get(others.find((owner) => owner !== from)!);
  const first = holdEverywhere(pool, 5 * holdMs);
  await allHold(pool);
  await cluster.migrate('counters', 0, to);
  await first;
  const places = await holdEverywhere(pool);
  assert.equal(places.filter(({ node }) => node === to.name).length, 2, JSON.stringify(places));
  assert.deepEqual(
    await heldEverywhere(pool),
    before.map((held) => held + 2),
  );
  cluster.assertNoUnexpectedExit();
}

async function recovers({ cluster, session, pool }: PoolContext): Promise<void> {
  await cluster.awaitHealthy('counters');
  const before = await withDeadline('a call', pool.hash(3).add(7));
  const killed = await cluster.owner('counters', 3);
  await cluster.kill(killed);
  assert.equal(await withDeadline('a call', pool.hash(3).add(1)), before + 1);
  const places = await holdEverywhere(pool);
  assert.ok(
    places.every(({ node }) => node !== killed.name),
    JSON.stringify(places),
  );
  const lives = await withDeadline('a call', pool.hash(3).lives());
  assert.deepEqual(lives.slice(-1), [`recover ${places[3]!.node}`]);
  assert.equal(lives.filter((life) => life.startsWith('recover')).length, 1, lives.join());
  // A pool that is created while a node is down has all of its containers, and replies.
  const later = await cluster.pool(counter, 'later', { containers: 4, copies: 2 }, session);
  assert.equal(await withDeadline('a call', later.dynamic().add(1)), 1);
  await holdEverywhere(later);
  await cluster.restart(killed.name);
  await cluster.awaitReady();
  cluster.assertNoUnexpectedExit();
}

/** A broadcast through a node that stays up, while an owner restarts. */
async function restarts(context: TestContext, { cluster, pool }: PoolContext): Promise<void> {
  await cluster.awaitHealthy('counters');
  const before = await heldEverywhere(pool);
  const restarted = await cluster.owner('counters', 2);
  const [origin] = cluster.others(restarted);
  const through = await cluster.session({ addr: `127.0.0.1:${origin.port}` });
  const broadcast = holdEverywhere(through.pool(counter, 'counters'), 10 * holdMs);
  await allHold(pool);
  await cluster.kill(restarted);
  const back = await cluster.restart(restarted.name);
  const places = await broadcast;
  context.diagnostic(`container 2 was on ${restarted.name} and replied on ${places[2]!.node}`);
  assert.deepEqual(
    await heldEverywhere(pool),
    before.map((held) => held + 1),
  );
  await cluster.awaitReady();
  assert.ok(back.isUp);
  cluster.assertNoUnexpectedExit();
}

async function leaderless({ cluster, pool }: PoolContext): Promise<void> {
  await cluster.awaitHealthy('counters');
  const { agent: killed, term } = await cluster.leader();
  const owned = (await cluster.containers('counters')).filter(({ owner }) => owner === killed.name);
  const before = await withDeadline('all counts', pool.broadcast().count());
  await cluster.kill(killed);
  const { agent: next } = await cluster.leader(term);
  assert.notEqual(next.name, killed.name);
  for (const id of all) await withDeadline('a call', pool.id(id).add(1));
  assert.equal(await withDeadline('all counts', pool.broadcast().count()), before + 4);
  for (const { id } of owned) assert.notEqual((await cluster.owner('counters', id)).name, killed.name);
  cluster.assertNoUnexpectedExit();
  await cluster.restart(killed.name);
  await cluster.awaitReady();
  await cluster.awaitHealthy('counters');
}

/** The next leader continues the recovery wherever the killed one stopped; the container is opened once. */
async function leaderDies({ cluster, pool }: PoolContext): Promise<void> {
  const { agent: leader, term } = await cluster.leader();
  const owner = cluster.get('d');
  const id = await ownedWithoutReplicaOn(cluster, owner, leader);
  const before = await withDeadline('a call', pool.id(id).add(1));
  const lives = await withDeadline('its lives', pool.id(id).lives());
  await cluster.kill(owner, leader);
  assert.equal(await withDeadline('a call', pool.id(id).add(1)), before + 1);
  assert.equal((await cluster.leader(term)).agent.isUp, true);
  const now = await withDeadline('its lives', pool.id(id).lives());
  assert.deepEqual(now, [...lives, `recover ${(await cluster.owner('counters', id)).name}`]);
  cluster.assertNoUnexpectedExit();
  await Promise.all([owner, leader].map(async ({ name }) => await cluster.restart(name)));
  await cluster.awaitReady();
  await cluster.awaitHealthy('counters');
}

/** A container that `owner` owns and of which `not` has no replica. */
async function ownedWithoutReplicaOn(cluster: PoolCluster, owner: Agent, not: Agent): Promise<number> {
  for (const id of all) {
    const { owner: name, copies } = (await cluster.awaitHealthy('counters'))[id]!;
    const hasNoReplica = copies.every((copy) => copy !== not.name);
    if (name === owner.name && hasNoReplica) return id;
    if (name === owner.name || !hasNoReplica) continue;
    await cluster.migrate('counters', id, owner);
    const moved = (await cluster.awaitHealthy('counters'))[id]!;
    if (moved.copies.every((copy) => copy !== not.name)) return id;
  }
  return assert.fail('each container has a replica on the leader');
}

async function allHold(pool: Pool): Promise<void> {
  await until('all containers hold their turn', async () => {
    const holding = await withDeadline('a broadcast', pool.broadcast().isHolding());
    return holding.every(Boolean) ? true : undefined;
  });
}
