/** Clients of the library whose node goes away, and nodes whose clients go away (CH-5, 6, 11, 12). */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ClusterSession } from '../../src/client/index.ts';
import type { PoolHandle } from '../../src/containers/module.ts';
import { type Agent, ChildProgram } from '../support/processes/process-lab.ts';
import { counter } from '../support/processes/counter-module.ts';
import { get, until } from '../support/processes/manager-requests.ts';
import { ended, PoolCluster } from '../support/processes/pool-cluster.ts';

type Pool = PoolHandle<(typeof counter)['methods']>;
type Stage = { readonly cluster: PoolCluster; readonly pool: Pool };

const both = 'manager,worker';
const caller = fileURLToPath(import.meta.resolve('../support/processes/caller-main.ts'));

/** Knows one node only, and learns the others from it. */
async function clientOf(cluster: PoolCluster, agent: Agent): Promise<ClusterSession> {
  return await cluster.session({ addr: `127.0.0.1:${agent.port}`, retryTimeoutMs: 30_000, tryNewServers: 16 });
}

test('clients of a cluster of four', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both, b: both, c: both, d: both });
  const pool = await cluster.pool(counter, 'counters', { containers: 4, copies: 2 }, await cluster.session());
  const stage = { cluster, pool };
  for (const way of ['exit', 'kill'] as const) {
    await context.test(`a client that ends by ${way} without waiting (CH-12)`, async (inner) => {
      await clientDies(inner, stage, way);
    });
  }
  await context.test('the node of a client is shut down (CH-5)', async () => await nodeStops(stage));
  await context.test('the node of a client leads, and is killed (CH-6)', async () => await leaderDies(stage));
  await cluster.end();
});

async function clientDies(context: TestContext, { cluster, pool }: Stage, way: 'exit' | 'kill'): Promise<void> {
  const [node] = cluster.up as [Agent, ...Agent[]];
  const before = await ended('a call', pool.id(0).count());
  const program = new ChildProgram([caller, `127.0.0.1:${node.port}`, 'counters', way], {
    cwd: cluster.lab.folder,
    env: cluster.lab.env,
  });
  context.after(() => program.kill('SIGKILL'));
  await program.waitForOutput('stdout', /^submitted$/m);
  const end = await program.waitForExit();
  assert.deepEqual(end, way === 'kill' ? { code: null, signal: 'SIGKILL' } : { code: 0, signal: null }, program.stderr);
  const after = await ended('a call', pool.id(0).add(1));
  // The call of the dead client may have run or not, but not twice; and nothing waits for it any more.
  assert.ok([before + 1, before + 2].includes(after), `${after} after ${before}`);
  await ended('a broadcast', pool.broadcast().hold(1));
  for (const agent of cluster.up) {
    await until(`nothing is under way on ${agent.name}`, async () => {
      const { calls, callsHere } = (await get(agent, '/v1/node'))['queues'] as Record<string, number>;
      return calls === 0 && callsHere === 0 ? true : undefined;
    });
  }
  cluster.nobodyFell();
}

async function nodeStops({ cluster, pool }: Stage): Promise<void> {
  await cluster.whole('counters');
  const { agent: leader } = await cluster.leader();
  const [node] = cluster.others(leader);
  const session = await clientOf(cluster, node);
  const calls = session.pool(counter, 'counters');
  const before = await ended('a call', calls.hash(1).add(1));
  // One is under way while the node goes.
  const during = calls.hash(2).hold(500);
  const stopped = cluster.stop(node);
  assert.equal((await ended('a call that was under way', during)).container, 2);
  await stopped;
  assert.equal(await ended('a call afterwards', calls.hash(1).add(1)), before + 1);
  const places = await ended('a broadcast afterwards', calls.broadcast().hold(10));
  assert.ok(places.length === 4 && places.every((place) => place.node !== node.name), JSON.stringify(places));
  assert.equal(await ended('a call of another', pool.hash(1).add(1)), before + 2);
  cluster.nobodyFell();
  await cluster.restart(node.name);
  await cluster.settled();
}

async function leaderDies({ cluster }: Stage): Promise<void> {
  await cluster.whole('counters');
  const { agent: leader, term } = await cluster.leader();
  const session = await clientOf(cluster, leader);
  const calls = session.pool(counter, 'counters');
  const before = await ended('a call', calls.hash(1).add(1));
  const during = calls.hash(1).add(1);
  await cluster.kill(leader);
  assert.equal(await ended('a call that was under way', during), before + 1);
  assert.equal(await ended('a call afterwards', calls.hash(1).add(1)), before + 2);
  await cluster.leader(term);
  const back = await cluster.restart(leader.name);
  await cluster.settled();
  // Somebody new comes, knows only the node that is back, makes a pool there and uses it.
  const fresh = await clientOf(cluster, back);
  await cluster.create('fresh', { module: 'counter', containers: 4, copies: 2 }, back);
  const pool = fresh.pool(counter, 'fresh');
  assert.equal(await ended('a call of a new pool', pool.hash(3).add(2)), 2);
  assert.equal((await ended('a broadcast', pool.broadcast().hold(10))).length, 4);
  cluster.nobodyFell();
}

test('the only node is killed and comes back: the client goes on, with everything there (CH-11)', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both });
  const session = await cluster.session();
  const pool = await cluster.pool(counter, 'counters', { containers: 2, copies: 1, restart: true }, session);
  assert.equal(await ended('the first task', pool.hash(1).add(3)), 3);
  await cluster.kill(cluster.get('a'));
  const during = pool.hash(1).add(4);
  await cluster.restart('a');
  assert.equal(await ended('a task of in between', during), 7);
  assert.equal(await ended('the second task', pool.hash(1).add(1)), 8);
  assert.deepEqual((await ended('its lives', pool.hash(1).lives())).slice(-1), ['restart a']);
  await cluster.end();
});
