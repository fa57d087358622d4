/**
 * Bench: detection of crashes and stalls, mass join and idle cost, against Serf. `--nodes N` (32) agents per side,
 * `--trials N` (10), `--idle-seconds N` (6) per sample of the idle cost; `--only join` measures only the mass join.
 *
 *   crash, stall   SIGKILL or SIGSTOP to a random member; from the signal until the last survivor has logged its death
 *   mass join      running agents, each alone, are all told at one moment to join the first one; until every agent has
 *                  logged every other one as alive. The start of the processes is not measured
 *   idle           CPU time from /proc/PID/stat and traffic of the loopback, headers included, per agent; the other
 *                  side is not running; as many samples as trials, from two groups
 *
 * Both sides are observed by their log lines, timed on arrival. Each side has a network namespace of its own where the
 * bench may create one.
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
import { remuster, serf, isSerfInstalled, type MembershipSide } from './membership/sides.ts';

type Plan = {
  readonly nodes: number;
  readonly trials: number;
  readonly idleMs: number;
  readonly onlyJoin: boolean;
};
type Measured = {
  readonly [K in 'join' | 'kill' | 'stop' | 'killFirst' | 'stopFirst' | 'recovery']: number[];
} & { readonly idle: IdleCost[]; falseDeaths: number };
type Results = ReadonlyMap<string, Measured>;

/** Number of groups with samples of the idle cost. */
const idleGroups = 2;
/** Agents compile code for a while after their start, which is not idle cost. */
const settleMs = 30_000;
const calmMs = 2_000;

export const bench: Bench = async (flags) => {
  const plan = planOf(flags);
  if (process.platform !== 'linux') return { rows: [], missing: ['membership: needs Linux (/proc)'] };
  const hasSerf = isSerfInstalled();
  const sides = hasSerf ? [remuster, serf] : [remuster];
  const folder = mkdtempSync(join(tmpdir(), 'remuster-bench-'));
  const results = new Map(sides.map((side) => [side.name, noMeasurements()]));
  const remove = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  const removeHandlers = onSignal(async () => {
    await AgentGroup.stopAll();
    remove();
  });
  try {
    await fillCache(folder);
    await joinAndIdle(sides, plan, folder, results);
    if (!plan.onlyJoin) await deaths(sides, plan, folder, results);
  } finally {
    removeHandlers();
    remove();
  }
  return report(plan, results, hasSerf ? [] : ['serf: apt-get install serf']);
};

/** Cleans up on a signal, then ends the process by the same signal. Returns a function that removes the handlers. */
function onSignal(cleanUp: () => Promise<void>): () => void {
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

function noMeasurements(): Measured {
  return {
    ...{ join: [], kill: [], stop: [], killFirst: [], stopFirst: [], recovery: [] },
    ...{ idle: [], falseDeaths: 0 },
  };
}

/**
 * Serf is a compiled program. Node writes its compile cache only when a process exits normally, but measured agents are
 * killed: so three agents join each other and leave first.
 */
async function fillCache(folder: string): Promise<void> {
  const group = await AgentGroup.plan(remuster, 3, join(folder, 'cache'));
  try {
    await group.start();
    await group.leave();
  } finally {
    await group.stop();
  }
}

/** A new group for each trial, one side at a time, so that no other agents use the processor. */
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
        printTrial(trial, side, `FAILED: ${firstLineOf(error)}`);
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
  printTrial(trial, group.side, `converged after ${ms(convergedMs)}`);
}

async function idle(group: AgentGroup, trial: number, { trials, idleMs }: Plan, found: Measured): Promise<void> {
  await pause(settleMs);
  for (let sample = 0; sample < Math.ceil(trials / Math.min(trials, idleGroups)); sample++) {
    const cost = await group.idle(idleMs);
    found.idle.push(cost);
    printTrial(trial, group.side, `idle ${JSON.stringify(cost)}`);
  }
}

