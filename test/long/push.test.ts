/** A push member (a worker without UDP) among three managers, as real processes: it is a member like any other. */
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { getJson, postJson } from '../../src/cli/command/http-client.ts';
import {
  type Agent,
  awaitAlive,
  awaitEvent,
  ProcessLab,
  type ListedMember,
  fetchMembers,
  type NodeEvent,
} from '../support/processes/process-lab.ts';

const unsupported = process.platform === 'win32' && 'signals that stop a process are unknown here';
const managerNames = ['m1', 'm2', 'm3'];
/** So long that heartbeats arrive in time on a busy machine. */
const args = ['--probe-interval', '1s'];

type Cluster = { readonly managers: readonly Agent[]; readonly worker: Agent; readonly join: readonly string[] };

async function cluster(lab: ProcessLab, more: readonly string[] = []): Promise<Cluster> {
  const [first = '', ...others] = managerNames;
  const seed = await lab.agent(first, [...args, ...more, '--roles', 'manager']);
  const join = [...args, ...more, '--join', `127.0.0.1:${seed.port}`];
  const rest = await Promise.all(others.map((name) => lab.agent(name, [...join, '--roles', 'manager'])));
  const managers = [seed, ...rest];
  await Promise.all(
    managers.flatMap((one) =>
      managerNames.filter((name) => name !== one.name).map((name) => awaitAlive(one.addr, name)),
    ),
  );
  const worker = await lab.agent('w1', [...join, '--roles', 'worker', '--membership', 'push']);
  await Promise.all(managers.map(({ addr }) => awaitAlive(addr, 'w1')));
  await Promise.all(managerNames.map((name) => awaitAlive(worker.addr, name)));
  return { managers, worker, join };
}

async function memberRow(by: Agent, name: string): Promise<ListedMember & { readonly watchedBy: string | null }> {
  const rows = (await fetchMembers(by.addr)) as (ListedMember & { readonly watchedBy: string | null })[];
  return rows.find((row) => row.name === name) ?? assert.fail(`${by.name} does not know ${name}`);
}

async function awaitMemberEvent(by: Agent, type: string, sinceSeq = 0, member = 'w1'): Promise<NodeEvent> {
  const fits = (found: NodeEvent): boolean => found.type === type && found.member === member && found.seq > sinceSeq;
  return await awaitEvent(by.addr, fits, `${by.name} to see ${type} ${member} after event ${sinceSeq}`);
}

async function eventsOf(by: Agent): Promise<readonly NodeEvent[]> {
  return ((await getJson({ addr: by.addr, token: undefined }, '/v1/events?follow=false')) as { items: NodeEvent[] })
    .items;
}

/** The manager that gets the heartbeats of the worker, in the view of the first manager. */
async function watcherOf(managers: readonly Agent[]): Promise<Agent> {
  const { watchedBy } = await memberRow(managers[0] as Agent, 'w1');
  return managers.find(({ name }) => name === watchedBy) ?? assert.fail(`there is no manager ${watchedBy}`);
}

async function udpIsFree(port: number): Promise<void> {
  await new Promise<void>((done, failed) => {
    const socket = createSocket('udp4').once('error', failed);
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => socket.close(() => done()));
  });
}

test('a worker without UDP is alive to all; when killed it is dead to all, with the reason', async (context) => {
  const lab = new ProcessLab(context);
  const { managers, worker, join } = await cluster(lab);
  await udpIsFree(worker.port);
  for (const manager of managers) assert.equal((await memberRow(manager, 'w1')).state, 'alive');
  const watcher = await watcherOf(managers);
  worker.kill('SIGKILL');
  await worker.waitForExit();
  await Promise.all(managers.map((manager) => awaitMemberEvent(manager, 'member.dead')));
  const { history } = (await getJson({ addr: watcher.addr, token: undefined }, '/v1/members/w1/why')) as {
    history: { type: string; why: string }[];
  };
  assert.match(history.at(-1)?.why ?? '', /^no heartbeat for \d+ ms$/);
  const again = await lab.agent('w1', [...join, '--roles', 'worker', '--membership', 'push']);
  for (const manager of managers) {
    const isNewGeneration = (found: NodeEvent): boolean =>
      found.type === 'member.alive' && found.member === 'w1' && found['generation'] === 2;
    await awaitEvent(manager.addr, isNewGeneration, `${manager.name} to see the new generation`);
  }
  assert.deepEqual(lab.unexpectedExits(worker), []);
  again.kill('SIGTERM');
  assert.deepEqual(await again.waitForExit(), { code: 0, signal: null });
  await Promise.all(managers.map((manager) => awaitMemberEvent(manager, 'member.left')));
});

test(
  'a stopped worker is declared dead, and returns by itself when it continues',
  { skip: unsupported },
  async (context) => {
    const lab = new ProcessLab(context);
    const { managers, worker } = await cluster(lab);
    worker.kill('SIGSTOP');
    context.after(() => worker.kill('SIGCONT'));
    const deaths = await Promise.all(managers.map((manager) => awaitMemberEvent(manager, 'member.dead')));
    worker.kill('SIGCONT');
    for (const [place, manager] of managers.entries()) {
      const back = await awaitMemberEvent(manager, 'member.alive', deaths[place]?.seq);
      assert.equal(back['generation'], 1);
      assert.ok(Number(back['incarnation']) > Number(deaths[place]?.['incarnation']));
    }
  },
);

test('a worker whose manager is killed moves to another one, and is not declared dead', async (context) => {
  const lab = new ProcessLab(context);
  const { managers, worker } = await cluster(lab);
  const watcher = await watcherOf(managers);
  const others = managers.filter((manager) => manager !== watcher);
  watcher.kill('SIGKILL');
  await Promise.all(others.map((manager) => awaitMemberEvent(manager, 'member.dead', 0, watcher.name)));
  // The worker has moved when it announces it with a higher incarnation.
  for (let attempts = 0; ; attempts++) {
    assert.ok(attempts < 300, 'the worker found no other manager');
    const rows = await Promise.all(others.map((manager) => memberRow(manager, 'w1')));
    if (rows.every(({ incarnation, watchedBy }) => incarnation > 0 && watchedBy !== watcher.name)) break;
    await pause(50);
  }
  await awaitMemberEvent(worker, 'member.dead', 0, watcher.name);
  for (const manager of others) {
    assert.equal((await memberRow(manager, 'w1')).state, 'alive');
    assert.ok(!(await eventsOf(manager)).some(({ type, member }) => type === 'member.dead' && member === 'w1'));
  }
});

test('a blocked main loop makes a worker stuck, not dead', async (context) => {
  const lab = new ProcessLab(context);
  const { managers, worker } = await cluster(lab, ['--chaos', '--stuck-after', '1s']);
  const watcher = await watcherOf(managers);
  const blocked = postJson({ addr: worker.addr, token: undefined }, '/v1/dev/block', { ms: 6_000 });
  await awaitMemberEvent(watcher, 'member.stuck');
  assert.equal((await memberRow(watcher, 'w1')).state, 'alive');
  await blocked;
  await awaitMemberEvent(watcher, 'member.unstuck');
  for (const manager of managers) {
    assert.ok(!(await eventsOf(manager)).some(({ type, member }) => type === 'member.dead' && member === 'w1'));
  }
});
