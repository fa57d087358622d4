/**
 * Properties of jobs: accepted jobs are kept, end in time with a reason, one job per key, final statuses never change.
 */
import { isTerminalStatus } from '../../../../src/jobs/job-types.ts';
import type { Property } from '../../checking/workload.ts';
import type { ObservedJob } from '../../checking/job-observations.ts';
import type { JobPlan } from './job-plans.ts';

/** A job is over so long after its time, or after healing, at the latest. */
const lateMsMax = 10_000;
/** Of the time that passed, as the fastest clock sees it. */
const fastestClock = 1.2;

/** S22: an accepted job is known to whoever answers for it, for ever. */
const acceptedJobsAreKept: Property = () => {
  const accepted = new Set<string>();
  const found = new Set<string>();
  let isLast = false;
  return {
    observe(seen) {
      if (seen.kind === 'jobAccepted' && !isLast) accepted.add(seen.job);
      if (seen.kind === 'jobsLookedAt') isLast = true;
      if (seen.kind === 'jobSeen' && isLast) found.add(seen.sight.job);
      return seen.kind === 'jobUnknown' ? `${seen.job} was accepted and is unknown` : undefined;
    },
    atEnd() {
      if (accepted.size === 0) return 'no job was ever accepted';
      const lost = [...accepted].find((job) => !found.has(job));
      return lost && `${lost} was accepted, and nobody can tell what became of it`;
    },
  };
};

/**
 * L5: every job is over when its time and ten seconds have passed, counted from healing at the earliest: while nobody
 * leads, the time of jobs stands still.
 */
const everyJobEnds: Property = (stage) => {
  const accepted = new Map<string, { readonly atMs: number; readonly plan: JobPlan }>();
  let healedMs = Infinity;
  let completed = 0;
  return {
    observe(seen) {
      const { nowMs: atMs } = stage.world.timeline;
      if (seen.kind === 'healed') healedMs = atMs;
      if (seen.kind === 'jobAccepted' && !accepted.has(seen.job)) accepted.set(seen.job, { atMs, plan: seen.plan });
      if (seen.kind !== 'jobSeen') return undefined;
      const { job, status, askedMs } = seen.sight;
      if (status === 'COMPLETED') completed += 1;
      const begun = accepted.get(job);
      if (begun === undefined || isTerminalStatus(status)) return undefined;
      const latestMs = Math.max(begun.atMs, healedMs) + allowedMs(begun.plan) + lateMsMax;
      return askedMs <= latestMs ? undefined : `${job} is still ${status} after its time`;
    },
    atEnd: () => (completed === 0 ? 'no job was ever completed' : undefined),
  };
};

function allowedMs({ request, startAfterMs = 0 }: JobPlan): number {
  return startAfterMs + (request.timeoutMs ?? Infinity);
}

/** S24: the same words under the same key are the same job, and nothing else is. */
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
    observe(seen) {
      if (seen.kind === 'jobWanted' && seen.plan.request.idempotencyKey !== undefined) keyed.add(seen.plan.name);
      if (seen.kind === 'keyStolen') return `the key of ${seen.plan.name} was accepted for something else`;
      if (seen.kind === 'unitBegan') return same(seen.plan, seen.job);
      if (seen.kind !== 'jobAccepted') return undefined;
      if (seen.isNew && isNew.has(seen.job)) return `${seen.job} was accepted twice as a new job`;
      if (seen.isNew) isNew.add(seen.job);
      return same(seen.plan.name, seen.job);
    },
  };
};

/** S25: when a job is over, nothing that is said about it ever changes. */
const finalStatesAreStable: Property = () => {
  const ends = new Map<string, string>();
  const results = new Map<string, string>();
  const compare = (known: Map<string, string>, job: string, now: string): string | undefined => {
    const before = known.get(job) ?? now;
    known.set(job, before);
    return before === now ? undefined : `${job} was ${before} and is ${now}`;
  };
  const overAtMs = new Map<string, number>();
  return {
    observe(seen) {
      if (seen.kind === 'resultSeen') return compare(results, seen.job, JSON.stringify(seen.results));
      if (seen.kind !== 'jobSeen') return undefined;
      const { job, status, totals, askedMs } = seen.sight;
      if (!isTerminalStatus(status)) {
        const wasOver = ends.has(job) && askedMs > (overAtMs.get(job) ?? Infinity);
        return wasOver ? `${job} was ${ends.get(job)} and is ${status} again` : undefined;
      }
      if (!overAtMs.has(job)) overAtMs.set(job, askedMs);
      return compare(ends, job, `${status} with ${totals.completed} done, ${totals.failed} of them wrong`);
    },
  };
};

