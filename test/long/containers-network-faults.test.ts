/**
 * Containers under faults of network and machine: seeds that never existed, too little CPU time, a node that is
 * falsely declared dead (CH-16, 17, 18). agent.test.ts, cpu-starvation.test.ts and membership.test.ts test membership
 * under them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { ProcessLab } from '../support/processes/process-lab.ts';
import { counter } from '../support/processes/counter-module.ts';
import { limitCpu } from '../support/processes/cpu-limit.ts';
import { httpCall, cutLinks, fetchEvents, awaitNodeEvent, until } from '../support/processes/manager-requests.ts';
import { codeOf, counterModule, withDeadline, PoolCluster } from '../support/processes/pool-cluster.ts';

const both = 'manager,worker';
const starvedMs = 6_000;
const returnMs = 30_000;
const unsupported = process.platform === 'win32' && 'signals that stop a process are unknown here';

test('a lone node whose peers are dead serves its containers and stays up (CH-16)', async (context) => {
  const lab = new ProcessLab(context);
  // No seed replies, so the node never reports that it has joined.
  const dead = ['--bootstrap', '--join', '127.0.0.1:1,127.0.0.1:2', '--modules', counterModule];
  const agent = lab.agentProgram('a', dead);
  const [, httpPort] = await agent.waitForOutput('stderr', /"message":"listening".*"httpPort":(\d+)/);
  const node = { addr: `http://127.0.0.1:${httpPort}` };
  // A pool with two copies is served by the only node.
  for (const copies of [1, 2]) {
    const name = `copies${copies}`;
    await until('a pool', async () => {
      const { code } = await httpCall(node, 'POST', '/v1/pools', { name, module: 'counter', containers: 2, copies });
      return code === 'OK' ? true : undefined;
    });
    const call = { pool: name, method: 'add', args: [copies], route: { hash: 1 } };
    const { code, body } = await httpCall(node, 'POST', '/v1/call', call);
    assert.deepEqual([code, body['result']], ['OK', copies], JSON.stringify(body));
  }
  assert.deepEqual(lab.unexpectedExits(), []);
  agent.kill('SIGTERM');
  assert.deepEqual(await agent.waitForExit(), { code: 0, signal: null }, agent.stderr);
});

test(
  'four nodes on half a core each execute calls, and no node is declared dead (CH-17)',
  { skip: unsupported },
  async (context) => {
    const cluster = await PoolCluster.start(context, { a: both, b: both, c: both, d: both });
    const pool = await cluster.pool(counter, 'counters', { containers: 4, copies: 2 }, await cluster.session());
    const limits = cluster.up.map((agent) => limitCpu(agent.pid, (signal) => agent.kill(signal)));
    context.after(() => {
      for (const limit of limits) limit.remove();
    });
    const sums = [0, 0, 0, 0];
    try {
      for (const endMs = Date.now() + starvedMs; Date.now() < endMs;) {
        for (const id of sums.keys()) sums[id] = await withDeadline('a call', pool.id(id).add(1));
      }
    } finally {
      for (const limit of limits) limit.lift();
    }
    assert.equal(new Set(sums).size, 1, `each was called as often as the others: ${sums.join()}`);
    for (const agent of cluster.up) {
      const deaths = (await fetchEvents(agent)).filter(({ type }) => type === 'member.dead');
      assert.deepEqual(deaths, [], agent.name);
    }
    // A call of a container whose only replica is on a dead node times out.
    const alone = await cluster.pool(counter, 'alone', { containers: 4, copies: 1 }, await cluster.session());
    const [killed] = cluster.others((await cluster.leader()).agent);
    const lost = (await cluster.containers('alone')).find(({ owner }) => owner === killed.name)!;
    await cluster.kill(killed);
    assert.equal(
      await withDeadline('a call of a dead node', codeOf(alone.with({ retryTimeoutMs: 1_000 }).id(lost.id).add(1))),
      'NETWORK_TIMEOUT',
    );
    assert.equal(
      await withDeadline('a broadcast', codeOf(alone.with({ retryTimeoutMs: 1_000 }).broadcast().hold(1))),
      'PARTIAL',
    );
    await cluster.end();
  },
);

test('calls that wait for a node that is falsely declared dead end when it is reachable again (CH-18)', async (context) => {
  // Longer than the detection of the death, so that no container gets another owner meanwhile.
  const args = ['--chaos', '--serving-lease', '60s', '--call-retry', '80s'];
  const cluster = await PoolCluster.start(context, { a: both, b: 'worker' }, args);
  const session = await cluster.session({ addr: `127.0.0.1:${cluster.get('a').port}` });
  const pool = await cluster.pool(counter, 'counters', { containers: 2, copies: 1 }, session);
  const [a, b] = [cluster.get('a'), cluster.get('b')];
  const { id } = (await cluster.containers('counters')).find(({ owner }) => owner === b.name)!;
  const before = await withDeadline('a call', pool.id(id).add(1));
  const running = pool.id(id).hold(500);
  await until('the call holds its turn', async () =>
    (await withDeadline('a read', pool.id(id).isHolding())) ? true : undefined,
  );
  // The links between A and B are cut.
  await cutLinks(a, [b]);
  const waiting = pool.id(id).add(1);
  const { seq } = await awaitNodeEvent(a, 'member.dead', { member: b.name });
  await pause(500);
  const late = pool.id(id).add(1);
  await cutLinks(a, []);
  const tooLate = AbortSignal.timeout(returnMs);
  await awaitNodeEvent(a, 'member.alive', { member: b.name }, seq);
  assert.ok(!tooLate.aborted, `not back within ${returnMs} ms`);
  assert.deepEqual(await withDeadline('the call that ran', running), { container: id, node: b.name });
  const sums = [
    await withDeadline('a call during the cut', waiting),
    await withDeadline('a call after the death', late),
  ];
  assert.deepEqual(
    sums.toSorted((x, y) => x - y),
    [before + 1, before + 2],
  );
  assert.equal(await withDeadline('a read', pool.id(id).held()), 1);
  assert.equal((await cluster.owner('counters', id)).name, b.name);
  await cluster.end();
});
