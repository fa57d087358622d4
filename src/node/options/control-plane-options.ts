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
    'Where the cluster keeps its shared state: on the managers (embedded), in an etcd cluster (etcd), or nowhere (none: membership only).',
  ),
  etcdEndpoints: optionRow(addressListOption(16), [], 'Addresses of the etcd cluster, for registry etcd.'),
  leaderTtlMs: timeOptionRow(
    2_000,
    hour,
    { local: 10_000, lan: 10_000, wan: 15_000, classic: 15_000 },
    'For registry etcd: how long a manager stays the leader after its last renewal.',
  ),
  bootstrap: optionRow(
    booleanOption,
    false,
    'Create a new manager group without asking other nodes whether one exists; only for the very first start of one manager.',
  ),
  heartbeatMs: timeOptionRow(
    10,
    hour,
    { local: 100, lan: 100, wan: 500, classic: 500 },
    'Interval between two heartbeats of the leading manager.',
  ),
  electionTimeoutMs: timeOptionRow(
    50,
    hour,
    { local: 700, lan: 700, wan: 3_500, classic: 5_000 },
    'Time without a heartbeat of the leader after which a manager may start an election, at a random moment within twice this time; managers with a round trip of more than half of it cannot decide anything.',
  ),
  electionPriority: optionRow(
    integerOption('priority', { min: 0, max: 10 }),
    0,
    'Rank of this manager in elections: 0 stands first, 10 last.',
  ),
  votersMax: optionRow(
    integerOption('count', { min: 1, max: 9 }),
    5,
    'Managers of a datacenter that vote; additional managers follow the log and replace lost voters.',
  ),
  replaceVoterAfterMs: timeOptionRow(
    0,
    30 * day,
    { local: 600_000, lan: 600_000, wan: 1_800_000, classic: 600_000 },
    'How long a voter may be dead before another manager replaces it; 0 leaves that to operators.',
  ),
  registrationTtlMs: timeOptionRow(
    1_000,
    day,
    { local: 32_000, lan: 32_000, wan: 32_000, classic: 32_000 },
    'How long the registration of a node stays valid after its last renewal; the node renews it three times as often.',
  ),
  rejoin: optionRow(
    choiceOption([...rejoinPolicies]),
    'drained',
    'Mode in which a node returns whose registration expired while the cluster went on: drained until `remuster node activate`, active at once, or (auto) active after rejoinHold without an incident; a node that an operator drained stays drained.',
  ),
  rejoinHoldMs: optionRow(
    durationOption({ min: 0, max: day }),
    60_000,
    'How long a returned node must be healthy before rejoin auto makes it active.',
    { scaled: true },
  ),
  rebalance: optionRow(
    choiceOption(['off', 'manual', 'automatic']),
    'manual',
    'When containers move to even out the load: never (off), on command (manual) or by themselves (automatic); unless it is off, a worker that joins gets its share.',
  ),
  rebalanceEagerness: optionRow(
    choiceOption(['conservative', 'balanced', 'aggressive']),
    'balanced',
    'How large an imbalance must be before containers move, and how often they move.',
  ),
  rebalanceStrategy: optionRow(
    choiceOption(['fair', 'balanced', 'weighted']),
    'balanced',
    'What counts as load: the number of containers (fair), that number and the reported load (balanced), or both relative to the capacity of each node (weighted).',
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
    sentence: 'registrationTtlMs must exceed electionTimeoutMs, or registrations expire during a leader change.',
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
