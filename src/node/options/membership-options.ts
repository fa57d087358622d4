/** Option rows of membership, their defaults by profile and relations, and the mapping to the machine's options. */
import { lanMembershipOptions, type MembershipOptions } from '../../membership/state/options.ts';
import { type Profile, timeOptionRow, profileOptionRow } from './option-rows.ts';
import { factorOption, integerOption } from './option-types.ts';

const hour = 3_600_000;
const day = 24 * hour;

function sameInAllProfiles(value: number): Readonly<Record<Profile, number>> {
  return { local: value, lan: value, wan: value, classic: value };
}

function countRow(min: number, max: number, value: number | Readonly<Record<Profile, number>>, doc: string) {
  return profileOptionRow(
    integerOption('count', { min, max }),
    typeof value === 'number' ? sameInAllProfiles(value) : value,
    doc,
  );
}

function ratioRow(min: number, max: number, defaults: Readonly<Record<Profile, number>>, doc: string) {
  return profileOptionRow(factorOption({ min, max }), defaults, doc);
}

export const membershipOptionRows = {
  probeIntervalMs: timeOptionRow(
    10,
    hour,
    { local: 250, lan: 1_000, wan: 2_000, classic: 2_000 },
    'Interval between two probes by this node; each probe pings another member.',
  ),
  probeTimeoutMs: timeOptionRow(
    5,
    hour,
    { local: 250, lan: 500, wan: 3_000, classic: 5_000 },
    'Longest wait for the ack of a member, and the wait for a member without a measured round trip.',
  ),
  probeTimeoutFloorMs: timeOptionRow(
    1,
    hour,
    { local: 50, lan: 100, wan: 500, classic: 5_000 },
    'Shortest wait for an ack, however fast the member was before.',
  ),
  indirectTimeoutMs: timeOptionRow(
    5,
    hour,
    { local: 500, lan: 1_000, wan: 6_000, classic: 3_000 },
    'Longest wait for indirect probes and for the probe over TCP after a direct probe failed.',
  ),
  helpersCount: countRow(0, 32, 3, 'Members that are asked to probe a member whose direct probe failed.'),
  suspicionAlphaRatio: ratioRow(
    1,
    100,
    { local: 4, lan: 2, wan: 6, classic: 5 },
    'Shortest suspicion, in probe intervals, in a group of up to ten members; it grows with the logarithm of the group size.',
  ),
  suspicionBetaRatio: ratioRow(
    1,
    100,
    { local: 3, lan: 6, wan: 6, classic: 1 },
    'Longest suspicion as a multiple of the shortest: the wait with a single accuser.',
  ),
  confirmationsMax: countRow(
    0,
    32,
    { ...sameInAllProfiles(3), classic: 0 },
    'Additional accusers that shorten a suspicion to its minimum.',
  ),
  refusalsNeededCount: countRow(
    1,
    32,
    2,
    'Members that must find the port of a suspect closed before its suspicion is cut short.',
  ),
  gossipIntervalMs: timeOptionRow(
    5,
    hour,
    { local: 50, lan: 200, wan: 500, classic: 500 },
    'Interval between two rounds of gossip.',
  ),
  gossipFanoutCount: countRow(1, 32, 3, 'Members to which one round of gossip is sent.'),
  retransmitRatio: ratioRow(
    1,
    100,
    sameInAllProfiles(4),
    'How often a claim is sent, times the logarithm of the group size.',
  ),
  gossipBufferMax: countRow(16, 1_000_000, 5_000, 'Claims that may wait to be sent.'),
  gossipToDeadMs: timeOptionRow(
    0,
    day,
    { local: 15_000, lan: 30_000, wan: 60_000, classic: 30_000 },
    'How long a dead member still receives gossip, in case it is alive.',
  ),
  syncIntervalMs: timeOptionRow(
    100,
    day,
    { local: 10_000, lan: 30_000, wan: 60_000, classic: 30_000 },
    'Interval between two comparisons of the whole view with another member (anti-entropy).',
  ),
  syncPauseMs: timeOptionRow(
    10,
    hour,
    { local: 250, lan: 1_000, wan: 2_000, classic: 2_000 },
    'Shortest interval between two comparisons after a difference was found.',
  ),
  syncTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 2_000, lan: 5_000, wan: 10_000, classic: 10_000 },
    'Longest wait for the view of another member, and for the reply of a seed.',
  ),
  joinRetryMs: timeOptionRow(
    10,
    hour,
    { local: 250, lan: 1_000, wan: 2_000, classic: 2_000 },
    'First delay before a seed that did not reply is asked again; the delay doubles.',
  ),
  reviveIntervalMs: timeOptionRow(
    10,
    day,
    { local: 1_000, lan: 5_000, wan: 10_000, classic: 5_000 },
    'Interval between two probes of a dead member; this is how healed partitions find each other.',
  ),
  reapAfterMs: timeOptionRow(
    1_000,
    30 * day,
    sameInAllProfiles(day),
    'How long a dead or departed member is remembered.',
  ),
  observersCount: countRow(
    0,
    32,
    3,
    'Neighbours to which this node holds a connection, so that it detects their crash at once.',
  ),
  watchIntervalMs: timeOptionRow(
    100,
    hour,
    { local: 5_000, lan: 30_000, wan: 30_000, classic: 15_000 },
    'Interval between two pings over a connection that is held to detect a crash.',
  ),
  stuckAfterMs: timeOptionRow(
    200,
    hour,
    { local: 15_000, lan: 15_000, wan: 15_000, classic: 15_000 },
    'How long the main loop of a node may stand still before the node counts as stuck: alive, but blocked.',
  ),
  leaveTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 500, lan: 1_000, wan: 3_000, classic: 3_000 },
    'Longest wait until other members have received that this node leaves.',
  ),
  membersMax: countRow(2, 1_000_000, 20_000, 'Members that this node knows at most, dead and departed ones included.'),
} as const;

