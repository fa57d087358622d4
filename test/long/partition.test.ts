/**
 * Two of five managers are partitioned: they commit nothing and disturb no other manager, the majority continues, and
 * after healing all agree. In network namespaces where this machine allows them, otherwise with `--chaos` cuts.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ProcessLab, type ChildProgram } from '../support/processes/process-lab.ts';
import { NamespacedNetwork, networkUnavailableReason } from '../support/processes/network-namespaces.ts';
import {
  awaitCommonLeader,
  httpCall,
  cutLinks,
  entries,
  get,
  fetchEvents,
  Managers,
  put,
  awaitRegistration,
  type Target,
  fetchNodeStatus,
  until,
  awaitVoters,
} from '../support/processes/manager-requests.ts';

type Manager = Target & { readonly name: string };
type Cluster = {
  readonly lab: ProcessLab;
  readonly managers: readonly Manager[];
  readonly partition: (minority: readonly Manager[]) => Promise<void>;
  readonly heal: () => Promise<void>;
};

const names = ['a', 'b', 'c', 'd', 'e'];
const port = 7_000;
const token = 'partition-tests-9sKw2LxQ';

/** Each manager in a namespace of its own, where every port is free. */
async function inNamespaces(context: TestContext): Promise<Cluster> {
  const lab = new ProcessLab(context);
  const network = new NamespacedNetwork(context, names.length);
  const started = names.map((name, at): [Manager, ChildProgram] => {
    const place = at + 1;
    const where = ['--host', network.host(place), '--port', String(port), '--profile', 'local'];
    const own = [
      '--http-host',
      network.ownHost(place),
      '--http-port',
      String(port + 1),
      '--data',
      `${lab.folder}/${name}`,
    ];
    const group = at === 0 ? ['--bootstrap'] : ['--join', `${network.host(1)}:${port}`];
    const args = ['agent', '--with-parent', '--name', name, ...where, ...own, ...group];
    const program = lab.program(args, { REMUSTER_TOKEN: token }, network.commandPrefix(place));
    return [{ name, addr: `http://${network.ownHost(place)}:${port + 1}`, token }, program];
  });
  await Promise.all(started.map(([, program]) => program.waitForOutput('stdout', /^\{"ready":true.*\}$/m)));
  const managers = started.map(([manager]) => manager);
  await Promise.all(managers.map((manager) => awaitVoters(manager, names)));
  await Promise.all(managers.map((manager) => awaitRegistration(manager, 'active')));
  return {
    lab,
    managers,
    partition: async (minority) => network.partition(minority.map(({ name }) => names.indexOf(name) + 1)),
    heal: async () => network.heal(),
  };
}

async function withCuts(context: TestContext): Promise<Cluster> {
  const managers = await Managers.start(context, names, ['--chaos']);
  return {
    lab: managers.lab,
    managers: managers.all,
    partition: async (minority) => {
      const majority = managers.all.filter((manager) => !minority.some(({ name }) => name === manager.name));
      await Promise.all(minority.map((manager) => cutLinks(manager, majority)));
      await Promise.all(majority.map((manager) => cutLinks(manager, minority)));
    },
    heal: async () => void (await Promise.all(managers.all.map((manager) => cutLinks(manager, [])))),
  };
}

const notes: string[] = [];
const fault = networkUnavailableReason((text) => notes.push(text));
const how = fault === undefined ? 'in network namespaces' : `by cuts inside the nodes, because ${fault}`;

test(`two of five managers are partitioned (${how})`, async (context) => {
  for (const note of notes) context.diagnostic(note);
  const cluster = await (fault === undefined ? inNamespaces(context) : withCuts(context));
  await context.test('both are followers', async (inner) => await cutOff(inner, cluster, false));
  await context.test('one of them is the leader', async (inner) => await cutOff(inner, cluster, true));
  assert.deepEqual(cluster.lab.unexpectedExits(), []);
});

async function cutOff(
  context: TestContext,
  { managers, partition, heal }: Cluster,
  withLeader: boolean,
): Promise<void> {
  const before = await awaitCommonLeader(managers);
  const followers = managers.filter(({ name }) => name !== before.name);
  const leader = managers.find(({ name }) => name === before.name)!;
  const minority = withLeader ? [leader, followers[0]!] : followers.slice(0, 2);
  const majority = managers.filter((manager) => !minority.includes(manager));
  const key = `/part/${withLeader ? 'leading' : 'following'}`;
  const written = await put(minority[0]!, key, 'before');
  assert.equal(written.code, 'OK', JSON.stringify(written.body));

  const partitionedMs = Date.now();
  await partition(minority);
  context.after(heal);
  const alone = await Promise.all(minority.map((manager) => leaderless(manager, partitionedMs)));
  context.diagnostic(`without a leader ${alone.join(' and ')} ms after the cut`);
  const refused = Promise.all(
    minority.flatMap((manager) => [put(manager, key, 'minority'), httpCall(manager, 'GET', `/v1/registry?key=${key}`)]),
  );
  const during = await awaitCommonLeader(majority, withLeader ? before.term : before.term - 1);
  if (withLeader) assert.ok(during.fence > before.fence);
  else assert.equal(during.name, before.name);
  for (const manager of majority) assert.equal((await put(manager, key, `majority ${manager.name}`)).code, 'OK');
  for (const { code, body } of await refused) assert.equal(code, 'NO_QUORUM', JSON.stringify(body));
  // A stale read returns the old value, if the node has it.
  const old = await get(minority[1]!, `/v1/registry?key=${key}&stale`);
  for (const { value } of old['items'] as { value: string }[]) assert.equal(value, 'before');
  for (const manager of minority)
    assert.equal((await fetchNodeStatus(manager)).term, before.term, await leadershipOf(managers));

  const last = await awaitCommonLeader(majority, during.term - 1);
  await heal();
  const after = await awaitCommonLeader(managers, last.term - 1);
  assert.deepEqual([after.name, after.term], [last.name, last.term], await leadershipOf(managers));
  const found = await entries(majority[0]!, '/part/');
  assert.equal(found.find((entry) => entry.key === key)?.version, 1 + majority.length);
  for (const manager of minority) {
    // A connection may take a moment to recover after the partition.
    await until(`${manager.name} writes again`, async () => {
      const { code } = await put(manager, `${key}/${manager.name}`, 'after');
      return code === 'OK' ? true : undefined;
    });
    await awaitRegistration(manager, 'active');
  }
  const all = await Promise.all(managers.map(async (manager) => await entries(manager, '/part/')));
  for (const one of all) assert.deepEqual(one, all[0]);
}

/** Waits until a manager has no leader; the time of the loss in milliseconds after `sinceMs`. */
async function leaderless(manager: Manager, sinceMs: number): Promise<number> {
  await until(`${manager.name} without a leader`, async () =>
    (await fetchNodeStatus(manager)).leader === null ? true : undefined,
  );
  const lost = (await fetchEvents(manager)).findLast(({ type }) => type === 'leader.lost');
  return Date.parse(String(lost?.['time'])) - sinceMs;
}

/** The history of leadership as all managers report it, for failure messages. */
async function leadershipOf(managers: readonly Manager[]): Promise<string> {
  const all = (await Promise.all(managers.map(fetchEvents)))
    .flat()
    .filter(({ type }) => /^(leader|group)\./.test(type));
  const lines = all.map(({ time, node, type, term, leader, why }) => [time, node, type, term, leader, why].join(' '));
  return ['', ...lines.toSorted()].join('\n');
}