/** Injects a fault into the same member of both groups, one after the other. A timeout counts as its duration. */
async function deaths(sides: readonly MembershipSide[], plan: Plan, folder: string, results: Results): Promise<void> {
  const groups: AgentGroup[] = [];
  try {
    const startGroup = async (side: MembershipSide, attempt: number): Promise<AgentGroup> => {
      const group = await AgentGroup.plan(side, plan.nodes, join(folder, `${side.name}-deaths-${attempt}`));
      groups.push(group);
      await group.start();
      return group;
    };
    const current = new Map<MembershipSide, AgentGroup>();
    for (const side of sides) current.set(side, await startGroup(side, 0));
    for (let trial = 0; trial < plan.trials; trial++) {
      const victim = Math.floor(Math.random() * plan.nodes);
      for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
        for (const [side, group] of current) {
          if (await failAndHeal(group, trial, victim, signal, results.get(side.name)!)) continue;
          // The group did not recover: the next trials need a new one.
          await group.stop();
          current.set(side, await startGroup(side, trial + 1));
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

async function failAndHeal(
  group: AgentGroup,
  trial: number,
  victim: number,
  signal: 'SIGKILL' | 'SIGSTOP',
  found: Measured,
): Promise<boolean> {
  // A random delay, so that the fault is not in phase with a probe interval.
  await pause(calmMs * (1 + Math.random()));
  const [first, all] = signal === 'SIGKILL' ? [found.killFirst, found.kill] : [found.stopFirst, found.stop];
  let [firstMs, allMs, recoveryMs] = [deadlineMs, deadlineMs, deadlineMs];
  let isHealed = false;
  try {
    ({ firstMs, allMs } = await group.injectFault(victim, signal));
    recoveryMs = await group.heal(victim);
    isHealed = true;
  } catch (error) {
    printTrial(trial, group.side, `FAILED: ${firstLineOf(error)}`);
  }
  first.push(firstMs);
  all.push(allMs);
  if (signal === 'SIGSTOP') found.recovery.push(recoveryMs);
  const times = `detected by all after ${ms(allMs)} (first after ${ms(firstMs)}), recovered after ${ms(recoveryMs)}`;
  printTrial(trial, group.side, `${signal} ${times}`);
  return isHealed;
}

function firstLineOf(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n')[0]!;
}

function report({ nodes, onlyJoin }: Plan, results: Results, missing: readonly string[]): BenchResult {
  const remusterResults = results.get('remuster')!;
  const serfResults = results.get('serf');
  const row = (name: string, unit: string, of: (found: Measured) => number, ratioMax?: number): BenchRow => {
    if (serfResults === undefined) return compareRow(name, unit, 'less', of(remusterResults));
    const goal =
      ratioMax === undefined
        ? undefined
        : (ratio: number) => ({ text: `<= ${ratioMax}x serf`, met: ratio * ratioMax >= 1 });
    return compareRow(name, unit, 'less', of(remusterResults), { name: 'serf', value: of(serfResults) }, goal);
  };
  const idleOf = (field: keyof IdleCost) => (found: Measured) => median(found.idle.map((cost) => cost[field]));
  const join = `mass join of ${nodes} nodes, full convergence`;
  const joins = [
    row(`${join}, median`, 'ms', (found) => median(found.join), 1.5),
    row(`${join}, maximum`, 'ms', (found) => Math.max(...found.join)),
  ];
  const all = `detected by all ${nodes - 1} survivors`;
  const rest = (): BenchRow[] => [
    row(`crash (SIGKILL), ${all}, median`, 'ms', ({ kill }) => median(kill), 0.25),
    row('crash (SIGKILL), first detection, median', 'ms', ({ killFirst }) => median(killFirst)),
    row(`crash (SIGKILL), ${all}, maximum`, 'ms', ({ kill }) => Math.max(...kill)),
    row(`stall (SIGSTOP), ${all}, median`, 'ms', ({ stop }) => median(stop), 0.75),
    row('stall (SIGSTOP), first detection, median', 'ms', ({ stopFirst }) => median(stopFirst)),
    row(`stall (SIGSTOP), ${all}, maximum`, 'ms', ({ stop }) => Math.max(...stop)),
    row('recovery (SIGCONT), alive in all views, median', 'ms', ({ recovery }) => median(recovery)),
    row('idle CPU time per node', 'ms/min', idleOf('cpuMsPerMinute'), 1.5),
    row('idle bytes sent per node', 'B/s', idleOf('bytesPerSecond'), 1.5),
    row('idle packets sent per node', 'packets/s', idleOf('packetsPerSecond')),
    row('resident memory per node', 'MiB', idleOf('residentMib')),
  ];
  const falseDeaths = [...results].map(([name, found]) => `${name} ${found.falseDeaths}`).join(', ');
  printProgress(`membership: false death reports (each survivor counts): ${falseDeaths}`);
  return { rows: onlyJoin ? joins : [...joins, ...rest()], missing };
}

function printTrial(trial: number, side: MembershipSide, text: string): void {
  printProgress(`membership: trial ${trial + 1}, ${side.name}: ${text}`);
}

function ms(value: number): string {
  return `${Math.round(value)} ms`;
}
