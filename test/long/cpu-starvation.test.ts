/**
 * Agents with too little CPU time must not declare each other dead.
 *
 *   STARVE_MINUTES=5 node --test test/long/cpu-starvation.test.ts    the long version; 20 s otherwise
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Agent,
  awaitAlive,
  awaitEvent,
  ProcessLab,
  fetchMembers,
  type NodeEvent,
} from '../support/processes/process-lab.ts';
import { limitCpu, cpuMs } from '../support/processes/cpu-limit.ts';

const starvedMs = Number(process.env['STARVE_MINUTES'] ?? 1 / 3) * 60_000;
const names = ['a', 'b', 'c', 'd'];
const returnMs = 10_000;

/** From SIGUSR2 on, user code occupies the main thread. */
const burnCode = `
  import { isMainThread } from 'node:worker_threads';
  const burn = () => {
    for (const endMs = performance.now() + 50; performance.now() < endMs; );
    setImmediate(burn);
  };
  if (isMainThread) process.on('SIGUSR2', burn);
`;
const burnEnv = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(burnCode)}` };

async function cluster(lab: ProcessLab, env: NodeJS.ProcessEnv): Promise<Agent[]> {
  const [first, ...others] = names;
  const seed = await lab.agent(first!, [], env);
  const join = ['--join', `127.0.0.1:${seed.port}`];
  const agents = [seed, ...(await Promise.all(others.map((name) => lab.agent(name, join, env))))];
  await awaitAllAlive(agents);
  return agents;
}

async function awaitAllAlive(agents: readonly Agent[]): Promise<void> {
  const pairs = agents.flatMap((agent) => agents.filter((other) => other !== agent).map((other) => [agent, other]));
  await Promise.all(pairs.map(([agent, other]) => awaitAlive(agent!.addr, other!.name)));
}

/** Collects the log lines of events of that type from now on. */
function collectLines(agents: readonly Agent[], type: string): string[] {
  const found: string[] = [];
  for (const { child } of agents) {
    let rest = '';
    child.stderr?.on('data', (text: string) => {
      const whole = (rest + text).split('\n');
      rest = whole.pop()!;
      found.push(...whole.filter((line) => line.includes(`"message":"${type}"`)));
    });
  }
  return found;
}

const unsupported = process.platform === 'win32' && 'signals that stop a process are unknown here';

test('four agents on half a core each, under load, declare no member dead', { skip: unsupported }, async (context) => {
  const lab = new ProcessLab(context);
  const agents = await cluster(lab, burnEnv);
  const deaths = collectLines(agents, 'member.dead');
  const suspicions = collectLines(agents, 'member.suspect');
  const limits = agents.map((agent) => limitCpu(agent.pid, (signal) => agent.kill(signal)));
  context.after(() => {
    for (const limit of limits) limit.remove();
  });
  try {
    for (const agent of agents) agent.kill('SIGUSR2');
    const before = agents.map(({ pid }) => cpuMs(pid));
    await pause(starvedMs);
    const shares = agents.map(({ pid }, i) => ((cpuMs(pid) ?? 0) - (before[i] ?? 0)) / starvedMs);
    const seen = await Promise.all(agents.map(({ addr }) => fetchMembers(addr)));
    const sharesText = shares.map((share) => share.toFixed(2)).join(', ');
    context.diagnostic(`${starvedMs / 1_000} s by ${limits[0]!.means}, shares of a core: ${sharesText}`);
    context.diagnostic(`${suspicions.length} suspicions`);
    // Each agent wants a whole core: a share below that shows the limit, a share near zero that there is no load.
    if (before[0] !== undefined) assert.ok(Math.min(...shares) > 0.1 && Math.max(...shares) < 0.65, sharesText);
    assert.deepEqual(deaths, []);
    for (const rows of seen) {
      const states = rows.map(({ name, state }) => (state === 'dead' ? `${name} dead` : name));
      assert.deepEqual(states.toSorted(), names);
    }
    assert.deepEqual(lab.unexpectedExits(), []);
  } finally {
    for (const limit of limits) limit.lift();
  }
});

test('a node that was falsely declared dead returns by itself', { skip: unsupported }, async (context) => {
  const lab = new ProcessLab(context);
  const agents = await cluster(lab, {});
  const [stopped, ...others] = agents.toReversed() as [Agent, ...Agent[]];
  const of = (type: string, afterSeq: number) => (found: NodeEvent) =>
    found.type === type && found.member === stopped.name && found.seq > afterSeq;
  stopped.kill('SIGSTOP');
  const deaths = await Promise.all(others.map(({ addr }) => awaitEvent(addr, of('member.dead', 0), 'its death')));
  stopped.kill('SIGCONT');
  const late = AbortSignal.timeout(returnMs);
  const returned = await Promise.all(
    others.map(({ addr }, i) => awaitEvent(addr, of('member.alive', deaths[i]!.seq), 'its return')),
  );
  assert.ok(!late.aborted, `not back within ${returnMs} ms`);
  for (const [i, { generation }] of returned.entries()) assert.equal(generation, deaths[i]!['generation']);
  for (const { addr } of agents) {
    const rows = await fetchMembers(addr);
    assert.deepEqual(
      rows.map(({ name, state }) => `${name} ${state}`).toSorted(),
      names.map((name) => `${name} alive`),
    );
  }
  assert.deepEqual(lab.unexpectedExits(), []);
});
