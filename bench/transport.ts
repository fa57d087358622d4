/**
 * Bench: request and reply against bare TCP and Moleculer. Rounds are interleaved and medians taken, because the
 * machine is shared and noisy.
 *
 *   latency      one request at a time, median round trip in microseconds
 *   throughput   a fixed number of requests under way, answers per second
 *
 * The bare echo has a length prefix and nothing else: no ids, no deadlines, no sealing. At concurrency 1 it writes at
 * once; above that it writes once per read, which is what any batching transport could reach at best.
 *
 * For latency, client and server are pinned to a core each where `taskset` exists, as two machines would be. Left
 * alone, the scheduler puts two processes that take turns on the same core; then a round trip measures the sum of all
 * work on both sides instead of the time that somebody waits.
 */
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { type Bench, compareRow, median, printProgress, type BenchRow } from './support/harness.ts';
import { bareClient, type TransportPeer, moleculerClient, remusterClient, startServer } from './transport/peers.ts';

const sizes = [64, 1_024, 65_536];
const concurrencies = [1, 64, 1_024];
const rounds = 7;
const roundMs = 300;
const warmUpMs = 1_000;
const millionRequests = 1_000_000;
// Asked before anything is pinned: afterwards it would be 1.
const allCores = `0-${availableParallelism() - 1}`;

/** Keeps `concurrency` requests under way for a while; answers per second, or the median in microseconds for 1. */
function measure(caller: TransportPeer, bytes: number, concurrency: number, durationMs: number): Promise<number> {
  const body = new Uint8Array(bytes).fill(7);
  const latencies: number[] = [];
  const startMs = performance.now();
  const endMs = startMs + durationMs;
  let answered = 0;
  let underWay = 0;
  return new Promise((resolve) => {
    const next = (): void => {
      const askedMs = performance.now();
      if (askedMs >= endMs) return;
      underWay += 1;
      caller.call(body, () => {
        answered += 1;
        underWay -= 1;
        if (concurrency === 1) latencies.push(performance.now() - askedMs);
        if (performance.now() < endMs) next();
        else if (underWay === 0) resolve(concurrency === 1 ? median(latencies) * 1_000 : rate(answered, startMs));
      });
    };
    for (let i = 0; i < concurrency; i++) next();
  });
}

function rate(answered: number, startMs: number): number {
  return answered / ((performance.now() - startMs) / 1_000);
}

async function cell(
  callers: ReadonlyMap<string, TransportPeer>,
  bytes: number,
  concurrency: number,
): Promise<Map<string, number>> {
  const results = new Map<string, number[]>([...callers.keys()].map((name) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const [name, caller] of callers) {
      const value = await measure(caller, bytes, concurrency, round === 0 ? roundMs / 2 : roundMs);
      if (round > 0) results.get(name)!.push(value);
    }
  }
  const medians = new Map([...results].map(([name, values]) => [name, median(values)]));
  printProgress(`transport: ${bytes} B x ${concurrency}: ${JSON.stringify(Object.fromEntries(medians))}`);
  return medians;
}

function rowFor(bytes: number, concurrency: number, ours: number, peerName: string, peer: number): BenchRow {
  const name = `${bytes} B, concurrency ${concurrency}`;
  const goal = goalFor(bytes, concurrency, peerName);
  const wanted = goal === undefined ? undefined : (ratio: number) => ({ text: goal.text, met: ratio >= goal.ratioMin });
  const [unit, better] = concurrency === 1 ? (['us p50', 'less'] as const) : (['requests/s', 'more'] as const);
  return compareRow(name, unit, better, ours, { name: peerName, value: peer }, wanted);
}

function goalFor(bytes: number, concurrency: number, peerName: string): { text: string; ratioMin: number } | undefined {
  if (bytes !== 64) return undefined;
  if (peerName === 'moleculer') return concurrency === 1_024 ? { text: '>= 6x', ratioMin: 6 } : undefined;
  if (concurrency === 1) return { text: 'p50 <= 1.6x bare', ratioMin: 1 / 1.6 };
  return concurrency === 64 ? { text: '>= 0.5x bare', ratioMin: 0.5 } : { text: '>= 0.2x bare', ratioMin: 0.2 };
}

