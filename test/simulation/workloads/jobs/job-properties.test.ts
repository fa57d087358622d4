/** Each property must be able to fail: it is shown what it is there to find. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { AttemptView, JobStatus } from '../../../../src/jobs/job-types.ts';
import type { Observation, WorkloadRun } from '../../checking/workload.ts';
import { jobProperties } from './job-properties.ts';
import type { ObservedJob, UnitRun } from '../../checking/job-observations.ts';
import { defaultBatchFacts, type JobPlan, type PlanKind, createJobPlan, defaultWorkflowFacts } from './job-plans.ts';
import { unitProperties } from './unit-properties.ts';
import { resultProperties } from './result-properties.ts';

const properties = { ...jobProperties, ...unitProperties, ...resultProperties };
type Name = keyof typeof properties;
type Step = Observation | number;

/** A number is the time from then on. */
function judge(name: Name, steps: readonly Step[]): string | undefined {
  const timeline = { nowMs: 0 };
  const checker = properties[name]({ world: { timeline } } as unknown as WorkloadRun);
  for (const step of steps) {
    if (typeof step === 'number') {
      timeline.nowMs = step;
      continue;
    }
    const wrong = checker.observe?.(step);
    if (wrong !== undefined) return wrong;
  }
  return checker.atEnd?.();
}

const facts = defaultWorkflowFacts('all', { batch: defaultBatchFacts({ items: 2 }), maxRetries: 1, timeoutMs: 4_000 });
const planned = (name: string, kind: PlanKind, cancelAfterMs?: number): JobPlan =>
  createJobPlan({ name, kind, submitter: 'client-1', cancelAfterMs }, [{ facts, behaviour: { itemMs: 1 } }], {
    ...{ timeoutMs: 5_000, idempotencyKey: 'key' },
  });
const plan = planned('p', 'batch');
const tolerantFacts = { ...facts, batch: defaultBatchFacts({ items: 2, onItemError: 'continue' }) };
const tolerant = createJobPlan(
  { name: 'p', kind: 'batch', submitter: 'client-1' },
  [{ facts: tolerantFacts, behaviour: { itemMs: 1 } }],
  {},
);
const poison = planned('p', 'poison');
const here: UnitRun = { run: 1, node: 'n4', job: 'j', workflow: 0, unit: 0, attempt: 1, fence: 5n };
const wanted = (one = plan): Observation => ({ kind: 'jobWanted', plan: one });
const accepted = (job = 'j', isNew = true, one = plan): Observation => ({ kind: 'jobAccepted', plan: one, job, isNew });
const seen = (status: JobStatus, more: Partial<ObservedJob> = {}): Observation => ({
  kind: 'jobSeen',
  sight: {
    ...{ job: 'j', status, totals: { completed: 2, failed: 0 }, code: undefined, attempts: undefined },
    askedMs: 0,
    ...more,
  },
});
const counts = (completed: number, failed: number): Partial<ObservedJob> => ({ totals: { completed, failed } });
const looked: Observation = { kind: 'jobsLookedAt' };
const healed: Observation = { kind: 'healed' };
const cancel: Observation = { kind: 'cancelWanted', job: 'j' };
const cancelTold: Observation = { kind: 'cancelTold', job: 'j', status: 'CANCELLING', graceMs: 100 };
const sent = (forbidden?: string): Observation => ({
  ...{ kind: 'unitSent', node: 'n4', job: 'j', workflow: 0, unit: 0, forbidden },
});
const given = (more: Partial<UnitRun> = {}): Observation => {
  const { node, job, workflow, unit, attempt, fence } = { ...here, ...more };
  return { kind: 'unitGiven', node, job, workflow, unit, attempt, fence };
};
const began = (
  more: Partial<UnitRun> & { plan?: string; hash?: string; also?: string; together?: number } = {},
): Observation => ({
  ...{ kind: 'unitBegan', ...here, plan: 'p', specHash: more.hash ?? 'h', cores: 2, together: more.together ?? 1 },
  ...{ alsoRunBy: more.also === undefined ? [] : [more.also] },
  ...more,
});
const acted = (more: Partial<UnitRun> & { msSinceResume?: number } = {}): Observation => ({
  ...{ kind: 'unitActed', ...here, msSinceResume: 10_000 },
  ...more,
});
const ended = (more: Partial<UnitRun> & { how?: string; completed?: number } = {}): Observation => ({
  ...{ kind: 'unitEnded', ...here, ...more, how: more.how ?? 'completed' },
  totals: { completed: more.completed ?? 2, failed: 0 },
});
const returned: Observation = { kind: 'unitReturned', job: 'j', workflow: 0, unit: 0 };
const cores = (free: number): Observation => ({ kind: 'coresSeen', node: 'n4', total: 2, free, runs: 0 });
const result = (...items: readonly number[]): Observation => ({
  ...{ kind: 'resultSeen', job: 'j', results: { all: items.map((item) => ({ item, run: 1 })) } },
});
const attempt = (number: number, outcome: AttemptView['outcome']): AttemptView => ({
  ...{ worker: 'n4', cores: 1, fence: '5', unit: 0, attempt: number, outcome },
});
const refused: Observation = { kind: 'jobRefused', plan, code: 'FORBIDDEN', message: 'no' };
const everything = planned('everything', 'batch');

