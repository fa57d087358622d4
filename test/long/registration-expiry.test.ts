/** Nodes that are away for longer than their registration lasts, alone or all together, and the state they had. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { KvPool, modesOf } from '../support/processes/kv-pool.ts';
import {
  httpCall,
  cut,
  entries,
  get,
  put,
  registered,
  told,
  fetchNodeStatus,
  votersAre,
  Watched,
} from '../support/processes/manager-requests.ts';
import { PoolCluster } from '../support/processes/pool-cluster.ts';
import type { Agent } from '../support/processes/process-lab.ts';

const both = 'manager,worker';
const nodes = { a: both, b: both, c: both };
const ttlMs = 3_000;
const words = ['--registration-ttl', `${ttlMs}ms`];

async function activate(by: Agent, node: Agent): Promise<void> {
  const { code, body } = await httpCall(by, 'POST', `/v1/nodes/${node.name}/activate`, { reason: 'looked into it' });
  assert.equal(code, 'OK', JSON.stringify(body));
  await told(node, 'node.state', { mode: 'active', reason: 'admin_activate' });
  await registered(node, 'active');
}

test('a cut that is longer than the registration: given up, back and drained, and what it had lives on (DA-9, DA-11)', async (context) => {
  const cluster = await PoolCluster.start(context, nodes, [...words, '--chaos']);
  const { agent: leader } = await cluster.leader();
  const [alone] = cluster.others(leader);
  const others = cluster.others(alone);
  // Through the others: the one that is cut off could not answer.
  const session = await cluster.session({ addr: others.map(({ port }) => `127.0.0.1:${port}`) });
  const pool = await KvPool.create(cluster, session, 'things', { containers: 6, copies: 2 });
  assert.ok((await pool.ownedBy(alone)).length > 0);
  await cut(alone, others);
  await told(alone, 'registration.lost');
  await pool.ownedOnlyBy(...others);
  // What it keeps on its disk is older from now on.
  await pool.write();
  await cut(alone, []);
  await told(alone, 'node.state', { mode: 'drained', reason: 'registration_expired' });
  await registered(alone, 'drained');
  await pool.assertKept(alone);
  await pool.ownedOnlyBy(...others);
  await activate(others[0], alone);
  await pool.write();
  await pool.assertKept();
  cluster.nobodyFell();
});

test('a restart after the registration ended: drained, it gives back what only it has, until it is activated (DA-8, DA-12)', async (context) => {
  const cluster = await PoolCluster.start(context, nodes, words);
  const session = await cluster.session();
  const copied = await KvPool.create(cluster, session, 'copied', { containers: 6, copies: 2 });
  const single = await KvPool.create(cluster, session, 'single', { containers: 6, copies: 1 });
  const { agent: leader } = await cluster.leader();
  const [killed] = cluster.others(leader);
  const others = cluster.others(killed);
  assert.ok((await copied.ownedBy(killed)).length > 0 && (await single.ownedBy(killed)).length > 0);
  const keys = (await entries(others[0], '/cluster/register/')).map(({ key }) => key);
  assert.ok(keys.includes(`/cluster/register/${killed.id}`), keys.join());
  const registrations = await Watched.open(context, others[0], '/cluster/register/');
  const elsewhere = await Watched.open(context, others[0], '/elsewhere/');
  await cluster.kill(killed);
  await registrations.until('its end', () => registrations.changes.length > 0);
  // Only its own: those who live have renewed theirs beyond the first deadline.
  assert.deepEqual(
    registrations.changes.map(({ kind, key }) => [kind, key]),
    [['delete', `/cluster/register/${killed.id}`]],
  );
  assert.deepEqual(elsewhere.changes, []);
  await copied.ownedOnlyBy(...others);
  await copied.write();
  const back = await cluster.restart(killed.name);
  await told(back, 'node.state', { mode: 'drained', reason: 'stale_restart' });
  await registered(back, 'drained');
  // The state of these is nowhere else: they leave with it, and nothing else arrives.
  await single.ownedOnlyBy(...others);
  await copied.ownedOnlyBy(...others);
  await Promise.all([single.assertKept(back), copied.assertKept(back)]);
  await Promise.all([single.write(), copied.write()]);
  const shown = await get(others[0], `/v1/nodes/${back.name}`);
  assert.deepEqual([shown['registration'], shown['reason']], ['drained', 'stale_restart']);
  await activate(others[0], back);
  await cluster.settled();
  await Promise.all([single.assertKept(), copied.assertKept()]);
  cluster.nobodyFell();
});

test('all are killed and away for longer than a registration: all are active again, with all that was agreed (DA-13)', async (context) => {
  const cluster = await PoolCluster.start(context, nodes, words);
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
  await cluster.settled();
  for (const agent of cluster.all) {
    assert.deepEqual(await entries(agent, '/kept/'), kept);
    assert.deepEqual(await modesOf(agent), ['joining full_cluster_restart', 'active full_cluster_restart']);
  }
  await cluster.whole('single');
  assert.deepEqual(await single.owners(), before);
  await single.assertKept();
  // Still so when every registration of before would be over.
  await pause(1.2 * ttlMs);
  for (const agent of cluster.all) assert.equal((await fetchNodeStatus(agent)).registration, 'active');
  assert.deepEqual(await single.owners(), before);
  cluster.nobodyFell();
});

test('what one manager had alone is with the second after the first is removed and killed (DA-3)', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both }, words);
  const session = await cluster.session();
  const pool = await KvPool.create(cluster, session, 'things', { containers: 6, copies: 2 });
  const a = cluster.get('a');
  assert.deepEqual(await pool.ownedBy(a), [0, 1, 2, 3, 4, 5]);
  const b = await cluster.add('b', ['--roles', both]);
  await votersAre(b, ['a', 'b']);
  await cluster.leader();
  await cluster.whole('things');
  const { code, body } = await httpCall(b, 'POST', '/v1/managers/a/remove', {});
  assert.equal(code, 'OK', JSON.stringify(body));
  await cluster.kill(a);
  await votersAre(b, ['b']);
  await pool.ownedOnlyBy(b);
  await pool.assertKept(b);
  cluster.nobodyFell();
});
