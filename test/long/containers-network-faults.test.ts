/**
 * Containers where the network or the machine is not as it should be: peers that were never there, a processor that is
 * too small, a node that is held to be dead and lives (CH-16, 17, 18). What membership makes of the same is told in
 * agent.test.ts, starved.test.ts and membership.test.ts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { ProcessLab } from '../support/processes/process-lab.ts';
import { counter } from '../support/processes/counter-module.ts';
import { limitCpu } from '../support/processes/cpu-limit.ts';
import { httpCall, cut, history, told, until } from '../support/processes/manager-requests.ts';
import { codeOf, counterModule, ended, PoolCluster } from '../support/processes/pool-cluster.ts';

const both = 'manager,worker';
const starvedMs = 6_000;
const returnMs = 30_000;
const notHere = process.platform === 'win32' && 'signals that stop a process are unknown here';

test('a lone node whose peers are dead serves its containers and stays up (CH-16)', async (context) => {
  const lab = new ProcessLab(context);
  // Nobody answers there, so it never says that it has joined.
  const dead = ['--bootstrap', '--join', '127.0.0.1:1,127.0.0.1:2', '--modules', counterModule];
  const agent = lab.agentProgram('a', dead);
  const [, httpPort] = await agent.waitForOutput('stderr', /"message":"listening".*"httpPort":(\d+)/);
  const node = { addr: `http://127.0.0.1:${httpPort}` };
  // Two copies are wanted, and there is one node: it serves with what there is.
  for (const copies of [1, 2]) {
    const name = `copies${copies}`;
    await until('a pool', async () => {
      const { code } = await httpCall(node, 'POST', '/v1/pools', { name, module: 'counter', containers: 2, copies });
      return code === 'OK' ? true : undefined;
    });
    const wanted = { pool: name, method: 'add', args: [copies], route: { hash: 1 } };
    const { code, body } = await httpCall(node, 'POST', '/v1/call', wanted);
    assert.deepEqual([code, body['result']], ['OK', copies], JSON.stringify(body));
  }
  assert.deepEqual(lab.bystandersDown(), []);
  agent.kill('SIGTERM');
  assert.deepEqual(await agent.waitForExit(), { code: 0, signal: null }, agent.stderr);
});

test(
  'four nodes on half a processor: calls are done and nobody is buried (CH-17)',
  { skip: notHere },
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
        for (const id of sums.keys()) sums[id] = await ended('a call', pool.id(id).add(1));
      }
    } finally {
      for (const limit of limits) limit.lift();
    }
    assert.equal(new Set(sums).size, 1, `each was called as often as the others: ${sums.join()}`);
    for (const agent of cluster.up) {
      const buried = (await history(agent)).filter(({ type }) => type === 'member.dead');
      assert.deepEqual(buried, [], agent.name);
    }
    // A task for a node that is gone, and whose containers nobody else has, ends with the code of a timeout.
    const alone = await cluster.pool(counter, 'alone', { containers: 4, copies: 1 }, await cluster.session());
    const [killed] = cluster.others((await cluster.leader()).agent);
    const lost = (await cluster.containers('alone')).find(({ owner }) => owner === killed.name)!;
    await cluster.kill(killed);
    assert.equal(
      await ended('a call of a dead node', codeOf(alone.with({ retryTimeoutMs: 1_000 }).id(lost.id).add(1))),
      'NETWORK_TIMEOUT',
    );
    assert.equal(
      await ended('a broadcast', codeOf(alone.with({ retryTimeoutMs: 1_000 }).broadcast().hold(1))),
      'PARTIAL',
    );
    await cluster.end();
  },
);

test('a node that is held to be dead by mistake: waiting calls end when it is heard again (CH-18)', async (context) => {
  // Long enough for a death by silence within it, so that nothing is given to others meanwhile.
  const words = ['--chaos', '--serving-lease', '60s', '--call-retry', '80s'];
  const cluster = await PoolCluster.start(context, { a: both, b: 'worker' }, words);
  const session = await cluster.session({ addr: `127.0.0.1:${cluster.get('a').port}` });
  const pool = await cluster.pool(counter, 'counters', { containers: 2, copies: 1 }, session);
  const [a, b] = [cluster.get('a'), cluster.get('b')];
  const { id } = (await cluster.containers('counters')).find(({ owner }) => owner === b.name)!;
  const before = await ended('a call', pool.id(id).add(1));
  const running = pool.id(id).hold(500);
  await until('it to hold', async () => ((await ended('a look', pool.id(id).isHolding())) ? true : undefined));
  // A loses all that B says; B goes on talking to A.
  await cut(a, [b]);
  const waiting = pool.id(id).add(1);
  const { seq } = await told(a, 'member.dead', { member: b.name });
  await pause(500);
  const late = pool.id(id).add(1);
  await cut(a, []);
  const tooLate = AbortSignal.timeout(returnMs);
  await told(a, 'member.alive', { member: b.name }, seq);
  assert.ok(!tooLate.aborted, `not back within ${returnMs} ms`);
  assert.deepEqual(await ended('the call that ran', running), { container: id, node: b.name });
  const sums = [await ended('a call from then', waiting), await ended('a call from after its death', late)];
  assert.deepEqual(
    sums.toSorted((x, y) => x - y),
    [before + 1, before + 2],
  );
  assert.equal(await ended('a look', pool.id(id).held()), 1);
  assert.equal((await cluster.owner('counters', id)).name, b.name);
  await cluster.end();
});
