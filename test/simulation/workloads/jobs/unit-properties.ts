/** Properties of units: one run at a time, growing fences, stable specs, bounded retries, no effects after a cancel. */
import type { Property } from '../../checking/workload.ts';
import type { UnitRun } from '../../checking/job-observations.ts';
import type { JobPlan } from './job-plans.ts';

type UnitName = Pick<UnitRun, 'job' | 'workflow' | 'unit'>;

/** A process that has just resumed may act before it receives the command to stop. */
const resumeMarginMs = 50;

export function unitKey({ job, workflow, unit }: UnitName): string {
  return `${job}/${workflow}/${unit}`;
}

/** S8: a unit runs on one worker at a time, and only its latest run has effects. */
const oneRunAtATime: Property = () => {
  const latest = new Map<string, UnitRun>();
  return {
    observe(event) {
      if (event.kind === 'unitStarted') {
        latest.set(unitKey(event), event);
        const [other] = event.alsoRunBy;
        return other && `run ${event.run} of ${unitKey(event)} starts on ${event.node} while ${other} continues`;
      }
      if (event.kind !== 'unitActed' || event.msSinceResume < resumeMarginMs) return undefined;
      const other = latest.get(unitKey(event));
      if (other === undefined || other.run === event.run) return undefined;
      return `run ${event.run} of ${unitKey(event)} acts on ${event.node}, but run ${other.run} has started on ${other.node}`;
    },
  };
};

/** S6, S7: a later attempt has a higher fence; an attempt runs once, and only on the worker it was assigned to. */
const attemptsAreFenced: Property = () => {
  const assigned = new Map<string, Map<number, { readonly fence: bigint; readonly node: string }>>();
  const started = new Set<string>();
  return {
    observe(event) {
      if (event.kind === 'unitStarted') {
        if (event.attempt === 0) return `${unitKey(event)} runs on ${event.node}, which it was not assigned to`;
        const name = `attempt ${event.attempt} of ${unitKey(event)}`;
        if (started.has(name)) return `${name} runs again, on ${event.node}`;
        started.add(name);
      }
      if (event.kind !== 'unitAssigned') return undefined;
      const known = assigned.get(unitKey(event)) ?? new Map();
      assigned.set(unitKey(event), known);
      const before = known.get(event.attempt);
      if (before !== undefined && (before.fence !== event.fence || before.node !== event.node))
        return `attempt ${event.attempt} of ${unitKey(event)} is assigned to ${before.node} under ${before.fence} and to ${event.node} under ${event.fence}`;
      known.set(event.attempt, event);
      for (const [attempt, { fence }] of known)
        if (attempt !== event.attempt && attempt < event.attempt !== fence < event.fence)
          return `${unitKey(event)}: attempt ${attempt} has fence ${fence}, attempt ${event.attempt} has ${event.fence}`;
      return undefined;
    },
  };
};

/** Every attempt of a unit gets the same unit spec, and it is complete. */
const specsAreStable: Property = () => {
  const hashes = new Map<string, string>();
  return {
    observe(event) {
      if (event.kind === 'unitInconsistent')
        return `run ${event.run} of ${unitKey(event)} on ${event.node}: ${event.message}`;
      if (event.kind !== 'unitStarted') return undefined;
      const before = hashes.get(unitKey(event)) ?? event.specHash;
      hashes.set(unitKey(event), before);
      return before === event.specHash
        ? undefined
        : `attempt ${event.attempt} of ${unitKey(event)} got another unit spec`;
    },
  };
};

/** S27: a worker never runs more units than it has cores, and at the end all cores are free. */
const coresAreNotOversubscribed: Property = () => {
  let reads = 0;
  return {
    observe(event) {
      if (event.kind === 'unitStarted' && event.together > event.cores)
        return `${event.node} runs ${event.together} units on ${event.cores} cores`;
      if (event.kind !== 'coresRead') return undefined;
      reads += 1;
      const { node, total, free, runs } = event;
      return free === total && runs === 0 ? undefined : `${node} has ${free} of ${total} cores free, and ${runs} units`;
    },
    atEnd: () => (reads === 0 ? 'no cores were read' : undefined),
  };
};

/** S29: a manager sends no new unit to a worker that is draining, drained, suspect or dead in its view. */
const inactiveWorkersGetNothing: Property = () => ({
  observe(event) {
    if (event.kind !== 'unitSent' || event.forbidden === undefined) return undefined;
    return `${event.node} is assigned ${unitKey(event)} although it is ${event.forbidden}`;
  },
});

/** S30: a unit starts at most once more than its retries. Returned attempts do not count. */
const retriesAreBounded: Property = () => {
  const plans = new Map<string, JobPlan>();
  const started = new Map<string, number>();
  const returned = new Map<string, number>();
  return {
    observe(event) {
      if (event.kind === 'jobSubmitted') plans.set(event.plan.name, event.plan);
      if (event.kind === 'unitReturned') returned.set(unitKey(event), (returned.get(unitKey(event)) ?? 0) + 1);
      if (event.kind !== 'unitStarted') return undefined;
      const key = unitKey(event);
      const times = (started.get(key) ?? 0) + 1;
      started.set(key, times);
      const { maxRetries = 0 } = plans.get(event.plan)?.request.workflows[event.workflow] ?? {};
      const allowed = maxRetries + 1 + (returned.get(key) ?? 0);
      return times <= allowed ? undefined : `${key} is started ${times} times, but only ${allowed} are allowed`;
    },
  };
};

/** S28: no unit of a job acts after its grace time since the cancel was acknowledged, or after the job is CANCELLED. */
const cancelledUnitsStop: Property = (run) => {
  const forbiddenFromMs = new Map<string, number>();
  return {
    observe(event) {
      const { nowMs } = run.world.timeline;
      if (event.kind === 'cancelAcknowledged' && !forbiddenFromMs.has(event.job))
        forbiddenFromMs.set(event.job, nowMs + event.graceMs);
      if (event.kind === 'jobObserved' && event.view.status === 'CANCELLED')
        forbiddenFromMs.set(event.view.job, Math.min(nowMs, forbiddenFromMs.get(event.view.job) ?? nowMs));
      if (event.kind !== 'unitActed' || event.msSinceResume < resumeMarginMs) return undefined;
      if (nowMs <= (forbiddenFromMs.get(event.job) ?? Infinity)) return undefined;
      return `run ${event.run} of ${unitKey(event)} acts on ${event.node}, but its job is cancelled`;
    },
  };
};

/** For scenarios with correct wall clocks: no unit of a job starts before the start time of the job. */
const startTimesAreKept: Property = (run) => {
  const startMs = new Map<string, number>();
  return {
    observe(event) {
      const { nowMs } = run.world.timeline;
      if (event.kind === 'jobSubmitted') startMs.set(event.plan.name, nowMs + (event.plan.startAfterMs ?? 0));
      if (event.kind !== 'unitStarted' || nowMs >= (startMs.get(event.plan) ?? 0)) return undefined;
      return `${unitKey(event)} starts at ${nowMs}, its start time is ${startMs.get(event.plan)}`;
    },
  };
};

export const unitProperties = {
  attemptsAreFenced,
  cancelledUnitsStop,
  coresAreNotOversubscribed,
  oneRunAtATime,
  specsAreStable,
  inactiveWorkersGetNothing,
  retriesAreBounded,
  startTimesAreKept,
} as const satisfies Readonly<Record<string, Property>>;
