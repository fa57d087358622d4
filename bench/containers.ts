/**
 * `npm run bench containers`: container calls and durable writes against bare transport, Moleculer, NATS, gRPC and the
 * disk. Rounds are interleaved and medians taken, because the machine is shared and noisy.
 *
 *   calls     a no-op method, called from a worker: in a container of its own, in one of another worker, in all
 *             containers at once; against the bare transport with messages of the same size, Moleculer, NATS and gRPC
 *   writes    one value of 100 bytes, acknowledged when it is on the disks of owner and replica, by writers on the
 *             worker that owns the containers, and by writers on all workers; against group commit of as many writers
 *             on the same disk. The goal is relative to the limit that writes everything twice, as two replicas do
 *             (decision 13)
 *
 * `--only writes` skips the calls. With one call in flight, caller and callee are pinned to a core each where `taskset`
 * exists, for the reason in transport.ts.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';

import { installDebianPackage } from '../scripts/debian-packages.ts';
import { ContainerBenchCluster, type WorkerName, benchWorkers } from './containers/cluster.ts';
import { diskNames, DiskLimit, twoLogsName } from './containers/disk.ts';
import type { LoadResult } from './containers/load.ts';
import type { LoadPlan } from './containers/bench-module.ts';
import { NatsServer, type CallPeerName, callPeerNames, CallPeer } from './containers/peers.ts';
import { type Bench, compareRow, type BenchGoal, median, printProgress, type BenchRow } from './support/harness.ts';
import { cpuMs } from './support/host-meters.ts';
import { addressTableRows } from './table.ts';

/** One side of a comparison. `pids` are the processes of caller and callee. */
type Side = {
  readonly name: string;
  readonly pids: readonly number[];
  measure(concurrency: number, durationMs: number): Promise<LoadResult>;
};
type Measured = LoadResult & { readonly cpuUs: number };
type Medians = ReadonlyMap<string, Measured>;

const concurrencies = [1, 64, 1_024];
const containers = 16;
const rounds = 5;
const roundMs = 250;
const writeRoundMs = 500;
const warmUpMs = 200;
const compileMs = 2_000;
/** Code that runs once per group commit gets hot later than code that runs per write: after 15 s the rate is stable. */
const compileWritesMs = 20_000;
const localCall = 'local no-op call';
const localUsMax = 10;
const nats = { packageName: 'nats-server', command: 'nats-server', check: ['--version'] };
// Read before the pinning, after which it would be 1.
const allCores = `0-${availableParallelism() - 1}`;

export const bench: Bench = async ({ only }) => {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-bench-containers-'));
  const cluster = new ContainerBenchCluster(join(folder, 'cluster'));
  const cleanups: (() => Promise<void>)[] = [() => cluster.stop()];
  const missing: string[] = [];
  try {
    await cluster.start();
    await cluster.createPool('calls', { containers, copies: 1, durability: 'memory' });
    await cluster.createPool('durable', { containers, copies: 2, durability: 'copies' });
    const rows = only === 'writes' ? [] : await callRows(cluster, cleanups, missing);
    const disk = await DiskLimit.start(folder);
    cleanups.push(() => disk.stop());
    rows.push(...(await writeRows(cluster, disk)));
    await cluster.stop();
    return { rows: [...rows, ...(only === 'writes' ? [] : addressTableRows())], missing };
  } finally {
    for (const cleanUp of cleanups.toReversed()) await cleanUp();
    rmSync(folder, { recursive: true, force: true });
  }
};

async function callRows(
  cluster: ContainerBenchCluster,
  cleanups: (() => Promise<void>)[],
  missing: string[],
): Promise<BenchRow[]> {
  const peers = await startPeers(cleanups, missing);
  const rows = [...(await remoteRows(cluster, peers)), ...(await ownRows(cluster))];
  await Promise.all(peers.map((side) => side.stop()));
  return rows;
}

async function startPeers(cleanups: (() => Promise<void>)[], missing: string[]): Promise<readonly CallPeer[]> {
  const missingReason = installDebianPackage(nats, printProgress);
  const natsServer = missingReason === undefined ? await NatsServer.start() : undefined;
  if (natsServer !== undefined) cleanups.push(() => natsServer.stop());
  const sides: CallPeer[] = [];
  for (const name of callPeerNames) {
    if (name.includes('NATS') && natsServer === undefined) missing.push(`${name}: ${missingReason}`);
    else {
      const side = await CallPeer.start(name, natsServer?.port ?? 0);
      cleanups.push(() => side.stop());
      sides.push(side);
    }
  }
  return sides;
}