const cases: readonly (readonly [Name, RegExp | undefined, readonly Step[]])[] = [
  ['acceptedJobsStay', undefined, [accepted(), looked, seen('COMPLETED')]],
  ['acceptedJobsStay', /j was accepted and is unknown/, [accepted(), { kind: 'jobUnknown', job: 'j' }]],
  ['acceptedJobsStay', /nobody can tell/, [accepted(), seen('COMPLETED'), looked]],
  ['acceptedJobsStay', /no job was ever/, []],
  ['allCoresServe', undefined, [accepted('e', true, everything), seen('COMPLETED', { job: 'e' })]],
  ['allCoresServe', /is RUNNING in the end/, [accepted('e', true, everything), seen('RUNNING', { job: 'e' })]],
  ['everyJobEnds', undefined, [accepted(), seen('COMPLETED', { askedMs: 90_000 })]],
  ['everyJobEnds', undefined, [accepted(), seen('QUEUED', { askedMs: 90_000 }), seen('COMPLETED')]],
  ['everyJobEnds', /still QUEUED/, [accepted(), healed, seen('QUEUED', { askedMs: 15_001 })]],
  ['everyJobEnds', /no job was ever completed/, [accepted(), healed, seen('QUEUED', { askedMs: 14_000 })]],
  ['oneJobPerKey', undefined, [wanted(), accepted(), accepted('j', false), began()]],
  ['oneJobPerKey', /p is j and k/, [wanted(), accepted(), accepted('k')]],
  ['oneJobPerKey', /p is j and k/, [wanted(), accepted(), began({ job: 'k' })]],
  ['oneJobPerKey', /twice as a new job/, [wanted(), accepted(), accepted()]],
  ['oneJobPerKey', /accepted for something else/, [{ kind: 'keyStolen', plan }]],
  ['endsStay', undefined, [seen('RUNNING'), seen('COMPLETED'), seen('COMPLETED'), result(0, 1), result(0, 1)]],
  ['endsStay', /was COMPLETED .* and is FAILED/, [seen('COMPLETED'), seen('FAILED')]],
  ['endsStay', /is RUNNING again/, [seen('COMPLETED', { askedMs: 1 }), seen('RUNNING', { askedMs: 2 })]],
  [
    'endsStay',
    /2 done.* and is .* 3 done/,
    [seen('COMPLETED'), seen('COMPLETED', { totals: { completed: 3, failed: 0 } })],
  ],
  ['endsStay', /j was .* and is/, [result(0, 1), result(1, 0)]],
  ['endsHaveReasons', undefined, [wanted(), accepted(), cancel, seen('CANCELLED')]],
  ['endsHaveReasons', /nobody cancelled/, [wanted(), accepted(), seen('CANCELLED')]],
  ['endsHaveReasons', undefined, [wanted(), accepted(), 5_000, seen('TIMEOUT')]],
  ['endsHaveReasons', /had time left/, [wanted(), accepted(), 3_000, seen('TIMEOUT')]],
  ['endsHaveReasons', /its code is poison/, [wanted(poison), accepted('j', true, poison), seen('COMPLETED')]],
  [
    'endsHaveReasons',
    /does not fail/,
    [wanted(), accepted(), seen('FAILED', { code: 'WORKFLOW_FAILED', attempts: [] })],
  ],
  ['endsHaveReasons', undefined, [wanted(), accepted(), given(), 4_000, seen('TIMEOUT')]],
  [
    'endsHaveReasons',
    /had attempts left/,
    [wanted(), accepted(), seen('FAILED', { code: 'RETRIES_EXHAUSTED', attempts: [[attempt(1, 'lost')]] })],
  ],
  [
    'endsHaveReasons',
    undefined,
    [
      ...[wanted(), accepted()],
      seen('FAILED', { code: 'RETRIES_EXHAUSTED', attempts: [[attempt(1, 'lost'), attempt(2, 'failed')]] }),
    ],
  ],
  ['endsHaveReasons', /nobody knows why/, [wanted(), accepted(), seen('FAILED', { attempts: [] })]],
  ['endsHaveReasons', /refused with FORBIDDEN/, [wanted(), refused]],
  ['healthyJobsComplete', undefined, [accepted(), seen('COMPLETED')]],
  ['healthyJobsComplete', /is TIMEOUT although/, [accepted(), seen('TIMEOUT')]],
  ['healthyJobsComplete', /no job was completed/, [accepted()]],
  ['oneRunAtATime', undefined, [began(), acted(), began({ run: 2, node: 'n5' }), acted({ msSinceResume: 3 })]],
  ['oneRunAtATime', /while run 1 on n4 goes on/, [began({ run: 2, also: 'run 1 on n4' })]],
  ['oneRunAtATime', /run 1 of .* acts on n4, but run 2/, [began(), began({ run: 2, node: 'n5' }), acted()]],
  ['attemptsAreFenced', undefined, [given(), given(), began(), given({ attempt: 2, fence: 6n, node: 'n5' })]],
  ['attemptsAreFenced', /to whom nobody gave it/, [began({ attempt: 0 })]],
  ['attemptsAreFenced', /runs again/, [given(), began(), began({ run: 2 })]],
  ['attemptsAreFenced', /given to n4 under 5 and to n5 under 5/, [given(), given({ node: 'n5' })]],
  ['attemptsAreFenced', /attempt 1 has fence 5, attempt 2 has 5/, [given(), given({ attempt: 2 })]],
  ['ordersStay', undefined, [began(), began({ run: 2, attempt: 2 })]],
  ['ordersStay', /got other words/, [began(), began({ run: 2, hash: 'x' })]],
  ['ordersStay', /no code/, [{ kind: 'unitPuzzled', ...here, why: 'no code' }]],
  ['coresAreKept', undefined, [began({ together: 2 }), cores(2)]],
  ['coresAreKept', /runs 3 units on 2 cores/, [began({ together: 3 })]],
  ['coresAreKept', /has 1 of 2 cores free/, [cores(1)]],
  ['coresAreKept', /no worker was asked/, [began()]],
  ['restingGetNothing', undefined, [sent()]],
  ['restingGetNothing', /although it is drained/, [sent('drained')]],
  ['retriesAreBounded', undefined, [wanted(), began(), began(), returned, began()]],
  ['retriesAreBounded', /begun 3 times, and only 2/, [wanted(), began(), began(), began()]],
  [
    'cancelledIsSilent',
    undefined,
    [cancelTold, 90, acted(), 200, acted({ msSinceResume: 1 }), acted({ job: 'other' })],
  ],
  ['cancelledIsSilent', /its job is cancelled/, [cancelTold, 101, acted()]],
  ['cancelledIsSilent', /its job is cancelled/, [seen('CANCELLED'), 1, acted()]],
  ['startsAreKept', undefined, [wanted({ ...plan, startAfterMs: 9 }), 9, began()]],
  ['startsAreKept', /begins at 8, its time is 9/, [wanted({ ...plan, startAfterMs: 9 }), 8, began()]],
  ['totalsAreExact', undefined, [accepted(), given(), ended(), seen('COMPLETED')]],
  ['totalsAreExact', undefined, [accepted(), given(), given({ attempt: 2 }), ended({ attempt: 2 }), seen('COMPLETED')]],
  [
    'totalsAreExact',
    /counts 2\/0, its units did 3\/0/,
    [accepted(), given(), ended({ completed: 3 }), seen('COMPLETED')],
  ],
  ['totalsAreExact', /its attempt 2 has not ended/, [accepted(), given({ attempt: 2 }), ended(), seen('COMPLETED')]],
  ['totalsAreExact', /its attempt 1 is failed/, [accepted(), given(), ended({ how: 'failed' }), seen('COMPLETED')]],
  [
    'totalsAreExact',
    /attempt 1 counts although there was attempt 2/,
    [accepted(), seen('COMPLETED', { attempts: [[attempt(1, 'completed'), attempt(2, 'lost')]] })],
  ],
  ['batchEndsAreTrue', undefined, [accepted(), seen('COMPLETED')]],
  ['batchEndsAreTrue', undefined, [accepted('j', true, tolerant), seen('PARTIAL', counts(1, 1))]],
  ['batchEndsAreTrue', /counts 2 and 1 of 2 items/, [accepted(), seen('RUNNING', counts(2, 1))]],
  ['batchEndsAreTrue', /is COMPLETED with 1 and 0 of 2 items/, [accepted(), seen('COMPLETED', counts(1, 0))]],
  ['batchEndsAreTrue', /not FAILED/, [accepted(), seen('COMPLETED', counts(1, 1))]],
  ['batchEndsAreTrue', /not FAILED/, [accepted('j', true, tolerant), seen('PARTIAL', counts(0, 2))]],
  ['batchEndsAreTrue', /no batch has ended/, [accepted(), seen('RUNNING')]],
  ['resultsAreWhole', undefined, [accepted(), seen('COMPLETED'), result(0, 1)]],
  ['resultsAreWhole', /has 1 results of all, not 2/, [accepted(), seen('COMPLETED'), result(0)]],
  ['resultsAreWhole', /result 0 of all is/, [accepted(), seen('COMPLETED'), result(1, 0)]],
  ['resultsAreWhole', /no result was ever/, [accepted(), seen('COMPLETED')]],
];

describe('the properties of jobs', () => {
  for (const [name, wrong, steps] of cases) {
    it(`${name} ${wrong === undefined ? 'lets pass what is right' : `finds ${String(wrong)}`}`, () => {
      const message = judge(name, steps);
      if (wrong === undefined) assert.equal(message, undefined);
      else assert.match(message ?? 'nothing', wrong);
    });
  }

  it('each can fail', () => {
    const failing = new Set(cases.filter(([, wrong]) => wrong !== undefined).map(([name]) => name));
    assert.deepEqual([...failing].toSorted(), Object.keys(properties).toSorted());
  });
});
