/**
 * Bench: detection of crashes and stalls, mass join, idle cost, against Serf. `--nodes N` (32) agents each,
 * `--trials N` (10), `--idle-seconds N` (6) for each look at idleness; `--only join` measures nothing but the mass
 * join.
 *
 *   SIGKILL, SIGSTOP   from the signal to one random member until the last survivor has logged its death
 *   mass join          agents that run already, alone, are all told at one moment to join the first of them; until every
 *                      agent has logged everybody else as alive. How long processes take to start is left out
 *   idle               CPU from /proc/PID/stat and what the loopback carried, headers included, divided by agents; the
 *                      other side is not running; as many looks as there are trials, spread over two groups
 *
 * Both sides are watched in the same way: by the lines of their log, timed when they arrive here. Each side has a
 * network namespace of its own when we may make one.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import {
  type Bench,
  type BenchFlags,
  type BenchResult,
  compareRow,
  median,
  printProgress,
  type BenchRow,
} from './support/harness.ts';
import { deadlineMs, AgentGroup, type IdleCost } from './membership/agent-group.ts';
import { ours, serf, isSerfInstalled, type MembershipSide } from './membership/sides.ts';

type Plan = {
  readonly nodes: number;
  readonly trials: number;
  readonly idleMs: number;
  readonly onlyJoin: boolean;
};
type Measured = {
  readonly [K in 'join' | 'kill' | 'stop' | 'killFirst' | 'stopFirst' | 'returned']: number[];
} & { readonly idle: IdleCost[]; falseDeaths: number };
type Results = ReadonlyMap<string, Measured>;

/** So many of the groups are looked at when they idle, each several times. */
const idleGroups = 2;
/** Freshly started agents still compile their code; that is not idleness. */
const settleMs = 30_000;
const calmMs = 2_000;

export const bench: Bench = async (flags) => {
  const plan = planOf(flags);
  if (process.platform !== 'linux') return { rows: [], missing: ['membership: needs Linux (/proc)'] };
  const hasSerf = isSerfInstalled();
  const sides = hasSerf ? [ours, serf] : [ours];
  const folder = mkdtempSync(join(tmpdir(), 'remuster-bench-'));
  const results = new Map(sides.map((side) => [side.name, nothingYet()]));
  const remove = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  const forget = onceEnded(async () => {
    await AgentGroup.stopAll();
    remove();
  });
  try {
    await fillCache(folder);
    await joinAndIdle(sides, plan, folder, results);
    if (!plan.onlyJoin) await deaths(sides, plan, folder, results);
  } finally {
    forget();
    remove();
  }
  return report(plan, results, hasSerf ? [] : ['serf: apt-get install serf']);
};

/** Cleans up when a signal ends us, and ends as the signal would have. Returns how to take that back. */
function onceEnded(cleanUp: () => Promise<void>): () => void {
  const handlers = (['SIGINT', 'SIGTERM', 'SIGHUP'] as const).map((signal) => {
    const handler = (): void => {
      void cleanUp().finally(() => process.kill(process.pid, signal));
    };
    process.once(signal, handler);
    return () => process.off(signal, handler);
  });
  return () => handlers.forEach((off) => off());
}

function planOf({ nodes = '32', trials = '10', 'idle-seconds': idleSeconds = '6', only }: BenchFlags): Plan {
  if (only !== undefined && only !== 'join') throw new Error('--only takes join');
  const numbers = { nodes: Number(nodes), trials: Number(trials), idleMs: Number(idleSeconds) * 1_000 };
  const plan = { ...numbers, onlyJoin: only !== undefined };
  const isWhole = (value: number, min: number, max: number): boolean =>
    Number.isInteger(value) && value >= min && value <= max;
  if (!isWhole(plan.nodes, 3, 99) || !isWhole(plan.trials, 1, 1_000) || !(plan.idleMs > 0)) {
    throw new Error('--nodes takes 3 to 99, --trials 1 to 1000, --idle-seconds more than 0');
  }
  return plan;
}

function nothingYet(): Measured {
  return {
    ...{ join: [], kill: [], stop: [], killFirst: [], stopFirst: [], returned: [] },
    ...{ idle: [], falseDeaths: 0 },
  };
}

/**
 * Serf comes compiled. Ours is compiled once for all, into a cache that is written at an orderly end; what is measured
 * here is killed. So a few that have met each other leave in good order first.
 */
async function fillCache(folder: string): Promise<void> {
  const group = await AgentGroup.plan(ours, 3, join(folder, 'cache'));
  try {
    await group.start();
    await group.leave();
  } finally {
    await group.stop();
  }
}

/** A new group for each trial, one side at a time, so that nobody else is on the processor. */
async function joinAndIdle(
  sides: readonly MembershipSide[],
  plan: Plan,
  folder: string,
  results: Results,
): Promise<void> {
  for (let trial = 0; trial < plan.trials; trial++) {
    for (const side of sides) {
      const found = results.get(side.name)!;
      const group = await AgentGroup.plan(side, plan.nodes, join(folder, `${side.name}-${trial}`));
      try {
        await joinOnce(group, trial, found);
        if (trial < idleGroups && !plan.onlyJoin) await idle(group, trial, plan, found);
      } catch (error) {
        note(trial, side, `FAILED: ${firstLineOf(error)}`);
        if (found.join.length === trial) found.join.push(deadlineMs);
      } finally {
        await group.stop();
        found.falseDeaths += group.falseDeaths;
      }
    }
  }
}

