/** Option rows of membership, their defaults by profile and relations, and the mapping to the machine's options. */
import { lanMembershipOptions, type MembershipOptions } from '../../membership/state/options.ts';
import { type Profile, timeOptionRow, profileOptionRow } from './option-rows.ts';
import { factorOption, integerOption } from './option-types.ts';

const hour = 3_600_000;
const day = 24 * hour;

function same(value: number): Readonly<Record<Profile, number>> {
  return { local: value, lan: value, wan: value, classic: value };
}

function count(min: number, max: number, value: number | Readonly<Record<Profile, number>>, doc: string) {
  return profileOptionRow(integerOption('count', { min, max }), typeof value === 'number' ? same(value) : value, doc);
}

function ratio(min: number, max: number, defaults: Readonly<Record<Profile, number>>, doc: string) {
  return profileOptionRow(factorOption({ min, max }), defaults, doc);
}

export const membershipOptionRows = {
  probeIntervalMs: timeOptionRow(
    10,
    hour,
    { local: 250, lan: 1_000, wan: 2_000, classic: 2_000 },
    'Pause between two probes by this node; each probe asks another member.',
  ),
  probeTimeoutMs: timeOptionRow(
    5,
    hour,
    { local: 250, lan: 500, wan: 3_000, classic: 5_000 },
    'Longest wait for the answer of one member, and the wait for a member that was never measured.',
  ),
  probeTimeoutFloorMs: timeOptionRow(
    1,
    hour,
    { local: 50, lan: 100, wan: 500, classic: 5_000 },
    'Shortest wait for an answer, however quick a member was before.',
  ),
  indirectTimeoutMs: timeOptionRow(
    5,
    hour,
    { local: 500, lan: 1_000, wan: 6_000, classic: 3_000 },
    'Longest wait for helpers, and for the probe by TCP, after a member did not answer itself.',
  ),
  helpersCount: count(0, 32, 3, 'Members that are asked to probe one that did not answer.'),
  suspicionAlphaRatio: ratio(
    1,
    100,
    { local: 4, lan: 2, wan: 6, classic: 5 },
    'Shortest suspicion, in probe intervals, in a group of up to ten; it grows with the logarithm of the group.',
  ),
  suspicionBetaRatio: ratio(
    1,
    100,
    { local: 3, lan: 6, wan: 6, classic: 1 },
    'Longest suspicion as a multiple of the shortest: the wait of a single accuser.',
  ),
  confirmationsMax: count(0, 32, { ...same(3), classic: 0 }, 'Further accusers that shorten a suspicion to its least.'),
  refusalsNeededCount: count(
    1,
    32,
    2,
    'Members to whom the host must say that the port is closed before a suspicion is cut short.',
  ),
  gossipIntervalMs: timeOptionRow(
    5,
    hour,
    { local: 50, lan: 200, wan: 500, classic: 500 },
    'Pause between two rounds of telling news.',
  ),
  gossipFanoutCount: count(1, 32, 3, 'Members that are told news in one round.'),
  retransmitRatio: ratio(1, 100, same(4), 'How often news is told, times the logarithm of the group.'),
  gossipBufferMax: count(16, 1_000_000, 5_000, 'News that may wait to be told.'),
  gossipToDeadMs: timeOptionRow(
    0,
    day,
    { local: 15_000, lan: 30_000, wan: 60_000, classic: 30_000 },
    'How long a dead member is still told news, in case it is not dead.',
  ),
  syncIntervalMs: timeOptionRow(
    100,
    day,
    { local: 10_000, lan: 30_000, wan: 60_000, classic: 30_000 },
    'Pause between two comparisons of the whole view with another member.',
  ),
  syncPauseMs: timeOptionRow(
    10,
    hour,
    { local: 250, lan: 1_000, wan: 2_000, classic: 2_000 },
    'Least pause between two comparisons when a difference was seen.',
  ),
  syncTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 2_000, lan: 5_000, wan: 10_000, classic: 10_000 },
    'Longest wait for the view of another member, and for the answer of a seed.',
  ),
  joinRetryMs: timeOptionRow(
    10,
    hour,
    { local: 250, lan: 1_000, wan: 2_000, classic: 2_000 },
    'First pause before a seed that did not answer is asked again; it doubles.',
  ),
  reviveIntervalMs: timeOptionRow(
    10,
    day,
    { local: 1_000, lan: 5_000, wan: 10_000, classic: 5_000 },
    'Pause between two knocks at the door of a dead member; this is how healed partitions meet.',
  ),
  reapAfterMs: timeOptionRow(1_000, 30 * day, same(day), 'How long a dead or departed member is remembered.'),
  observersCount: count(0, 32, 3, 'Neighbours to which a connection is held, so that their crash is seen at once.'),
  watchIntervalMs: timeOptionRow(
    100,
    hour,
    { local: 5_000, lan: 30_000, wan: 30_000, classic: 15_000 },
    'Pause between two words over a connection that is held to see a crash.',
  ),
  stuckAfterMs: timeOptionRow(
    200,
    hour,
    { local: 15_000, lan: 15_000, wan: 15_000, classic: 15_000 },
    'A node whose main loop did not move for so long is alive, but stuck.',
  ),
  leaveTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 500, lan: 1_000, wan: 3_000, classic: 3_000 },
    'Longest wait for others to hear that this node leaves.',
  ),
  membersMax: count(2, 1_000_000, 20_000, 'Members that are known at most, the dead and departed included.'),
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
    sentence: 'gossipIntervalMs must not exceed probeIntervalMs, or a refutation comes later than the next accusation.',
    holds: (o) => o.gossipIntervalMs <= o.probeIntervalMs,
  },
  {
    options: ['suspicionAlphaRatio', 'gossipIntervalMs', 'probeIntervalMs'],
    sentence:
      'suspicionAlphaRatio times probeIntervalMs must be at least four times gossipIntervalMs: a refutation must be heard in time.',
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
      'reapAfterMs must exceed gossipToDeadMs and ten times reviveIntervalMs, or the dead are forgotten before they can return.',
    holds: (o) => o.reapAfterMs > o.gossipToDeadMs && o.reapAfterMs > 10 * o.reviveIntervalMs,
  },
  {
    options: ['refusalsNeededCount', 'helpersCount'],
    sentence: 'refusalsNeededCount must not exceed helpersCount + 1: nobody else could be refused.',
    holds: (o) => o.refusalsNeededCount <= o.helpersCount + 1,
  },
];

type Chosen = Readonly<Record<Row | 'cleanupIntervalMs', number>> & Pick<MembershipOptions, 'membership'>;

export function membershipOptions(options: Chosen): MembershipOptions {
  const rows = Object.keys(membershipOptionRows) as Row[];
  const values = Object.fromEntries(rows.map((row) => [row, options[row]])) as Record<Row, number>;
  const { membership, cleanupIntervalMs } = options;
  return { ...values, membership, cleanupIntervalMs, refinements: lanMembershipOptions.refinements };
}
