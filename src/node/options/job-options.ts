/** Option rows of jobs, and their relations to other options. */
import type { ControlPlaneValues } from './control-plane-options.ts';
import { optionRow, timeOptionRow } from './option-rows.ts';
import { integerOption } from './option-types.ts';

const hour = 3_600_000;

export const jobOptionRows = {
  cores: optionRow(
    integerOption('count', { min: 0, max: 1_024 }),
    0,
    'How many cores of this worker jobs may use, each with a process of its own; 0 for as many as the machine has.',
  ),
  warmRunnersMax: optionRow(
    integerOption('count', { min: 0, max: 1_024 }),
    1_024,
    'At most so many processes of this worker wait for work, and never more than it has cores; with 0 each unit waits for its process to start.',
  ),
  jobLeaseMs: timeOptionRow(
    500,
    hour,
    { local: 10_000, lan: 10_000, wan: 30_000, classic: 30_000 },
    'How long a worker may go on with its work after the leading manager last heard of it; it stops by itself earlier.',
  ),
  jobResultBytesMax: optionRow(
    integerOption('bytes', { min: 1_000, max: 50_000_000 }),
    10_000_000,
    'How large all results of one workflow may be together; every manager holds them in memory, and one unit gives at most 10 MB.',
  ),
  jobTimeoutMs: timeOptionRow(
    1_000,
    7 * 24 * hour,
    { local: hour, lan: hour, wan: hour, classic: hour },
    'How long a job may take in all, unless it says so itself.',
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
    sentence: 'jobLeaseMs must be at least 4 times electionTimeoutMs, or work ends with each new leader.',
    holds: (o) => o.jobLeaseMs >= 4 * o.electionTimeoutMs,
  },
];
