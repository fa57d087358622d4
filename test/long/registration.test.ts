/** Nodes that are away for less than their registration lasts: they keep what they have, and nobody notices more. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Agent, type NodeEvent } from '../support/processes/process-lab.ts';
import { createAssignments, readAssignments, assertNothingMoved, ownedBy } from '../support/processes/assignments.ts';
import { cut, history, Managers, registered, told } from '../support/processes/manager-requests.ts';

const names = ['a', 'b', 'c'];
const containers = ['one', 'two', 'three', 'four', 'five', 'six'];

async function states(of: Agent): Promise<string[]> {
  const found = (await history(of)).filter(
    ({ type, member }: NodeEvent) => type === 'node.state' && member === of.name,
  );
  return found.map(({ mode, reason }) => `${String(mode)} ${String(reason)}`);
}

/** It said of each that it took it in this life. */
async function tookAll(agent: Agent, owned: readonly string[]): Promise<void> {
  for (const container of owned) await told(agent, 'container.taken', { name: `things/${container}` });
}

test('a follower, then the leader restart in time: active, with what they had', async (context) => {
  // Long enough for a start on a slow machine; nothing here waits for its end.
  const managers = await Managers.start(context, names, ['--registration-ttl', '30s']);
  const first = await managers.leader();
  const before = await createAssignments(first.agent, containers);
  const [follower] = managers.others(first.agent);
  const owned = ownedBy(before, follower.id);
  assert.ok(owned.length > 0);
  await managers.kill(follower);
  const back = await managers.restart(follower.name);
  await registered(back, 'active');
  assert.deepEqual(await states(back), ['joining fast_restart', 'active fast_restart']);
  await tookAll(back, owned);
  await managers.settled();
  await assertNothingMoved(before, managers.all);

  const { agent: leader, term } = await managers.leader();
  await managers.kill(leader);
  const next = await managers.leader(term, managers.others(leader));
  assert.notEqual(next.name, leader.name);
  const returned = await managers.restart(leader.name);
  await registered(returned, 'active');
  assert.deepEqual(await states(returned), ['joining fast_restart', 'active fast_restart']);
  await tookAll(returned, ownedBy(before, leader.id));
  await managers.settled();
  await assertNothingMoved(before, managers.all);
  assert.deepEqual(managers.lab.bystandersDown(follower, leader), []);
});

test('a cut that is shorter than the registration heals by itself', async (context) => {
  const ttlMs = 6_000;
  const managers = await Managers.start(context, names, ['--chaos', '--registration-ttl', `${ttlMs}ms`]);
  const { agent: leader } = await managers.leader();
  const before = await createAssignments(leader, containers);
  const [alone, ...others] = managers.others(leader);
  const known = await states(alone);
  const startMs = Date.now();
  await cut(alone, [leader, ...others]);
  // At least one renewal is missed: they come at a third.
  await pause(ttlMs / 2);
  await cut(alone, []);
  // Longer than what was left of the registration, and than anybody would have waited to give its things to others.
  await pause(startMs + 1.3 * ttlMs - Date.now());
  await registered(alone, 'active');
  assert.deepEqual(await states(alone), known);
  await assertNothingMoved(before, managers.all);
  assert.deepEqual(await readAssignments(alone), before);
  assert.deepEqual(managers.lab.bystandersDown(), []);
});
