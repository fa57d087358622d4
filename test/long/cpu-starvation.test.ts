/**
 * Agents that do not get the processor they need, and must not bury each other for it.
 *
 *   STARVE_MINUTES=5 node --test test/long/cpu-starvation.test.ts    the whole of it; a short slice otherwise
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Agent, alive, event, ProcessLab, members, type NodeEvent } from '../support/processes/process-lab.ts';
import { limitCpu, cpuMs } from '../support/processes/cpu-limit.ts';

const starvedMs = Number(process.env['STARVE_MINUTES'] ?? 1 / 3) * 60_000;
const names = ['a', 'b', 'c', 'd'];
const returnMs = 10_000;

/** From SIGUSR2 on, user code takes all of the main thread that it can get. */
const greed = `
  import { isMainThread } from 'node:worker_threads';
  const burn = () => {
    for (const endMs = performance.now() + 50; performance.now() < endMs; );
    setImmediate(burn);
  };
  if (isMainThread) process.on('SIGUSR2', burn);
`;
const greedy = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(greed)}` };

async function cluster(lab: ProcessLab, env: NodeJS.ProcessEnv): Promise<Agent[]> {
  const [first, ...others] = names;
  const seed = await lab.agent(first!, [], env);
  const join = ['--join', `127.0.0.1:${seed.port}`];
  const agents = [seed, ...(await Promise.all(others.map((name) => lab.agent(name, join, env))))];
  await everybodySeesEverybody(agents);
  return agents;
}

async function everybodySeesEverybody(agents: readonly Agent[]): Promise<void> {
  const pairs = agents.flatMap((agent) => agents.filter((other) => other !== agent).map((other) => [agent, other]));
  await Promise.all(pairs.map(([agent, other]) => alive(agent!.addr, other!.name)));
}

/** Every line of the log that tells of such an event, from now on. */
function lines(agents: readonly Agent[], type: string): string[] {
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

const notHere = process.platform === 'win32' && 'signals that stop a process are unknown here';

test('four agents on half a processor each, under load, bury nobody', { skip: notHere }, async (context) => {
  const lab = new ProcessLab(context);
  const agents = await cluster(lab, greedy);
  const deaths = lines(agents, 'member.dead');
  const suspicions = lines(agents, 'member.suspect');
  const limits = agents.map((agent) => limitCpu(agent.pid, (signal) => agent.kill(signal)));
  context.after(() => {
    for (const limit of limits) limit.remove();
  });
  try {
    for (const agent of agents) agent.kill('SIGUSR2');
    const before = agents.map(({ pid }) => cpuMs(pid));
    await pause(starvedMs);
    const shares = agents.map(({ pid }, i) => ((cpuMs(pid) ?? 0) - (before[i] ?? 0)) / starvedMs);
    const seen = await Promise.all(agents.map(({ addr }) => members(addr)));
    const told = shares.map((share) => share.toFixed(2)).join(', ');
    context.diagnostic(`${starvedMs / 1_000} s by ${limits[0]!.means}, shares of a processor: ${told}`);
    context.diagnostic(`${suspicions.length} suspicions`);
    // Each wants a whole one, so less than that means that the limit works; next to nothing, that there is no load.
    if (before[0] !== undefined) assert.ok(Math.min(...shares) > 0.1 && Math.max(...shares) < 0.65, told);
    assert.deepEqual(deaths, []);
    for (const rows of seen) {
      const states = rows.map(({ name, state }) => (state === 'dead' ? `${name} dead` : name));
      assert.deepEqual(states.toSorted(), names);
    }
    assert.deepEqual(lab.bystandersDown(), []);
  } finally {
    for (const limit of limits) limit.lift();
  }
});

test('a node that was buried by mistake returns by itself', { skip: notHere }, async (context) => {
  const lab = new ProcessLab(context);
  const agents = await cluster(lab, {});
  const [buried, ...others] = agents.toReversed() as [Agent, ...Agent[]];
  const of = (type: string, afterSeq: number) => (found: NodeEvent) =>
    found.type === type && found.member === buried.name && found.seq > afterSeq;
  buried.kill('SIGSTOP');
  const deaths = await Promise.all(others.map(({ addr }) => event(addr, of('member.dead', 0), 'its death')));
  buried.kill('SIGCONT');
  const late = AbortSignal.timeout(returnMs);
  const returned = await Promise.all(
    others.map(({ addr }, i) => event(addr, of('member.alive', deaths[i]!.seq), 'its return')),
  );
  assert.ok(!late.aborted, `not back within ${returnMs} ms`);
  for (const [i, { generation }] of returned.entries()) assert.equal(generation, deaths[i]!['generation']);
  for (const { addr } of agents) {
    const rows = await members(addr);
    assert.deepEqual(
      rows.map(({ name, state }) => `${name} ${state}`).toSorted(),
      names.map((name) => `${name} alive`),
    );
  }
  assert.deepEqual(lab.bystandersDown(), []);
});
