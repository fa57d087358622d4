/**
 * A node that joins a cluster with pools routes calls at once, before it has an address table, and gets its share
 * (CH-7).
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { awaitAlive } from '../support/processes/process-lab.ts';
import { counter } from '../support/processes/counter-module.ts';
import { httpCall, get, until } from '../support/processes/manager-requests.ts';
import { withDeadline, PoolCluster } from '../support/processes/pool-cluster.ts';

const containers = 8;
/** So long that no slow node loses its containers: here no container must be reopened. */
const args = ['--serving-lease', '60s', '--call-retry', '80s'];
const all = [...Array(containers).keys()];

test('a third node that joins routes calls at once, and then serves containers (CH-7)', async (context) => {
  const cluster = await PoolCluster.start(context, { a: 'manager,worker', b: 'worker' }, args);
  const pool = await cluster.pool(counter, 'counters', { containers, copies: 2 }, await cluster.session());
  for (const id of all) assert.equal(await withDeadline('a call', pool.id(id).add(id)), id);
  const old = cluster.up;
  assert.ok(!existsSync(join(cluster.lab.folder, 'c')), 'the node has never run before');

  const joined = await cluster.add('c', ['--roles', 'worker']);
  // Its first request.
  const body = { pool: 'counters', method: 'count', route: { id: 5 } };
  const first = await httpCall(joined, 'POST', '/v1/call', body);
  assert.deepEqual([first.code, first.body['result']], ['OK', 5], JSON.stringify(first.body));
  const session = await cluster.session({ addr: `127.0.0.1:${joined.port}`, tryNewServers: 0 });
  const through = session.pool(counter, 'counters');
  for (const id of all) assert.equal(await withDeadline('a call through it', through.id(id).add(1)), id + 1);
  const sum = (containers * (containers + 1)) / 2;
  assert.equal(await withDeadline('a broadcast through it', through.broadcast().count()), sum);

  for (const { addr } of old) await awaitAlive(addr, 'c');
  await cluster.awaitReady();
  await until('the same table everywhere', async () => {
    const hashes = await Promise.all(cluster.up.map(async (agent) => (await get(agent, '/v1/node'))['tableHash']));
    return hashes.every((hash) => typeof hash === 'string' && hash === hashes[0]) ? true : undefined;
  });
  await until('its share', async () =>
    (await cluster.containers('counters')).some(({ owner }) => owner === 'c') ? true : undefined,
  );
  await cluster.awaitHealthy('counters');
  assert.equal(await withDeadline('a broadcast', pool.broadcast().count()), sum);
  for (const id of all) {
    const lives = await withDeadline('its lives', pool.id(id).lives());
    assert.deepEqual(lives.length, 1, `reopened instead of moved with its state: ${lives.join()}`);
  }
  await cluster.end();
});
