/**
 * Bench: committed writes and failover of three voters against etcd (the Debian package). Every voter is a process on
 * loopback and the same disk; every write is synced by a majority; rounds are interleaved. `--rounds N` (5) of
 * `--seconds N` (4) for each case, `--trials N` (7) of failover.
 *
 *   committed writes   64 and 1,024 writers with one write in flight each, sent to the leader: 16 B keys out of 10,000,
 *                      100 B values; medians of the acknowledged writes per second and of the latency. CPU is that of
 *                      all processes of a side, writers included, per write
 *   failover           from kill -9 of the leader of three voters until the first acknowledgement of a write that began
 *                      after the process had exited; a write begins every 10 ms. The Remuster client finds the new
 *                      leader itself, the etcd client gets the remaining endpoints
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { installDebianPackage } from '../scripts/debian-packages.ts';
import { VoterCluster } from './consensus/voters.ts';
import { type ConsensusSide, WriterProcess, type WriteRates } from './consensus/writers.ts';
import { type Bench, type BenchFlags, compareRow, median, printProgress, type BenchRow } from './support/harness.ts';
import { cpuMs } from './support/host-meters.ts';

type Plan = { readonly rounds: number; readonly roundMs: number; readonly trials: number; readonly folder: string };
type Round = WriteRates & { readonly cpuUs: number };
type Side = { readonly name: ConsensusSide; readonly cluster: VoterCluster; readonly writers: WriterProcess };

const voterCounts = [1, 3];
const writerCounts = [64, 1_024];
const warmUpMs = 3_000;
const calmMs = 1_000;
const failoverMsMax = 1_500;

export const bench: Bench = async (flags) => {
  if (process.platform !== 'linux') return { rows: [], missing: ['consensus: needs Linux (setpriv)'] };
  const program = { packageName: 'etcd-server', command: 'etcd', check: ['--version'] };
  const missingReason = installDebianPackage(program, (text) => printProgress(`consensus: ${text}`));
  const names: readonly ConsensusSide[] = missingReason === undefined ? ['remuster', 'etcd'] : ['remuster'];
  const plan = planOf(flags);
  const remove = (): void => rmSync(plan.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  // The processes end with this one, but the folder has to be removed.
  const onInterrupt = (): void => {
    remove();
    process.exit(130);
  };
  process.once('SIGINT', onInterrupt).once('SIGTERM', onInterrupt);
  const rows: BenchRow[] = [];
  try {
    for (const voters of voterCounts) rows.push(...(await measureGroup(names, voters, plan)));
  } finally {
    process.off('SIGINT', onInterrupt).off('SIGTERM', onInterrupt);
    remove();
  }
  return { rows, missing: missingReason === undefined ? [] : [`etcd: ${missingReason}`] };
};

function planOf({ rounds = '5', seconds = '4', trials = '7' }: BenchFlags): Plan {
  const plan = { rounds: Number(rounds), roundMs: Number(seconds) * 1_000, trials: Number(trials) };
  if (!(plan.rounds >= 1) || !(plan.roundMs > 0) || !(plan.trials >= 0)) {
    throw new Error('--rounds takes 1 or more, --seconds more than 0, --trials 0 or more');
  }
  return { ...plan, folder: mkdtempSync(join(tmpdir(), 'remuster-bench-consensus-')) };
}

async function measureGroup(names: readonly ConsensusSide[], voters: number, plan: Plan): Promise<BenchRow[]> {
  const sides: Side[] = [];
  const rows: BenchRow[] = [];
  try {
    for (const name of names) {
      const cluster = await VoterCluster.plan(name, voters, join(plan.folder, `${name}-${voters}`));
      sides.push({ name, cluster, writers: new WriterProcess(name) });
      await cluster.start();
    }
    for (const side of sides) await warmUp(side);
    for (const writers of writerCounts) rows.push(...(await throughput(sides, voters, writers, plan)));
    if (voters > 1 && plan.trials > 0) rows.push(...(await failovers(sides, plan.trials)));
  } finally {
    await Promise.all(sides.flatMap(({ cluster, writers }) => [cluster.stop(), writers.stop()]));
  }
  return rows;
}

/** JIT compilation is not measured. */
async function warmUp({ name, cluster, writers }: Side): Promise<void> {
  const leader = cluster.voters[await cluster.leaderIndex()]!;
  await writers.connect(name === 'remuster' ? cluster.voters : [leader]);
  for (const count of writerCounts) await writers.write(count, warmUpMs / writerCounts.length);
}

