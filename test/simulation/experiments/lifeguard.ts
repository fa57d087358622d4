/**
 * The experiment of the Lifeguard paper: how many healthy members are declared dead because others are slow, for SWIM
 * and each refinement. All configurations run the machine of this project: without refinements and with the constants
 * of the paper (SWIM), then with one refinement at a time, then with all three of the paper, then as in production.
 */
import { type MembershipOptions, lanMembershipOptions } from '../../../src/membership/state/options.ts';
import { MembershipCluster, type ObservedEvent } from './membership-cluster.ts';
import {
  type ExperimentGoal,
  type ExperimentReport,
  type ExperimentContext,
  atMost,
  median,
  roundToThreeDigits,
} from './experiment-report.ts';
import { failOneMember } from './failure-detection.ts';

export type LifeguardGrid = {
  readonly nodesCount: number;
  readonly slowCounts: readonly number[];
  readonly slowMs: readonly number[];
  readonly pausesMs: readonly number[];
  readonly runMs: number;
  readonly trials: number;
};

/**
 * The part of the grid of the paper (1 to 32 slow, 128 ms to 32 s, 1 ms to 16 s) that covers its extremes in minutes.
 */
export const fullLifeguardGrid: LifeguardGrid = {
  nodesCount: 128,
  slowCounts: [2, 8],
  slowMs: [2_048, 16_384, 32_768],
  pausesMs: [16, 1_024],
  runMs: 120_000,
  trials: 10,
};

const none = {
  healthAwareProbe: false,
  healthAwareSuspicion: false,
  buddySystem: false,
  pauseAware: false,
  requireOwnSuspicion: false,
  witnesses: false,
  flapDamping: false,
};

const paper: MembershipOptions = {
  ...lanMembershipOptions,
  suspicionAlphaRatio: 5,
  suspicionBetaRatio: 6,
  probeTimeoutFloorMs: lanMembershipOptions.probeTimeoutMs,
  refinements: none,
};

const configurations = {
  SWIM: paper,
  'LHA-Probe': { ...paper, refinements: { ...none, healthAwareProbe: true } },
  'LHA-Suspicion': { ...paper, refinements: { ...none, healthAwareSuspicion: true } },
  'Buddy System': { ...paper, refinements: { ...none, buddySystem: true } },
  Lifeguard: {
    ...paper,
    refinements: { ...none, healthAwareProbe: true, healthAwareSuspicion: true, buddySystem: true },
  },
  ours: lanMembershipOptions,
} as const satisfies Readonly<Record<string, MembershipOptions>>;

export type LifeguardConfiguration = keyof typeof configurations;

export type SlowMemberResult = {
  /** How often a member declared a healthy one dead. */
  readonly falsePositives: number;
  /** How often a healthy member did. */
  readonly atHealthy: number;
  readonly messages: number;
};

export function runSlowMembers(
  configuration: LifeguardConfiguration,
  grid: LifeguardGrid,
  seed: string,
): SlowMemberResult {
  const sum = { falsePositives: 0, atHealthy: 0, messages: 0 };
  for (const slowCount of grid.slowCounts) {
    for (const slowMs of grid.slowMs) {
      for (const pauseMs of grid.pausesMs) {
        const cell = { slowCount, slowMs, pauseMs };
        const outcome = oneCell(configurations[configuration], grid, cell, `${seed}/${JSON.stringify(cell)}`);
        sum.falsePositives += outcome.falsePositives;
        sum.atHealthy += outcome.atHealthy;
        sum.messages += outcome.messages;
      }
    }
  }
  return sum;
}

type Cell = { readonly slowCount: number; readonly slowMs: number; readonly pauseMs: number };

const warmUpMs = 5_000;

