/**
 * Bench: requests per CPU second of the load generator against wrk, autocannon and undici. `--rounds N` (5) of
 * `--seconds N` (5) per side, interleaved; medians over the rounds.
 *
 *   remuster    a workflow of one step with a check, in a runner, with all statistics of a report
 *   client      ctx.http alone in a loop, without a runner
 *   wrk         in C, only counts requests (Debian package)
 *   autocannon  the usual load generator for Node (npm, installed in .cache)
 *   undici      its connection pool in a loop (npm, installed in .cache)
 */
import { availableParallelism } from 'node:os';

import { installDebianPackage } from '../scripts/debian-packages.ts';
import {
  type Bench,
  type BenchFlags,
  compareRow,
  type BenchGoal,
  median,
  printProgress,
  type BenchRow,
} from './support/harness.ts';
import { NginxServer, nginxProgram } from './load/nginx.ts';
import {
  NodeGenerator,
  installNpmPeers,
  type GeneratorRound,
  type LoadGenerator,
  wrkProgram,
  wrkGenerator,
} from './load/generators.ts';

const connections = 64;
const serverCore = 1;
const generatorCore = 0;
/** CPU time, because wall time says little about JIT compilation on a busy machine. */
const warmUpCpuSeconds = 3;
const warmUpRoundsMax = 20;

const peers: readonly { readonly name: string; readonly goal: number | undefined }[] = [
  { name: 'wrk', goal: 0.6 },
  { name: 'autocannon', goal: 1.2 },
  { name: 'undici', goal: undefined },
];

export const bench: Bench = async (flags) => {
  if (process.platform !== 'linux' || availableParallelism() < 2) {
    return { rows: [], missing: ['load: needs Linux and two cores'] };
  }
  const { rounds, seconds } = planOf(flags);
  const onInstall = (text: string): void => printProgress(`load: ${text}`);
  const nginxMissing = installDebianPackage(nginxProgram, onInstall);
  if (nginxMissing !== undefined) return { rows: [], missing: [`nginx: ${nginxMissing}`] };
  const nginx = await NginxServer.start(serverCore);
  const sides: LoadGenerator[] = [];
  try {
    const missing = await startSides(nginx.url, sides, onInstall);
    for (const side of sides) await warmUp(side);
    return { rows: rowsOf(await measure(sides, rounds, seconds)), missing };
  } finally {
    await Promise.all(sides.map((side) => side.stop()));
    await nginx.stop();
  }
};

/** JIT compilation is not measured. */
async function warmUp(side: LoadGenerator): Promise<void> {
  let cpuSeconds = 0;
  for (let i = 0; i < warmUpRoundsMax && cpuSeconds < warmUpCpuSeconds; i++) {
    cpuSeconds += (await side.round(2)).cpuSeconds;
  }
  printProgress(`load: ${side.name} is warm`);
}

function planOf({ rounds = '5', seconds = '5' }: BenchFlags): { readonly rounds: number; readonly seconds: number } {
  const plan = { rounds: Number(rounds), seconds: Number(seconds) };
  if (!(plan.rounds >= 1) || !Number.isInteger(plan.seconds) || plan.seconds < 1) {
    throw new Error('--rounds takes 1 or more, --seconds a whole number of at least 1');
  }
  return plan;
}

/** Adds each started side to `sides`, so that the caller can stop them if another fails. Returns what is missing. */
async function startSides(url: string, sides: LoadGenerator[], onInstall: (text: string) => void): Promise<string[]> {
  const start = async (name: string, file: string, ...args: readonly string[]): Promise<void> => {
    sides.push(await NodeGenerator.start(name, file, [...args, url, String(connections)], generatorCore));
  };
  const missing: string[] = [];
  await start('remuster', 'runner-generator-main.ts');
  await start('client', 'npm-generator-main.ts', 'client');
  const wrkMissing = installDebianPackage(wrkProgram, onInstall);
  if (wrkMissing === undefined) sides.push(wrkGenerator(`${url}/`, connections, generatorCore));
  else missing.push(`wrk: ${wrkMissing}`);
  const peersMissing = installNpmPeers();
  if (peersMissing !== undefined) return [...missing, `autocannon and undici: ${peersMissing}`];
  for (const name of ['autocannon', 'undici']) await start(name, 'npm-generator-main.ts', name);
  return missing;
}

async function measure(
  sides: readonly LoadGenerator[],
  rounds: number,
  seconds: number,
): Promise<Map<string, GeneratorRound[]>> {
  const found = new Map<string, GeneratorRound[]>(sides.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const result = await side.round(seconds);
      found.get(side.name)!.push(result);
      const perCpuSecond = Math.round(result.requests / result.cpuSeconds);
      const perSecond = Math.round(result.perSecond);
      printProgress(`load: round ${round}, ${side.name}: ${perCpuSecond} per CPU second, ${perSecond}/s`);
    }
  }
  return found;
}

function rowsOf(found: ReadonlyMap<string, readonly GeneratorRound[]>): BenchRow[] {
  const of = (name: string, value: (round: GeneratorRound) => number): number => median(found.get(name)!.map(value));
  const efficiency = (name: string): number => of(name, ({ requests, cpuSeconds }) => requests / cpuSeconds);
  const rate = (name: string): number => of(name, ({ perSecond }) => perSecond);
  const rows = peers
    .filter(({ name }) => found.has(name))
    .flatMap(({ name, goal }) => {
      const text = (ratio: number): BenchGoal => ({ text: `>= ${goal}x ${name}`, met: ratio >= goal! });
      return [
        compareRow(
          `GET over ${connections} connections, requests per CPU second`,
          'requests/CPU s',
          'more',
          efficiency('remuster'),
          { name, value: efficiency(name) },
          goal === undefined ? undefined : text,
        ),
        compareRow(`GET over ${connections} connections, requests per second`, 'requests/s', 'more', rate('remuster'), {
          name,
          value: rate(name),
        }),
      ];
    });
  const client = { name: 'ctx.http without a runner', value: efficiency('client') };
  const title = 'GET in a runner, requests per CPU second';
  return [...rows, compareRow(title, 'requests/CPU s', 'more', efficiency('remuster'), client)];
}
