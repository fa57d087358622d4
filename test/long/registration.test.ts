/** Nodes that are away for less than their registration lasts: they keep their containers and state. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { assertNoNodeLost, assertConfirmedBeforeActive, KvPool, modesOf } from '../support/processes/kv-pool.ts';
import { cutLinks, awaitRegistration, awaitVoters } from '../support/processes/manager-requests.ts';
import { PoolCluster } from '../support/processes/pool-cluster.ts';
import type { Agent } from '../support/processes/process-lab.ts';

const both = 'manager,worker';
const nodes = { a: both, b: both, c: both };
const names = Object.keys(nodes);

test('a follower and a leader that restart in time are active with their containers (DA-1, DA-2)', async (context) => {
  // Long enough for a start on a slow machine; no test step waits for its expiry.
  const cluster = await PoolCluster.start(context, nodes, ['--registration-ttl', '30s']);
  // One replica each: no other node can take a container over.
  const pool = await KvPool.create(cluster, await cluster.session(), 'things', { containers: 6, copies: 1 });
  const before = await pool.owners();
  const restart = async (agent: Agent): Promise<void> => {
    assert.ok((await pool.ownedBy(agent)).length > 0);
    const back = await cluster.restart(agent.name);
    await awaitRegistration(back, 'active');
    assert.deepEqual(await modesOf(back), ['joining fast_restart', 'active fast_restart']);
    await assertConfirmedBeforeActive(back);
    await cluster.awaitReady();
    await cluster.awaitHealthy('things');
    assert.deepEqual(await pool.owners(), before);
    await pool.assertWritesKept();
    await pool.write();
    await assertNoNodeLost(cluster.all);
    await awaitVoters(back, names);
  };

  const first = await cluster.leader();
  const [follower] = cluster.others(first.agent);
  await cluster.kill(follower);
  await restart(follower);

  const { agent: leader, term } = await cluster.leader();
  await cluster.kill(leader);
  const next = await cluster.leader(term);
  assert.notEqual(next.name, leader.name);
  await restart(leader);
  cluster.assertNoUnexpectedExit();
});

test('a cut that is shorter than the registration moves no container (DA-9, DA-10)', async (context) => {
  const ttlMs = 6_000;
  // The serving lease is longer than the cut, so no replica takes over: that is another scenario.
  const args = ['--chaos', '--registration-ttl', `${ttlMs}ms`, '--serving-lease', '60s', '--call-retry', '80s'];
  const cluster = await PoolCluster.start(context, nodes, args);
  const { agent: leader } = await cluster.leader();
  const pool = await KvPool.create(cluster, await cluster.session(), 'things', { containers: 6, copies: 2 });
  const before = await pool.owners();
  const [alone, ...others] = cluster.others(leader);
  assert.ok((await pool.ownedBy(alone)).length > 0);
  const known = await modesOf(alone);
  const startMs = Date.now();
  await cutLinks(alone, [leader, ...others]);
  // At least one renewal is missed: they are sent after each third of the TTL.
  await pause(ttlMs / 2);
  await cutLinks(alone, []);
  // Longer than the rest of the registration, and than the leader waits before it recovers containers elsewhere.
  await pause(startMs + 1.3 * ttlMs - Date.now());
  await awaitRegistration(alone, 'active');
  assert.deepEqual(await modesOf(alone), known);
  assert.deepEqual(await pool.owners(), before);
  await assertNoNodeLost(cluster.all);
  await pool.write();
  await pool.assertWritesKept();
  cluster.assertNoUnexpectedExit();
});
