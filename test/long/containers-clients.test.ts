/** Clients whose node stops or crashes, and nodes whose clients do (CH-5, 6, 11, 12). */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ClusterSession } from '../../src/client/index.ts';
import type { PoolHandle } from '../../src/containers/module.ts';
import { type Agent, ChildProgram } from '../support/processes/process-lab.ts';
import { counter } from '../support/processes/counter-module.ts';
import { get, until } from '../support/processes/manager-requests.ts';
import { withDeadline, PoolCluster } from '../support/processes/pool-cluster.ts';

type Pool = PoolHandle<(typeof counter)['methods']>;
type ClientContext = { readonly cluster: PoolCluster; readonly pool: Pool };

const both = 'manager,worker';
const caller = fileURLToPath(import.meta.resolve('../support/processes/caller-main.ts'));

/** A client that knows one node, and learns the others from it. */
async function clientOf(cluster: PoolCluster, agent: Agent): Promise<ClusterSession> {
  return await cluster.session({ addr: `127.0.0.1:${agent.port}`, retryTimeoutMs: 30_000, tryNewServers: 16 });
}

test('in a cluster of four', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both, b: both, c: both, d: both });
  const pool = await cluster.pool(counter, 'counters', { containers: 4, copies: 2 }, await cluster.session());
  const shared = { cluster, pool };
  for (const way of ['exit', 'kill'] as const) {
    await context.test(
      `no call runs twice or stays open when a client ends by ${way} before the replies (CH-12)`,
      async (inner) => {
        await clientDies(inner, shared, way);
      },
    );
  }
  await context.test('a client continues when its node is shut down (CH-5)', async () => await nodeStops(shared));
  await context.test(
    'a client continues when its node, the leader, is killed (CH-6)',
    async () => await leaderDies(shared),
  );
  await cluster.end();
});

async function clientDies(context: TestContext, { cluster, pool }: ClientContext, way: 'exit' | 'kill'): Promise<void> {
  const [node] = cluster.up as [Agent, ...Agent[]];
  const before = await withDeadline('a call', pool.id(0).count());
  const program = new ChildProgram([caller, `127.0.0.1:${node.port}`, 'counters', way], {
    cwd: cluster.lab.folder,
    env: cluster.lab.env,
  });
  context.after(() => program.kill('SIGKILL'));
  await program.waitForOutput('stdout', /^submitted$/m);
  const end = await program.waitForExit();
  assert.deepEqual(end, way === 'kill' ? { code: null, signal: 'SIGKILL' } : { code: 0, signal: null }, program.stderr);
  const after = await withDeadline('a call', pool.id(0).add(1));
  // The call of the dead client has run at most once, and nothing waits for it any more.
  assert.ok([before + 1, before + 2].includes(after), `${after} after ${before}`);
  await withDeadline('a broadcast', pool.broadcast().hold(1));
  for (const agent of cluster.up) {
    await until(`no call is open on ${agent.name}`, async () => {
      const { calls, callsHere } = (await get(agent, '/v1/node'))['queues'] as Record<string, number>;
      return calls === 0 && callsHere === 0 ? true : undefined;
    });
  }
  cluster.assertNoUnexpectedExit();
}

async function nodeStops({ cluster, pool }: ClientContext): Promise<void> {
  await cluster.awaitHealthy('counters');
  const { agent: leader } = await cluster.leader();
  const [node] = cluster.others(leader);
  const session = await clientOf(cluster, node);
  const calls = session.pool(counter, 'counters');
  const before = await withDeadline('a call', calls.hash(1).add(1));
  // A call is in flight while the node stops.
  const during = calls.hash(2).hold(500);
  const stopped = cluster.stop(node);
  assert.equal((await withDeadline('a call that was in flight', during)).container, 2);
  await stopped;
  assert.equal(await withDeadline('a call afterwards', calls.hash(1).add(1)), before + 1);
  const places = await withDeadline('a broadcast afterwards', calls.broadcast().hold(10));
  assert.ok(places.length === 4 && places.every((place) => place.node !== node.name), JSON.stringify(places));
  assert.equal(await withDeadline('a call of another', pool.hash(1).add(1)), before + 2);
  cluster.assertNoUnexpectedExit();
  await cluster.restart(node.name);
  await cluster.awaitReady();
}

async function leaderDies({ cluster }: ClientContext): Promise<void> {
  await cluster.awaitHealthy('counters');
  const { agent: leader, term } = await cluster.leader();
  const session = await clientOf(cluster, leader);
  const calls = session.pool(counter, 'counters');
  const before = await withDeadline('a call', calls.hash(1).add(1));
  const during = calls.hash(1).add(1);
  await cluster.kill(leader);
  assert.equal(await withDeadline('a call that was in flight', during), before + 1);
  assert.equal(await withDeadline('a call afterwards', calls.hash(1).add(1)), before + 2);
  await cluster.leader(term);
  const back = await cluster.restart(leader.name);
  await cluster.awaitReady();
  // A new client that knows only the restarted node creates a pool there and uses it.
  const fresh = await clientOf(cluster, back);
  await cluster.create('fresh', { module: 'counter', containers: 4, copies: 2 }, back);
  const pool = fresh.pool(counter, 'fresh');
  assert.equal(await withDeadline('a call of a new pool', pool.hash(3).add(2)), 2);
  assert.equal((await withDeadline('a broadcast', pool.broadcast().hold(10))).length, 4);
  cluster.assertNoUnexpectedExit();
}

test('a client continues with all state when the only node is killed and restarted (CH-11)', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both });
  const session = await cluster.session();
  const pool = await cluster.pool(counter, 'counters', { containers: 2, copies: 1, restart: true }, session);
  assert.equal(await withDeadline('the first task', pool.hash(1).add(3)), 3);
  await cluster.kill(cluster.get('a'));
  const during = pool.hash(1).add(4);
  await cluster.restart('a');
  assert.equal(await withDeadline('a task during the restart', during), 7);
  assert.equal(await withDeadline('the second task', pool.hash(1).add(1)), 8);
  assert.deepEqual((await withDeadline('its lives', pool.hash(1).lives())).slice(-1), ['restart a']);
  await cluster.end();
});
