/** Properties of units: one run at a time, growing fences, stable specs, bounded retries, silence after cancel. */
import type { Property } from '../../checking/workload.ts';
import type { UnitRun } from '../../checking/job-observations.ts';
import type { JobPlan } from './job-plans.ts';

type UnitName = Pick<UnitRun, 'job' | 'workflow' | 'unit'>;

/** A process that went on a moment ago may do something before it can hear that it must not. */
const wakingMs = 50;

export function unitKey({ job, workflow, unit }: UnitName): string {
  return `${job}/${workflow}/${unit}`;
}

/** S8: nobody acts on a unit while somebody else runs it under a later fence, or any. */
const oneRunAtATime: Property = () => {
  const latest = new Map<string, UnitRun>();
  return {
    observe(seen) {
      if (seen.kind === 'unitBegan') {
        latest.set(unitKey(seen), seen);
        const [other] = seen.alsoRunBy;
        return other && `run ${seen.run} of ${unitKey(seen)} begins on ${seen.node} while ${other} goes on`;
      }
      if (seen.kind !== 'unitActed' || seen.msSinceResume < wakingMs) return undefined;
      const other = latest.get(unitKey(seen));
      if (other === undefined || other.run === seen.run) return undefined;
      return `run ${seen.run} of ${unitKey(seen)} acts on ${seen.node}, but run ${other.run} has begun on ${other.node}`;
    },
  };
};

/** S6, S7: a later attempt has a higher fence; an attempt runs once, and only where it was given. */
const attemptsAreFenced: Property = () => {
  const given = new Map<string, Map<number, { readonly fence: bigint; readonly node: string }>>();
  const begun = new Set<string>();
  return {
    observe(seen) {
      if (seen.kind === 'unitBegan') {
        if (seen.attempt === 0) return `${unitKey(seen)} runs on ${seen.node}, to whom nobody gave it`;
        const name = `attempt ${seen.attempt} of ${unitKey(seen)}`;
        if (begun.has(name)) return `${name} runs again, on ${seen.node}`;
        begun.add(name);
      }
      if (seen.kind !== 'unitGiven') return undefined;
      const known = given.get(unitKey(seen)) ?? new Map();
      given.set(unitKey(seen), known);
      const before = known.get(seen.attempt);
      if (before !== undefined && (before.fence !== seen.fence || before.node !== seen.node))
        return `attempt ${seen.attempt} of ${unitKey(seen)} is given to ${before.node} under ${before.fence} and to ${seen.node} under ${seen.fence}`;
      known.set(seen.attempt, seen);
      for (const [attempt, { fence }] of known)
        if (attempt !== seen.attempt && attempt < seen.attempt !== fence < seen.fence)
          return `${unitKey(seen)}: attempt ${attempt} has fence ${fence}, attempt ${seen.attempt} has ${seen.fence}`;
      return undefined;
    },
  };
};

/** Every attempt gets the same words, and finds everything that was promised to it. */
const specsAreStable: Property = () => {
  const hashes = new Map<string, string>();
  return {
    observe(seen) {
      if (seen.kind === 'unitPuzzled') return `run ${seen.run} of ${unitKey(seen)} on ${seen.node}: ${seen.why}`;
      if (seen.kind !== 'unitBegan') return undefined;
      const before = hashes.get(unitKey(seen)) ?? seen.specHash;
      hashes.set(unitKey(seen), before);
      return before === seen.specHash ? undefined : `attempt ${seen.attempt} of ${unitKey(seen)} got other words`;
    },
  };
};

/** S27: a worker never runs more units than it has cores, and in the end all of them are free. */
const coresAreNotOversubscribed: Property = () => {
  let looked = 0;
  return {
    observe(seen) {
      if (seen.kind === 'unitBegan' && seen.together > seen.cores)
        return `${seen.node} runs ${seen.together} units on ${seen.cores} cores`;
      if (seen.kind !== 'coresSeen') return undefined;
      looked += 1;
      const { node, total, free, runs } = seen;
      return free === total && runs === 0 ? undefined : `${node} has ${free} of ${total} cores free, and ${runs} units`;
    },
    atEnd: () => (looked === 0 ? 'no worker was asked for its cores' : undefined),
  };
};

/** S29: who is draining, drained, suspect or dead in the eyes of a manager gets nothing new from it. */
const inactiveWorkersGetNothing: Property = () => ({
  observe(seen) {
    if (seen.kind !== 'unitSent' || seen.forbidden === undefined) return undefined;
    return `${seen.node} is given ${unitKey(seen)} although it is ${seen.forbidden}`;
  },
});

/** S30: a unit is begun as often as it may be retried, and once more. What was given back does not count. */
const retriesAreBounded: Property = () => {
  const plans = new Map<string, JobPlan>();
  const begun = new Map<string, number>();
  const returned = new Map<string, number>();
  return {
    observe(seen) {
      if (seen.kind === 'jobWanted') plans.set(seen.plan.name, seen.plan);
      if (seen.kind === 'unitReturned') returned.set(unitKey(seen), (returned.get(unitKey(seen)) ?? 0) + 1);
      if (seen.kind !== 'unitBegan') return undefined;
      const key = unitKey(seen);
      const times = (begun.get(key) ?? 0) + 1;
      begun.set(key, times);
      const { maxRetries = 0 } = plans.get(seen.plan)?.request.workflows[seen.workflow] ?? {};
      const allowed = maxRetries + 1 + (returned.get(key) ?? 0);
      return times <= allowed ? undefined : `${key} is begun ${times} times, and only ${allowed} are allowed`;
    },
  };
};

/** S28: when a cancelling was acknowledged a while ago, or the job was seen as cancelled, nothing of it acts. */
const cancelledUnitsStop: Property = (stage) => {
  const silentFromMs = new Map<string, number>();
  return {
    observe(seen) {
      const { nowMs } = stage.world.timeline;
      if (seen.kind === 'cancelTold' && !silentFromMs.has(seen.job)) silentFromMs.set(seen.job, nowMs + seen.graceMs);
      if (seen.kind === 'jobSeen' && seen.sight.status === 'CANCELLED')
        silentFromMs.set(seen.sight.job, Math.min(nowMs, silentFromMs.get(seen.sight.job) ?? nowMs));
      if (seen.kind !== 'unitActed' || seen.msSinceResume < wakingMs) return undefined;
      if (nowMs <= (silentFromMs.get(seen.job) ?? Infinity)) return undefined;
      return `run ${seen.run} of ${unitKey(seen)} acts on ${seen.node}, but its job is cancelled`;
    },
  };
};

/** Where clocks on the wall are right: nothing of a job begins before its time. */
const startTimesAreKept: Property = (stage) => {
  const startMs = new Map<string, number>();
  return {
    observe(seen) {
      const { nowMs } = stage.world.timeline;
      if (seen.kind === 'jobWanted') startMs.set(seen.plan.name, nowMs + (seen.plan.startAfterMs ?? 0));
      if (seen.kind !== 'unitBegan' || nowMs >= (startMs.get(seen.plan) ?? 0)) return undefined;
      return `${unitKey(seen)} begins at ${nowMs}, its time is ${startMs.get(seen.plan)}`;
    },
  };
};

export const unitProperties = {
  attemptsAreFenced,
  cancelledIsSilent: cancelledUnitsStop,
  coresAreKept: coresAreNotOversubscribed,
  oneRunAtATime,
  ordersStay: specsAreStable,
  restingGetNothing: inactiveWorkersGetNothing,
  retriesAreBounded,
  startsAreKept: startTimesAreKept,
} as const satisfies Readonly<Record<string, Property>>;
