/** Option rows of consensus, registration and rebalancing, and the mapping to those machines' options. */
import { type ConsensusOptions, defaultConsensusOptions } from '../../consensus/state/options.ts';
import { type RebalanceOptions, rebalanceOptions } from '../../placement/balance/rebalance-options.ts';
import {
  type RegistrationOptions,
  registrationOptions,
  rejoinPolicies,
} from '../../registration/registration-options.ts';
import { optionRow, timeOptionRow } from './option-rows.ts';
import { addressListOption, choiceOption, durationOption, integerOption, booleanOption } from './option-types.ts';

const hour = 3_600_000;
const day = 24 * hour;

export const controlPlaneOptionRows = {
  registry: optionRow(
    choiceOption(['embedded', 'etcd', 'none']),
    'embedded',
    'Who keeps what the cluster agrees on: the managers themselves, an etcd cluster, or nobody (membership only).',
  ),
  etcdEndpoints: optionRow(addressListOption(16), [], 'Addresses of the etcd cluster, with registry etcd.'),
  leaderTtlMs: timeOptionRow(
    2_000,
    hour,
    { local: 10_000, lan: 10_000, wan: 15_000, classic: 15_000 },
    'With registry etcd: how long a leading manager counts as leading after its last renewal.',
  ),
  bootstrap: optionRow(
    booleanOption,
    false,
    'Begin a new group of managers without asking others whether there is one; only at the very first start of one manager.',
  ),
  heartbeatMs: timeOptionRow(
    10,
    hour,
    { local: 100, lan: 100, wan: 500, classic: 500 },
    'Pause between two signs of life of the leading manager.',
  ),
  electionTimeoutMs: timeOptionRow(
    50,
    hour,
    { local: 700, lan: 700, wan: 3_500, classic: 5_000 },
    'Silence of the leading manager after which another one may be elected; each waits up to twice as long, by lot; a round trip of more than half of it leaves managers unable to decide.',
  ),
  electionPriority: optionRow(
    integerOption('priority', { min: 0, max: 10 }),
    0,
    'Who stands first when nobody leads: 0 first, 10 last.',
  ),
  votersMax: optionRow(
    integerOption('count', { min: 1, max: 9 }),
    5,
    'Managers of a datacenter that vote; further ones follow and take the place of those that are lost.',
  ),
  replaceVoterAfterMs: timeOptionRow(
    0,
    30 * day,
    { local: 600_000, lan: 600_000, wan: 1_800_000, classic: 600_000 },
    'How long a voter may be dead before another manager takes its place; 0 leaves that to operators.',
  ),
  registrationTtlMs: timeOptionRow(
    1_000,
    day,
    { local: 32_000, lan: 32_000, wan: 32_000, classic: 32_000 },
    'How long a node counts as present after its last renewal; it renews three times as often.',
  ),
  rejoin: optionRow(
    choiceOption([...rejoinPolicies]),
    'drained',
    'How a node returns whose registration ran out while the cluster went on: drained until `remuster node activate`, active at once, or (auto) after rejoinHold without incident; a node that an operator drained stays drained.',
  ),
  rejoinHoldMs: optionRow(
    durationOption({ min: 0, max: day }),
    60_000,
    'How long a returned node must be well before rejoin auto makes it active.',
    { scaled: true },
  ),
  rebalance: optionRow(
    choiceOption(['off', 'manual', 'automatic']),
    'manual',
    'Whether containers are moved to even out the load: never, when asked, or by itself; unless it is off, a worker that joins gets its share.',
  ),
  rebalanceEagerness: optionRow(
    choiceOption(['conservative', 'balanced', 'aggressive']),
    'balanced',
    'From which imbalance on containers are moved, and how often.',
  ),
  rebalanceStrategy: optionRow(
    choiceOption(['fair', 'balanced', 'weighted']),
    'balanced',
    'What counts as load: the number of containers, that and what nodes report, or both against their capacity.',
  ),
} as const;

type Rows = typeof controlPlaneOptionRows;
type Row = keyof Rows;
export type ControlPlaneValues = {
  readonly [K in Row]: Rows[K] extends { defaultFor: (profile: never) => infer T } ? T : never;
};

type ControlRelation = {
  readonly options: readonly [Row, ...Row[]];
  readonly sentence: string;
  readonly holds: (options: ControlPlaneValues) => boolean;
};

export const controlPlaneOptionRelations: readonly ControlRelation[] = [
  {
    options: ['heartbeatMs', 'electionTimeoutMs'],
    sentence: 'electionTimeoutMs must be at least 4.5 times heartbeatMs, or one lost heartbeat ends a leadership.',
    holds: (o) => o.electionTimeoutMs >= 4.5 * o.heartbeatMs,
  },
  {
    options: ['electionTimeoutMs', 'registrationTtlMs'],
    sentence: 'registrationTtlMs must exceed electionTimeoutMs, or a change of leaders costs registrations.',
    holds: (o) => o.registrationTtlMs > o.electionTimeoutMs,
  },
  {
    options: ['registry', 'etcdEndpoints'],
    sentence: 'registry etcd needs etcdEndpoints.',
    holds: (o) => o.registry !== 'etcd' || o.etcdEndpoints.length > 0,
  },
];

export function consensusOptions(options: ControlPlaneValues): ConsensusOptions {
  const { heartbeatMs, electionTimeoutMs, electionPriority: priority } = options;
  return { ...defaultConsensusOptions, heartbeatMs, electionTimeoutMs, priority };
}

export function registrationOptionsOf(options: ControlPlaneValues): RegistrationOptions {
  const { registrationTtlMs: ttlMs, rejoin, rejoinHoldMs } = options;
  return registrationOptions({ ttlMs, rejoin, rejoinHoldMs });
}

export function rebalanceOptionsOf(options: ControlPlaneValues): RebalanceOptions {
  const { rebalance: mode, rebalanceEagerness, rebalanceStrategy: strategy } = options;
  return rebalanceOptions(rebalanceEagerness, { mode, strategy });
}
