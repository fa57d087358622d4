/** Membership of real processes: nodes that stop, restart or leave; round-trip times and reachability. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { getJson } from '../../src/cli/command/http-client.ts';
import { type Agent, awaitEvent, ProcessLab, type NodeEvent } from '../support/processes/process-lab.ts';

import { startAgents, memberRow, awaitMemberEvent } from '../support/processes/membership-cluster.ts';

const unsupported = process.platform === 'win32' && 'signals that stop a process are unknown here';

test('a node detects that the only other node is killed', async (context) => {
  const lab = new ProcessLab(context);
  const [a, b] = (await startAgents(lab, ['a', 'b'])) as [Agent, Agent];
  b.kill('SIGKILL');
  await awaitMemberEvent(a, 'member.dead', 'b');
  assert.deepEqual(lab.unexpectedExits(b), []);
});

test(
  'a stopped node is declared dead, and returns by itself when it continues',
  { skip: unsupported },
  async (context) => {
    const lab = new ProcessLab(context);
    const [a, b, c] = (await startAgents(lab, ['a', 'b', 'c'])) as [Agent, Agent, Agent];
    const { incarnation } = await memberRow(a, 'c');
    c.kill('SIGSTOP');
    context.after(() => c.kill('SIGCONT'));
    const dead = await Promise.all([awaitMemberEvent(a, 'member.dead', 'c'), awaitMemberEvent(b, 'member.dead', 'c')]);
    c.kill('SIGCONT');
    const back = await awaitEvent(
      a.addr,
      (found) => found.type === 'member.alive' && found.member === 'c' && found.seq > dead[0].seq,
      'c back',
    );
    assert.equal(back['generation'], 1);
    assert.ok(Number(back['incarnation']) > incarnation);
    await awaitEvent(
      b.addr,
      (found) => found.type === 'member.alive' && found.member === 'c' && found.seq > dead[1].seq,
      'c back',
    );
  },
);

test('a restart that is faster than detection is seen as a new generation', async (context) => {
  const lab = new ProcessLab(context);
  const [a, b] = (await startAgents(lab, ['a', 'b', 'c'])) as [Agent, Agent, Agent];
  const old = await memberRow(a, 'b');
  b.kill('SIGKILL');
  await b.waitForExit();
  await lab.agent('b', ['--join', `127.0.0.1:${a.port}`]);
  await awaitMemberEvent(a, 'member.dead', 'b', { generation: old.generation });
  await awaitMemberEvent(a, 'member.alive', 'b', { generation: old.generation + 1 });
  const row = await memberRow(a, 'b');
  assert.deepEqual([row.state, row.generation, row.id], ['alive', old.generation + 1, old.id]);
});

test('a node that leaves is left, not dead', async (context) => {
  const lab = new ProcessLab(context);
  const [a, b, c] = (await startAgents(lab, ['a', 'b', 'c'])) as [Agent, Agent, Agent];
  c.kill('SIGTERM');
  assert.deepEqual(await c.waitForExit(), { code: 0, signal: null });
  await Promise.all([awaitMemberEvent(a, 'member.left', 'c'), awaitMemberEvent(b, 'member.left', 'c')]);
  for (const agent of [a, b]) {
    assert.equal((await memberRow(agent, 'c')).state, 'left');
    const { items } = (await getJson({ addr: agent.addr, token: undefined }, '/v1/events?follow=false')) as {
      items: NodeEvent[];
    };
    assert.deepEqual(
      items.filter(({ type, member }) => member === 'c' && (type === 'member.dead' || type === 'member.suspect')),
      [],
    );
  }
});

test('operators see round-trip times and reachability', async (context) => {
  const lab = new ProcessLab(context);
  const [a, b] = (await startAgents(lab, ['a', 'b'])) as [Agent, Agent];
  const target = { addr: a.addr, token: undefined };
  for (let attempts = 0; ; attempts++) {
    assert.ok(attempts < 300, 'no round trip was measured');
    await pause(100);
    const { estimatedMs, measuredMs } = (await getJson(target, '/v1/rtt?from=a&to=b')) as Record<string, number | null>;
    if (estimatedMs !== null && measuredMs !== null) break;
  }
  const rtt = await lab.run(['rtt', 'a', 'b', '--addr', a.addr]);
  assert.match(rtt.stdout, /ESTIMATED +[\d.]+ ms\nMEASURED +[\d.]+ ms/);
  const whole = await lab.run(['reachability', '--addr', a.addr]);
  assert.deepEqual([whole.code, whole.stdout], [0, 'SEEN BY  a      b\na        .      alive\nb        alive  .\n']);
  if (unsupported) return;
  b.kill('SIGSTOP');
  context.after(() => b.kill('SIGCONT'));
  const partial = await lab.run(['reachability', '-o', 'json', '--addr', a.addr]);
  b.kill('SIGCONT');
  assert.equal(partial.code, 4);
  assert.deepEqual((JSON.parse(partial.stdout) as { unanswered: string[] }).unanswered, ['b']);
});
