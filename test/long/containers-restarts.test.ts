/** Four nodes with containers that are shut down and restarted, some and all of them (CH-8, 9, 10, 14). */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Random } from '../../src/base/random.ts';
import type { ClusterSession } from '../../src/client/index.ts';
import type { PoolHandle } from '../../src/containers/module.ts';
import {
  type Agent,
  awaitAlive,
  awaitBindable,
  eventually,
  filesIn,
  type NodeEvent,
  processIsUp,
} from '../support/processes/process-lab.ts';
import { counter } from '../support/processes/counter-module.ts';
import { httpCall, get, fetchEvents, until } from '../support/processes/manager-requests.ts';
import { withDeadline, PoolCluster } from '../support/processes/pool-cluster.ts';

type Pool = PoolHandle<(typeof counter)['methods']>;
type RestartContext = { readonly cluster: PoolCluster; readonly session: ClusterSession; readonly pool: Pool };

const both = 'manager,worker';
const all = [0, 1, 2, 3, 4, 5, 6, 7];
const rounds = 3;

async function addEverywhere(pool: Pool): Promise<readonly number[]> {
  return await withDeadline('a call of each', Promise.all(all.map(async (id) => await pool.id(id).add(1))));
}

test('in a cluster of four nodes', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both, b: both, c: both, d: 'worker' });
  const session = await cluster.session();
  const pool = await cluster.pool(counter, 'counters', { containers: 8, copies: 2, restart: true }, session);
  const shared = { cluster, session, pool };
  await context.test(
    'a node reports its members and metrics, and is shut down over HTTP (CH-8)',
    async () => await leaves(shared),
  );
  await context.test(
    'calls survive random restarts of some nodes (CH-9)',
    async (inner) => await stress(inner, shared),
  );
  await context.test(
    'all state survives a restart of all nodes, the leader last (CH-10)',
    async () => await fullStop(shared),
  );
  await context.test('stopped nodes leave nothing behind (CH-14)', async () => await nothingLeft(shared));
});

async function leaves({ cluster, pool }: RestartContext): Promise<void> {
  const [node, other] = [cluster.get('a'), cluster.get('d')];
  const sums = await addEverywhere(pool);
  const { items } = (await get(node, '/v1/members')) as { items: { name: string; roles: string[] }[] };
  assert.deepEqual(items.map(({ name }) => name).toSorted(), ['a', 'b', 'c', 'd']);
  assert.ok(items.every(({ roles }) => roles.includes('worker')));
  assert.ok((await ownedBy(other)) > 0);
  const metrics = await (await fetch(new URL('/metrics', other.addr))).text();
  assert.match(metrics, /^remuster_\w*calls\w*(?:\{[^}]*\})? [1-9]/m);

  // A request to leave is refused while the node owns containers.
  const order = async (act: string): Promise<string> =>
    (await httpCall(node, 'POST', `/v1/nodes/${other.name}/${act}`, { reason: 'CH-8' })).code;
  assert.equal(await order('leave'), 'PRECONDITION');
  assert.equal(await order('drain'), 'OK');
  await until(`${other.name} to own nothing`, async () => ((await ownedBy(other)) === 0 ? true : undefined));
  await until(`${other.name} to leave`, async () => ((await order('leave')) === 'OK' ? true : undefined));
  await cluster.awaitExit(other);
  assert.deepEqual(
    await addEverywhere(pool),
    sums.map((sum) => sum + 1),
  );
  const back = await cluster.restart(other.name);
  await awaitAlive(node.addr, back.name);
  // A drained node stays drained until it is activated.
  await until(`${back.name} to be activated`, async () => ((await order('activate')) === 'OK' ? true : undefined));
  await cluster.awaitReady();
  cluster.assertNoUnexpectedExit();
}

async function ownedBy(agent: Agent): Promise<number> {
  const held = (await get(agent, '/v1/node'))['containers'] as { readonly role: string }[];
  return held.filter(({ role }) => role === 'owner').length;
}

async function stress(context: TestContext, { cluster, pool }: RestartContext): Promise<void> {
  const random = new Random('CH-9');
  for (let round = 1; round <= rounds; round++) {
    await cluster.awaitHealthy('counters');
    const sums = await addEverywhere(pool);
    const { agent: leader } = await cluster.leader();
    const victims = random.shuffled(cluster.others(leader)).slice(0, 1 + random.below(3));
    context.diagnostic(`round ${round}: ${victims.map(({ name }) => name).join()}`);
    await cluster.stop(...victims);
    // Without a majority these calls wait for one, and run once.
    const during = addEverywhere(pool);
    await Promise.all(victims.map(async ({ name }) => await cluster.restart(name)));
    await cluster.awaitReady();
    assert.deepEqual(
      await during,
      sums.map((sum) => sum + 1),
    );
    cluster.assertNoUnexpectedExit();
  }
}

async function fullStop({ cluster, pool }: RestartContext): Promise<void> {
  await cluster.awaitHealthy('counters');
  const sums = await addEverywhere(pool);
  const owners = (await cluster.containers('counters')).map(({ owner }) => owner);
  const { agent: leader } = await cluster.leader();
  const names = cluster.up.map(({ name }) => name);
  for (const agent of cluster.others(leader)) await cluster.stop(agent);
  await cluster.stop(leader);
  await Promise.all(names.map(async (name) => await cluster.restart(name)));
  await cluster.awaitReady();
  assert.deepEqual(
    await addEverywhere(pool),
    sums.map((sum) => sum + 1),
  );
  const lives = await withDeadline('all lives', pool.broadcast().lives());
  const now = (await cluster.containers('counters')).map(({ owner }) => owner);
  const recoveries = await lastRecoveries(cluster);
  for (const [id, life] of lives.entries()) {
    // A pool with `restart` is opened from the disk of its former node, unless the container has moved since.
    const isThere = now[id] === owners[id] && life.at(-1)?.endsWith(` ${now[id]}`) === true;
    const opening = isThere ? expectedOpening(recoveries.get(id)) : undefined;
    if (opening !== undefined) assert.equal(life.at(-1), `${opening} ${now[id]}`, `${id}: ${life.join()}`);
  }
  cluster.assertNoUnexpectedExit();
}

/** The last recovery of each container that a leader reports. */
async function lastRecoveries(cluster: PoolCluster): Promise<ReadonlyMap<number, NodeEvent>> {
  const events = (await Promise.all(cluster.up.map(async (agent) => await fetchEvents(agent)))).flat();
  const recoveries = events.filter(({ type }) => type === 'container.recovered' || type === 'container.recoveryFailed');
  const inOrder = recoveries.toSorted((a, b) => (String(a['time']) < String(b['time']) ? -1 : 1));
  return new Map(inOrder.map((event) => [event['container'] as number, event]));
}

/**
 * `restart` on its former node, `recover` on another one, also if that one was chosen but stopped before it opened the
 * container. Unknown after a failed opening.
 */
function expectedOpening(recovery: NodeEvent | undefined): 'restart' | 'recover' | undefined {
  if (recovery?.type !== 'container.recovered') return undefined;
  return recovery['from'] === recovery['id'] ? 'restart' : 'recover';
}

async function nothingLeft({ cluster }: RestartContext): Promise<void> {
  const agents = cluster.up;
  await cluster.end();
  for (const { name, pid } of agents) await eventually(`${name} is gone`, () => !processIsUp(pid));
  for (const { port, httpPort } of agents) await Promise.all([awaitBindable(port), awaitBindable(httpPort)]);
  assert.deepEqual(filesIn(cluster.lab.folder), agents.map(({ name }) => name).toSorted());
}