async function remusterSide(
  cluster: ContainerBenchCluster,
  target: WorkerName,
  plan: Pick<LoadPlan, 'method' | 'pool'>,
): Promise<Side> {
  const [caller] = benchWorkers;
  const owned = await cluster.ownedBy(plan.pool, target);
  return {
    name: 'remuster',
    pids: [...new Set([cluster.pid(caller), cluster.pid(target)])],
    measure: (concurrency, durationMs) =>
      cluster.runLoad(caller, { ...plan, containers: owned, concurrency, durationMs }),
  };
}

async function remoteRows(cluster: ContainerBenchCluster, peers: readonly CallPeer[]): Promise<BenchRow[]> {
  const ours = await remusterSide(cluster, 'w1', { pool: 'calls', method: 'noop' });
  const rows: BenchRow[] = [];
  await warmUp([ours, ...peers]);
  for (const concurrency of concurrencies) {
    const found = await cell('remote no-op call', [ours, ...peers], concurrency, roundMs);
    rows.push(...remoteRowsOf(found, concurrency));
  }
  return rows;
}

function remoteRowsOf(found: Medians, concurrency: number): BenchRow[] {
  const what = `remote no-op call, concurrency ${concurrency}`;
  const ours = found.get('remuster')!;
  const rate = (name: CallPeerName, goal?: (ratio: number) => BenchGoal): BenchRow =>
    compareRow(what, 'calls/s', 'more', ours.perSecond, { name, value: found.get(name)!.perSecond }, goal);
  const others = callPeerNames.filter((name) => name !== 'bare transport' && found.has(name));
  const best = others.toSorted((a, b) => found.get(b)!.perSecond - found.get(a)!.perSecond)[0]!;
  const threefold = (ratio: number): BenchGoal => ({ text: '>= 3x the fastest peer', met: ratio >= 3 });
  return [
    rate('bare transport', (ratio) => ({ text: '>= 0.5x the bare transport', met: ratio >= 0.5 })),
    ...others.map((name) => rate(name, name === best && concurrency > 1 ? threefold : undefined)),
    ...costRows(what, found, 'bare transport'),
  ];
}

/** Latency, and CPU time of all processes involved. */
function costRows(what: string, found: Medians, peerName?: CallPeerName): BenchRow[] {
  const of = (title: string, field: keyof Measured): BenchRow => {
    const peer = peerName === undefined ? undefined : { name: peerName, value: found.get(peerName)![field] };
    return compareRow(`${what}, ${title}`, 'us', 'less', found.get('remuster')![field], peer);
  };
  return [of('latency p50', 'p50Us'), of('latency p99', 'p99Us'), of('CPU time per call', 'cpuUs')];
}

/** Calls that no peer has: of containers on the same worker, of all containers, and of writing methods. */
async function ownRows(cluster: ContainerBenchCluster): Promise<BenchRow[]> {
  const kinds = [
    [localCall, await remusterSide(cluster, 'w0', { pool: 'calls', method: 'noop' })],
    ['local no-op call of a writing method', await remusterSide(cluster, 'w0', { pool: 'calls', method: 'touch' })],
    ['remote no-op call of a writing method', await remusterSide(cluster, 'w1', { pool: 'calls', method: 'touch' })],
    [
      `broadcast of a no-op call to ${containers} containers`,
      await remusterSide(cluster, 'w1', { pool: 'calls', method: 'broadcast' }),
    ],
  ] as const;
  const rows: BenchRow[] = [];
  for (const [what, side] of kinds) {
    await warmUp([side]);
    for (const concurrency of concurrencies) {
      const found = await cell(what, [side], concurrency, roundMs);
      const name = `${what}, concurrency ${concurrency}`;
      const [p50, ...others] = costRows(name, found);
      rows.push(compareRow(name, 'calls/s', 'more', found.get('remuster')!.perSecond));
      rows.push(what === localCall && concurrency === 1 ? withLatencyGoal(p50!) : p50!, ...others);
    }
  }
  return rows;
}

function withLatencyGoal(row: BenchRow): BenchRow {
  return { ...row, goal: `< ${localUsMax} us`, met: row.ours < localUsMax };
}

