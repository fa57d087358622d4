/**
 * Builds every registry key of jobs, and nothing else does. Immutable, mutable and large data have separate keys, so a
 * state change writes little and a new leader reads little.
 *
 *   /jobs/bundle/{sha256}/{part}                 code, in parts
 *   /jobs/bundles/{sha256}                       marker: all parts of the bundle are stored
 *   /jobs/clock                                  the manager clock: time that all leaders have counted together
 *   /jobs/end/{job}/{workflow}/{unit}/{part}     result of a unit that is too large for a record
 *   /jobs/job/{job}                              the request and the first state
 *   /jobs/manager                                the fence of the leader that may write
 *   /jobs/schedule/{hash of submitter and name}  a schedule
 *   /jobs/state/{job}                            the current state, once it differs from the first
 *   /jobs/unit/{job}/{workflow}/{block}          unit states of a job with many units
 */
import { type KeyRange, withPrefix } from '../base/registry.ts';

/** s: summary, o: output, f: failed items. */
export type ResultKind = 's' | 'o' | 'f';

const digits = (count: number, width: number): string => String(count).padStart(width, '0');

export const jobKeys = {
  manager: '/jobs/manager',
  clock: '/jobs/clock',
  job: (job: string): string => `/jobs/job/${job}`,
  state: (job: string): string => `/jobs/state/${job}`,
  unitBlock: (job: string, workflow: number, block: number): string =>
    `/jobs/unit/${job}/${digits(workflow, 3)}/${digits(block, 4)}`,
  result: (job: string, workflow: number, unit: number, kind: ResultKind, part: number): string =>
    `/jobs/end/${job}/${digits(workflow, 3)}/${digits(unit, 7)}/${kind}${digits(part, 3)}`,
  schedule: (hash: string): string => `/jobs/schedule/${hash}`,
  bundlePart: (sha256: string, part: number): string => `/jobs/bundle/${sha256}/${digits(part, 2)}`,
  bundleMarker: (sha256: string): string => `/jobs/bundles/${sha256}`,
} as const;

export const jobRanges = {
  jobs: withPrefix('/jobs/job/'),
  states: withPrefix('/jobs/state/'),
  units: withPrefix('/jobs/unit/'),
  schedules: withPrefix('/jobs/schedule/'),
  bundleMarkers: withPrefix('/jobs/bundles/'),
  /** The parts of a bundle, in order. */
  bundleParts: (sha256: string): KeyRange => withPrefix(`/jobs/bundle/${sha256}/`),
  resultsOf: (job: string): KeyRange => withPrefix(`/jobs/end/${job}/`),
  unitBlocksOf: (job: string): KeyRange => withPrefix(`/jobs/unit/${job}/`),
  /** The parts of the summary, output or failures of one unit, in order. */
  resultOf: (job: string, workflow: number, unit: number, kind: ResultKind): KeyRange =>
    withPrefix(`/jobs/end/${job}/${digits(workflow, 3)}/${digits(unit, 7)}/${kind}`),
} as const;

/** The last segment of a job key. */
export function lastKeySegment(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}