async function table(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  const server = await startChild();
  const ours = await remusterClient(server.ports.ours);
  const bare = await bareClient(server.ports.bare, false);
  const batched = await bareClient(server.ports.bareBatched, true);
  const moleculer = await moleculerClient(server.ports.moleculer);
  // Let the compiler do its work first; it is not what is compared.
  for (const caller of [ours, bare, batched, moleculer]) await measure(caller, 64, 64, warmUpMs);
  for (const bytes of sizes) {
    for (const concurrency of concurrencies) {
      const peer = concurrency === 1 ? bare : batched;
      if (allCores !== '0-0') pin(server.child, concurrency === 1);
      const callers = new Map<string, TransportPeer>([
        ['ours', ours],
        ['bare', peer],
      ]);
      if (bytes === 64) callers.set('moleculer', moleculer);
      const medians = await cell(callers, bytes, concurrency);
      for (const name of callers.keys()) {
        if (name !== 'ours') rows.push(rowFor(bytes, concurrency, medians.get('ours')!, name, medians.get(name)!));
      }
    }
  }
  rows.push(...(await memory(ours)));
  for (const caller of [ours, bare, batched, moleculer]) await caller.close();
  server.child.disconnect();
  await once(server.child, 'exit');
  return rows;
}

async function memory(caller: TransportPeer): Promise<BenchRow[]> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const body = new Uint8Array(64).fill(7);
  await many(caller, body, millionRequests / 5);
  collect();
  const before = process.memoryUsage();
  await many(caller, body, millionRequests);
  collect();
  const after = process.memoryUsage();
  const mib = (bytes: number): number => Math.max(0.001, bytes / 2 ** 20);
  const flat = (grown: number, max: number) => () => ({ text: `<= ${max} MiB`, met: grown / 2 ** 20 <= max });
  const heap = after.heapUsed - before.heapUsed;
  const rss = after.rss - before.rss;
  return [
    compareRow('heap growth over 1,000,000 requests', 'MiB', 'less', mib(heap), undefined, flat(heap, 4)),
    compareRow('RSS growth over 1,000,000 requests', 'MiB', 'less', mib(rss), undefined, flat(rss, 32)),
  ];
}

function many(caller: TransportPeer, body: Uint8Array, count: number): Promise<void> {
  let asked = 0;
  let answered = 0;
  return new Promise((resolve) => {
    const next = (): void => {
      asked += 1;
      caller.call(body, () => {
        answered += 1;
        if (asked < count) next();
        else if (answered === count) resolve();
      });
    };
    for (let i = 0; i < 64; i++) next();
  });
}

type Ports = { readonly ours: number; readonly bare: number; readonly bareBatched: number; readonly moleculer: number };

async function startChild(): Promise<{ child: ChildProcess; ports: Ports }> {
  const child = fork(import.meta.filename, ['server'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const [ports] = (await once(child, 'message')) as [Ports];
  return { child, ports };
}

/** Each on its own core, or both wherever the system likes. */
function pin(child: ChildProcess, apart: boolean): void {
  const [ours, theirs] = apart ? ['0', '1'] : [allCores, allCores];
  try {
    for (const [pid, cores] of [[process.pid, ours] as const, [child.pid, theirs] as const]) {
      execFileSync('taskset', ['-a', '-p', '-c', cores, String(pid)], { stdio: 'ignore' });
    }
  } catch {
    printProgress('transport: taskset does not work here, so latency is measured without pinning');
  }
}

export const bench: Bench = async () => ({ rows: await table(), missing: [] });

if (process.argv[2] === 'server' && process.send !== undefined) {
  process.on('disconnect', () => process.exit(0));
  process.send(await startServer());
}
