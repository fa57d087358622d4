/**
 * Measures growth with group size: messages per node, detection time, memory per member. Up to a thousand nodes have
 * full tables; ten thousand share one list and send datagrams only, because a hundred million entries do not fit into
 * memory. Some sizes run both ways, to compare them.
 */
import { type MembershipOptions, lanMembershipOptions } from '../../../src/membership/state/options.ts';
import { MembershipCluster } from './membership-cluster.ts';
import {
  type ExperimentGoal,
  type ExperimentReport,
  type ExperimentContext,
  atMost,
  roundToThreeDigits,
} from './experiment-report.ts';
import { type DetectionTimes, awaitDetection } from './failure-detection.ts';

export type ScaleSize = { readonly nodesCount: number; readonly tables: 'full' | 'shared' };

export const fullScaleSizes: readonly ScaleSize[] = [
  { nodesCount: 100, tables: 'full' },
  { nodesCount: 1_000, tables: 'full' },
  { nodesCount: 100, tables: 'shared' },
  { nodesCount: 1_000, tables: 'shared' },
  { nodesCount: 10_000, tables: 'shared' },
];

const never = 1e9;
const datagramsOnly: MembershipOptions = {
  ...lanMembershipOptions,
  syncIntervalMs: never,
  syncPauseMs: never,
  reviveIntervalMs: never,
};

const warmUpMs = 3_000;
/** Long enough for the slowest periodic exchange. */
const measureMs = { full: 30_000, shared: 10_000 };
const detectionMsMax = 60_000;

export type ScaleResult = ScaleSize &
  DetectionTimes & {
    readonly messagesPerNodeSecond: number;
    /** Memory of the tables; 0 for shared tables. */
    readonly bytesPerMember: number;
  };

export function measureScale({ nodesCount, tables }: ScaleSize, context: ExperimentContext): ScaleResult {
  const heapBefore = tables === 'full' ? context.heapBytes() : 0;
  const group = new MembershipCluster(`${context.seed}/${nodesCount}`);
  const nodes = group.addKnown(nodesCount, tables === 'full' ? lanMembershipOptions : datagramsOnly, tables);
  const heap = tables === 'full' ? context.heapBytes() - heapBefore : 0;
  group.startAll();
  group.run(warmUpMs);
  const messagesBefore = group.messages;
  group.run(warmUpMs + measureMs[tables]);
  const messagesPerNodeSecond = (group.messages - messagesBefore) / nodesCount / (measureMs[tables] / 1_000);
  const victim = group.random.pick(nodes);
  victim.losePower();
  const failure = awaitDetection(group, victim.id, group.nowMs, detectionMsMax);
  const bytesPerMember = Math.max(0, heap) / (nodesCount * (nodesCount - 1));
  return { nodesCount, tables, messagesPerNodeSecond, bytesPerMember, ...failure };
}

export function scaleExperiment(sizes: readonly ScaleSize[], context: ExperimentContext): ExperimentReport {
  const found = sizes.map((size) => {
    context.progress(`${size.nodesCount} nodes, ${size.tables} tables`);
    return measureScale(size, context);
  });
  return {
    experiment: 'scale',
    about: [
      'full: tables and messages as in production. shared: one list for all, datagrams only (no observers, no anti-entropy).',
      'Times since a member lost power. Spread: from the first declaration of its death to the last.',
    ],
    columns: [
      'nodes',
      'tables',
      'messages/node/s',
      'first suspicion ms',
      'first death ms',
      'known to all ms',
      'spread ms',
      'spread ms / log10 n',
      'bytes/member/node',
    ],
    rows: found.map((row) => [
      row.nodesCount,
      row.tables,
      roundToThreeDigits(row.messagesPerNodeSecond),
      Math.round(row.firstSuspectMs),
      Math.round(row.firstDeadMs),
      Math.round(row.allDeadMs),
      Math.round(spreadMs(row)),
      Math.round(spreadMs(row) / Math.log10(row.nodesCount)),
      row.tables === 'full' ? Math.round(row.bytesPerMember) : '-',
    ]),
    goals: goalsOf(found),
  };
}

function spreadMs({ firstDeadMs, allDeadMs }: DetectionTimes): number {
  return allDeadMs - firstDeadMs;
}

function goalsOf(found: readonly ScaleResult[]): readonly ExperimentGoal[] {
  const shared = found.filter(({ tables }) => tables === 'shared');
  const [smallest, largest] = [shared[0], shared.at(-1)];
  if (smallest === undefined || largest === undefined) return [];
  const growth = Math.log10(largest.nodesCount) / Math.log10(smallest.nodesCount);
  const messages = (100 * largest.messagesPerNodeSecond) / smallest.messagesPerNodeSecond;
  const times = (100 * largest.allDeadMs) / smallest.allDeadMs;
  const falsePositives = found.reduce((sum, one) => sum + one.falsePositives, 0);
  return [
    atMost('messages per node, largest group', messages, 110, "% of the smallest's"),
    atMost('known to all, largest group', times, Math.round(110 * growth), "% of the smallest's (10 % above log n)"),
    atMost('members wrongly declared dead', falsePositives, 0, 'deaths'),
  ];
}
