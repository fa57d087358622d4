/** Option rows of jobs, and their relations to other options. */
import type { ControlPlaneValues } from './control-plane-options.ts';
import { optionRow, timeOptionRow } from './option-rows.ts';
import { integerOption } from './option-types.ts';

const hour = 3_600_000;

export const jobOptionRows = {
  cores: optionRow(
    integerOption('count', { min: 0, max: 1_024 }),
    0,
    'Cores of this worker that jobs may use, each with a process of its own; 0 means all cores of the machine.',
  ),
  warmRunnersMax: optionRow(
    integerOption('count', { min: 0, max: 1_024 }),
    1_024,
    'Idle runner processes that this worker keeps ready, never more than it has cores; with 0 each unit waits for its process to start.',
  ),
  jobLeaseMs: timeOptionRow(
    500,
    hour,
    { local: 10_000, lan: 10_000, wan: 30_000, classic: 30_000 },
    'How long a worker may run its units without a renewal by the leading manager; it stops by itself earlier.',
  ),
  jobResultBytesMax: optionRow(
    integerOption('bytes', { min: 1_000, max: 50_000_000 }),
    10_000_000,
    'Total size of all results of one workflow; every manager holds them in memory, and one unit returns at most 10 MB.',
  ),
  jobTimeoutMs: timeOptionRow(
    1_000,
    7 * 24 * hour,
    { local: hour, lan: hour, wan: hour, classic: hour },
    'How long a job may take in total, unless the job sets a limit of its own.',
  ),
} as const;

type Rows = typeof jobOptionRows;
type Row = keyof Rows;
export type JobValues = {
  readonly [K in Row]: Rows[K] extends { defaultFor: (profile: never) => infer T } ? T : never;
};

type JobRelation = {
  readonly options: readonly [Row | keyof ControlPlaneValues, ...(Row | keyof ControlPlaneValues)[]];
  readonly sentence: string;
  readonly holds: (options: JobValues & ControlPlaneValues) => boolean;
};

export const jobOptionRelations: readonly JobRelation[] = [
  {
    options: ['jobLeaseMs', 'electionTimeoutMs'],
    sentence: 'jobLeaseMs must be at least 4 times electionTimeoutMs, or units end at every leader change.',
    holds: (o) => o.jobLeaseMs >= 4 * o.electionTimeoutMs,
  },
];