async function joinOnce(group: AgentGroup, trial: number, found: Measured): Promise<void> {
  const { convergedMs } = await group.start();
  found.join.push(convergedMs);
  note(trial, group.side, `all see all after ${ms(convergedMs)}`);
}

async function idle(group: AgentGroup, trial: number, { trials, idleMs }: Plan, found: Measured): Promise<void> {
  await pause(settleMs);
  for (let look = 0; look < Math.ceil(trials / Math.min(trials, idleGroups)); look++) {
    const seen = await group.idle(idleMs);
    found.idle.push(seen);
    note(trial, group.side, `idle ${JSON.stringify(seen)}`);
  }
}

/** Both groups are up; the same member of each is hurt, one side after the other. What takes too long counts as that. */
async function deaths(sides: readonly MembershipSide[], plan: Plan, folder: string, results: Results): Promise<void> {
  const groups: AgentGroup[] = [];
  try {
    const begin = async (side: MembershipSide, attempt: number): Promise<AgentGroup> => {
      const group = await AgentGroup.plan(side, plan.nodes, join(folder, `${side.name}-deaths-${attempt}`));
      groups.push(group);
      await group.start();
      return group;
    };
    const current = new Map<MembershipSide, AgentGroup>();
    for (const side of sides) current.set(side, await begin(side, 0));
    for (let trial = 0; trial < plan.trials; trial++) {
      const victim = Math.floor(Math.random() * plan.nodes);
      for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
        for (const [side, group] of current) {
          if (await hurtAndHeal(group, trial, victim, signal, results.get(side.name)!)) continue;
          // It did not get well again, which must not spoil the next trials.
          await group.stop();
          current.set(side, await begin(side, trial + 1));
        }
      }
    }
  } finally {
    for (const group of groups) {
      await group.stop();
      results.get(group.side.name)!.falseDeaths += group.falseDeaths;
    }
  }
}

async function hurtAndHeal(
  group: AgentGroup,
  trial: number,
  victim: number,
  signal: 'SIGKILL' | 'SIGSTOP',
  found: Measured,
): Promise<boolean> {
  // Not in step with anybody's period.
  await pause(calmMs * (1 + Math.random()));
  const [first, all] = signal === 'SIGKILL' ? [found.killFirst, found.kill] : [found.stopFirst, found.stop];
  let [firstMs, allMs, returnedMs] = [deadlineMs, deadlineMs, deadlineMs];
  let isWell = false;
  try {
    ({ firstMs, allMs } = await group.injectFault(victim, signal));
    returnedMs = await group.heal(victim);
    isWell = true;
  } catch (error) {
    note(trial, group.side, `FAILED: ${firstLineOf(error)}`);
  }
  first.push(firstMs);
  all.push(allMs);
  if (signal === 'SIGSTOP') found.returned.push(returnedMs);
  note(trial, group.side, `${signal} known to all after ${ms(allMs)} (first ${ms(firstMs)}), back ${ms(returnedMs)}`);
  return isWell;
}

function firstLineOf(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n')[0]!;
}

function report({ nodes, onlyJoin }: Plan, results: Results, missing: readonly string[]): BenchResult {
  const mine = results.get('ours')!;
  const theirs = results.get('serf');
  const row = (name: string, unit: string, of: (found: Measured) => number, timesMax?: number): BenchRow => {
    if (theirs === undefined) return compareRow(name, unit, 'less', of(mine));
    const goal =
      timesMax === undefined
        ? undefined
        : (ratio: number) => ({ text: `<= ${timesMax}x serf`, met: ratio * timesMax >= 1 });
    return compareRow(name, unit, 'less', of(mine), { name: 'serf', value: of(theirs) }, goal);
  };
  const idleOf = (field: keyof IdleCost) => (found: Measured) => median(found.idle.map((seen) => seen[field]));
  const joins = [
    row(`mass join of ${nodes}, all see all`, 'ms', (found) => median(found.join), 1.5),
    row('mass join, slowest trial', 'ms', (found) => Math.max(...found.join)),
  ];
  const rest = (): BenchRow[] => [
    row(`SIGKILL, known to all ${nodes - 1}`, 'ms', ({ kill }) => median(kill), 0.25),
    row('SIGKILL, known to the first', 'ms', ({ killFirst }) => median(killFirst)),
    row('SIGKILL, slowest trial', 'ms', ({ kill }) => Math.max(...kill)),
    row(`SIGSTOP, known to all ${nodes - 1}`, 'ms', ({ stop }) => median(stop), 0.75),
    row('SIGSTOP, known to the first', 'ms', ({ stopFirst }) => median(stopFirst)),
    row('SIGSTOP, slowest trial', 'ms', ({ stop }) => Math.max(...stop)),
    row('SIGCONT, alive again in all views', 'ms', ({ returned }) => median(returned)),
    row('idle CPU per node', 'ms/min', idleOf('cpuMsPerMinute'), 1.5),
    row('idle bytes sent per node', 'B/s', idleOf('bytesPerSecond'), 1.5),
    row('idle packets sent per node', '1/s', idleOf('packetsPerSecond')),
    row('resident memory per node', 'MiB', idleOf('residentMib')),
  ];
  const falseDeaths = [...results].map(([name, found]) => `${name} ${found.falseDeaths}`).join(', ');
  printProgress(`membership: deaths of members that nobody hurt, counted by believer: ${falseDeaths}`);
  return { rows: onlyJoin ? joins : [...joins, ...rest()], missing };
}

function note(trial: number, side: MembershipSide, text: string): void {
  printProgress(`membership: trial ${trial + 1}, ${side.name}: ${text}`);
}

function ms(value: number): string {
  return `${Math.round(value)} ms`;
}