function oneCell(options: MembershipOptions, grid: LifeguardGrid, cell: Cell, seed: string): SlowMemberResult {
  const group = new MembershipCluster(seed);
  const nodes = group.addKnown(grid.nodesCount, options, 'full');
  group.startAll();
  group.run(warmUpMs);
  const slow = new Set(group.random.shuffled(nodes).slice(0, cell.slowCount));
  const slowIds = new Set([...slow].map(({ id }) => id));
  const messagesBefore = group.messages;
  const endMs = warmUpMs + grid.runMs;
  for (let atMs = warmUpMs; atMs < endMs; atMs += cell.slowMs + cell.pauseMs) {
    group.run(atMs);
    for (const node of slow) node.block(cell.slowMs);
  }
  group.run(endMs);
  const isFalse = ({ type, subject }: ObservedEvent): boolean => type === 'member.dead' && !slowIds.has(subject);
  const falsePositives = group.seen.filter(isFalse);
  const atHealthy = falsePositives.filter(({ observer }) => !slow.has(observer)).length;
  return { falsePositives: falsePositives.length, atHealthy, messages: group.messages - messagesBefore };
}

export function lifeguardExperiment(grid: LifeguardGrid, context: ExperimentContext): ExperimentReport {
  const names = Object.keys(configurations) as LifeguardConfiguration[];
  const found = names.map((name) => {
    context.progress(`${name}: slow members`);
    const { falsePositives, atHealthy, messages } = runSlowMembers(name, grid, context.seed);
    context.progress(`${name}: true failures`);
    const trials = Array.from({ length: grid.trials }, (_, trial) =>
      failOneMember(configurations[name], grid.nodesCount, 'powerLoss', `${context.seed}/${trial}`),
    );
    const firstMs = median(trials.map((trial) => trial.firstDeadMs));
    const allMs = median(trials.map((trial) => trial.allDeadMs));
    return { name, falsePositives, atHealthy, messages, firstMs, allMs };
  });
  const [swim] = found;
  const ours = found.at(-1);
  if (swim === undefined || ours === undefined) throw new Error('there are no configurations');
  return {
    experiment: 'lifeguard',
    about: [
      `${grid.nodesCount} nodes; ${grid.slowCounts.join(', ')} slow at once, for ${grid.slowMs.join(', ')} ms, with pauses of ${grid.pausesMs.join(', ')} ms; ${grid.runMs / 1_000} s each, summed.`,
      `A member that loses power: median of ${grid.trials} trials. In brackets: % of plain SWIM.`,
    ],
    columns: [
      'configuration',
      'false positives',
      'at healthy members',
      'messages',
      'first detection ms',
      'known to all ms',
    ],
    rows: found.map((row) => [
      row.name,
      share(row.falsePositives, swim.falsePositives),
      share(row.atHealthy, swim.atHealthy),
      share(row.messages, swim.messages),
      share(Math.round(row.firstMs), swim.firstMs),
      share(Math.round(row.allMs), swim.allMs),
    ]),
    goals: [...goalsOf(ours, swim), ...againstSerf(grid, context)],
  };
}

type Found = SlowMemberResult & { readonly firstMs: number; readonly allMs: number };

function goalsOf(ours: Found, swim: Found): readonly ExperimentGoal[] {
  return [
    atMost('false positives at healthy members', (100 * ours.atHealthy) / swim.atHealthy, 1.9, "% of SWIM's"),
    atMost('messages', (100 * ours.messages) / swim.messages, 120, "% of SWIM's"),
    atMost('first detection of a true failure', (100 * ours.firstMs) / swim.firstMs, 100, "% of SWIM's"),
    atMost('a true failure known to all', (100 * ours.allMs) / swim.allMs, 100, "% of SWIM's"),
  ];
}

const serfNodesCount = 32;
/** Small groups are cheap, and the time until the next probe of the failed member varies a lot. */
const serfTrialsRatio = 4;

/** A group of the size of the benchmark against Serf, with the production options. */
function againstSerf(grid: LifeguardGrid, context: ExperimentContext): readonly ExperimentGoal[] {
  const known = (how: 'stop' | 'kill'): number => {
    const seeds = Array.from(
      { length: serfTrialsRatio * grid.trials },
      (_, trial) => `${context.seed}/${how}/${trial}`,
    );
    return median(seeds.map((seed) => failOneMember(lanMembershipOptions, serfNodesCount, how, seed).allDeadMs));
  };
  return [
    atMost('SIGSTOP of one of 32 known to all', known('stop'), 5_500, 'ms'),
    atMost('SIGKILL of one of 32 known to all', known('kill'), 1_000, 'ms'),
  ];
}

function share(value: number, ofSwim: number): string {
  return `${value} (${ofSwim === 0 ? '-' : roundToThreeDigits((100 * value) / ofSwim)})`;
}
