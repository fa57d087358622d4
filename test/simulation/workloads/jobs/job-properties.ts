/**
 * Properties of jobs: accepted jobs are kept, end in time with a reason, one job per key, final statuses never change.
 */
import { isTerminalStatus } from '../../../../src/jobs/job-types.ts';
import type { Property } from '../../checking/workload.ts';
import type { ObservedJob } from '../../checking/job-observations.ts';
import type { JobPlan } from './job-plans.ts';

/** A job ends at the latest this long after its timeout, or after healing. */
const lateMsMax = 10_000;
/** How much faster than the world the fastest clock runs. */
const fastestClock = 1.2;

/** S22: every manager that replies knows an accepted job. */
const acceptedJobsAreKept: Property = () => {
  const accepted = new Set<string>();
  const found = new Set<string>();
  let isLastRead = false;
  return {
    observe(event) {
      if (event.kind === 'jobAccepted' && !isLastRead) accepted.add(event.job);
      if (event.kind === 'lastReadStarted') isLastRead = true;
      if (event.kind === 'jobObserved' && isLastRead) found.add(event.view.job);
      return event.kind === 'jobUnknown' ? `${event.job} was accepted and is unknown` : undefined;
    },
    atEnd() {
      if (accepted.size === 0) return 'no job was ever accepted';
      const lost = [...accepted].find((job) => !found.has(job));
      return lost && `${lost} was accepted, but its end is unknown`;
    },
  };
};

/**
 * L5: every job ends within its timeout plus ten seconds, counted from healing at the earliest: without a leader the
 * time of jobs does not advance.
 */
const everyJobEnds: Property = (run) => {
  const accepted = new Map<string, { readonly atMs: number; readonly plan: JobPlan }>();
  let healedMs = Infinity;
  let completed = 0;
  return {
    observe(event) {
      const { nowMs: atMs } = run.world.timeline;
      if (event.kind === 'healed') healedMs = atMs;
      if (event.kind === 'jobAccepted' && !accepted.has(event.job)) accepted.set(event.job, { atMs, plan: event.plan });
      if (event.kind !== 'jobObserved') return undefined;
      const { job, status, requestedMs } = event.view;
      if (status === 'COMPLETED') completed += 1;
      const known = accepted.get(job);
      if (known === undefined || isTerminalStatus(status)) return undefined;
      const latestMs = Math.max(known.atMs, healedMs) + allowedMs(known.plan) + lateMsMax;
      return requestedMs <= latestMs ? undefined : `${job} is still ${status} after its timeout`;
    },
    atEnd: () => (completed === 0 ? 'no job was ever completed' : undefined),
  };
};

function allowedMs({ request, startAfterMs = 0 }: JobPlan): number {
  return startAfterMs + (request.timeoutMs ?? Infinity);
}

/** S24: equal requests under the same key are one job; a different request under that key is refused. */
const oneJobPerKey: Property = () => {
  const jobs = new Map<string, string>();
  const keyed = new Set<string>();
  const isNew = new Set<string>();
  const same = (plan: string, job: string): string | undefined => {
    const other = jobs.get(plan) ?? job;
    jobs.set(plan, other);
    return other === job || !keyed.has(plan) ? undefined : `${plan} is ${other} and ${job}`;
  };
  return {
    observe(event) {
      if (event.kind === 'jobSubmitted' && event.plan.request.idempotencyKey !== undefined) keyed.add(event.plan.name);
      if (event.kind === 'keyReused') return `the key of ${event.plan.name} was accepted for a different request`;
      if (event.kind === 'unitStarted') return same(event.plan, event.job);
      if (event.kind !== 'jobAccepted') return undefined;
      if (event.isNew && isNew.has(event.job)) return `${event.job} was accepted twice as a new job`;
      if (event.isNew) isNew.add(event.job);
      return same(event.plan.name, event.job);
    },
  };
};

/** S25: status, totals and results of a job that has ended never change. */
const finalStatesAreStable: Property = () => {
  const ends = new Map<string, string>();
  const results = new Map<string, string>();
  const compare = (known: Map<string, string>, job: string, now: string): string | undefined => {
    const before = known.get(job) ?? now;
    known.set(job, before);
    return before === now ? undefined : `${job} was ${before} and is ${now}`;
  };
  const endedMs = new Map<string, number>();
  return {
    observe(event) {
      if (event.kind === 'resultRead') return compare(results, event.job, JSON.stringify(event.results));
      if (event.kind !== 'jobObserved') return undefined;
      const { job, status, totals, requestedMs } = event.view;
      if (!isTerminalStatus(status)) {
        const hadEnded = ends.has(job) && requestedMs > (endedMs.get(job) ?? Infinity);
        return hadEnded ? `${job} was ${ends.get(job)} and is ${status} again` : undefined;
      }
      if (!endedMs.has(job)) endedMs.set(job, requestedMs);
      return compare(ends, job, `${status} with ${totals.completed} completed, ${totals.failed} failed`);
    },
  };
};

