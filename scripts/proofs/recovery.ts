/**
 * Measures how long a container is not callable after its owner was killed, stopped or shut down.
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
    /** All nodes are managers and workers, and the lost owner is the leader. */
    leader: { type: 'boolean', default: false },
    /** Prints the events of all nodes with times; by default only of trials that miss the goal. */
    events: { type: 'boolean', default: false },
  },
});
const trials = Number(values.trials);
if (!Number.isInteger(trials) || trials < 1) throw new Error('--trials takes a whole number of at least 1');

/** The default of a serving lease, by profile. */
const leaseMs = values.profile === 'wan' || values.profile === 'classic' ? 20_000 : 5_000;
const goalsMs = { kill: 1_000, stop: leaseMs + 1_000, end: 1_000 } as const;
const pool = 'recovery';
const containers = 8;
const callIntervalMs = 20;
const callTimeoutMs = 30_000;

type Fault = keyof typeof goalsMs;
type Trial = { readonly firstMs: number; readonly oldestMs: number };

async function trial(cluster: PoolCluster, fault: Fault): Promise<Trial> {
  await cluster.awaitHealthy(pool);
  const container = await chooseContainer(cluster);
  const owner = await cluster.owner(pool, container);
  const others = cluster.others(owner);
  const session = await cluster.session({ addr: others.map(({ port }) => `127.0.0.1:${port}`) });
  const calls = session
    .pool(counter, pool)
    .with({ timeoutMs: callTimeoutMs, retryTimeoutMs: callTimeoutMs })
    .id(container);
  const before = await withDeadline('a call before', calls.add(1));
  const events = await Promise.all(others.map(async (other) => (await fetchEvents(other)).at(-1)?.seq ?? 0));
  const lostMs = Date.now();
  const injected = injectFault(cluster, owner, fault);
  try {
    const result = await withDeadline(
      'calls after',
      untilCalled(async () => await calls.add(1), lostMs),
    );
    if (result.sum <= before) throw new Error(`a write is lost: the counter is ${result.sum} after ${before}`);
    if (values.events || result.firstMs > goalsMs[fault]) await printEvents(others, events, lostMs);
    return result;
  } finally {
    await injected;
    await session.close();
    if (fault === 'stop') owner.kill('SIGCONT');
    else await cluster.restart(owner.name);
    await cluster.awaitReady();
  }
}

async function chooseContainer(cluster: PoolCluster): Promise<number> {
  if (!values.leader) return Math.floor(Math.random() * containers);
  return await until('the leader to own a container', async () => {
    const { name } = await cluster.leader();
    return (await cluster.containers(pool)).find(({ owner }) => owner === name)?.id;
  });
}

async function injectFault(cluster: PoolCluster, owner: Agent, fault: Fault): Promise<void> {
  if (fault === 'stop') owner.kill('SIGSTOP');
  else await (fault === 'kill' ? cluster.kill(owner) : cluster.stop(owner));
}

/** Starts a call per interval, whether or not the earlier ones have ended, until one has succeeded. */
async function untilCalled(call: () => Promise<number>, lostMs: number): Promise<Trial & { readonly sum: number }> {
  const times: number[] = [];
  const started: Promise<number>[] = [];
  while (times.length === 0) {
    const next = call();
    started.push(next);
    next.then(
      () => times.push(Date.now() - lostMs),
      () => undefined,
    );
    await pause(callIntervalMs);
  }
  const [oldest] = started;
  const sum = await oldest!;
  const oldestMs = Date.now() - lostMs;
  await Promise.all(started);
  return { firstMs: times[0]!, oldestMs: started.length === 1 ? times[0]! : oldestMs, sum };
}

async function printEvents(nodes: readonly Agent[], after: readonly number[], lostMs: number): Promise<void> {
  const histories = await Promise.all(
    nodes.map(async (node, at) => (await fetchEvents(node)).filter(({ seq }) => seq > (after[at] ?? 0))),
  );
  const lines = histories.flat().map((event): [number, string] => {
    return [Date.parse(String(event['time'])) - lostMs, eventText(event)];
  });
  for (const [ms, text] of lines.toSorted(([a], [b]) => a - b)) console.log(`  ${String(ms).padStart(6)} ms ${text}`);
}

function eventText(event: NodeEvent): string {
  const fields = Object.entries(event).filter(([name]) => !['seq', 'time', 'node', 'type', 'id'].includes(name));
  return `${String(event['node'])} ${event.type} ${JSON.stringify(Object.fromEntries(fields)).slice(0, 160)}`;
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

async function run(cluster: PoolCluster, fault: Fault): Promise<boolean> {
  const firstMs: number[] = [];
  for (let at = 1; at <= trials; at++) {
    const result = await trial(cluster, fault);
    firstMs.push(result.firstMs);
    const oldest = `oldest call completed after ${result.oldestMs} ms`;
    console.log(`${fault} ${at}: first result after ${result.firstMs} ms, ${oldest}`);
  }
  const reached = fault === 'stop' ? Math.max(...firstMs) : median(firstMs);
  const isMet = reached < goalsMs[fault];
  const times = `median ${median(firstMs)} ms, best ${Math.min(...firstMs)} ms, worst ${Math.max(...firstMs)} ms`;
  const goal = `goal ${fault === 'stop' ? 'for each trial' : 'for the median'} ${goalsMs[fault]} ms`;
  console.log(`${fault.padEnd(5)} ${times}; ${goal}: ${isMet ? 'met' : 'MISSED'}`);
  return isMet;
}

const cleanups: (() => Promise<void>)[] = [];
try {
  const context = { after: (cleanUp: () => Promise<void>) => void cleanups.push(cleanUp) };
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
  for (const fault of ['kill', 'stop', 'end'] as const) {
    if (values.only === undefined || values.only === fault) {
      if (!(await run(cluster, fault))) process.exitCode = 1;
    }
  }
  await cluster.end();
} finally {
  for (const cleanUp of cleanups) await cleanUp();
}
