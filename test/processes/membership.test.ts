/** Membership of real processes: a killed node is known dead soon, a blocked one is stuck and not dead. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getJson, postJson } from '../../src/cli/command/http-client.ts';
import { type Agent, ProcessLab, type NodeEvent } from '../support/processes/process-lab.ts';

import { cluster, rowOf, saw } from '../support/processes/membership-cluster.ts';

test('one of five is killed: the others call it dead and say why, and nobody else ends', async (context) => {
  const lab = new ProcessLab(context);
  const agents = await cluster(lab, ['a', 'b', 'c', 'd', 'e']);
  const killed = agents.at(-1) as Agent;
  const others = agents.slice(0, -1);
  killed.kill('SIGKILL');
  await killed.waitForExit();
  await Promise.all(others.map((other) => saw(other, 'member.dead', 'e')));
  for (const other of others) assert.equal((await rowOf(other, 'e')).state, 'dead');
  assert.deepEqual(lab.bystandersDown(killed), []);
  const { history } = (await getJson({ addr: agents[0]?.addr ?? '', token: undefined }, '/v1/members/e/why')) as {
    history: { type: string; why: string }[];
  };
  assert.equal(history.at(-1)?.type, 'member.dead');
  assert.notEqual(history.at(-1)?.why, '');
  const why = await lab.run(['why', 'e', '--addr', agents[0]?.addr ?? '']);
  assert.equal(why.code, 0);
  assert.match(why.stdout, /^e is dead, says a\n[\s\S]*dead/);
});

test('a blocked main loop makes a node stuck, not dead', async (context) => {
  const lab = new ProcessLab(context);
  const words = ['--chaos', '--stuck-after', '1s'];
  const [a, b, c] = (await cluster(lab, ['a', 'b', 'c'], words)) as [Agent, Agent, Agent];
  const blocked = postJson({ addr: c.addr, token: undefined }, '/v1/dev/block', { ms: 6_000 });
  await Promise.all([saw(a, 'member.stuck', 'c'), saw(b, 'member.stuck', 'c')]);
  const during = await rowOf(a, 'c');
  assert.deepEqual([during.state, during.stuck], ['alive', true]);
  await blocked;
  await Promise.all([saw(a, 'member.unstuck', 'c'), saw(b, 'member.unstuck', 'c'), saw(c, 'member.unstuck', 'c')]);
  for (const agent of [a, b]) {
    const { items } = (await getJson({ addr: agent.addr, token: undefined }, '/v1/events?follow=false')) as {
      items: NodeEvent[];
    };
    assert.deepEqual(
      items.filter(({ type }) => type === 'member.dead'),
      [],
    );
  }
});
