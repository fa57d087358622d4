/**
 * `npm run bench jobs`: no-op jobs, durably, against BullMQ, graphile-worker and Restate.
 *
 *   start        from `submit` to the first line of user code, with warm runners
 *   items        items per second of one batch workflow; the effect of an item is its entry in the durable result of
 *                its unit
 *   small jobs   jobs of one item, 64 submissions in flight, until all jobs have ended. Each has a record, an
 *                assignment to a worker and a durable end of its own; a submission is acknowledged when it is on disk.
 *                The end is measured by the count of open jobs at the leader, and by the events of the worker with
 *                BullMQ and graphile-worker. Restate replies to a call with its result, so there 64 calls are in flight
 *   awaited      the same with 64 jobs in flight from submission to result
 *   queued       memory of the leader per queued job
 *   restart      from the kill of a worker until its work runs on another worker
 *
 * Peers: BullMQ on redis-server with appendfsync always and everysec, graphile-worker with its local queue on
 * postgresql, Restate. BullMQ with fsync always that keeps the latest ended jobs, as many as the managers do, is as
 * durable as Remuster; with removeOnComplete it does less. Each side is alone on the machine while it is measured. The
 * rival, with which small jobs are compared, stays idle during a round of Remuster and vice versa, so that both have
 * the same machine.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { installDebianPackage } from '../scripts/debian-packages.ts';
import { JobBenchCluster } from './jobs/cluster.ts';
import { type QueuePeerName, QueuePeer, historyJobs, installPeers, queuePeerNames } from './jobs/peers.ts';
import { itemsCount } from './jobs/workflows.ts';
import { type Bench, type BenchRow, compareRow, median, printProgress } from './support/harness.ts';

const rival: QueuePeerName = 'BullMQ (fsync always)';
const durable: readonly QueuePeerName[] = [
  'BullMQ (fsync always)',
  'BullMQ (fsync always, removeOnComplete)',
  'graphile-worker',
  'Restate',
];
/** Enough for two seconds, so that the polling for their end does not matter. */
const smallJobs = 20_000;
const awaitedJobs = 5_000;
/** On both sides: JIT compilation lasts about so many jobs. */
const warmJobs = 40_000;
const inFlight = 64;
const peerJobs = 20_000;
const slowPeerJobs = 2_000;
const startSamples = 300;
const queuedJobs = 10_000;

type PeerRates = { readonly bulk: number[]; readonly single: number[] };
type Rates = Map<QueuePeerName, PeerRates>;

export const bench: Bench = async ({ rounds: roundsText, trials: trialsText }) => {
  const [rounds, trials] = [Number(roundsText ?? 3), Number(trialsText ?? 5)];
  const folder = mkdtempSync(join(tmpdir(), 'remuster-bench-jobs-'));
  const missing: string[] = [];
  let rivalPeer: Peer | undefined;
  try {
    const peers = await measurePeers(folder, rounds, missing);
    rivalPeer = await orMissing(rival, missing, () => openPeer(rival, folder));
    const remuster = await measureRemuster(folder, rounds, rivalPeer);
    if (rivalPeer !== undefined) peers.set(rival, rivalPeer.rates);
    await rivalPeer?.stop();
    const restartMs = await measureRestart(folder, trials);
    return { rows: rowsOf(remuster, peers, restartMs), missing };
  } finally {
    await rivalPeer?.stop();
    rmSync(folder, { recursive: true, force: true });
  }
};

type RemusterRates = Awaited<ReturnType<typeof measureRemuster>>;

async function measureRemuster(folder: string, rounds: number, rivalPeer: Peer | undefined) {
  const cluster = new JobBenchCluster(join(folder, 'remuster'));
  try {
    await cluster.start(['w0']);
    printProgress('remuster: starts');
    await measureStarts(cluster, 50);
    const startsMs = await measureStarts(cluster, startSamples);
    const [itemRates, smallRates, awaitedRates]: [number[], number[], number[]] = [[], [], []];
    await smallJobsPerSecond(cluster, warmJobs);
    for (let round = 0; round < rounds; round++) {
      await rivalPeer?.round();
      smallRates.push(await smallJobsPerSecond(cluster, smallJobs));
      awaitedRates.push(await awaitedJobsPerSecond(cluster, awaitedJobs));
      // Last, because the leader removes the records of a large batch for a second after its end.
      itemRates.push(await itemsPerSecond(cluster));
      const [items, small, awaited] = [itemRates, smallRates, awaitedRates].map((rates) => Math.round(rates.at(-1)!));
      printProgress(`remuster: ${items} items/s, ${small} small jobs/s, ${awaited} awaited jobs/s`);
    }
    const [items, small, awaited] = [median(itemRates), median(smallRates), median(awaitedRates)];
    return { startsMs, items, small, awaited, queuedBytes: await queuedBytes(cluster) };
  } finally {
    await cluster.stop();
  }
}

/** Times of single jobs, ascending. */
async function measureStarts(cluster: JobBenchCluster, count: number): Promise<readonly number[]> {
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
  if (totals.completed !== itemsCount) throw new Error(`only ${totals.completed} of ${itemsCount} items completed`);
  return (itemsCount * 1_000) / (performance.now() - startedMs);
}

async function smallJobsPerSecond(cluster: JobBenchCluster, count: number): Promise<number> {
  const startedMs = performance.now();
  await runConcurrently(count, () => cluster.submit('clock'));
  await cluster.until('all jobs have ended', async () => (await cluster.openJobs()) === 0);
  const elapsedMs = performance.now() - startedMs;
  const ended = await cluster.session.jobs({ limit: Math.min(count, historyJobs), status: 'COMPLETED' });
  if (ended.length < Math.min(count, historyJobs)) throw new Error(`only ${ended.length} of the last jobs completed`);
  return (count * 1_000) / elapsedMs;
}

