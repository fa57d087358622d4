/**
 * Bench: committed writes and failover of three voters against etcd (the Debian package). Every voter is a process on
 * loopback and the same disk; every write is synced by a majority; the sides take turns. `--rounds N` (5) of
 * `--seconds N` (4) for each case, `--trials N` (7) of failover.
 *
 *   committed writes   64 and 1,024 writers with one write each under way, 16 B keys out of 10,000, 100 B values, sent to
 *                      the leader; the median over the rounds of what was acknowledged each second, and of the latency.
 *                      CPU is that of all processes of a side, its writers included, for one write
 *   failover           from kill -9 of the leader of three until the first write was acknowledged that had begun after
 *                      its process was gone; writes begin every 10 ms. Ours has to find the new leader by itself, etcd's
 *                      writer is told who is left
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
  const fault = installDebianPackage(program, (text) => printProgress(`consensus: ${text}`));
  const names: readonly ConsensusSide[] = fault === undefined ? ['ours', 'etcd'] : ['ours'];
  const plan = planOf(flags);
  const remove = (): void => rmSync(plan.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  // The processes end with this one; the folder has to be taken away.
  const interrupted = (): void => {
    remove();
    process.exit(130);
  };
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
  const rows: BenchRow[] = [];
  try {
    for (const voters of voterCounts) rows.push(...(await measureGroup(names, voters, plan)));
  } finally {
    process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
    remove();
  }
  return { rows, missing: fault === undefined ? [] : [`etcd: ${fault}`] };
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

/** Compilers do their work first; it is not what is compared. */
async function warmUp({ name, cluster, writers }: Side): Promise<void> {
  const leader = cluster.voters[await cluster.leaderIndex()]!;
  await writers.connect(name === 'ours' ? cluster.voters : [leader]);
  for (const count of writerCounts) await writers.write(count, warmUpMs / writerCounts.length);
}

async function throughput(sides: readonly Side[], voters: number, writers: number, plan: Plan): Promise<BenchRow[]> {
  const found = new Map<ConsensusSide, Round[]>(sides.map(({ name }) => [name, []]));
  for (let round = 0; round < plan.rounds; round++) {
    // Who begins takes turns, too.
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const written = await oneRound(side, writers, plan.roundMs);
      found.get(side.name)!.push(written);
      printProgress(`consensus: ${voters} voters, ${writers} writers, round ${round}, ${side.name}: ${shown(written)}`);
    }
  }
  const of = (field: keyof Round) => (name: ConsensusSide) =>
    found.has(name) ? median(found.get(name)!.map((round) => round[field])) : undefined;
  const what = `${voters} ${voters === 1 ? 'voter' : 'voters'}, ${writers} writers`;
  const goal = (ratio: number) => ({ text: '>= 1.0x etcd', met: ratio >= 1 });
  return [
    row(`${what}: committed`, 'writes/s', 'more', of('perSecond'), goal),
    row(`${what}: latency p50`, 'ms', 'less', of('p50Ms')),
    row(`${what}: latency p99`, 'ms', 'less', of('p99Ms')),
    row(`${what}: CPU`, 'us/write', 'less', of('cpuUs')),
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
      const tookMs = await failover(side);
      found.get(side.name)!.push(tookMs);
      printProgress(`consensus: failover ${trial}, ${side.name}: ${Math.round(tookMs)} ms`);
    }
  }
  const of = (sum: (values: readonly number[]) => number) => (name: ConsensusSide) =>
    found.has(name) ? sum(found.get(name)!) : undefined;
  const typical = of(median);
  const met = typical('ours')! <= failoverMsMax;
  return [
    row('kill -9 of the leader, next write', 'ms', 'less', typical, () => ({ text: `<= ${failoverMsMax} ms`, met })),
    row(
      'kill -9 of the leader, slowest trial',
      'ms',
      'less',
      of((values) => Math.max(...values)),
    ),
  ];
}

async function failover({ name, cluster, writers }: Side): Promise<number> {
  const leader = await cluster.leaderIndex();
  await writers.connect(name === 'ours' ? cluster.voters : cluster.voters.filter((_, i) => i !== leader));
  await writers.probe();
  // Not in step with anybody's period.
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
  if (peer === undefined) return compareRow(name, unit, better, of('ours')!);
  return compareRow(name, unit, better, of('ours')!, { name: 'etcd', value: peer }, goal);
}

function shown({ perSecond, p50Ms, p99Ms }: WriteRates): string {
  return `${Math.round(perSecond)}/s, p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms`;
}
