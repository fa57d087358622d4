/**
 * Properties of results: of each unit only the last attempt counts; a completed batch has every item once, in order.
 */
import type { JobStatus } from '../../../../src/jobs/job-types.ts';
import type { Property } from '../../checking/workload.ts';
import type { ObservedJob, ItemCounts } from '../../checking/job-observations.ts';
import type { JobPlan } from './job-plans.ts';
import { unitKey } from './unit-properties.ts';

type Unit = {
  /** The highest that any worker was given. */
  attempt: number;
  readonly ended: Map<number, { readonly how: string; readonly totals: ItemCounts }>;
};

/** S23, S26: of each unit the last attempt counts, and only that one. */
const totalsAreExact: Property = () => {
  const units = new Map<string, Map<string, Unit>>();
  const plans = new Map<string, JobPlan>();
  const unitOf = (seen: Parameters<typeof unitKey>[0]): Unit => {
    const all = units.get(seen.job) ?? new Map<string, Unit>();
    units.set(seen.job, all);
    const unit = all.get(unitKey(seen)) ?? { attempt: 0, ended: new Map() };
    all.set(unitKey(seen), unit);
    return unit;
  };
  return {
    observe(seen) {
      if (seen.kind === 'jobAccepted') plans.set(seen.job, seen.plan);
      if (seen.kind === 'unitGiven') {
        const unit = unitOf(seen);
        unit.attempt = Math.max(unit.attempt, seen.attempt);
      }
      if (seen.kind === 'unitEnded') unitOf(seen).ended.set(seen.attempt, { how: seen.how, totals: seen.totals });
      if (seen.kind !== 'jobSeen' || !isDone(seen.sight.status)) return undefined;
      const { sight } = seen;
      return lastAttempts(sight) ?? sums(sight, plans.get(sight.job), units.get(sight.job) ?? new Map());
    },
  };
};

/** By the manager's own word: of each unit the last attempt is the one that was completed. */
function lastAttempts({ job, attempts = [] }: ObservedJob): string | undefined {
  for (const [workflow, all] of attempts.entries()) {
    for (const { unit, attempt, outcome } of all) {
      const later = all.find((other) => other.unit === unit && other.attempt > attempt);
      if (outcome === 'completed' && later !== undefined)
        return `${job}/${workflow}/${unit}: attempt ${attempt} counts although there was attempt ${later.attempt}`;
    }
  }
  return undefined;
}

function sums(
  { job, totals }: ObservedJob,
  plan: JobPlan | undefined,
  units: ReadonlyMap<string, Unit>,
): string | undefined {
  // A search ends the others wherever they are.
  if (plan === undefined || plan.kind === 'search') return undefined;
  const sum = { completed: 0, failed: 0 };
  for (const [name, { attempt, ended }] of units) {
    const last = ended.get(attempt);
    // The last step may fail without harm.
    if (last?.how !== 'completed' && !name.endsWith('/1000001'))
      return `${name} counts as done, but its attempt ${attempt} ${last === undefined ? 'has not ended' : `is ${last.how}`}`;
    sum.completed += last?.totals.completed ?? 0;
    sum.failed += last?.totals.failed ?? 0;
  }
  if (sum.completed === totals.completed && sum.failed === totals.failed) return undefined;
  return `${job} counts ${totals.completed}/${totals.failed}, its units did ${sum.completed}/${sum.failed}`;
}

/** S31: the result of a completed batch has every item once, in its place. */
const resultsAreComplete: Property = () => {
  const plans = new Map<string, JobPlan>();
  const completed = new Set<string>();
  let looked = 0;
  return {
    observe(seen) {
      if (seen.kind === 'jobAccepted') plans.set(seen.job, seen.plan);
      if (seen.kind === 'jobSeen' && isDone(seen.sight.status)) completed.add(seen.sight.job);
      const plan = seen.kind === 'resultSeen' && completed.has(seen.job) ? plans.get(seen.job) : undefined;
      if (plan === undefined || seen.kind !== 'resultSeen') return undefined;
      for (const { name, batch } of plan.request.workflows) {
        if (batch?.keepResults !== true) continue;
        const values = seen.results[name];
        if (!Array.isArray(values)) return `${seen.job} has no results of ${name}`;
        looked += 1;
        if (batch.items !== undefined && values.length !== batch.items)
          return `${seen.job} has ${values.length} results of ${name}, not ${batch.items}`;
        const wrong = values.findIndex((value, at) => (value as { readonly item: number }).item !== at);
        if (wrong >= 0) return `${seen.job}: result ${wrong} of ${name} is ${JSON.stringify(values[wrong])}`;
      }
      return undefined;
    },
    atEnd: () => (looked === 0 ? 'no result was ever seen' : undefined),
  };
};

/** Completed and failed items are disjoint, add up to the items, and decide the end of a batch as its options say. */
const batchEndsAreTrue: Property = () => {
  const plans = new Map<string, JobPlan>();
  const ends = new Set<JobStatus>();
  return {
    observe(seen) {
      if (seen.kind === 'jobAccepted') plans.set(seen.job, seen.plan);
      if (seen.kind !== 'jobSeen') return undefined;
      const { job, status, totals, code } = seen.sight;
      const [workflow, ...others] = plans.get(job)?.request.workflows ?? [];
      const { batch } = workflow ?? {};
      if (batch === undefined || batch.firstOnly || others.length > 0) return undefined;
      const { completed, failed } = totals;
      const { items = Infinity, onItemError, maxFailures = 0 } = batch;
      if (completed + failed > items) return `${job} counts ${completed} and ${failed} of ${items} items`;
      const byItems = isDone(status) || (status === 'FAILED' && code === 'WORKFLOW_FAILED' && failed > 0);
      if (!byItems) return undefined;
      ends.add(status);
      if (onItemError !== 'stop' && items !== Infinity && completed + failed !== items)
        return `${job} is ${status} with ${completed} and ${failed} of ${items} items`;
      const isTolerated = completed > 0 && (onItemError === 'continue' || failed <= maxFailures);
      const wanted = failed === 0 ? 'COMPLETED' : isTolerated ? 'PARTIAL' : 'FAILED';
      return status === wanted ? undefined : `${job} is ${status} with ${failed} failed items, not ${wanted}`;
    },
    atEnd: () => (ends.size === 0 ? 'no batch has ended' : undefined),
  };
};

function isDone(status: JobStatus): boolean {
  return status === 'COMPLETED' || status === 'PARTIAL';
}

export const resultProperties = {
  batchEndsAreTrue,
  resultsAreWhole: resultsAreComplete,
  totalsAreExact,
} as const satisfies Readonly<Record<string, Property>>;