/** A job that is refused, fails, is cancelled or times out has a reason. */
const failuresHaveReasons: Property = (run) => {
  const plans = new Map<string, JobPlan>();
  const submittedMs = new Map<JobPlan, number>();
  const cancelled = new Set<string>();
  const contradiction = (
    { job, status, code, attempts, totals: { failed } }: ObservedJob,
    plan: JobPlan,
  ): string | undefined => {
    const { nowMs } = run.world.timeline;
    const { request, kind } = plan;
    const passedMs = (nowMs - (submittedMs.get(plan) ?? nowMs)) * fastestClock;
    if (status === 'CANCELLED') return cancelled.has(job) ? undefined : 'no client cancelled it';
    // The timeout of a workflow starts when the manager dispatches it, which cannot be observed.
    const isLate = passedMs >= allowedMs(plan) || request.workflows.some(({ timeoutMs }) => passedMs >= timeoutMs);
    if (status === 'TIMEOUT') return isLate ? undefined : 'it had time left';
    if (status === 'COMPLETED' || status === 'PARTIAL')
      return kind === 'broken' || kind === 'poison' || kind === 'stuck' ? `its code is ${kind}` : undefined;
    if (status !== 'FAILED' || attempts === undefined) return undefined;
    if (code === 'WORKFLOW_FAILED') return kind === 'broken' || failed > 0 ? undefined : 'its code does not fail';
    if (code === undefined) return 'it has no error code';
    // With a single attempt the code is that of the attempt.
    return exhausted(plan, attempts) ? undefined : `it had attempts left: ${code}`;
  };
  return {
    observe(event) {
      const { nowMs } = run.world.timeline;
      if (event.kind === 'jobSubmitted') submittedMs.set(event.plan, nowMs);
      if (event.kind === 'jobAccepted') plans.set(event.job, event.plan);
      if (event.kind === 'cancelRequested') cancelled.add(event.job);
      if (event.kind === 'jobRefused') return `${event.plan.name} was refused with ${event.code}: ${event.message}`;
      if (event.kind !== 'jobObserved') return undefined;
      const plan = plans.get(event.view.job);
      const text = plan && contradiction(event.view, plan);
      return text && `${event.view.job} is ${event.view.status}, but ${text}`;
    },
  };
};

function exhausted({ request }: JobPlan, attempts: NonNullable<ObservedJob['attempts']>): boolean {
  return request.workflows.some(({ maxRetries }, at) => {
    const failures = new Map<number, number>();
    // At most once: a unit that was started is not started again, also if its worker returned it.
    const isOnce = maxRetries === 0;
    for (const { unit, outcome } of attempts[at] ?? []) {
      const isFailure = outcome === 'failed' || outcome === 'lost';
      if (isFailure || (isOnce && (outcome === 'returned' || outcome === 'cancelled')))
        failures.set(unit, (failures.get(unit) ?? 0) + 1);
    }
    return [...failures.values()].some((count) => count > maxRetries);
  });
}

/**
 * For scenarios without faults and troublesome code: a job that is not cancelled completes, except for failed items.
 */
const healthyJobsComplete: Property = () => {
  const plans = new Map<string, JobPlan>();
  const completed = new Set<string>();
  return {
    observe(event) {
      if (event.kind === 'jobAccepted') plans.set(event.job, event.plan);
      if (event.kind !== 'jobObserved' || !isTerminalStatus(event.view.status)) return undefined;
      const { job, status, totals } = event.view;
      if (status === 'COMPLETED') completed.add(job);
      if ((status === 'PARTIAL' || status === 'FAILED') && totals.failed > 0) return undefined;
      if (status === 'COMPLETED' || plans.get(job)?.cancelAfterMs !== undefined) return undefined;
      return `${job} (${plans.get(job)?.kind}) is ${status} without a fault`;
    },
    atEnd: () => (completed.size === 0 ? 'no job was completed' : undefined),
  };
};

/** The last job takes all cores at once: it completes only if no worker has leaked one. */
const noCoreLeaks: Property = () => {
  let last: string | undefined;
  let status = 'unknown';
  return {
    observe(event) {
      if (event.kind === 'jobAccepted' && event.plan.name === 'everything') last = event.job;
      if (event.kind === 'jobObserved' && event.view.job === last) ({ status } = event.view);
      return undefined;
    },
    atEnd: () => (status === 'COMPLETED' ? undefined : `the job that takes all cores is ${status} at the end`),
  };
};

export const jobProperties = {
  acceptedJobsAreKept,
  noCoreLeaks,
  failuresHaveReasons,
  finalStatesAreStable,
  everyJobEnds,
  healthyJobsComplete,
  oneJobPerKey,
} as const satisfies Readonly<Record<string, Property>>;
