/** Fails one healthy member and measures first suspicion, first detection and full spread. */
import type { MembershipOptions } from '../../../src/membership/state/options.ts';
import { MembershipCluster } from './membership-cluster.ts';

export type DetectionTimes = {
  readonly firstSuspectMs: number;
  readonly firstDeadMs: number;
  readonly allDeadMs: number;
  /** Others that were declared dead meanwhile. */
  readonly falsePositives: number;
};

const warmUpMs = 40_000;
const timeoutMs = 60_000;

export function failOneMember(
  options: MembershipOptions,
  nodesCount: number,
  how: 'powerLoss' | 'stop' | 'kill',
  seed: string,
): DetectionTimes {
  const group = new MembershipCluster(seed);
  const nodes = group.addKnown(nodesCount, options, 'full');
  group.startAll();
  group.run(warmUpMs + group.random.between(0, options.probeIntervalMs));
  const victim = group.random.pick(nodes);
  const sinceMs = group.nowMs;
  if (how === 'powerLoss') victim.losePower();
  if (how === 'stop') victim.stall(2 * timeoutMs);
  if (how === 'kill') victim.kill();
  return awaitDetection(group, victim.id, sinceMs, timeoutMs);
}

/** Runs until all other members have declared it dead, or for `forMs`. Times count from `sinceMs`. */
export function awaitDetection(group: MembershipCluster, dead: string, sinceMs: number, forMs: number): DetectionTimes {
  const from = group.seen.length;
  let detections = 0;
  let seenUntil = from;
  while (detections < group.nodes.length - 1 && group.nowMs < sinceMs + forMs) {
    group.run(group.nowMs + 50);
    for (; seenUntil < group.seen.length; seenUntil++) {
      const { type, subject } = group.seen[seenUntil] ?? {};
      if (type === 'member.dead' && subject === dead) detections += 1;
    }
  }
  const events = group.seen.slice(from);
  const timesOf = (type: string): readonly number[] =>
    events.filter((one) => one.type === type && one.subject === dead).map(({ atMs }) => atMs - sinceMs);
  const deaths = timesOf('member.dead');
  const [firstSuspectMs = Infinity] = timesOf('member.suspect');
  const [firstDeadMs = Infinity] = deaths;
  const allDeadMs = detections === group.nodes.length - 1 ? (deaths.at(-1) ?? Infinity) : Infinity;
  const falsePositives = events.filter((one) => one.type === 'member.dead' && one.subject !== dead).length;
  return { firstSuspectMs, firstDeadMs, allDeadMs, falsePositives };
}