async function throughput(sides: readonly Side[], voters: number, writers: number, plan: Plan): Promise<BenchRow[]> {
  const found = new Map<ConsensusSide, Round[]>(sides.map(({ name }) => [name, []]));
  for (let round = 0; round < plan.rounds; round++) {
    // The order alternates as well.
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const written = await oneRound(side, writers, plan.roundMs);
      found.get(side.name)!.push(written);
      printProgress(
        `consensus: ${voters} voters, ${writers} writers, round ${round}, ${side.name}: ${formatRates(written)}`,
      );
    }
  }
  const of = (field: keyof Round) => (name: ConsensusSide) =>
    found.has(name) ? median(found.get(name)!.map((round) => round[field])) : undefined;
  const what = `${voters} ${voters === 1 ? 'voter' : 'voters'}, ${writers} writers`;
  const goal = (ratio: number) => ({ text: '>= 1.0x etcd', met: ratio >= 1 });
  return [
    row(`${what}: committed writes`, 'writes/s', 'more', of('perSecond'), goal),
    row(`${what}: write latency p50`, 'ms', 'less', of('p50Ms')),
    row(`${what}: write latency p99`, 'ms', 'less', of('p99Ms')),
    row(`${what}: CPU time per write`, 'us', 'less', of('cpuUs')),
  ];
}

async function oneRound({ cluster, writers }: Side, count: number, roundMs: number): Promise<Round> {
  const usedMs = (): number => [...cluster.pids, writers.pid].reduce((sum, pid) => sum + cpuMs(pid), 0);
  const beforeMs = usedMs();
  const written = await writers.write(count, roundMs);
  const writes = (written.perSecond * roundMs) / 1_000;
  return { ...written, cpuUs: ((usedMs() - beforeMs) * 1_000) / writes };
}

async function failovers(sides: readonly Side[], trials: number): Promise<BenchRow[]> {
  const found = new Map<ConsensusSide, number[]>(sides.map(({ name }) => [name, []]));
  for (let trial = 0; trial < trials; trial++) {
    for (const side of sides) {
      const failoverMs = await failover(side);
      found.get(side.name)!.push(failoverMs);
      printProgress(`consensus: failover ${trial}, ${side.name}: ${Math.round(failoverMs)} ms`);
    }
  }
  const of = (sum: (values: readonly number[]) => number) => (name: ConsensusSide) =>
    found.has(name) ? sum(found.get(name)!) : undefined;
  const typical = of(median);
  const met = typical('remuster')! <= failoverMsMax;
  return [
    row('leader failover (kill -9) until the next write, median', 'ms', 'less', typical, () => ({
      ...{ text: `<= ${failoverMsMax} ms`, met },
    })),
    row(
      'leader failover (kill -9) until the next write, maximum',
      'ms',
      'less',
      of((values) => Math.max(...values)),
    ),
  ];
}

async function failover({ name, cluster, writers }: Side): Promise<number> {
  const leader = await cluster.leaderIndex();
  await writers.connect(name === 'remuster' ? cluster.voters : cluster.voters.filter((_, i) => i !== leader));
  await writers.probe();
  // A random delay, so that the kill is not in phase with a heartbeat.
  await pause(calmMs * (1 + Math.random()));
  const { killedMs, goneMs } = await cluster.kill(leader);
  const firstMs = await writers.firstAfter(goneMs);
  await cluster.restart(leader);
  return firstMs - killedMs;
}

function row(
  name: string,
  unit: string,
  better: 'less' | 'more',
  of: (side: ConsensusSide) => number | undefined,
  goal?: (ratio: number) => { readonly text: string; readonly met: boolean },
): BenchRow {
  const peer = of('etcd');
  if (peer === undefined) return compareRow(name, unit, better, of('remuster')!);
  return compareRow(name, unit, better, of('remuster')!, { name: 'etcd', value: peer }, goal);
}

function formatRates({ perSecond, p50Ms, p99Ms }: WriteRates): string {
  return `${Math.round(perSecond)}/s, p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`;
}