async function awaitedJobsPerSecond(cluster: JobBenchCluster, count: number): Promise<number> {
  const startedMs = performance.now();
  await runConcurrently(count, () => cluster.run('clock'));
  return (count * 1_000) / (performance.now() - startedMs);
}

async function runConcurrently(count: number, task: () => Promise<unknown>): Promise<void> {
  let next = 0;
  const runTasks = async (): Promise<void> => {
    while (next++ < count) await task();
  };
  await Promise.all(Array.from({ length: inFlight }, runTasks));
}

/** The jobs have a start time in the future. */
async function queuedBytes(cluster: JobBenchCluster): Promise<number> {
  const before = cluster.residentBytes('m0');
  const startAt = new Date(Date.now() + 3_600_000);
  await runConcurrently(queuedJobs, () => cluster.submit('clock', { startAt, timeoutMs: 7_200_000 }));
  return (cluster.residentBytes('m0') - before) / queuedJobs;
}

async function measureRestart(folder: string, trials: number): Promise<number> {
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
      printProgress(`remuster: ${first} killed, its work runs on ${second} after ${Math.round(times.at(-1)!)} ms`);
      await job.cancel();
      await cluster.startWorker(`r${trial}`);
    }
    return median(times);
  } finally {
    await cluster.stop();
  }
}

/** Waits until a worker other than `except` runs the job. */
async function runningOn(cluster: JobBenchCluster, id: string, except: string | undefined): Promise<string> {
  let found: string | undefined;
  await cluster.until(`${id} runs`, async () => {
    const { workflows } = await cluster.session.job(id).show();
    const running = workflows.flatMap(({ attempts }) => attempts).find(({ outcome }) => outcome === 'running');
    found = running?.worker;
    return found !== undefined && found !== except;
  });
  return found!;
}

async function measurePeers(folder: string, rounds: number, missing: string[]): Promise<Rates> {
  const rates: Rates = new Map();
  for (const name of queuePeerNames) {
    if (name === rival) continue;
    const measured = await orMissing(name, missing, async () => {
      const peer = await openPeer(name, folder);
      try {
        for (let round = 0; round < rounds; round++) await peer.round();
        return peer.rates;
      } finally {
        await peer.stop();
      }
    });
    if (measured !== undefined) rates.set(name, measured);
  }
  return rates;
}

/** Undefined if the peer cannot be measured; adds the reason to `missing`. */
async function orMissing<T>(name: QueuePeerName, missing: string[], work: () => Promise<T>): Promise<T | undefined> {
  try {
    const reason = installPeers() ?? missingProgram(name);
    if (reason === undefined) return await work();
    missing.push(`${name}: ${reason}`);
  } catch (error) {
    missing.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
  return undefined;
}

type Peer = { readonly rates: PeerRates; round(): Promise<void>; stop(): Promise<void> };

async function openPeer(name: QueuePeerName, folder: string): Promise<Peer> {
  const side = await QueuePeer.start(name, join(folder, name.replaceAll(/\W+/g, '-')));
  const isSlow = name === 'Restate' || name === 'graphile-worker';
  const rates: PeerRates = { bulk: [], single: [] };
  await side.measure({ mode: 'single', jobs: isSlow ? slowPeerJobs : warmJobs, inFlight });
  return {
    rates,
    round: async () => {
      const bulkJobs = name === 'Restate' ? slowPeerJobs : peerJobs;
      rates.bulk.push(await side.measure({ mode: 'bulk', jobs: bulkJobs, inFlight }));
      rates.single.push(await side.measure({ mode: 'single', jobs: isSlow ? slowPeerJobs : peerJobs, inFlight }));
      const [bulk, single] = [rates.bulk, rates.single].map((values) => Math.round(values.at(-1)!));
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

function rowsOf(remuster: RemusterRates, peers: Rates, restartMs: number): readonly BenchRow[] {
  const { startsMs } = remuster;
  const startAt = (ratio: number): number => startsMs[Math.floor(ratio * (startsMs.length - 1))]!;
  const items = 'durable no-op items of one batch';
  const small = 'durable no-op jobs of one item';
  const itemsRows = [...peers].map(([name, { bulk }]) =>
    compareRow(items, 'items/s', 'more', remuster.items, { name, value: median(bulk) }),
  );
  const bests = durable.flatMap((name) => peers.get(name)?.bulk.map((value) => value) ?? []);
  const best = { name: 'fastest peer of equal durability', value: Math.max(1, ...bests) };
  const smallRows = [...peers].map(([name, { single }]) =>
    compareRow(small, 'jobs/s', 'more', remuster.small, { name, value: median(single) }, (ratio) =>
      name === rival ? { text: '>= 1x', met: ratio >= 1 } : { text: 'no goal', met: true },
    ),
  );
  return [
    compareRow('submit until user code runs, p50', 'ms', 'less', startAt(0.5), undefined, () => ({
      text: '< 5 ms',
      met: startAt(0.5) < 5,
    })),
    compareRow('submit until user code runs, p99', 'ms', 'less', startAt(0.99)),
    ...itemsRows,
    compareRow(items, 'items/s', 'more', remuster.items, best, (ratio) => ({ text: '>= 3x', met: ratio >= 3 })),
    ...smallRows,
    compareRow(`${small}, each awaited`, 'jobs/s', 'more', remuster.awaited),
    compareRow('memory of the leader per queued job', 'B', 'less', remuster.queuedBytes),
    compareRow('worker killed until its work runs on another, median', 'ms', 'less', restartMs, undefined, () => ({
      ...{ text: '< 3,000 ms', met: restartMs < 3_000 },
    })),
  ];
}
