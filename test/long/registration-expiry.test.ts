/** Nodes that are away longer than their registration lasts, alone or all together, and their state. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { KvPool, modesOf } from '../support/processes/kv-pool.ts';
import {
  httpCall,
  cutLinks,
  entries,
  get,
  put,
  awaitRegistration,
  awaitNodeEvent,
  fetchNodeStatus,
  awaitVoters,
  RegistryWatcher,
} from '../support/processes/manager-requests.ts';
import { PoolCluster } from '../support/processes/pool-cluster.ts';
import type { Agent } from '../support/processes/process-lab.ts';

const both = 'manager,worker';
const nodes = { a: both, b: both, c: both };
const ttlMs = 3_000;
const args = ['--registration-ttl', `${ttlMs}ms`];

async function activate(by: Agent, node: Agent): Promise<void> {
  const { code, body } = await httpCall(by, 'POST', `/v1/nodes/${node.name}/activate`, { reason: 'checked' });
  assert.equal(code, 'OK', JSON.stringify(body));
  await awaitNodeEvent(node, 'node.state', { mode: 'active', reason: 'admin_activate' });
  await awaitRegistration(node, 'active');
}

test('a node that is cut off longer than its registration returns drained, and its state survives (DA-9, DA-11)', async (context) => {
  const cluster = await PoolCluster.start(context, nodes, [...args, '--chaos']);
  const { agent: leader } = await cluster.leader();
  const [alone] = cluster.others(leader);
  const others = cluster.others(alone);
  // Through the others: the node that is cut off cannot reply.
  const session = await cluster.session({ addr: others.map(({ port }) => `127.0.0.1:${port}`) });
  const pool = await KvPool.create(cluster, session, 'things', { containers: 6, copies: 2 });
  assert.ok((await pool.ownedBy(alone)).length > 0);
  await cutLinks(alone, others);
  await awaitNodeEvent(alone, 'registration.lost');
  await pool.awaitOwners(...others);
  // From now on its replicas are stale.
  await pool.write();
  await cutLinks(alone, []);
  await awaitNodeEvent(alone, 'node.state', { mode: 'drained', reason: 'registration_expired' });
  await awaitRegistration(alone, 'drained');
  await pool.assertWritesKept(alone);
  await pool.awaitOwners(...others);
  await activate(others[0], alone);
  await pool.write();
  await pool.assertWritesKept();
  cluster.assertNoUnexpectedExit();
});

test('a node that restarts after its registration expired is drained and hands over its single replicas (DA-8, DA-12)', async (context) => {
  const cluster = await PoolCluster.start(context, nodes, args);
  const session = await cluster.session();
  const copied = await KvPool.create(cluster, session, 'copied', { containers: 6, copies: 2 });
  const single = await KvPool.create(cluster, session, 'single', { containers: 6, copies: 1 });
  const { agent: leader } = await cluster.leader();
  const [killed] = cluster.others(leader);
  const others = cluster.others(killed);
  assert.ok((await copied.ownedBy(killed)).length > 0 && (await single.ownedBy(killed)).length > 0);
  const keys = (await entries(others[0], '/cluster/register/')).map(({ key }) => key);
  assert.ok(keys.includes(`/cluster/register/${killed.id}`), keys.join());
  const registrations = await RegistryWatcher.open(context, others[0], '/cluster/register/');
  const elsewhere = await RegistryWatcher.open(context, others[0], '/elsewhere/');
  await cluster.kill(killed);
  await registrations.until('its expiry', () => registrations.changes.length > 0);
  // Only its own registration: running nodes have renewed theirs.
  assert.deepEqual(
    registrations.changes.map(({ kind, key }) => [kind, key]),
    [['delete', `/cluster/register/${killed.id}`]],
  );
  assert.deepEqual(elsewhere.changes, []);
  await copied.awaitOwners(...others);
  await copied.write();
  const back = await cluster.restart(killed.name);
  await awaitNodeEvent(back, 'node.state', { mode: 'drained', reason: 'stale_restart' });
  await awaitRegistration(back, 'drained');
  // No other node has the state of these containers: they move away with it, and no container moves here.
  await single.awaitOwners(...others);
  await copied.awaitOwners(...others);
  await Promise.all([single.assertWritesKept(back), copied.assertWritesKept(back)]);
  await Promise.all([single.write(), copied.write()]);
  const shown = await get(others[0], `/v1/nodes/${back.name}`);
  assert.deepEqual([shown['registration'], shown['reason']], ['drained', 'stale_restart']);
  await activate(others[0], back);
  await cluster.awaitReady();
  await Promise.all([single.assertWritesKept(), copied.assertWritesKept()]);
  cluster.assertNoUnexpectedExit();
});

test('all nodes are active again with all committed data after a stop longer than a registration (DA-13)', async (context) => {
  const cluster = await PoolCluster.start(context, nodes, args);
  const { agent: leader, term } = await cluster.leader();
  const single = await KvPool.create(cluster, await cluster.session(), 'single', { containers: 6, copies: 1 });
  const before = await single.owners();
  const keys = Array.from({ length: 50 }, (_, n) => `/kept/${String(n).padStart(2, '0')}`);
  await Promise.all(keys.map(async (key) => assert.equal((await put(leader, key, `of ${key}`)).code, 'OK')));
  const kept = await entries(leader, '/kept/');
  assert.deepEqual(
    kept.map(({ key }) => key),
    keys,
  );
  const killed = cluster.all;
  await cluster.kill(...killed);
  await pause(1.2 * ttlMs);
  await Promise.all(Object.keys(nodes).map((name) => cluster.restart(name)));
  await cluster.leader(term);
  await cluster.awaitReady();
  for (const agent of cluster.all) {
    assert.deepEqual(await entries(agent, '/kept/'), kept);
    assert.deepEqual(await modesOf(agent), ['joining full_cluster_restart', 'active full_cluster_restart']);
  }
  await cluster.awaitHealthy('single');
  assert.deepEqual(await single.owners(), before);
  await single.assertWritesKept();
  // Still so after every earlier registration would have expired.
  await pause(1.2 * ttlMs);
  for (const agent of cluster.all) assert.equal((await fetchNodeStatus(agent)).registration, 'active');
  assert.deepEqual(await single.owners(), before);
  cluster.assertNoUnexpectedExit();
});

test('a second manager has all containers after the first one is removed and killed (DA-3)', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both }, args);
  const session = await cluster.session();
  const pool = await KvPool.create(cluster, session, 'things', { containers: 6, copies: 2 });
  const a = cluster.get('a');
  assert.deepEqual(await pool.ownedBy(a), [0, 1, 2, 3, 4, 5]);
  const b = await cluster.add('b', ['--roles', both]);
  await awaitVoters(b, ['a', 'b']);
  await cluster.leader();
  await cluster.awaitHealthy('things');
  const { code, body } = await httpCall(b, 'POST', '/v1/managers/a/remove', {});
  assert.equal(code, 'OK', JSON.stringify(body));
  await cluster.kill(a);
  await awaitVoters(b, ['b']);
  await pool.awaitOwners(b);
  await pool.assertWritesKept(b);
  cluster.assertNoUnexpectedExit();
});
