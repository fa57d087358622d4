/** A node that joins a cluster with pools routes at once, with no table of its own, and gets its share (CH-7). */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { alive } from '../support/processes/process-lab.ts';
import { counter } from '../support/processes/counter-module.ts';
import { httpCall, get, until } from '../support/processes/manager-requests.ts';
import { ended, PoolCluster } from '../support/processes/pool-cluster.ts';

const containers = 8;
/** So long that nobody loses its containers only because it is slow: here nothing is to be opened anew. */
const words = ['--serving-lease', '60s', '--call-retry', '80s'];
const all = [...Array(containers).keys()];

test('a third node joins two: it routes at once, and then serves (CH-7)', async (context) => {
  const cluster = await PoolCluster.start(context, { a: 'manager,worker', b: 'worker' }, words);
  const pool = await cluster.pool(counter, 'counters', { containers, copies: 2 }, await cluster.session());
  for (const id of all) assert.equal(await ended('a call', pool.id(id).add(id)), id);
  const old = cluster.up;
  assert.ok(!existsSync(join(cluster.lab.folder, 'c')), 'it has never been there');

  const joined = await cluster.add('c', ['--roles', 'worker']);
  // Before anything else: the first that it is asked.
  const body = { pool: 'counters', method: 'count', route: { id: 5 } };
  const first = await httpCall(joined, 'POST', '/v1/call', body);
  assert.deepEqual([first.code, first.body['result']], ['OK', 5], JSON.stringify(first.body));
  const session = await cluster.session({ addr: `127.0.0.1:${joined.port}`, tryNewServers: 0 });
  const through = session.pool(counter, 'counters');
  for (const id of all) assert.equal(await ended('a call through it', through.id(id).add(1)), id + 1);
  const sum = (containers * (containers + 1)) / 2;
  assert.equal(await ended('a broadcast through it', through.broadcast().count()), sum);

  for (const { addr } of old) await alive(addr, 'c');
  await cluster.settled();
  await until('the same table everywhere', async () => {
    const hashes = await Promise.all(cluster.up.map(async (agent) => (await get(agent, '/v1/node'))['tableHash']));
    return hashes.every((hash) => typeof hash === 'string' && hash === hashes[0]) ? true : undefined;
  });
  await until('its share', async () =>
    (await cluster.containers('counters')).some(({ owner }) => owner === 'c') ? true : undefined,
  );
  await cluster.whole('counters');
  assert.equal(await ended('a broadcast', pool.broadcast().count()), sum);
  for (const id of all) {
    const lives = await ended('its lives', pool.id(id).lives());
    assert.deepEqual(lives.length, 1, `opened anew, or moved with its state: ${lives.join()}`);
  }
  await cluster.end();
});
