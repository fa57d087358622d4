/**
 * `npm run bench jobs`: no-op jobs, durably, against BullMQ, graphile-worker and Restate.
 *
 *   first line    from `submit` to the first line of the workflow's code, with warm runners
 *   items         of one batch workflow; each item's effect is recorded once, in the durable end of its unit
 *   small jobs    64 submissions in flight, each answered when the job is on disk, until all jobs have ended; each has a
 *                 record, an assignment to a worker and a durable end of its own. Ours are over when the leader says that
 *                 no job is open; those of BullMQ and graphile-worker when their worker has told so often that one is
 *                 done. Restate answers a call with its result, so there 64 are in flight from call to result
 *   small runs    the same with 64 in flight from submission to end: whoever submits waits for each end
 *   queued        memory of the leader for jobs that wait
 *   elsewhere     from the kill of a worker to the first line of its work on another
 *
 * Peers: BullMQ on redis-server with appendfsync always and everysec, graphile-worker with its local queue on
 * postgresql, Restate. As durable as ours is BullMQ that syncs always and keeps the ends of the latest jobs, as many as
 * our managers do; one that removes each job when it ends does less, and is stated too. Each is alone on the machine
 * while it is measured; the first one, whose jobs ours are compared with, waits idle while a round of ours is measured,
 * and the other way round: the machine is the same for both.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { installDebianPackage } from '../scripts/debian-packages.ts';
import { JobBenchCluster } from './jobs/cluster.ts';
import { type QueuePeerName, QueuePeer, historyJobs, installPeers, queuePeerNames } from './jobs/peers.ts';
import { itemsCount } from './jobs/workflows.ts';
import { type Bench, type BenchRow, compareRow, median, printProgress } from './support/harness.ts';

const rival: QueuePeerName = 'BullMQ always';
const durable: readonly QueuePeerName[] = ['BullMQ always', 'BullMQ always, forgets', 'graphile-worker', 'Restate'];
/** As many as take two seconds or more, so that the looking for their end does not count. */
const smallJobs = 20_000;
const smallRuns = 5_000;
/** On both sides, before anything is measured, of the same kind: until about so many, compilers are at work. */
const warmJobs = 40_000;
const inFlight = 64;
const peerJobs = 20_000;
const slowPeerJobs = 2_000;
const firstLines = 300;
const queuedJobs = 10_000;

type PeerRates = { readonly bulk: number[]; readonly single: number[] };
type Rates = Map<QueuePeerName, PeerRates>;