async function writeRows(cluster: ContainerBenchCluster, disk: DiskLimit): Promise<BenchRow[]> {
  const all = Array.from({ length: containers }, (_, i) => i);
  const [writer] = benchWorkers;
  const owned = await cluster.ownedBy('durable', writer);
  const pids = benchWorkers.map((name) => cluster.pid(name));
  const atOwner: Side = {
    ...{ name: 'remuster', pids },
    measure: (concurrency, durationMs) =>
      cluster.runLoad(writer, { pool: 'durable', method: 'set', containers: owned, concurrency, durationMs }),
  };
  const everywhere: Side = {
    ...{ name: 'remuster', pids },
    measure: (concurrency, durationMs) => writeEverywhere(cluster, all, concurrency, durationMs),
  };
  const disks = diskNames.map((name): Side => {
    return { name, pids: [], measure: (concurrency, durationMs) => disk.measure(name, concurrency, durationMs) };
  });
  const rows: BenchRow[] = [];
  await warmUp(disks);
  for (const [where, ours, counts] of [
    ['on the owner', atOwner, concurrencies],
    ['on all workers', everywhere, concurrencies.slice(1)],
  ] as const) {
    await warmUp([ours], compileWritesMs);
    for (const writers of counts) {
      const found = await cell(`durable writes ${where}`, [ours, ...disks], writers, writeRoundMs);
      const name = `durable write, 2 replicas, ${writers} ${writers === 1 ? 'writer' : 'writers'} ${where}`;
      rows.push(...writeRowsOf(found, name));
    }
  }
  return rows;
}

/** The writers are spread over the workers; each writes to all containers. */
async function writeEverywhere(
  cluster: ContainerBenchCluster,
  all: readonly number[],
  concurrency: number,
  durationMs: number,
): Promise<LoadResult> {
  const shares = benchWorkers.map((_, i) => Math.floor((concurrency + i) / benchWorkers.length));
  const loads = await Promise.all(
    benchWorkers.map((name, i) =>
      cluster.runLoad(name, { pool: 'durable', method: 'set', containers: all, concurrency: shares[i]!, durationMs }),
    ),
  );
  return {
    completed: loads.reduce((sum, { completed }) => sum + completed, 0),
    perSecond: loads.reduce((sum, { perSecond }) => sum + perSecond, 0),
    p50Us: median(loads.map(({ p50Us }) => p50Us)),
    p99Us: Math.max(...loads.map(({ p99Us }) => p99Us)),
  };
}

function writeRowsOf(found: Medians, what: string): BenchRow[] {
  const ours = found.get('remuster')!;
  const half = (ratio: number): BenchGoal => ({ text: '>= 0.5x the limit', met: ratio >= 0.5 });
  return [
    ...diskNames.map((name) => {
      const peer = { name: `group commit, ${name}`, value: found.get(name)!.perSecond };
      return compareRow(what, 'writes/s', 'more', ours.perSecond, peer, name === twoLogsName ? half : undefined);
    }),
    ...costRows(what, found),
  ];
}

/** JIT compilation is not measured. */
async function warmUp(sides: readonly Side[], forMs = compileMs): Promise<void> {
  for (const side of sides) await side.measure(concurrencies[1]!, forMs);
}

/** A short round for warm-up, then interleaved rounds of all sides. */
async function cell(what: string, sides: readonly Side[], concurrency: number, durationMs: number): Promise<Medians> {
  const found = new Map<string, Measured[]>(sides.map(({ name }) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      if (side.pids.length === 2) pin(side.pids, concurrency === 1);
      const measured = await oneRound(side, concurrency, round === 0 ? warmUpMs : durationMs);
      if (round > 0) found.get(side.name)!.push(measured);
    }
  }
  const medians = new Map([...found].map(([name, all]) => [name, mediansOf(all)]));
  for (const [name, measured] of medians)
    printProgress(`containers: ${what} x ${concurrency}, ${name}: ${formatRates(measured)}`);
  return medians;
}

async function oneRound(side: Side, concurrency: number, durationMs: number): Promise<Measured> {
  const usedMs = (): number => side.pids.reduce((sum, pid) => sum + cpuMs(pid), 0);
  const beforeMs = usedMs();
  const load = await side.measure(concurrency, durationMs);
  return { ...load, cpuUs: ((usedMs() - beforeMs) * 1_000) / load.completed };
}

function mediansOf(all: readonly Measured[]): Measured {
  const of = (field: keyof Measured): number => median(all.map((measured) => measured[field]));
  return {
    completed: of('completed'),
    perSecond: of('perSecond'),
    p50Us: of('p50Us'),
    p99Us: of('p99Us'),
    cpuUs: of('cpuUs'),
  };
}

function formatRates({ perSecond, p50Us, p99Us, cpuUs }: Measured): string {
  const us = (value: number): string => `${value.toFixed(1)} us`;
  return `${Math.round(perSecond)}/s, p50 ${us(p50Us)}, p99 ${us(p99Us)}, CPU ${us(cpuUs)}`;
}

/** Pins each process to a core of its own, or unpins all. */
function pin(pids: readonly number[], apart: boolean): void {
  if (allCores === '0-0') return;
  try {
    for (const [i, pid] of pids.entries()) {
      execFileSync('taskset', ['-a', '-p', '-c', apart ? String(i) : allCores, String(pid)], { stdio: 'ignore' });
    }
  } catch {
    printProgress('containers: taskset does not work here, so latency is measured without pinning');
  }
}
