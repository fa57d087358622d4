/**
 * Bench: requests per CPU second of load generators against wrk, autocannon and undici. `--rounds N` (5) of
 * `--seconds N` (5) for each side, the sides taking turns, medians over the rounds.
 *
 *   ours        a workflow of one step with a check, in a runner, with everything that a report needs
 *   wrk         C, nothing but counting (Debian package)
 *   autocannon  the usual one for Node (npm, installed in .cache)
 *   undici      its pool in a plain loop (npm, installed in .cache)
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
/** Of CPU: on a busy machine a few seconds of the clock warm nobody up. */
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
  const told = (text: string): void => printProgress(`load: ${text}`);
  const noServer = installDebianPackage(nginxProgram, told);
  if (noServer !== undefined) return { rows: [], missing: [`nginx: ${noServer}`] };
  const nginx = await NginxServer.start(serverCore);
  const sides: LoadGenerator[] = [];
  try {
    const missing = await startSides(nginx.url, sides, told);
    for (const side of sides) await warmUp(side);
    return { rows: rowsOf(await measured(sides, rounds, seconds)), missing };
  } finally {
    await Promise.all(sides.map((side) => side.stop()));
    await nginx.stop();
  }
};

/** Compilers do their work first; it is not what is compared. */
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
    throw new Error('--rounds takes 1 or more, --seconds a whole number from 1 on');
  }
  return plan;
}

/** Fills `sides`, so that those that were started are known if another one fails. What is missing, and why. */
async function startSides(url: string, sides: LoadGenerator[], told: (text: string) => void): Promise<string[]> {
  const start = async (name: string, file: string, ...words: readonly string[]): Promise<void> => {
    sides.push(await NodeGenerator.start(name, file, [...words, url, String(connections)], generatorCore));
  };
  const missing: string[] = [];
  await start('ours', 'runner-generator-main.ts');
  await start('client', 'npm-generator-main.ts', 'client');
  const noWrk = installDebianPackage(wrkProgram, told);
  if (noWrk === undefined) sides.push(wrkGenerator(`${url}/`, connections, generatorCore));
  else missing.push(`wrk: ${noWrk}`);
  const noPeers = installNpmPeers();
  if (noPeers !== undefined) return [...missing, `autocannon and undici: ${noPeers}`];
  for (const name of ['autocannon', 'undici']) await start(name, 'npm-generator-main.ts', name);
  return missing;
}

async function measured(
  sides: readonly LoadGenerator[],
  rounds: number,
  seconds: number,
): Promise<Map<string, GeneratorRound[]>> {
  const found = new Map<string, GeneratorRound[]>(sides.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
      const one = await side.round(seconds);
      found.get(side.name)!.push(one);
      const worth = Math.round(one.requests / one.cpuSeconds);
      printProgress(`load: round ${round}, ${side.name}: ${worth} per CPU-second, ${Math.round(one.perSecond)}/s`);
    }
  }
  return found;
}

function rowsOf(found: ReadonlyMap<string, readonly GeneratorRound[]>): BenchRow[] {
  const of = (name: string, value: (round: GeneratorRound) => number): number => median(found.get(name)!.map(value));
  const worth = (name: string): number => of(name, ({ requests, cpuSeconds }) => requests / cpuSeconds);
  const rate = (name: string): number => of(name, ({ perSecond }) => perSecond);
  const rows = peers
    .filter(({ name }) => found.has(name))
    .flatMap(({ name, goal }) => {
      const text = (ratio: number): BenchGoal => ({ text: `>= ${goal}x ${name}`, met: ratio >= goal! });
      const [peer, faster] = [
        { name, value: worth(name) },
        { name, value: rate(name) },
      ];
      return [
        compareRow(
          `GET, ${connections} connections`,
          'requests/CPU s',
          'more',
          worth('ours'),
          peer,
          goal === undefined ? undefined : text,
        ),
        compareRow(`GET, ${connections} connections`, 'requests/s', 'more', rate('ours'), faster),
      ];
    });
  const alone = { name: 'ctx.http alone', value: worth('client') };
  return [...rows, compareRow('a runner around ctx.http', 'requests/CPU s', 'more', worth('ours'), alone)];
}
