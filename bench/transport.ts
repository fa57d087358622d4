/**
 * Bench: request and reply against bare TCP and Moleculer. Rounds are interleaved and medians taken, because the
 * machine is shared and noisy.
 *
 *   latency      one request in flight, median round trip in microseconds
 *   throughput   a fixed number of requests in flight, replies per second
 *
 * The bare TCP echo has a length prefix and nothing else: no ids, no deadlines, no sealing. At concurrency 1 it writes
 * at once; above that it writes once per read, the upper bound of any batching transport.
 *
 * For latency, client and server are pinned to a core each where `taskset` exists, like two machines. Otherwise the
 * scheduler may put both processes on one core, because they alternate; then a round trip is the sum of the work of
 * both sides instead of the time that a caller waits.
 */
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { type Bench, compareRow, median, printProgress, type BenchRow } from './support/harness.ts';
import {
  bareClient,
  type TransportPeer,
  type TransportServerPorts,
  moleculerClient,
  remusterClient,
  startServer,
} from './transport/peers.ts';

const sizes = [64, 1_024, 65_536];
const concurrencies = [1, 64, 1_024];
const rounds = 7;
const roundMs = 300;
const warmUpMs = 1_000;
const millionRequests = 1_000_000;
// Read before the pinning, after which it would be 1.
const allCores = `0-${availableParallelism() - 1}`;

/**
 * Keeps `concurrency` requests in flight. Returns replies per second, or the median latency in us for one in flight.
 */
function measure(caller: TransportPeer, bytes: number, concurrency: number, durationMs: number): Promise<number> {
  const body = new Uint8Array(bytes).fill(7);
  const latencies: number[] = [];
  const startMs = performance.now();
  const endMs = startMs + durationMs;
  let completed = 0;
  let inFlight = 0;
  return new Promise((resolve) => {
    const next = (): void => {
      const sentMs = performance.now();
      if (sentMs >= endMs) return;
      inFlight += 1;
      caller.call(body, () => {
        completed += 1;
        inFlight -= 1;
        if (concurrency === 1) latencies.push(performance.now() - sentMs);
        if (performance.now() < endMs) next();
        else if (inFlight === 0) resolve(concurrency === 1 ? median(latencies) * 1_000 : rate(completed, startMs));
      });
    };
    for (let i = 0; i < concurrency; i++) next();
  });
}

function rate(completed: number, startMs: number): number {
  return completed / ((performance.now() - startMs) / 1_000);
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
  const goal = goalFor(bytes, concurrency, peerName);
  const check = goal === undefined ? undefined : (ratio: number) => ({ text: goal.text, met: ratio >= goal.ratioMin });
  const [what, unit, better] =
    concurrency === 1 ? (['latency p50', 'us', 'less'] as const) : (['throughput', 'requests/s', 'more'] as const);
  const name = `request and reply of ${bytes} B, concurrency ${concurrency}, ${what}`;
  return compareRow(name, unit, better, ours, { name: peerName, value: peer }, check);
}

function goalFor(bytes: number, concurrency: number, peerName: string): { text: string; ratioMin: number } | undefined {
  if (bytes !== 64) return undefined;
  if (peerName === 'Moleculer') return concurrency === 1_024 ? { text: '>= 6x', ratioMin: 6 } : undefined;
  if (concurrency === 1) return { text: 'p50 <= 1.6x bare TCP', ratioMin: 1 / 1.6 };
  const ratioMin = concurrency === 64 ? 0.5 : 0.2;
  return { text: `>= ${ratioMin}x bare TCP`, ratioMin };
}

async function table(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  const server = await startChild();
  const ours = await remusterClient(server.ports.remuster);
  const bare = await bareClient(server.ports.bare, false);
  const batched = await bareClient(server.ports.bareBatched, true);
  const moleculer = await moleculerClient(server.ports.moleculer);
  // JIT compilation is not measured.
  for (const caller of [ours, bare, batched, moleculer]) await measure(caller, 64, 64, warmUpMs);
  for (const bytes of sizes) {
    for (const concurrency of concurrencies) {
      const peer = concurrency === 1 ? bare : batched;
      if (allCores !== '0-0') pin(server.child, concurrency === 1);
      const callers = new Map<string, TransportPeer>([
        ['remuster', ours],
        ['bare TCP', peer],
      ]);
      if (bytes === 64) callers.set('Moleculer', moleculer);
      const medians = await cell(callers, bytes, concurrency);
      for (const name of callers.keys()) {
        if (name !== 'remuster')
          rows.push(rowFor(bytes, concurrency, medians.get('remuster')!, name, medians.get(name)!));
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
  await sendMany(caller, body, millionRequests / 5);
  collect();
  const before = process.memoryUsage();
  await sendMany(caller, body, millionRequests);
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

function sendMany(caller: TransportPeer, body: Uint8Array, count: number): Promise<void> {
  let sent = 0;
  let completed = 0;
  return new Promise((resolve) => {
    const next = (): void => {
      sent += 1;
      caller.call(body, () => {
        completed += 1;
        if (sent < count) next();
        else if (completed === count) resolve();
      });
    };
    for (let i = 0; i < 64; i++) next();
  });
}

async function startChild(): Promise<{ child: ChildProcess; ports: TransportServerPorts }> {
  const child = fork(import.meta.filename, ['server'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const [ports] = (await once(child, 'message')) as [TransportServerPorts];
  return { child, ports };
}

/** Pins client and server to a core each, or unpins both. */
function pin(child: ChildProcess, apart: boolean): void {
  const [clientCores, serverCores] = apart ? ['0', '1'] : [allCores, allCores];
  try {
    for (const [pid, cores] of [[process.pid, clientCores] as const, [child.pid, serverCores] as const]) {
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
