/** Nodes that are away for less than their registration lasts: they keep what they have, with its state. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { assertNoneLost, assertReconciledFirst, KvPool, modesOf } from '../support/processes/kv-pool.ts';
import { cut, registered, votersAre } from '../support/processes/manager-requests.ts';
import { PoolCluster } from '../support/processes/pool-cluster.ts';
import type { Agent } from '../support/processes/process-lab.ts';

const both = 'manager,worker';
const nodes = { a: both, b: both, c: both };
const names = Object.keys(nodes);

test('a follower, then the leader restart in time: active, with what they had (DA-1, DA-2)', async (context) => {
  // Long enough for a start on a slow machine; nothing here waits for its end.
  const cluster = await PoolCluster.start(context, nodes, ['--registration-ttl', '30s']);
  // Without copies: no other node could take what one has.
  const pool = await KvPool.create(cluster, await cluster.session(), 'things', { containers: 6, copies: 1 });
  const before = await pool.owners();
  const restart = async (agent: Agent): Promise<void> => {
    assert.ok((await pool.ownedBy(agent)).length > 0);
    const back = await cluster.restart(agent.name);
    await registered(back, 'active');
    assert.deepEqual(await modesOf(back), ['joining fast_restart', 'active fast_restart']);
    await assertReconciledFirst(back);
    await cluster.settled();
    await cluster.whole('things');
    assert.deepEqual(await pool.owners(), before);
    await pool.assertKept();
    await pool.write();
    await assertNoneLost(cluster.all);
    await votersAre(back, names);
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
  cluster.nobodyFell();
});

test('a cut that is shorter than the registration heals by itself: nothing moves (DA-9, DA-10)', async (context) => {
  const ttlMs = 6_000;
  // The serving lease outlasts the cut, or the copies would take over: that is another scenario.
  const words = ['--chaos', '--registration-ttl', `${ttlMs}ms`, '--serving-lease', '60s', '--call-retry', '80s'];
  const cluster = await PoolCluster.start(context, nodes, words);
  const { agent: leader } = await cluster.leader();
  const pool = await KvPool.create(cluster, await cluster.session(), 'things', { containers: 6, copies: 2 });
  const before = await pool.owners();
  const [alone, ...others] = cluster.others(leader);
  assert.ok((await pool.ownedBy(alone)).length > 0);
  const known = await modesOf(alone);
  const startMs = Date.now();
  await cut(alone, [leader, ...others]);
  // At least one renewal is missed: they come at a third.
  await pause(ttlMs / 2);
  await cut(alone, []);
  // Longer than what was left of the registration, and than anybody would have waited to give its things to others.
  await pause(startMs + 1.3 * ttlMs - Date.now());
  await registered(alone, 'active');
  assert.deepEqual(await modesOf(alone), known);
  assert.deepEqual(await pool.owners(), before);
  await assertNoneLost(cluster.all);
  await pool.write();
  await pool.assertKept();
  cluster.nobodyFell();
});