export const bench: Bench = async ({ rounds: roundsText, trials: trialsText }) => {
  const [rounds, trials] = [Number(roundsText ?? 3), Number(trialsText ?? 5)];
  const folder = mkdtempSync(join(tmpdir(), 'remuster-bench-jobs-'));
  const missing: string[] = [];
  let beside: Peer | undefined;
  try {
    const peers = await measurePeers(folder, rounds, missing);
    beside = await orMissing(rival, missing, () => openPeer(rival, folder));
    const ours = await measureOurs(folder, rounds, beside);
    if (beside !== undefined) peers.set(rival, beside.rates);
    await beside?.stop();
    const elsewhereMs = await killedWorkers(folder, trials);
    return { rows: rowsOf(ours, peers, elsewhereMs), missing };
  } finally {
    await beside?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
};

type Ours = Awaited<ReturnType<typeof measureOurs>>;

async function measureOurs(folder: string, rounds: number, beside: Peer | undefined) {
  const cluster = new JobBenchCluster(join(folder, 'ours'));
  try {
    await cluster.start(['w0']);
    printProgress('ours: first lines');
    await firstLineMs(cluster, 50);
    const lines = await firstLineMs(cluster, firstLines);
    const [itemRates, smallRates, runRates]: [number[], number[], number[]] = [[], [], []];
    await smallJobsPerSecond(cluster, warmJobs);
    for (let round = 0; round < rounds; round++) {
      await beside?.round();
      smallRates.push(await smallJobsPerSecond(cluster, smallJobs));
      runRates.push(await smallRunsPerSecond(cluster, smallRuns));
      // Last: the records of a large batch are removed for a second after its end, while the others have their turn.
      itemRates.push(await itemsPerSecond(cluster));
      const [items, small, runs] = [itemRates, smallRates, runRates].map((rates) => Math.round(rates.at(-1)!));
      printProgress(`ours: ${items} items/s, ${small} small jobs/s, ${runs} small runs/s`);
    }
    const [items, small, runs] = [median(itemRates), median(smallRates), median(runRates)];
    return { lines, items, small, runs, queuedBytes: await queuedBytes(cluster) };
  } finally {
    await cluster.stop();
  }
}

/** One at a time, ascending. */
async function firstLineMs(cluster: JobBenchCluster, count: number): Promise<readonly number[]> {
  const times: number[] = [];
  for (let index = 0; index < count; index++) {
    const submittedMs = performance.timeOrigin + performance.now();
    const job = await cluster.submit('clock');
    const { clock } = (await job.result()) as { clock: readonly number[] };
    times.push(clock[0]! - submittedMs);
  }
  return times.toSorted((a, b) => a - b);
}

async function itemsPerSecond(cluster: JobBenchCluster): Promise<number> {
  const startedMs = performance.now();
  const job = await cluster.submit('items');
  const { totals } = await job.report();
  if (totals.completed !== itemsCount) throw new Error(`${totals.completed} of ${itemsCount} items were done`);
  return (itemsCount * 1_000) / (performance.now() - startedMs);
}

async function smallJobsPerSecond(cluster: JobBenchCluster, count: number): Promise<number> {
  const startedMs = performance.now();
  await inLanes(count, () => cluster.submit('clock'));
  await cluster.until('all jobs are over', async () => (await cluster.openJobs()) === 0);
  const tookMs = performance.now() - startedMs;
  const over = await cluster.session.jobs({ limit: Math.min(count, historyJobs), status: 'COMPLETED' });
  if (over.length < Math.min(count, historyJobs)) throw new Error(`only ${over.length} of the last jobs completed`);
  return (count * 1_000) / tookMs;
}

async function smallRunsPerSecond(cluster: JobBenchCluster, count: number): Promise<number> {
  const startedMs = performance.now();
  await inLanes(count, () => cluster.run('clock'));
  return (count * 1_000) / (performance.now() - startedMs);
}

async function inLanes(count: number, one: () => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next++ < count) await one();
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
}

/** They wait for a start that is far away. */
async function queuedBytes(cluster: JobBenchCluster): Promise<number> {
  const before = cluster.residentBytes('m0');
  const startAt = new Date(Date.now() + 3_600_000);
  await inLanes(queuedJobs, () => cluster.submit('clock', { startAt, timeoutMs: 7_200_000 }));
  return (cluster.residentBytes('m0') - before) / queuedJobs;
}

async function killedWorkers(folder: string, trials: number): Promise<number> {
  const cluster = new JobBenchCluster(join(folder, 'kills'));
  const times: number[] = [];
  try {
    await cluster.start(['w0', 'w1']);
    for (let trial = 0; trial < trials; trial++) {
      const job = await cluster.submit('endless');
      const first = await runningOn(cluster, job.id, undefined);
      const killedMs = performance.now();
      cluster.kill(first);
      const second = await runningOn(cluster, job.id, first);
      times.push(performance.now() - killedMs);
      printProgress(`ours: ${first} killed, its work on ${second} after ${Math.round(times.at(-1)!)} ms`);
      await job.cancel();
      await cluster.begin(`r${trial}`);
    }
    return median(times);
  } finally {
    await cluster.stop();
  }
}

/** Who runs it, other than that one. */
async function runningOn(cluster: JobBenchCluster, id: string, other: string | undefined): Promise<string> {
  let found: string | undefined;
  await cluster.until(`${id} runs`, async () => {
    const { workflows } = await cluster.session.job(id).show();
    const running = workflows.flatMap(({ attempts }) => attempts).find(({ outcome }) => outcome === 'running');
    found = running?.worker;
    return found !== undefined && found !== other;
  });
  return found!;
}

