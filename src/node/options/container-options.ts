/** Option rows of containers, and their relations to the lease times. */
import type { ControlPlaneValues } from './control-plane-options.ts';
import { optionRow, timeOptionRow } from './option-rows.ts';
import { textListOption } from './option-types.ts';

const hour = 3_600_000;

export const containerOptionRows = {
  modules: optionRow(
    textListOption('path', 64),
    [],
    'Files or packages with modules, loaded at start; each export that is a module counts, and the kv module is always there.',
  ),
  servingLeaseMs: timeOptionRow(
    100,
    hour,
    { local: 5_000, lan: 5_000, wan: 20_000, classic: 20_000 },
    'How long a worker may serve its containers after the leading manager last heard of it; it stops by itself earlier.',
  ),
  callRetryMs: timeOptionRow(
    100,
    hour,
    { local: 30_000, lan: 30_000, wan: 60_000, classic: 30_000 },
    'How long a call looks for an owner that it can reach before it ends with NETWORK_TIMEOUT.',
  ),
  copyAckTimeoutMs: timeOptionRow(
    10,
    hour,
    { local: 1_000, lan: 1_000, wan: 5_000, classic: 5_000 },
    'How long an owner waits for one of its copies before it goes on without it.',
  ),
  copyRepairDelayMs: timeOptionRow(
    0,
    24 * hour,
    { local: 10_000, lan: 10_000, wan: 60_000, classic: 30_000 },
    'How long a node with copies may be gone before they are made anew elsewhere.',
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

/** Stop by oneself (0.8) < lease < given to others (1.1) < end of a call that waits for it. */
export const containerOptionRelations: readonly ContainerRelation[] = [
  {
    options: ['servingLeaseMs', 'electionTimeoutMs'],
    sentence: 'servingLeaseMs must be at least 4 times electionTimeoutMs, or containers pause with each new leader.',
    holds: (o) => o.servingLeaseMs >= 4 * o.electionTimeoutMs,
  },
  {
    options: ['callRetryMs', 'servingLeaseMs'],
    sentence:
      'callRetryMs must be at least 1.3 times servingLeaseMs, or calls end before their container has recovered.',
    holds: (o) => o.callRetryMs >= 1.3 * o.servingLeaseMs,
  },
];
