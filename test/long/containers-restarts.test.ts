/** Four nodes that are shut down and come back, some, all, again and again: their containers too (CH-8, 9, 10, 14). */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Random } from '../../src/base/random.ts';
import type { ClusterSession } from '../../src/client/index.ts';
import type { PoolHandle } from '../../src/containers/module.ts';
import {
  type Agent,
  alive,
  bindable,
  eventually,
  filesIn,
  type NodeEvent,
  processIsUp,
} from '../support/processes/process-lab.ts';
import { counter } from '../support/processes/counter-module.ts';
import { httpCall, get, history, until } from '../support/processes/manager-requests.ts';
import { ended, PoolCluster } from '../support/processes/pool-cluster.ts';

type Pool = PoolHandle<(typeof counter)['methods']>;
type Stage = { readonly cluster: PoolCluster; readonly session: ClusterSession; readonly pool: Pool };

const both = 'manager,worker';
const all = [0, 1, 2, 3, 4, 5, 6, 7];
const rounds = 3;

async function addEverywhere(pool: Pool): Promise<readonly number[]> {
  return await ended('a call of each', Promise.all(all.map(async (id) => await pool.id(id).add(1))));
}

test('four nodes that come and go', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both, b: both, c: both, d: 'worker' });
  const session = await cluster.session();
  const pool = await cluster.pool(counter, 'counters', { containers: 8, copies: 2, restart: true }, session);
  const stage = { cluster, session, pool };
  await context.test('what a node tells of itself, and its shutdown over HTTP (CH-8)', async () => await told(stage));
  await context.test('some are shut down at random and come back (CH-9)', async (inner) => await stress(inner, stage));
  await context.test('all are shut down, the leader last, and come back (CH-10)', async () => await fullStop(stage));
  await context.test('all are stopped, and nothing is left of them (CH-14)', async () => await nothingLeft(stage));
});

async function told({ cluster, pool }: Stage): Promise<void> {
  const [asked, other] = [cluster.get('a'), cluster.get('d')];
  const sums = await addEverywhere(pool);
  const { items } = (await get(asked, '/v1/members')) as { items: { name: string; roles: string[] }[] };
  assert.deepEqual(items.map(({ name }) => name).toSorted(), ['a', 'b', 'c', 'd']);
  assert.ok(items.every(({ roles }) => roles.includes('worker')));
  assert.ok((await ownedBy(other)) > 0);
  const metrics = await (await fetch(new URL('/metrics', other.addr))).text();
  assert.match(metrics, /^remuster_\w*calls\w*(?:\{[^}]*\})? [1-9]/m);

  // An order to leave is refused as long as the node has something that others would miss.
  const order = async (act: string): Promise<string> =>
    (await httpCall(asked, 'POST', `/v1/nodes/${other.name}/${act}`, { reason: 'CH-8' })).code;
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
  await alive(asked.addr, back.name);
  // Whoever was drained stays so, until somebody says otherwise.
  await until(`${back.name} to be activated`, async () => ((await order('activate')) === 'OK' ? true : undefined));
  await cluster.settled();
  cluster.nobodyFell();
}

async function ownedBy(agent: Agent): Promise<number> {
  const held = (await get(agent, '/v1/node'))['containers'] as { readonly role: string }[];
  return held.filter(({ role }) => role === 'owner').length;
}

async function stress(context: TestContext, { cluster, pool }: Stage): Promise<void> {
  const random = new Random('CH-9');
  for (let round = 1; round <= rounds; round++) {
    await cluster.whole('counters');
    const sums = await addEverywhere(pool);
    const { agent: leader } = await cluster.leader();
    const victims = random.shuffled(cluster.others(leader)).slice(0, 1 + random.below(3));
    context.diagnostic(`round ${round}: ${victims.map(({ name }) => name).join()}`);
    await cluster.stop(...victims);
    // Perhaps there is no majority now: then these wait for it, and run once.
    const during = addEverywhere(pool);
    await Promise.all(victims.map(async ({ name }) => await cluster.restart(name)));
    await cluster.settled();
    assert.deepEqual(
      await during,
      sums.map((sum) => sum + 1),
    );
    cluster.nobodyFell();
  }
}

async function fullStop({ cluster, pool }: Stage): Promise<void> {
  await cluster.whole('counters');
  const sums = await addEverywhere(pool);
  const owners = (await cluster.containers('counters')).map(({ owner }) => owner);
  const { agent: leader } = await cluster.leader();
  const names = cluster.up.map(({ name }) => name);
  for (const agent of cluster.others(leader)) await cluster.stop(agent);
  await cluster.stop(leader);
  await Promise.all(names.map(async (name) => await cluster.restart(name)));
  await cluster.settled();
  assert.deepEqual(
    await addEverywhere(pool),
    sums.map((sum) => sum + 1),
  );
  const lives = await ended('all lives', pool.broadcast().lives());
  const now = (await cluster.containers('counters')).map(({ owner }) => owner);
  const given = await givenLast(cluster);
  for (const [id, life] of lives.entries()) {
    // A pool that is marked so comes back from the disk of the node it was on. It may have moved since.
    const isThere = now[id] === owners[id] && life.at(-1)?.endsWith(` ${now[id]}`) === true;
    const how = isThere ? promisedOpening(given.get(id)) : undefined;
    if (how !== undefined) assert.equal(life.at(-1), `${how} ${now[id]}`, `${id}: ${life.join()}`);
  }
  cluster.nobodyFell();
}

/** By container: how a leader of now has given it to its node at last, if one has told. */
async function givenLast(cluster: PoolCluster): Promise<ReadonlyMap<number, NodeEvent>> {
  const events = (await Promise.all(cluster.up.map(async (agent) => await history(agent)))).flat();
  const given = events.filter(({ type }) => type === 'container.recovered' || type === 'container.recoveryFailed');
  const inOrder = given.toSorted((a, b) => (String(a['time']) < String(b['time']) ? -1 : 1));
  return new Map(inOrder.map((event) => [event['container'] as number, event]));
}

/**
 * To the node that had it: `restart`. From another one: `recover`, also when that one was only chosen, while the first was
 * away, and went before it had opened it. After an opening that failed it may be either.
 */
function promisedOpening(given: NodeEvent | undefined): 'restart' | 'recover' | undefined {
  if (given?.type !== 'container.recovered') return undefined;
  return given['from'] === given['id'] ? 'restart' : 'recover';
}

async function nothingLeft({ cluster }: Stage): Promise<void> {
  const agents = cluster.up;
  await cluster.end();
  for (const { name, pid } of agents) await eventually(`${name} is gone`, () => !processIsUp(pid));
  for (const { port, httpPort } of agents) await Promise.all([bindable(port), bindable(httpPort)]);
  assert.deepEqual(filesIn(cluster.lab.folder), agents.map(({ name }) => name).toSorted());
}