async function measurePeers(folder: string, rounds: number, missing: string[]): Promise<Rates> {
  const rates: Rates = new Map();
  for (const name of queuePeerNames) {
    if (name === rival) continue;
    const rounded = await orMissing(name, missing, async () => {
      const peer = await openPeer(name, folder);
      try {
        for (let round = 0; round < rounds; round++) await peer.round();
        return peer.rates;
      } finally {
        await peer.stop();
      }
    });
    if (rounded !== undefined) rates.set(name, rounded);
  }
  return rates;
}

/** Undefined if that peer cannot be measured, and then it says why. */
async function orMissing<T>(name: QueuePeerName, missing: string[], work: () => Promise<T>): Promise<T | undefined> {
  try {
    const why = installPeers() ?? missingProgram(name);
    if (why === undefined) return await work();
    missing.push(`${name}: ${why}`);
  } catch (error) {
    missing.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
  return undefined;
}

type Peer = { readonly rates: PeerRates; round(): Promise<void>; stop(): Promise<void> };

async function openPeer(name: QueuePeerName, folder: string): Promise<Peer> {
  const side = await QueuePeer.start(name, join(folder, name.replaceAll(' ', '-')));
  const isSlow = name === 'Restate' || name === 'graphile-worker';
  const rates: PeerRates = { bulk: [], single: [] };
  await side.measure({ how: 'single', jobs: isSlow ? slowPeerJobs : warmJobs, inFlight });
  return {
    rates,
    round: async () => {
      const bulkJobs = name === 'Restate' ? slowPeerJobs : peerJobs;
      rates.bulk.push(await side.measure({ how: 'bulk', jobs: bulkJobs, inFlight }));
      rates.single.push(await side.measure({ how: 'single', jobs: isSlow ? slowPeerJobs : peerJobs, inFlight }));
      const [bulk, single] = [rates.bulk, rates.single].map((some) => Math.round(some.at(-1)!));
      printProgress(`${name}: ${bulk} jobs/s in bulk, ${single} one by one`);
    },
    stop: () => side.stop(),
  };
}

function missingProgram(name: QueuePeerName): string | undefined {
  if (name === 'Restate') return undefined;
  const isRedis = name.startsWith('BullMQ');
  const program = isRedis
    ? { packageName: 'redis-server', command: 'redis-server', check: ['--version'] }
    : { packageName: 'postgresql', command: 'psql', check: ['--version'] };
  return installDebianPackage(program, printProgress);
}

function rowsOf(ours: Ours, peers: Rates, elsewhereMs: number): readonly BenchRow[] {
  const at = (share: number): number => ours.lines[Math.floor(share * (ours.lines.length - 1))]!;
  const itemsRows = [...peers].map(([name, { bulk }]) =>
    compareRow('durable no-op items', '1/s', 'more', ours.items, { name, value: median(bulk) }),
  );
  const bests = durable.flatMap((name) => peers.get(name)?.bulk.map((value) => value) ?? []);
  const best = { name: 'best as durable', value: Math.max(1, ...bests) };
  const smallRows = [...peers].map(([name, { single }]) =>
    compareRow('small separate jobs', '1/s', 'more', ours.small, { name, value: median(single) }, (ratio) =>
      name === rival ? { text: '>= 1x', met: ratio >= 1 } : { text: 'stated', met: true },
    ),
  );
  return [
    compareRow('submit to first line p50', 'ms', 'less', at(0.5), undefined, () => ({
      text: '< 5 ms',
      met: at(0.5) < 5,
    })),
    compareRow('submit to first line p99', 'ms', 'less', at(0.99)),
    ...itemsRows,
    compareRow('durable no-op items', '1/s', 'more', ours.items, best, (ratio) => ({ text: '>= 3x', met: ratio >= 3 })),
    ...smallRows,
    compareRow('small separate jobs, each waited for', '1/s', 'more', ours.runs),
    compareRow('memory of a queued job', 'B', 'less', ours.queuedBytes),
    compareRow('worker killed, its work elsewhere', 'ms', 'less', elsewhereMs, undefined, () => ({
      ...{ text: '< 3,000 ms', met: elsewhereMs < 3_000 },
    })),
  ];
}
