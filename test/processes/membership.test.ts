/** Membership of real processes: a killed node is soon declared dead, a blocked one is stuck and not dead. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { getJson, postJson } from '../../src/cli/command/http-client.ts';
import { type Agent, ProcessLab, type NodeEvent } from '../support/processes/process-lab.ts';

import { startAgents, memberRow, awaitMemberEvent } from '../support/processes/membership-cluster.ts';

test('a killed node is declared dead by the other four, with the reason, and no other process exits', async (context) => {
  const lab = new ProcessLab(context);
  const agents = await startAgents(lab, ['a', 'b', 'c', 'd', 'e']);
  const killed = agents.at(-1) as Agent;
  const others = agents.slice(0, -1);
  killed.kill('SIGKILL');
  await killed.waitForExit();
  await Promise.all(others.map((other) => awaitMemberEvent(other, 'member.dead', 'e')));
  for (const other of others) assert.equal((await memberRow(other, 'e')).state, 'dead');
  assert.deepEqual(lab.unexpectedExits(killed), []);
  const { history } = (await getJson({ addr: agents[0]?.addr ?? '', token: undefined }, '/v1/members/e/why')) as {
    history: { type: string; why: string }[];
  };
  assert.equal(history.at(-1)?.type, 'member.dead');
  assert.notEqual(history.at(-1)?.why, '');
  const why = await lab.run(['why', 'e', '--addr', agents[0]?.addr ?? '']);
  assert.equal(why.code, 0);
  assert.match(why.stdout, /^e is dead, as a sees it\n[\s\S]*dead/);
});

test('a blocked main loop makes a node stuck, not dead', async (context) => {
  const lab = new ProcessLab(context);
  const args = ['--chaos', '--stuck-after', '1s'];
  const [a, b, c] = (await startAgents(lab, ['a', 'b', 'c'], args)) as [Agent, Agent, Agent];
  const blocked = postJson({ addr: c.addr, token: undefined }, '/v1/dev/block', { ms: 6_000 });
  await Promise.all([awaitMemberEvent(a, 'member.stuck', 'c'), awaitMemberEvent(b, 'member.stuck', 'c')]);
  const during = await memberRow(a, 'c');
  assert.deepEqual([during.state, during.stuck], ['alive', true]);
  await blocked;
  await Promise.all([
    awaitMemberEvent(a, 'member.unstuck', 'c'),
    awaitMemberEvent(b, 'member.unstuck', 'c'),
    awaitMemberEvent(c, 'member.unstuck', 'c'),
  ]);
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
