/** Facts that simulated jobs report, as data, in world time. No behaviour. */
import type { AttemptView, JobStatus } from '../../../src/jobs/job-types.ts';
import type { JobPlan } from '../workloads/jobs/job-plans.ts';

/** One process has begun to run a unit of a job. It is told by the pretended code itself, not by the worker. */
export type UnitRun = {
  /** Counted from 1 over the whole world. */
  readonly run: number;
  readonly node: string;
  readonly job: string;
  readonly workflow: number;
  readonly unit: number;
  /** Under which the worker has it; 0 if it was never given. */
  readonly attempt: number;
  readonly fence: bigint;
};

export type ItemCounts = { readonly completed: number; readonly failed: number };

/** What a client is told about a job when it asks. */
export type ObservedJob = {
  readonly job: string;
  readonly status: JobStatus;
  readonly totals: ItemCounts;
  readonly code: string | undefined;
  /** By workflow; undefined when it was not asked for them. */
  readonly attempts: readonly (readonly AttemptView[])[] | undefined;
  /** When it was asked. */
  readonly askedMs: number;
};

export type JobObservation =
  /** A client sends it for the first time. */
  | { readonly kind: 'jobWanted'; readonly plan: JobPlan }
  /** A client was told that it is accepted. */
  | { readonly kind: 'jobAccepted'; readonly plan: JobPlan; readonly job: string; readonly isNew: boolean }
  /** It will never be accepted, by the word of a manager. */
  | { readonly kind: 'jobRefused'; readonly plan: JobPlan; readonly code: string; readonly message: string }
  /** The same key with other words was accepted. */
  | { readonly kind: 'keyStolen'; readonly plan: JobPlan }
  | { readonly kind: 'cancelWanted'; readonly job: string }
  | { readonly kind: 'cancelTold'; readonly job: string; readonly status: JobStatus; readonly graceMs: number }
  | { readonly kind: 'jobSeen'; readonly sight: ObservedJob }
  /** An accepted job is unknown to a manager. */
  | { readonly kind: 'jobUnknown'; readonly job: string }
  /** By name of a workflow: what it gave, JSON. */
  | { readonly kind: 'resultSeen'; readonly job: string; readonly results: Readonly<Record<string, unknown>> }
  /** A worker was sent an attempt, perhaps not for the first time. */
  | {
      readonly kind: 'unitGiven';
      readonly node: string;
      readonly job: string;
      readonly workflow: number;
      readonly unit: number;
      readonly attempt: number;
      readonly fence: bigint;
    }
  /** A manager sends it for the first time. `forbidden`: why that worker should get nothing, as the manager knows. */
  | {
      readonly kind: 'unitSent';
      readonly node: string;
      readonly job: string;
      readonly workflow: number;
      readonly unit: number;
      readonly forbidden: string | undefined;
    }
  /** The worker gave it back unharmed, or refused it: no failure. */
  | { readonly kind: 'unitReturned'; readonly job: string; readonly workflow: number; readonly unit: number }
  /** `alsoRunBy` run the same unit at this instant; `together` is how many units run on that node now. */
  | (UnitRun & {
      readonly kind: 'unitBegan';
      /** The name of the plan, which travels with the job. */
      readonly plan: string;
      readonly specHash: string;
      readonly alsoRunBy: readonly string[];
      readonly together: number;
      readonly cores: number;
    })
  /** It does something. `wokeMsAgo`: since its process was made to stand still last. */
  | (UnitRun & { readonly kind: 'unitActed'; readonly msSinceResume: number })
  /** What the code has told of its end. */
  | (UnitRun & { readonly kind: 'unitEnded'; readonly how: string; readonly totals: ItemCounts })
  /** The code has seen something that must not be. */
  | (UnitRun & { readonly kind: 'unitPuzzled'; readonly why: string })
  /** All jobs are looked at now, for the last time. */
  | { readonly kind: 'jobsLookedAt' }
  | {
      readonly kind: 'coresSeen';
      readonly node: string;
      readonly total: number;
      readonly free: number;
      readonly runs: number;
    };
