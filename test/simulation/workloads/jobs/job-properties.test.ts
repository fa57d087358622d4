/** Every property is shown a violation that it must find, and a history that it must accept. */
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

/** The first violation that the property reports. A number sets the time of the following steps. */
function violationOf(name: Name, steps: readonly Step[]): string | undefined {
  const timeline = { nowMs: 0 };
  const checker = properties[name]({ world: { timeline } } as unknown as WorkloadRun);
  for (const step of steps) {
    if (typeof step === 'number') {
      timeline.nowMs = step;
      continue;
    }
    const violation = checker.observe?.(step);
    if (violation !== undefined) return violation;
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
const submitted = (one = plan): Observation => ({ kind: 'jobSubmitted', plan: one });
const accepted = (job = 'j', isNew = true, one = plan): Observation => ({ kind: 'jobAccepted', plan: one, job, isNew });
const seen = (status: JobStatus, more: Partial<ObservedJob> = {}): Observation => ({
  kind: 'jobObserved',
  view: {
    ...{ job: 'j', status, totals: { completed: 2, failed: 0 }, code: undefined, attempts: undefined },
    requestedMs: 0,
    ...more,
  },
});
const counts = (completed: number, failed: number): Partial<ObservedJob> => ({ totals: { completed, failed } });
const lastRead: Observation = { kind: 'lastReadStarted' };
const healed: Observation = { kind: 'healed' };
const cancel: Observation = { kind: 'cancelRequested', job: 'j' };
const cancelAcknowledged: Observation = { kind: 'cancelAcknowledged', job: 'j', status: 'CANCELLING', graceMs: 100 };
const sent = (forbidden?: string): Observation => ({
  ...{ kind: 'unitSent', node: 'n4', job: 'j', workflow: 0, unit: 0, forbidden },
});
const assigned = (more: Partial<UnitRun> = {}): Observation => {
  const { node, job, workflow, unit, attempt, fence } = { ...here, ...more };
  return { kind: 'unitAssigned', node, job, workflow, unit, attempt, fence };
};
const started = (
  more: Partial<UnitRun> & { plan?: string; hash?: string; also?: string; together?: number } = {},
): Observation => ({
  ...{ kind: 'unitStarted', ...here, plan: 'p', specHash: more.hash ?? 'h', cores: 2, together: more.together ?? 1 },
  ...{ alsoRunBy: more.also === undefined ? [] : [more.also] },
  ...more,
});
const acted = (more: Partial<UnitRun> & { msSinceResume?: number } = {}): Observation => ({
  ...{ kind: 'unitActed', ...here, msSinceResume: 10_000 },
  ...more,
});
const ended = (more: Partial<UnitRun> & { outcome?: string; completed?: number } = {}): Observation => ({
  ...{ kind: 'unitEnded', ...here, ...more, outcome: more.outcome ?? 'completed' },
  totals: { completed: more.completed ?? 2, failed: 0 },
});
const returned: Observation = { kind: 'unitReturned', job: 'j', workflow: 0, unit: 0 };
const coresRead = (free: number): Observation => ({ kind: 'coresRead', node: 'n4', total: 2, free, runs: 0 });
const result = (...items: readonly number[]): Observation => ({
  ...{ kind: 'resultRead', job: 'j', results: { all: items.map((item) => ({ item, run: 1 })) } },
});
const attempt = (number: number, outcome: AttemptView['outcome']): AttemptView => ({
  ...{ worker: 'n4', cores: 1, fence: '5', unit: 0, attempt: number, outcome },
});
const refused: Observation = { kind: 'jobRefused', plan, code: 'FORBIDDEN', message: 'no' };
const everything = planned('everything', 'batch');

const cases: readonly (readonly [Name, RegExp | undefined, readonly Step[]])[] = [
  ['acceptedJobsAreKept', undefined, [accepted(), lastRead, seen('COMPLETED')]],
  ['acceptedJobsAreKept', /j was accepted and is unknown/, [accepted(), { kind: 'jobUnknown', job: 'j' }]],
  ['acceptedJobsAreKept', /its end is unknown/, [accepted(), seen('COMPLETED'), lastRead]],
  ['acceptedJobsAreKept', /no job was ever/, []],
  ['noCoreLeaks', undefined, [accepted('e', true, everything), seen('COMPLETED', { job: 'e' })]],
  ['noCoreLeaks', /is RUNNING at the end/, [accepted('e', true, everything), seen('RUNNING', { job: 'e' })]],
  ['everyJobEnds', undefined, [accepted(), seen('COMPLETED', { requestedMs: 90_000 })]],
  ['everyJobEnds', undefined, [accepted(), seen('QUEUED', { requestedMs: 90_000 }), seen('COMPLETED')]],
  ['everyJobEnds', /still QUEUED/, [accepted(), healed, seen('QUEUED', { requestedMs: 15_001 })]],
  ['everyJobEnds', /no job was ever completed/, [accepted(), healed, seen('QUEUED', { requestedMs: 14_000 })]],
  ['oneJobPerKey', undefined, [submitted(), accepted(), accepted('j', false), started()]],
  ['oneJobPerKey', /p is j and k/, [submitted(), accepted(), accepted('k')]],
  ['oneJobPerKey', /p is j and k/, [submitted(), accepted(), started({ job: 'k' })]],
  ['oneJobPerKey', /twice as a new job/, [submitted(), accepted(), accepted()]],
  ['oneJobPerKey', /accepted for a different request/, [{ kind: 'keyReused', plan }]],
  [
    'finalStatesAreStable',
    undefined,
    [seen('RUNNING'), seen('COMPLETED'), seen('COMPLETED'), result(0, 1), result(0, 1)],
  ],
  ['finalStatesAreStable', /was COMPLETED .* and is FAILED/, [seen('COMPLETED'), seen('FAILED')]],
  [
    'finalStatesAreStable',
    /is RUNNING again/,
    [seen('COMPLETED', { requestedMs: 1 }), seen('RUNNING', { requestedMs: 2 })],
  ],
  [
    'finalStatesAreStable',
    /2 completed.* and is .* 3 completed/,
    [seen('COMPLETED'), seen('COMPLETED', { totals: { completed: 3, failed: 0 } })],
  ],
  ['finalStatesAreStable', /j was .* and is/, [result(0, 1), result(1, 0)]],
  ['failuresHaveReasons', undefined, [submitted(), accepted(), cancel, seen('CANCELLED')]],
  ['failuresHaveReasons', /no client cancelled/, [submitted(), accepted(), seen('CANCELLED')]],
  ['failuresHaveReasons', undefined, [submitted(), accepted(), 5_000, seen('TIMEOUT')]],
  ['failuresHaveReasons', /it had time left/, [submitted(), accepted(), 3_000, seen('TIMEOUT')]],
  ['failuresHaveReasons', /its code is poison/, [submitted(poison), accepted('j', true, poison), seen('COMPLETED')]],
  [
    'failuresHaveReasons',
    /does not fail/,
    [submitted(), accepted(), seen('FAILED', { code: 'WORKFLOW_FAILED', attempts: [] })],
  ],
  ['failuresHaveReasons', undefined, [submitted(), accepted(), assigned(), 4_000, seen('TIMEOUT')]],
  [
    'failuresHaveReasons',
    /had attempts left/,
    [submitted(), accepted(), seen('FAILED', { code: 'RETRIES_EXHAUSTED', attempts: [[attempt(1, 'lost')]] })],
  ],
  [
    'failuresHaveReasons',
    undefined,
    [
      ...[submitted(), accepted()],
      seen('FAILED', { code: 'RETRIES_EXHAUSTED', attempts: [[attempt(1, 'lost'), attempt(2, 'failed')]] }),
    ],
  ],
  ['failuresHaveReasons', /has no error code/, [submitted(), accepted(), seen('FAILED', { attempts: [] })]],
  ['failuresHaveReasons', /refused with FORBIDDEN/, [submitted(), refused]],
  ['healthyJobsComplete', undefined, [accepted(), seen('COMPLETED')]],
  ['healthyJobsComplete', /is TIMEOUT without/, [accepted(), seen('TIMEOUT')]],
  ['healthyJobsComplete', /no job was completed/, [accepted()]],
  ['oneRunAtATime', undefined, [started(), acted(), started({ run: 2, node: 'n5' }), acted({ msSinceResume: 3 })]],
  ['oneRunAtATime', /while run 1 on n4 continues/, [started({ run: 2, also: 'run 1 on n4' })]],
  ['oneRunAtATime', /run 1 of .* acts on n4, but run 2/, [started(), started({ run: 2, node: 'n5' }), acted()]],
  [
    'attemptsAreFenced',
    undefined,
    [assigned(), assigned(), started(), assigned({ attempt: 2, fence: 6n, node: 'n5' })],
  ],
  ['attemptsAreFenced', /which it was not assigned to/, [started({ attempt: 0 })]],
  ['attemptsAreFenced', /runs again/, [assigned(), started(), started({ run: 2 })]],
  ['attemptsAreFenced', /assigned to n4 under 5 and to n5 under 5/, [assigned(), assigned({ node: 'n5' })]],
  ['attemptsAreFenced', /attempt 1 has fence 5, attempt 2 has 5/, [assigned(), assigned({ attempt: 2 })]],
  ['specsAreStable', undefined, [started(), started({ run: 2, attempt: 2 })]],
  ['specsAreStable', /got another unit spec/, [started(), started({ run: 2, hash: 'x' })]],
  ['specsAreStable', /no code/, [{ kind: 'unitInconsistent', ...here, message: 'no code' }]],
  ['coresAreNotOversubscribed', undefined, [started({ together: 2 }), coresRead(2)]],
  ['coresAreNotOversubscribed', /runs 3 units on 2 cores/, [started({ together: 3 })]],
  ['coresAreNotOversubscribed', /has 1 of 2 cores free/, [coresRead(1)]],
  ['coresAreNotOversubscribed', /no cores were read/, [started()]],
  ['inactiveWorkersGetNothing', undefined, [sent()]],
  ['inactiveWorkersGetNothing', /although it is drained/, [sent('drained')]],
  ['retriesAreBounded', undefined, [submitted(), started(), started(), returned, started()]],
  ['retriesAreBounded', /started 3 times, but only 2/, [submitted(), started(), started(), started()]],
  [
    'cancelledUnitsStop',
    undefined,
    [cancelAcknowledged, 90, acted(), 200, acted({ msSinceResume: 1 }), acted({ job: 'other' })],
  ],
  ['cancelledUnitsStop', /its job is cancelled/, [cancelAcknowledged, 101, acted()]],
  ['cancelledUnitsStop', /its job is cancelled/, [seen('CANCELLED'), 1, acted()]],
  ['startTimesAreKept', undefined, [submitted({ ...plan, startAfterMs: 9 }), 9, started()]],
  ['startTimesAreKept', /starts at 8, its start time is 9/, [submitted({ ...plan, startAfterMs: 9 }), 8, started()]],
  ['totalsAreExact', undefined, [accepted(), assigned(), ended(), seen('COMPLETED')]],
  [
    'totalsAreExact',
    undefined,
    [accepted(), assigned(), assigned({ attempt: 2 }), ended({ attempt: 2 }), seen('COMPLETED')],
  ],
  [
    'totalsAreExact',
    /counts 2\/0, its units 3\/0/,
    [accepted(), assigned(), ended({ completed: 3 }), seen('COMPLETED')],
  ],
  ['totalsAreExact', /its attempt 2 has not ended/, [accepted(), assigned({ attempt: 2 }), ended(), seen('COMPLETED')]],
  [
    'totalsAreExact',
    /its attempt 1 is failed/,
    [accepted(), assigned(), ended({ outcome: 'failed' }), seen('COMPLETED')],
  ],
  [
    'totalsAreExact',
    /attempt 1 counts although there was attempt 2/,
    [accepted(), seen('COMPLETED', { attempts: [[attempt(1, 'completed'), attempt(2, 'lost')]] })],
  ],
  ['batchOutcomesAreCorrect', undefined, [accepted(), seen('COMPLETED')]],
  ['batchOutcomesAreCorrect', undefined, [accepted('j', true, tolerant), seen('PARTIAL', counts(1, 1))]],
  ['batchOutcomesAreCorrect', /counts 2 and 1 of 2 items/, [accepted(), seen('RUNNING', counts(2, 1))]],
  ['batchOutcomesAreCorrect', /is COMPLETED with 1 and 0 of 2 items/, [accepted(), seen('COMPLETED', counts(1, 0))]],
  ['batchOutcomesAreCorrect', /not FAILED/, [accepted(), seen('COMPLETED', counts(1, 1))]],
  ['batchOutcomesAreCorrect', /not FAILED/, [accepted('j', true, tolerant), seen('PARTIAL', counts(0, 2))]],
  ['batchOutcomesAreCorrect', /no batch has ended/, [accepted(), seen('RUNNING')]],
  ['resultsAreComplete', undefined, [accepted(), seen('COMPLETED'), result(0, 1)]],
  ['resultsAreComplete', /has 1 results of all, not 2/, [accepted(), seen('COMPLETED'), result(0)]],
  ['resultsAreComplete', /result 0 of all is/, [accepted(), seen('COMPLETED'), result(1, 0)]],
  ['resultsAreComplete', /no result was ever/, [accepted(), seen('COMPLETED')]],
];

describe('a property of jobs', () => {
  for (const [name, wrong, steps] of cases) {
    it(`${name} ${wrong === undefined ? 'accepts a correct history' : `reports ${wrong.source}`}`, () => {
      const message = violationOf(name, steps);
      if (wrong === undefined) assert.equal(message, undefined);
      else assert.match(message ?? 'nothing', wrong);
    });
  }

  it('is shown a violation', () => {
    const failing = new Set(cases.filter(([, wrong]) => wrong !== undefined).map(([name]) => name));
    assert.deepEqual([...failing].toSorted(), Object.keys(properties).toSorted());
  });
});
