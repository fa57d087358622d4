/** Nodes that are away for longer than their registration lasts, alone or all together. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createAssignments, readAssignments, ownedBy } from '../support/processes/assignments.ts';
import type { Agent } from '../support/processes/process-lab.ts';
import {
  httpCall,
  cut,
  entries,
  get,
  history,
  Managers,
  put,
  registered,
  told,
  fetchNodeStatus,
  until,
  votersAre,
  Watched,
} from '../support/processes/manager-requests.ts';

const names = ['a', 'b', 'c'];
const containers = ['one', 'two', 'three', 'four', 'five', 'six'];
const ttlMs = 3_000;
const words = ['--registration-ttl', `${ttlMs}ms`];

/** Everything is with these. */
async function heldBy(target: Agent, owners: readonly Agent[]): Promise<void> {
  await until(`all with ${owners.map(({ name }) => name).join()}`, async () => {
    const all = await readAssignments(target);
    const counts = owners.map(({ id }) => ownedBy(all, id).length);
    return counts.reduce((sum, count) => sum + count, 0) === containers.length ? true : undefined;
  });
}

async function activate(by: Agent, node: Agent): Promise<void> {
  const { code, body } = await httpCall(by, 'POST', `/v1/nodes/${node.name}/activate`, { reason: 'looked into it' });
  assert.equal(code, 'OK', JSON.stringify(body));
  await told(node, 'node.state', { mode: 'active', reason: 'admin_activate' });
  await registered(node, 'active');
}

test('a cut that is longer than the registration: given up, then back and drained', async (context) => {
  const managers = await Managers.start(context, names, [...words, '--chaos']);
  const { agent: leader } = await managers.leader();
  const before = await createAssignments(leader, containers);
  const [alone] = managers.others(leader);
  const others = managers.others(alone);
  assert.ok(ownedBy(before, alone.id).length > 0);
  await cut(alone, others);
  await told(alone, 'registration.lost');
  await heldBy(others[0], others);
  await cut(alone, []);
  await told(alone, 'node.state', { mode: 'drained', reason: 'registration_expired' });
  await registered(alone, 'drained');
  await heldBy(alone, others);
  await activate(others[0], alone);
  assert.deepEqual(managers.lab.bystandersDown(), []);
});

test('a restart after the registration ended: its key is gone, it is drained until somebody activates it', async (context) => {
  const managers = await Managers.start(context, names, words);
  const { agent: leader } = await managers.leader();
  const before = await createAssignments(leader, containers);
  const [killed] = managers.others(leader);
  const others = managers.others(killed);
  assert.ok(ownedBy(before, killed.id).length > 0);
  const registrations = await Watched.open(context, others[0], '/cluster/register/');
  const elsewhere = await Watched.open(context, others[0], '/elsewhere/');
  await managers.kill(killed);
  await registrations.until('its end', () => registrations.changes.length > 0);
  // Only its own: those who live have renewed theirs beyond the first deadline.
  assert.deepEqual(
    registrations.changes.map(({ kind, key }) => [kind, key]),
    [['delete', `/cluster/register/${killed.id}`]],
  );
  assert.deepEqual(elsewhere.changes, []);
  await heldBy(others[0], others);
  const back = await managers.restart(killed.name);
  await told(back, 'node.state', { mode: 'drained', reason: 'stale_restart' });
  await registered(back, 'drained');
  await heldBy(back, others);
  const shown = await get(others[0], `/v1/nodes/${back.name}`);
  assert.deepEqual([shown['registration'], shown['reason']], ['drained', 'stale_restart']);
  await activate(others[0], back);
  await managers.settled();
  assert.deepEqual(managers.lab.bystandersDown(killed), []);
});

test('all are killed and away for longer than a registration: all are active again, with all that was agreed', async (context) => {
  const managers = await Managers.start(context, names, words);
  const { agent: leader, term } = await managers.leader();
  const before = await createAssignments(leader, containers);
  const keys = Array.from({ length: 50 }, (_, n) => `/kept/${String(n).padStart(2, '0')}`);
  await Promise.all(keys.map(async (key) => assert.equal((await put(leader, key, `of ${key}`)).code, 'OK')));
  const kept = await entries(leader, '/kept/');
  assert.deepEqual(
    kept.map(({ key }) => key),
    keys,
  );
  const killed = managers.all;
  await managers.kill(...killed);
  await pause(1.2 * ttlMs);
  await Promise.all(names.map((name) => managers.restart(name)));
  await managers.leader(term);
  await managers.settled();
  for (const agent of managers.all) {
    assert.deepEqual(await entries(agent, '/kept/'), kept);
    const states = (await history(agent)).filter(({ type, member }) => type === 'node.state' && member === agent.name);
    const found = states.map(({ mode, reason }) => `${String(mode)} ${String(reason)}`);
    assert.deepEqual(found, ['joining full_cluster_restart', 'active full_cluster_restart']);
    assert.deepEqual(await readAssignments(agent), before);
  }
  // Still so when every registration of before would be over.
  await pause(1.2 * ttlMs);
  for (const agent of managers.all) assert.equal((await fetchNodeStatus(agent)).registration, 'active');
  assert.deepEqual(await readAssignments(managers.all[0]!), before);
  assert.deepEqual(managers.lab.bystandersDown(...killed), []);
});

test('what one manager had alone is with the second after the first is removed and killed', async (context) => {
  const managers = await Managers.start(context, ['a'], words);
  const a = managers.get('a');
  const before = await createAssignments(a, containers);
  assert.deepEqual(ownedBy(before, a.id), containers.toSorted());
  const b = await managers.add('b', ['--join', `127.0.0.1:${a.port}`]);
  await managers.settled();
  const { code, body } = await httpCall(b, 'POST', '/v1/managers/a/remove', {});
  assert.equal(code, 'OK', JSON.stringify(body));
  await managers.kill(a);
  await votersAre(b, ['b']);
  await heldBy(b, [b]);
  for (const container of containers) await told(b, 'container.taken', { name: `things/${container}` });
  assert.deepEqual(managers.lab.bystandersDown(a), []);
});
