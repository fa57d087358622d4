/**
 * The one-way faults of the Rapid paper: a member that receives nothing for 20 s of every 40 s, and one that loses
 * four of five sent messages. Goals: the group removes it once, no healthy member is declared dead, and all views
 * agree.
 */
import { lanMembershipOptions } from '../../../src/membership/state/options.ts';
import { type LinkFault, MembershipCluster } from './membership-cluster.ts';
import type { MembershipNode } from './membership-node.ts';
import {
  type ExperimentReport,
  type ExperimentContext,
  atLeast,
  atMost,
  exactly,
  roundToThreeDigits,
} from './experiment-report.ts';

export type OneWayCase = {
  readonly name: string;
  readonly nodesCount: number;
  /** The fault in the given period of 20 s. */
  readonly faultIn: (period: number) => LinkFault;
};

const inboundCut = (period: number): LinkFault => ({ inboundCut: period % 2 === 0, outboundLossRatio: 0 });
const outboundLoss = (): LinkFault => ({ inboundCut: false, outboundLossRatio: 0.8 });

export const oneWayCases: readonly OneWayCase[] = [
  { name: 'receives nothing for 20 s of 40 s', nodesCount: 32, faultIn: inboundCut },
  { name: 'loses 80 % of its messages', nodesCount: 32, faultIn: outboundLoss },
  { name: 'receives nothing for 20 s of 40 s, 1 %', nodesCount: 100, faultIn: inboundCut },
  { name: 'loses 80 % of its messages, 1 %', nodesCount: 100, faultIn: outboundLoss },
];

const warmUpMs = 5_000;
const periodMs = 20_000;
const periods = 8;
const lastMs = 10_000;
const trials = 3;

export type OneWayResult = {
  /** How often each healthy member declared the faulty one dead, on average. */
  readonly removals: number;
  readonly healthyDeaths: number;
  /** Different views among the healthy members, the fewest in the last 10 s: 1 means that they agree. */
  readonly views: number;
};

export function runOneWayFault({ nodesCount, faultIn }: OneWayCase, flapDamping: boolean, seed: string): OneWayResult {
  const group = new MembershipCluster(seed);
  const options = { ...lanMembershipOptions, refinements: { ...lanMembershipOptions.refinements, flapDamping } };
  const nodes = group.addKnown(nodesCount, options, 'full');
  group.startAll();
  group.run(warmUpMs);
  const faulty = group.random.pick(nodes);
  for (let period = 0; period < periods; period++) {
    group.faults.set(faulty, faultIn(period));
    group.run(warmUpMs + (period + 1) * periodMs - (period === periods - 1 ? lastMs : 0));
  }
  const healthy = nodes.filter((node) => node !== faulty);
  let views = Infinity;
  for (let restMs = lastMs; restMs > 0; restMs -= 1_000) {
    group.run(group.nowMs + 1_000);
    views = Math.min(views, viewsOf(healthy, nodes));
  }
  const deaths = group.seen.filter(({ type, observer }) => type === 'member.dead' && observer !== faulty);
  return {
    removals: deaths.filter(({ subject }) => subject === faulty.id).length / healthy.length,
    healthyDeaths: deaths.filter(({ subject }) => subject !== faulty.id).length,
    views,
  };
}

function viewsOf(observers: readonly MembershipNode[], nodes: readonly MembershipNode[]): number {
  const viewOf = (node: MembershipNode): string =>
    nodes.map((one) => Number(one === node || isMember(node, one))).join('');
  return new Set(observers.map(viewOf)).size;
}

function isMember(observer: MembershipNode, { id }: MembershipNode): boolean {
  const state = observer.machine.member(id)?.state;
  return state === 'alive' || state === 'suspect';
}

type Row = OneWayCase & OneWayResult & { readonly damping: boolean };

export function oneWayExperiment(context: ExperimentContext): ExperimentReport {
  const found = [false, true].flatMap((damping) => oneWayCases.map((one) => worstOf(one, damping, context)));
  const damped = found.filter((row) => row.damping);
  const most = (rows: readonly Row[], pick: (run: OneWayResult) => number): number => Math.max(...rows.map(pick));
  return {
    experiment: 'one-way',
    about: [
      `One faulty member for ${(periods * periodMs) / 1_000} s; ${trials} trials each: the mean of removals, otherwise the worst.`,
      `In production, flap damping (a member that flaps leaves by itself) is ${lanMembershipOptions.refinements.flapDamping ? 'on' : 'off'}.`,
    ],
    columns: ['fault', 'damping', 'nodes', 'removals per observer', 'deaths of healthy members', 'views at the end'],
    rows: found.map((row) => [
      row.name,
      row.damping ? 'on' : 'off',
      row.nodesCount,
      row.removals,
      row.healthyDeaths,
      row.views,
    ]),
    goals: [
      exactly(
        'healthy members declared dead',
        most(found, ({ healthyDeaths }) => healthyDeaths),
        0,
        'deaths',
      ),
      exactly(
        'views at the end, damped',
        most(damped, ({ views }) => views),
        1,
        'view',
      ),
      atLeast(
        'removals of the faulty one, damped',
        Math.min(...damped.map(({ removals }) => removals)),
        1,
        'per observer',
      ),
      atMost(
        'removals of the faulty one, damped',
        most(damped, ({ removals }) => removals),
        2,
        'per observer',
      ),
    ],
  };
}

function worstOf(one: OneWayCase, damping: boolean, context: ExperimentContext): Row {
  context.progress(`${one.name}, damping ${damping ? 'on' : 'off'}`);
  const seeds = Array.from({ length: trials }, (_, trial) => `${context.seed}/${one.name}/${trial}`);
  const runs = seeds.map((seed) => runOneWayFault(one, damping, seed));
  const worst = (pick: (run: OneWayResult) => number): number => Math.max(...runs.map(pick));
  return {
    ...one,
    damping,
    removals: roundToThreeDigits(runs.reduce((sum, { removals }) => sum + removals, 0) / trials),
    healthyDeaths: worst(({ healthyDeaths }) => healthyDeaths),
    views: worst(({ views }) => views),
  };
}
