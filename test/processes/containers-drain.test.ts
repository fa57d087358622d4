/** Three nodes with kv pools under writes: balance, drain and activation (DA-4 to DA-7). */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KvPool } from '../support/processes/kv-pool.ts';
import { get, httpCall, awaitRegistration, awaitNodeEvent, until } from '../support/processes/manager-requests.ts';
import { PoolCluster } from '../support/processes/pool-cluster.ts';
import type { Agent } from '../support/processes/process-lab.ts';

type Balance = {
  readonly variation: number;
  readonly containers: number;
  readonly nodes: readonly { readonly name: string; readonly containers: number; readonly copies: number }[];
};
type DrainContext = { readonly cluster: PoolCluster; readonly pool: KvPool; readonly drained: Agent };

const both = 'manager,worker';

async function post(by: Agent, path: string, body: object): Promise<Readonly<Record<string, unknown>>> {
  const { code, body: reply } = await httpCall(by, 'POST', path, body);
  assert.equal(code, 'OK', JSON.stringify(reply));
  return reply;
}

async function balanceOf(agent: Agent): Promise<Balance> {
  return (await get(agent, '/v1/balance')) as Balance;
}

test('in a cluster of three nodes and twelve containers', async (context) => {
  const cluster = await PoolCluster.start(context, { a: both, b: both, c: both });
  const pool = await KvPool.create(cluster, await cluster.session(), 'things', { containers: 12, copies: 2 });
  const [drained] = cluster.others((await cluster.leader()).agent);
  const shared = { cluster, pool, drained };
  await context.test('containers are balanced, and the report counts them (DA-4)', async () => await balanced(shared));
  await context.test(
    'a rebalance of balanced containers moves nothing, with or without dry run (DA-5)',
    async () => await nothingMoves(shared),
  );
  await context.test(
    'a drained node has no container, and no write is lost by its moves (DA-6, DA-7)',
    async () => await drain(shared),
  );
  await context.test('a drained node gets no container, and forwards calls', async () => await forwards(shared));
  await context.test('an activated node gets its share of containers (DA-6)', async () => await returns(shared));
  await cluster.end();
});

async function balanced({ cluster, pool, drained }: DrainContext): Promise<void> {
  const { variation, containers, nodes } = await balanceOf(drained);
  assert.ok(variation < 0.3, String(variation));
  const owners = await pool.owners();
  assert.equal(containers, owners.length);
  for (const { name } of cluster.up) {
    const row = nodes.find((one) => one.name === name);
    assert.equal(row?.containers, owners.filter((owner) => owner === name).length, name);
  }
}

async function nothingMoves({ pool, drained }: DrainContext): Promise<void> {
  const before = await pool.owners();
  for (const body of [{ dryRun: true }, { maxMoves: 4 }]) {
    const { moves, started } = await post(drained, '/v1/rebalance', body);
    assert.deepEqual([moves, started], [[], 0]);
  }
  assert.deepEqual(await pool.owners(), before);
}

async function drain({ cluster, pool, drained }: DrainContext): Promise<void> {
  assert.ok((await pool.ownedBy(drained)).length > 0);
  pool.startWriting();
  await post(drained, `/v1/nodes/${drained.name}/drain`, { deadline: '30s' });
  await awaitNodeEvent(drained, 'node.state', { mode: 'drained', reason: 'drain_complete' });
  await awaitRegistration(drained, 'drained');
  await pool.stopWriting();
  const all = await cluster.containers('things');
  assert.ok(all.every(({ owner, copies }) => owner !== drained.name && !copies.includes(drained.name)));
  await pool.assertWritesKept();
}

async function forwards({ cluster, pool, drained }: DrainContext): Promise<void> {
  const later = await KvPool.create(cluster, await cluster.session(), 'later', { containers: 6, copies: 2 });
  const all = await cluster.containers('later');
  assert.ok(all.every(({ owner, copies }) => owner !== drained.name && !copies.includes(drained.name)));
  const { code } = await httpCall(drained, 'POST', '/v1/containers/later/0/migrate', { to: drained.name });
  assert.equal(code, 'PRECONDITION');
  await pool.write();
  await Promise.all([pool.assertWritesKept(drained), later.assertWritesKept(drained)]);
}

async function returns({ cluster, pool, drained }: DrainContext): Promise<void> {
  pool.startWriting();
  await post(drained, `/v1/nodes/${drained.name}/activate`, {});
  await awaitNodeEvent(drained, 'node.state', { mode: 'active', reason: 'admin_activate' });
  await until(`${drained.name} has its share`, async () => {
    const { variation, nodes } = await balanceOf(drained);
    const share = nodes.find(({ name }) => name === drained.name)?.containers ?? 0;
    return share > 0 && variation < 0.25 ? true : undefined;
  });
  await pool.stopWriting();
  await cluster.awaitHealthy('things');
  await pool.assertWritesKept();
}
