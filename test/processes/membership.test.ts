/** Membership of real processes: what is killed, stopped, blocked, restarted or leaves is seen as exactly that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { getJson, postJson } from '../../src/cli/command/http-client.ts';
import {
  type Agent,
  alive,
  event,
  ProcessLab,
  type ListedMember,
  members,
  type NodeEvent,
} from '../support/processes/process-lab.ts';

const notHere = process.platform === 'win32' && 'signals that stop a process are unknown here';

/** Agents that all see each other, the first one the seed of the others. */
async function cluster(lab: ProcessLab, names: readonly string[], words: readonly string[] = []): Promise<Agent[]> {
  const [first = '', ...others] = names;
  const seed = await lab.agent(first, words);
  const join = ['--join', `127.0.0.1:${seed.port}`, ...words];
  const agents = [seed, ...(await Promise.all(others.map((name) => lab.agent(name, join))))];
  await Promise.all(
    agents.flatMap((one) => agents.filter((other) => other !== one).map((other) => alive(one.addr, other.name))),
  );
  return agents;
}

async function saw(by: Agent, type: string, member: string, more: Partial<NodeEvent> = {}): Promise<NodeEvent> {
  const fits = (found: NodeEvent): boolean =>
    found.type === type &&
    found.member === member &&
    Object.entries(more).every(([key, value]) => found[key] === value);
  return await event(by.addr, fits, `${by.name} to see ${type} ${member}`);
}

async function rowOf(by: Agent, name: string): Promise<ListedMember> {
  return (await members(by.addr)).find((row) => row.name === name) ?? assert.fail(`${by.name} does not know ${name}`);
}

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

test('two agents are enough to notice that one is killed', async (context) => {
  const lab = new ProcessLab(context);
  const [a, b] = (await cluster(lab, ['a', 'b'])) as [Agent, Agent];
  b.kill('SIGKILL');
  await saw(a, 'member.dead', 'b');
  assert.deepEqual(lab.bystandersDown(b), []);
});

test('one that is stopped is given up, and returns by itself when it goes on', { skip: notHere }, async (context) => {
  const lab = new ProcessLab(context);
  const [a, b, c] = (await cluster(lab, ['a', 'b', 'c'])) as [Agent, Agent, Agent];
  const { incarnation } = await rowOf(a, 'c');
  c.kill('SIGSTOP');
  context.after(() => c.kill('SIGCONT'));
  const dead = await Promise.all([saw(a, 'member.dead', 'c'), saw(b, 'member.dead', 'c')]);
  c.kill('SIGCONT');
  const back = await event(
    a.addr,
    (found) => found.type === 'member.alive' && found.member === 'c' && found.seq > dead[0].seq,
    'c back',
  );
  assert.equal(back['generation'], 1);
  assert.ok(Number(back['incarnation']) > incarnation);
  await event(
    b.addr,
    (found) => found.type === 'member.alive' && found.member === 'c' && found.seq > dead[1].seq,
    'c back',
  );
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

test('a restart that is faster than detection is seen as a new life', async (context) => {
  const lab = new ProcessLab(context);
  const [a, b] = (await cluster(lab, ['a', 'b', 'c'])) as [Agent, Agent, Agent];
  const old = await rowOf(a, 'b');
  b.kill('SIGKILL');
  await b.waitForExit();
  await lab.agent('b', ['--join', `127.0.0.1:${a.port}`]);
  await saw(a, 'member.dead', 'b', { generation: old.generation });
  await saw(a, 'member.alive', 'b', { generation: old.generation + 1 });
  const row = await rowOf(a, 'b');
  assert.deepEqual([row.state, row.generation, row.id], ['alive', old.generation + 1, old.id]);
});

test('one that leaves has left, and is not dead', async (context) => {
  const lab = new ProcessLab(context);
  const [a, b, c] = (await cluster(lab, ['a', 'b', 'c'])) as [Agent, Agent, Agent];
  c.kill('SIGTERM');
  assert.deepEqual(await c.waitForExit(), { code: 0, signal: null });
  await Promise.all([saw(a, 'member.left', 'c'), saw(b, 'member.left', 'c')]);
  for (const agent of [a, b]) {
    assert.equal((await rowOf(agent, 'c')).state, 'left');
    const { items } = (await getJson({ addr: agent.addr, token: undefined }, '/v1/events?follow=false')) as {
      items: NodeEvent[];
    };
    assert.deepEqual(
      items.filter(({ type, member }) => member === 'c' && (type === 'member.dead' || type === 'member.suspect')),
      [],
    );
  }
});

test('operators ask how far two nodes are apart and who hears whom', async (context) => {
  const lab = new ProcessLab(context);
  const [a, b] = (await cluster(lab, ['a', 'b'])) as [Agent, Agent];
  const target = { addr: a.addr, token: undefined };
  for (let looks = 0; ; looks++) {
    assert.ok(looks < 300, 'no round trip was measured');
    await pause(100);
    const { estimatedMs, measuredMs } = (await getJson(target, '/v1/rtt?from=a&to=b')) as Record<string, number | null>;
    if (estimatedMs !== null && measuredMs !== null) break;
  }
  const rtt = await lab.run(['rtt', 'a', 'b', '--addr', a.addr]);
  assert.match(rtt.stdout, /ESTIMATED +[\d.]+ ms\nMEASURED +[\d.]+ ms/);
  const whole = await lab.run(['reachability', '--addr', a.addr]);
  assert.deepEqual([whole.code, whole.stdout], [0, 'HEARS  a      b\na      .      alive\nb      alive  .\n']);
  if (notHere) return;
  b.kill('SIGSTOP');
  context.after(() => b.kill('SIGCONT'));
  const partial = await lab.run(['reachability', '-o', 'json', '--addr', a.addr]);
  b.kill('SIGCONT');
  assert.equal(partial.code, 4);
  assert.deepEqual((JSON.parse(partial.stdout) as { unanswered: string[] }).unanswered, ['b']);
});
