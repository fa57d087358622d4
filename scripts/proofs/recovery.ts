/**
 * Measures how long a container is not callable after its owner is killed, stopped or shut down.
 *
 *   node scripts/proofs/recovery.ts --trials 10                     all three, with the profile local
 *   node scripts/proofs/recovery.ts --trials 10 --only kill --events --profile lan
 */
import { parseArgs } from 'node:util';
import { setTimeout as pause } from 'node:timers/promises';
import { type Agent, type NodeEvent } from '../../test/support/processes/process-lab.ts';
import { counter } from '../../test/support/processes/counter-module.ts';
import { fetchEvents, until } from '../../test/support/processes/manager-requests.ts';
import { withDeadline, PoolCluster } from '../../test/support/processes/pool-cluster.ts';

const { values } = parseArgs({
  options: {
    trials: { type: 'string', default: '10' },
    only: { type: 'string' },
    profile: { type: 'string', default: 'local' },
    /** All nodes are managers and workers, and the one that is lost leads them. */
    leader: { type: 'boolean', default: false },
    /** Shows what the nodes did meanwhile, with times; without it only where the goal was missed. */
    events: { type: 'boolean', default: false },
  },
});
const trials = Number(values.trials);
if (!Number.isInteger(trials) || trials < 1) throw new Error('--trials is a count from 1 on');

/** The default of a serving lease, by profile. */
const leaseMs = values.profile === 'wan' || values.profile === 'classic' ? 20_000 : 5_000;
const goalsMs = { kill: 1_000, stop: leaseMs + 1_000, end: 1_000 } as const;
const pool = 'recovery';
const containers = 8;
const callEveryMs = 20;
const giveUpMs = 30_000;

type Way = keyof typeof goalsMs;
type Trial = { readonly firstMs: number; readonly oldestMs: number };

async function trial(cluster: PoolCluster, way: Way): Promise<Trial> {
  await cluster.awaitHealthy(pool);
  const container = await chosen(cluster);
  const owner = await cluster.owner(pool, container);
  const others = cluster.others(owner);
  const session = await cluster.session({ addr: others.map(({ port }) => `127.0.0.1:${port}`) });
  const calls = session.pool(counter, pool).with({ timeoutMs: giveUpMs, retryTimeoutMs: giveUpMs }).id(container);
  const before = await withDeadline('a call before', calls.add(1));
  const events = await Promise.all(others.map(async (other) => (await fetchEvents(other)).at(-1)?.seq ?? 0));
  const lostMs = Date.now();
  const isOver = lose(cluster, owner, way);
  try {
    const result = await withDeadline(
      'calls after',
      untilCalled(async () => await calls.add(1), lostMs),
    );
    if (result.sum <= before) throw new Error(`${result.sum} after ${before}: a write is lost`);
    if (values.events || result.firstMs > goalsMs[way]) await show(others, events, lostMs);
    return result;
  } finally {
    await isOver;
    await session.close();
    if (way === 'stop') owner.kill('SIGCONT');
    else await cluster.restart(owner.name);
    await cluster.awaitReady();
  }
}

async function chosen(cluster: PoolCluster): Promise<number> {
  if (!values.leader) return Math.floor(Math.random() * containers);
  return await until('the leader to own something', async () => {
    const { name } = await cluster.leader();
    return (await cluster.containers(pool)).find(({ owner }) => owner === name)?.id;
  });
}

async function lose(cluster: PoolCluster, owner: Agent, way: Way): Promise<void> {
  if (way === 'stop') owner.kill('SIGSTOP');
  else await (way === 'kill' ? cluster.kill(owner) : cluster.stop(owner));
}

/** One call after the other is begun, whether or not those before it have ended. */
async function untilCalled(call: () => Promise<number>, lostMs: number): Promise<Trial & { readonly sum: number }> {
  const times: number[] = [];
  const begun: Promise<number>[] = [];
  while (times.length === 0) {
    const next = call();
    begun.push(next);
    next.then(
      () => times.push(Date.now() - lostMs),
      () => undefined,
    );
    await pause(callEveryMs);
  }
  const [oldest] = begun;
  const sum = await oldest!;
  const oldestMs = Date.now() - lostMs;
  await Promise.all(begun);
  return { firstMs: times[0]!, oldestMs: begun.length === 1 ? times[0]! : oldestMs, sum };
}

async function show(nodes: readonly Agent[], after: readonly number[], lostMs: number): Promise<void> {
  const told = await Promise.all(
    nodes.map(async (node, at) => (await fetchEvents(node)).filter(({ seq }) => seq > (after[at] ?? 0))),
  );
  const lines = told.flat().map((event): [number, string] => [Date.parse(String(event['time'])) - lostMs, word(event)]);
  for (const [ms, text] of lines.toSorted(([a], [b]) => a - b)) console.log(`  ${String(ms).padStart(6)} ms ${text}`);
}

function word(event: NodeEvent): string {
  const told = Object.entries(event).filter(([name]) => !['seq', 'time', 'node', 'type', 'id'].includes(name));
  return `${String(event['node'])} ${event.type} ${JSON.stringify(Object.fromEntries(told)).slice(0, 160)}`;
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

async function run(cluster: PoolCluster, way: Way): Promise<boolean> {
  const firstMs: number[] = [];
  for (let at = 1; at <= trials; at++) {
    const result = await trial(cluster, way);
    firstMs.push(result.firstMs);
    console.log(`${way} ${at}: first result after ${result.firstMs} ms, the oldest call after ${result.oldestMs} ms`);
  }
  const reached = way === 'stop' ? Math.max(...firstMs) : median(firstMs);
  const isMet = reached < goalsMs[way];
  console.log(
    `${way.padEnd(5)} median ${median(firstMs)} ms, best ${Math.min(...firstMs)} ms, worst ${Math.max(...firstMs)} ms; ` +
      `goal ${way === 'stop' ? 'of each' : 'of the median'} ${goalsMs[way]} ms: ${isMet ? 'met' : 'MISSED'}`,
  );
  return isMet;
}

const ends: (() => Promise<void>)[] = [];
try {
  const context = { after: (end: () => Promise<void>) => void ends.push(end) };
  const both = 'manager,worker';
  const apart = {
    ...{ m1: 'manager', m2: 'manager', m3: 'manager' },
    w1: 'worker',
    w2: 'worker',
    w3: 'worker',
    w4: 'worker',
  };
  const nodes = values.leader ? { a: both, b: both, c: both, d: both } : apart;
  const cluster = await PoolCluster.start(context, nodes, ['--profile', values.profile]);
  const session = await cluster.session();
  await cluster.pool(counter, pool, { containers, copies: 2 }, session);
  for (const way of ['kill', 'stop', 'end'] as const) {
    if (values.only === undefined || values.only === way) {
      if (!(await run(cluster, way))) process.exitCode = 1;
    }
  }
  await cluster.end();
} finally {
  for (const end of ends) await end();
}