/** A job that failed, was cancelled or ran out of time has a reason for it. */
const failuresHaveReasons: Property = (stage) => {
  const plans = new Map<string, JobPlan>();
  const wantedMs = new Map<JobPlan, number>();
  const cancelled = new Set<string>();
  const why = ({ job, status, code, attempts, totals: { failed } }: ObservedJob, plan: JobPlan): string | undefined => {
    const { nowMs } = stage.world.timeline;
    const { request, kind } = plan;
    const passedMs = (nowMs - (wantedMs.get(plan) ?? nowMs)) * fastestClock;
    if (status === 'CANCELLED') return cancelled.has(job) ? undefined : 'nobody cancelled it';
    // The time of a workflow begins when somebody decides to give it away, which nobody else sees.
    const isLate = passedMs >= allowedMs(plan) || request.workflows.some(({ timeoutMs }) => passedMs >= timeoutMs);
    if (status === 'TIMEOUT') return isLate ? undefined : 'it had time left';
    if (status === 'COMPLETED' || status === 'PARTIAL')
      return kind === 'broken' || kind === 'poison' || kind === 'stuck' ? `its code is ${kind}` : undefined;
    if (status !== 'FAILED' || attempts === undefined) return undefined;
    if (code === 'WORKFLOW_FAILED') return kind === 'broken' || failed > 0 ? undefined : 'its code does not fail';
    if (code === undefined) return 'nobody knows why';
    // With one attempt only, the code is that of the attempt.
    return exhausted(plan, attempts) ? undefined : `it had attempts left: ${code}`;
  };
  return {
    observe(seen) {
      const { nowMs } = stage.world.timeline;
      if (seen.kind === 'jobWanted') wantedMs.set(seen.plan, nowMs);
      if (seen.kind === 'jobAccepted') plans.set(seen.job, seen.plan);
      if (seen.kind === 'cancelWanted') cancelled.add(seen.job);
      if (seen.kind === 'jobRefused') return `${seen.plan.name} was refused with ${seen.code}: ${seen.message}`;
      if (seen.kind !== 'jobSeen') return undefined;
      const plan = plans.get(seen.sight.job);
      const wrong = plan && why(seen.sight, plan);
      return wrong && `${seen.sight.job} is ${seen.sight.status}, but ${wrong}`;
    },
  };
};

function exhausted({ request }: JobPlan, attempts: NonNullable<ObservedJob['attempts']>): boolean {
  return request.workflows.some(({ maxRetries }, at) => {
    const failures = new Map<number, number>();
    // At most once: what had begun does not begin anew, also when it was given back.
    const isOnce = maxRetries === 0;
    for (const { unit, outcome } of attempts[at] ?? []) {
      const isFailure = outcome === 'failed' || outcome === 'lost';
      if (isFailure || (isOnce && (outcome === 'returned' || outcome === 'cancelled')))
        failures.set(unit, (failures.get(unit) ?? 0) + 1);
    }
    return [...failures.values()].some((count) => count > maxRetries);
  });
}

/** For scenarios in which nothing is hurt and no code is troublesome: what nobody cancels completes but for its items. */
const healthyJobsComplete: Property = () => {
  const plans = new Map<string, JobPlan>();
  const completed = new Set<string>();
  return {
    observe(seen) {
      if (seen.kind === 'jobAccepted') plans.set(seen.job, seen.plan);
      if (seen.kind !== 'jobSeen' || !isTerminalStatus(seen.sight.status)) return undefined;
      const { job, status, totals } = seen.sight;
      if (status === 'COMPLETED') completed.add(job);
      if ((status === 'PARTIAL' || status === 'FAILED') && totals.failed > 0) return undefined;
      if (status === 'COMPLETED' || plans.get(job)?.cancelAfterMs !== undefined) return undefined;
      return `${job} (${plans.get(job)?.kind}) is ${status} although all is well`;
    },
    atEnd: () => (completed.size === 0 ? 'no job was completed' : undefined),
  };
};

/** The last job takes all cores at once: it ends only if nobody has lost one. */
const noCoreLeaks: Property = () => {
  let last: string | undefined;
  let status = 'unknown';
  return {
    observe(seen) {
      if (seen.kind === 'jobAccepted' && seen.plan.name === 'everything') last = seen.job;
      if (seen.kind === 'jobSeen' && seen.sight.job === last) ({ status } = seen.sight);
      return undefined;
    },
    atEnd: () => (status === 'COMPLETED' ? undefined : `the job that takes all cores is ${status} in the end`),
  };
};

export const jobProperties = {
  acceptedJobsStay: acceptedJobsAreKept,
  allCoresServe: noCoreLeaks,
  endsHaveReasons: failuresHaveReasons,
  endsStay: finalStatesAreStable,
  everyJobEnds,
  healthyJobsComplete,
  oneJobPerKey,
} as const satisfies Readonly<Record<string, Property>>;