type Row = keyof typeof membershipOptionRows;
type Values = Readonly<Record<Row, number>>;

type MembershipRelation = {
  readonly options: readonly [Row, ...Row[]];
  readonly sentence: string;
  readonly holds: (options: Values) => boolean;
};

export const membershipOptionRelations: readonly MembershipRelation[] = [
  {
    options: ['probeTimeoutFloorMs', 'probeTimeoutMs'],
    sentence: 'probeTimeoutFloorMs must not exceed probeTimeoutMs.',
    holds: (o) => o.probeTimeoutFloorMs <= o.probeTimeoutMs,
  },
  {
    options: ['gossipIntervalMs', 'probeIntervalMs'],
    sentence: 'gossipIntervalMs must not exceed probeIntervalMs, or a refutation arrives after the next accusation.',
    holds: (o) => o.gossipIntervalMs <= o.probeIntervalMs,
  },
  {
    options: ['suspicionAlphaRatio', 'gossipIntervalMs', 'probeIntervalMs'],
    sentence:
      'suspicionAlphaRatio times probeIntervalMs must be at least four times gossipIntervalMs, or a refutation cannot arrive in time.',
    holds: (o) => o.suspicionAlphaRatio * o.probeIntervalMs >= 4 * o.gossipIntervalMs,
  },
  {
    options: ['syncPauseMs', 'syncIntervalMs'],
    sentence: 'syncPauseMs must not exceed syncIntervalMs.',
    holds: (o) => o.syncPauseMs <= o.syncIntervalMs,
  },
  {
    options: ['syncTimeoutMs', 'syncIntervalMs'],
    sentence: 'syncTimeoutMs must not exceed syncIntervalMs, or comparisons pile up.',
    holds: (o) => o.syncTimeoutMs <= o.syncIntervalMs,
  },
  {
    options: ['reapAfterMs', 'reviveIntervalMs', 'gossipToDeadMs'],
    sentence:
      'reapAfterMs must exceed gossipToDeadMs and ten times reviveIntervalMs, or dead members are forgotten before they can return.',
    holds: (o) => o.reapAfterMs > o.gossipToDeadMs && o.reapAfterMs > 10 * o.reviveIntervalMs,
  },
  {
    options: ['refusalsNeededCount', 'helpersCount'],
    sentence: 'refusalsNeededCount must not exceed helpersCount + 1, the number of members that probe a suspect.',
    holds: (o) => o.refusalsNeededCount <= o.helpersCount + 1,
  },
];

type MembershipOptionValues = Readonly<Record<Row | 'cleanupIntervalMs', number>> &
  Pick<MembershipOptions, 'membership'>;

export function membershipOptions(options: MembershipOptionValues): MembershipOptions {
  const rows = Object.keys(membershipOptionRows) as Row[];
  const values = Object.fromEntries(rows.map((row) => [row, options[row]])) as Record<Row, number>;
  const { membership, cleanupIntervalMs } = options;
  return { ...values, membership, cleanupIntervalMs, refinements: lanMembershipOptions.refinements };
}
