/** Option rows of containers, and their relations to the lease times. */
import type { ControlPlaneValues } from './control-plane-options.ts';
import { optionRow, timeOptionRow } from './option-rows.ts';
import { textListOption } from './option-types.ts';

const hour = 3_600_000;

export const containerOptionRows = {
  modules: optionRow(
    textListOption('path', 64),
    [],
    'Files or packages with modules, loaded at start; every exported module becomes available, and the kv module always is.',
  ),
  servingLeaseMs: timeOptionRow(
    100,
    hour,
    { local: 5_000, lan: 5_000, wan: 20_000, classic: 20_000 },
    'How long a worker may serve its containers without a renewal by the leading manager; it stops by itself at 0.8 of this time.',
  ),
  callRetryMs: timeOptionRow(
    100,
    hour,
    { local: 30_000, lan: 30_000, wan: 60_000, classic: 30_000 },
    'How long a call retries to reach an owner before it fails with NETWORK_TIMEOUT.',
  ),
  copyAckTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 1_000, lan: 1_000, wan: 5_000, classic: 5_000 },
    'How long an owner waits for the acknowledgement of a copy before it continues without that copy.',
  ),
  copyRepairDelayMs: timeOptionRow(
    0,
    24 * hour,
    { local: 10_000, lan: 10_000, wan: 60_000, classic: 30_000 },
    'How long a node that holds copies may be gone before its copies are recreated on other nodes.',
  ),
} as const;

type Rows = typeof containerOptionRows;
type Row = keyof Rows;
export type ContainerValues = {
  readonly [K in Row]: Rows[K] extends { defaultFor: (profile: never) => infer T } ? T : never;
};

type ContainerRelation = {
  readonly options: readonly [Row | keyof ControlPlaneValues, ...(Row | keyof ControlPlaneValues)[]];
  readonly sentence: string;
  readonly holds: (options: ContainerValues & ControlPlaneValues) => boolean;
};

/** The owner stops (0.8 leases) < the lease ends < a takeover is allowed (1.1 leases) < a waiting call fails. */
export const containerOptionRelations: readonly ContainerRelation[] = [
  {
    options: ['servingLeaseMs', 'electionTimeoutMs'],
    sentence: 'servingLeaseMs must be at least 4 times electionTimeoutMs, or containers pause at every leader change.',
    holds: (o) => o.servingLeaseMs >= 4 * o.electionTimeoutMs,
  },
  {
    options: ['callRetryMs', 'servingLeaseMs'],
    sentence:
      'callRetryMs must be at least 1.3 times servingLeaseMs, or calls fail before their container has recovered.',
    holds: (o) => o.callRetryMs >= 1.3 * o.servingLeaseMs,
  },
];
