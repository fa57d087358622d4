/**
 * Properties of results: of each unit only the last attempt counts; a completed batch has every item once, in order.
 */
import type { JobStatus } from '../../../../src/jobs/job-types.ts';
import type { Property } from '../../checking/workload.ts';
import type { ObservedJob, ItemCounts } from '../../checking/job-observations.ts';
import type { JobPlan } from './job-plans.ts';
import { unitKey } from './unit-properties.ts';

type Unit = {
  /** The highest attempt that any worker received. */
  attempt: number;
  readonly ended: Map<number, { readonly outcome: string; readonly totals: ItemCounts }>;
};

/**
 * S23, S26: the totals of a job are the sums of the last attempts of its units. A cancelled load test counts at most
 * what they did until they were stopped: some workers may not report it.
 */
const totalsAreExact: Property = () => {
  const units = new Map<string, Map<string, Unit>>();
  const plans = new Map<string, JobPlan>();
  const unitOf = (event: Parameters<typeof unitKey>[0]): Unit => {
    const all = units.get(event.job) ?? new Map<string, Unit>();
    units.set(event.job, all);
    const unit = all.get(unitKey(event)) ?? { attempt: 0, ended: new Map() };
    all.set(unitKey(event), unit);
    return unit;
  };
  return {
    observe(event) {
      if (event.kind === 'jobAccepted') plans.set(event.job, event.plan);
      if (event.kind === 'unitAssigned') {
        const unit = unitOf(event);
        unit.attempt = Math.max(unit.attempt, event.attempt);
      }
      if (event.kind === 'unitEnded')
        unitOf(event).ended.set(event.attempt, { outcome: event.outcome, totals: event.totals });
      if (event.kind !== 'jobObserved') return undefined;
      const { view } = event;
      if (view.status === 'CANCELLED' && plans.get(view.job)?.kind === 'load')
        return cancelledTotalsViolation(view, units.get(view.job) ?? new Map());
      if (!isDone(view.status)) return undefined;
      return (
        lastAttemptsViolation(view) ?? totalsViolation(view, plans.get(view.job), units.get(view.job) ?? new Map())
      );
    },
  };
};

/** In the view of the manager, the completed attempt of each unit is its last one. */
function lastAttemptsViolation({ job, attempts = [] }: ObservedJob): string | undefined {
  for (const [workflow, all] of attempts.entries()) {
    for (const { unit, attempt, outcome } of all) {
      const later = all.find((other) => other.unit === unit && other.attempt > attempt);
      if (outcome === 'completed' && later !== undefined)
        return `${job}/${workflow}/${unit}: attempt ${attempt} counts although there was attempt ${later.attempt}`;
    }
  }
  return undefined;
}

function totalsViolation(
  { job, totals }: ObservedJob,
  plan: JobPlan | undefined,
  units: ReadonlyMap<string, Unit>,
): string | undefined {
  // A search ends all other units wherever they are.
  if (plan === undefined || plan.kind === 'search') return undefined;
  const sum = { completed: 0, failed: 0 };
  for (const [name, { attempt, ended }] of units) {
    const last = ended.get(attempt);
    // A teardown may fail.
    if (last?.outcome !== 'completed' && !name.endsWith('/1000001'))
      return `${name} counts as completed, but its attempt ${attempt} ${last === undefined ? 'has not ended' : `is ${last.outcome}`}`;
    sum.completed += last?.totals.completed ?? 0;
    sum.failed += last?.totals.failed ?? 0;
  }
  if (sum.completed === totals.completed && sum.failed === totals.failed) return undefined;
  return `${job} counts ${totals.completed}/${totals.failed}, its units ${sum.completed}/${sum.failed}`;
}

function cancelledTotalsViolation({ job, totals }: ObservedJob, units: ReadonlyMap<string, Unit>): string | undefined {
  let [completed, failed] = [0, 0];
  for (const { attempt, ended } of units.values()) {
    const last = ended.get(attempt);
    // A killed runner reports what it counted last, and is not seen to end.
    if (last === undefined) return undefined;
    completed += last.totals.completed;
    failed += last.totals.failed;
  }
  if (totals.completed <= completed && totals.failed <= failed) return undefined;
  return `${job} counts ${totals.completed}/${totals.failed} when cancelled, its last attempts ${completed}/${failed}`;
}

/** S31: the result of a completed batch has every item once, in order. */
const resultsAreComplete: Property = () => {
  const plans = new Map<string, JobPlan>();
  const completed = new Set<string>();
  let resultsRead = 0;
  return {
    observe(event) {
      if (event.kind === 'jobAccepted') plans.set(event.job, event.plan);
      if (event.kind === 'jobObserved' && isDone(event.view.status)) completed.add(event.view.job);
      const plan = event.kind === 'resultRead' && completed.has(event.job) ? plans.get(event.job) : undefined;
      if (plan === undefined || event.kind !== 'resultRead') return undefined;
      for (const { name, batch } of plan.request.workflows) {
        if (batch?.keepResults !== true) continue;
        const values = event.results[name];
        if (!Array.isArray(values)) return `${event.job} has no results of ${name}`;
        resultsRead += 1;
        if (batch.items !== undefined && values.length !== batch.items)
          return `${event.job} has ${values.length} results of ${name}, not ${batch.items}`;
        const misplaced = values.findIndex((value, at) => (value as { readonly item: number }).item !== at);
        if (misplaced >= 0)
          return `${event.job}: result ${misplaced} of ${name} is ${JSON.stringify(values[misplaced])}`;
      }
      return undefined;
    },
    atEnd: () => (resultsRead === 0 ? 'no result was ever read' : undefined),
  };
};

/** Completed and failed items are disjoint, add up to all items, and decide the status of a batch by its options. */
const batchOutcomesAreCorrect: Property = () => {
  const plans = new Map<string, JobPlan>();
  const finalStatuses = new Set<JobStatus>();
  return {
    observe(event) {
      if (event.kind === 'jobAccepted') plans.set(event.job, event.plan);
      if (event.kind !== 'jobObserved') return undefined;
      const { job, status, totals, code } = event.view;
      const [workflow, ...others] = plans.get(job)?.request.workflows ?? [];
      const { batch } = workflow ?? {};
      if (batch === undefined || batch.firstOnly || others.length > 0) return undefined;
      const { completed, failed } = totals;
      const { items = Infinity, onItemError, maxFailures = 0 } = batch;
      if (completed + failed > items) return `${job} counts ${completed} and ${failed} of ${items} items`;
      const byItems = isDone(status) || (status === 'FAILED' && code === 'WORKFLOW_FAILED' && failed > 0);
      if (!byItems) return undefined;
      finalStatuses.add(status);
      if (onItemError !== 'stop' && items !== Infinity && completed + failed !== items)
        return `${job} is ${status} with ${completed} and ${failed} of ${items} items`;
      const isTolerated = completed > 0 && (onItemError === 'continue' || failed <= maxFailures);
      const expected = failed === 0 ? 'COMPLETED' : isTolerated ? 'PARTIAL' : 'FAILED';
      return status === expected ? undefined : `${job} is ${status} with ${failed} failed items, not ${expected}`;
    },
    atEnd: () => (finalStatuses.size === 0 ? 'no batch has ended' : undefined),
  };
};

function isDone(status: JobStatus): boolean {
  return status === 'COMPLETED' || status === 'PARTIAL';
}

export const resultProperties = {
  batchOutcomesAreCorrect,
  resultsAreComplete,
  totalsAreExact,
} as const satisfies Readonly<Record<string, Property>>;
