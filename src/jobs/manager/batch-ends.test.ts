/**
 * Failed items at the manager: how a batch ends, what is counted and listed, across lost workers and leader changes.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManagerTestCluster } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts } from '../../../test/support/jobs/workflow-facts.ts';
import { type FakeUnitOutcome, type FakeWorkerBehaviour, itemCountInSpec } from '../../../test/fakes/fake-worker.ts';
import { onlyKey } from '../../base/registry.ts';
import type { AttemptId, UnitReport } from '../../messages/jobs.ts';
import { jobKeys } from '../job-keys.ts';
import { decodeJobState, decodeUnitBlock } from '../records/job-record.ts';
import { encodeFailures } from '../report/item-failures.ts';
import type { WorkflowFailures } from '../report/report-failures.ts';
import { Summary } from '../report/summary.ts';
import { encodeSummary } from '../report/summary-codec.ts';
import type { UnitSpec } from '../unit-spec.ts';

const json = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

/** The outcome of a unit in which the items with `isBad` fail. */
function unitOutcome(spec: UnitSpec, isBad: (index: number) => boolean, message = 'bad'): FakeUnitOutcome {
  const from = spec.items?.from ?? 0;
  const indexes = Array.from({ length: itemCountInSpec(spec) }, (_, at) => from + at);
  const bad = indexes.filter(isBad);
  const summary = new Summary();
  summary.iterations = indexes.length;
  summary.failed = bad.length;
  for (const index of bad) summary.error('each', `Error: ${message} ${index % 2}`, () => 'a.ts:1');
  const items = bad
    .slice(0, 1_000)
    .map((index) => ({ index, error: { name: 'Error', message: `${message} ${index % 2}` } }));
  const failures = encodeFailures({ runs: bad.map((index) => ({ from: index, count: 1 })), items });
  return {
    afterMs: 50,
    report: {
      ...{ completed: indexes.length - bad.length, failed: bad.length, summary: encodeSummary(summary) },
      output: json(indexes.map((index) => (isBad(index) ? null : index * 10))),
      ...(bad.length === 0 ? {} : { failures }),
    },
  };
}

function emptyReport({ job, workflow, unit, attempt, fence }: AttemptId): UnitReport {
  return {
    ...{ job, workflow, unit, attempt, fence, status: 'completed', completed: 0, failed: 0, summary: undefined },
    ...{ output: undefined, code: undefined, message: undefined, found: undefined, durationMs: 5, failures: undefined },
  };
}

function startCluster(
  behave: FakeWorkerBehaviour,
  workers: Readonly<Record<string, number>> = { w1: 2 },
): ManagerTestCluster {
  const cluster = ManagerTestCluster.start(workers);
  for (const worker of cluster.workers.values()) worker.behave = behave;
  return cluster;
}

const facts = (more: Parameters<typeof batchTestFacts>[2] = {}, others: Parameters<typeof batchTestFacts>[1] = {}) =>
  batchTestFacts('one', { cores: 2, ...others }, { items: 20, unitItemsMax: 5, ...more });
const isOdd = (index: number): boolean => index % 2 === 1;

test('a batch with failed items is FAILED with their number, and its dependents are cancelled', () => {
  const cluster = startCluster((spec) => unitOutcome(spec, isOdd));
  const after = batchTestFacts('two', { after: ['one'] }, { items: 1 });
  const view = cluster.untilStatus(cluster.submit({ workflows: [facts(), after] }), 'FAILED');
  assert.deepEqual(view.totals, { completed: 10, failed: 10 });
  assert.deepEqual(
    view.workflows.map(({ status }) => status),
    ['FAILED', 'CANCELLED'],
  );
  assert.deepEqual(view.error, {
    code: 'WORKFLOW_FAILED',
    message: 'one: 10 of 20 items failed, one with Error: bad 1',
  });
});

test('a batch with tolerated failures is PARTIAL, and its dependents get its results', () => {
  const contexts: string[] = [];
  const cluster = startCluster((spec) => {
    contexts.push(spec.context);
    return unitOutcome(spec, (index) => spec.workflow === 0 && isOdd(index));
  });
  const after = batchTestFacts('two', { after: ['one'] }, { items: 1 });
  for (const tolerant of [{ onItemError: 'continue' }, { maxFailures: 10 }] as const) {
    const view = cluster.untilStatus(cluster.submit({ workflows: [facts(tolerant), after] }), 'PARTIAL');
    assert.deepEqual(
      view.workflows.map(({ status }) => status),
      ['PARTIAL', 'COMPLETED'],
    );
    assert.equal(view.error?.code, 'PARTIAL');
    const { one } = JSON.parse(contexts.at(-1) ?? '') as { one: unknown[] };
    assert.deepEqual(one.slice(0, 4), [0, null, 20, null]);
  }
});

test('results contain failed items at their index or one by one; failures are counted by message', () => {
  const cluster = startCluster((spec) => unitOutcome(spec, (index) => index < 3 || index === 19));
  const jobId = cluster.submit({ workflows: [facts({ onItemError: 'continue' })] });
  cluster.untilStatus(jobId, 'PARTIAL');
  const { one } = cluster.commandOk<{ results: { one: unknown[] } }>('result', { jobId }).results;
  assert.equal(one.length, 20);
  assert.deepEqual(one[0], { index: 0, error: { name: 'Error', message: 'bad 0' } });
  assert.deepEqual([one[3], one[18]], [30, 180]);
  const items = cluster.commandOk<{ results: { one: unknown[] } }>('result', { jobId, oneByOne: true }).results.one;
  assert.equal(items.length, 20);
  assert.deepEqual(items[3], { index: 3, value: 30 });
  assert.deepEqual(items[19], { index: 19, error: { name: 'Error', message: 'bad 1' } });
  const [list] = cluster.commandOk<{ failures: WorkflowFailures[] }>('failures', { jobId }).failures;
  assert.deepEqual(
    list?.items.map(({ index }) => index),
    [0, 1, 2, 19],
  );
  assert.deepEqual([list?.count, list?.other], [4, 0]);
  assert.deepEqual(list?.messages, [
    { message: 'Error: bad 0', at: 'a.ts:1', count: 2 },
    { message: 'Error: bad 1', at: 'a.ts:1', count: 2 },
  ]);
  const report = cluster.commandOk<{ failures: unknown; totals: unknown }>('report', { jobId });
  assert.deepEqual(report.failures, [list]);
});

test('an item that never ran is NotRun in the results, a failed one that is not listed is NotListed', () => {
  const cluster = startCluster((spec) => (spec.unit === 0 ? unitOutcome(spec, () => false) : 'hold'));
  const jobId = cluster.submit({ workflows: [facts({ items: 10 })] });
  cluster.until(() => cluster.show(jobId).workflows[0]?.units.done === 1, 'one unit is done');
  cluster.commandOk('cancel', { jobId });
  cluster.untilStatus(jobId, 'CANCELLED');
  const { one } = cluster.commandOk<{ results: { one: unknown[] } }>('result', { jobId }).results;
  const notRun = { name: 'NotRun', message: 'it did not run: the batch ended before' };
  assert.deepEqual(
    [one.length, one[4], one[5], one[9]],
    [10, 40, { index: 5, error: notRun }, { index: 9, error: notRun }],
  );
  const many = startCluster((spec) => unitOutcome(spec, () => true));
  const second = many.submit({ workflows: [facts({ items: 1_010, unitItemsMax: 1_010 }, { cores: 1 })] });
  many.untilStatus(second, 'FAILED');
  const all = many.commandOk<{ results: { one: unknown[] } }>('result', { jobId: second }).results.one;
  const notListed = { name: 'NotListed', message: 'it failed; a batch lists the errors of at most 1000 failed items' };
  assert.deepEqual(all[1_009], { index: 1_009, error: notListed });
});

test('the results of a search are the found item and the failed items, with their indexes', () => {
  const cluster = startCluster((spec) => {
    const end = unitOutcome(spec, (index) => index === 1);
    if (end === 'hold') return end;
    const found = json({ index: 3, value: { password: 'x' } });
    return { ...end, report: { ...end.report, found: true, output: found } };
  });
  const jobId = cluster.submit({ workflows: [facts({ items: 5, firstOnly: true }, { cores: 1 })] });
  cluster.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(cluster.commandOk('result', { jobId }), { results: { one: { password: 'x' } } });
  assert.deepEqual(cluster.commandOk<{ results: { one: unknown } }>('result', { jobId, oneByOne: true }).results.one, [
    { index: 1, error: { name: 'Error', message: 'bad 1' } },
    { index: 3, value: { password: 'x' } },
  ]);
});

test('a workflow keeps at most 1,000 failures, also out of line and across a leader change', () => {
  const cluster = startCluster((spec) => unitOutcome(spec, () => true));
  const jobId = cluster.submit({ workflows: [facts({ items: 3_000, unitItemsMax: 600 })] });
  const view = cluster.untilStatus(jobId, 'FAILED');
  assert.deepEqual(view.totals, { completed: 0, failed: 3_000 });
  cluster.elect('m2');
  const [list] = cluster.commandOk<{ failures: WorkflowFailures[] }>('failures', { jobId }).failures;
  assert.deepEqual([list?.count, list?.items.length], [3_000, 1_000]);
  const { one } = cluster.commandOk<{ results: { one: { index: number }[] } }>('result', { jobId }).results;
  assert.ok(
    one.every(({ index }, place) => index === place),
    'every failed item is in the results, listed or not',
  );
});

test("onItemError 'stop' ends all other units with the first failed item, also after a leader change", () => {
  const cluster = startCluster((spec) => (spec.unit === 0 ? unitOutcome(spec, (index) => index === 1) : 'hold'));
  const jobId = cluster.submit({ workflows: [facts({ onItemError: 'stop' })] });
  const view = cluster.untilStatus(jobId, 'FAILED');
  assert.match(view.error?.message ?? '', /one: stopped after the first failed item, one with Error: bad 1/);
  cluster.until(() => cluster.get('w1').runs.size === 0, 'the other units are stopped');
  assert.equal(cluster.get('w1').started.length, 2, 'four units, two cores: two never started');
  assert.deepEqual(view.totals, { completed: 4, failed: 1 });
  cluster.elect('m2');
  cluster.run(1_000);
  assert.deepEqual([cluster.show(jobId).status, cluster.get('w1').started.length], ['FAILED', 2]);
});

test("onItemError 'stop' with millions of unstarted items has no result list, but results one by one", () => {
  const cluster = startCluster((spec) => (spec.unit === 0 ? unitOutcome(spec, (index) => index === 1) : 'hold'));
  const jobId = cluster.submit({ workflows: [facts({ items: 3_000_000, unitItemsMax: 1_000, onItemError: 'stop' })] });
  cluster.untilStatus(jobId, 'FAILED');
  assert.deepEqual(cluster.commandOk<{ results: object }>('result', { jobId }).results, {});
  const { results } = cluster.commandOk<{ results: { one: unknown[] } }>('result', { jobId, oneByOne: true });
  assert.deepEqual(results.one.slice(0, 2), [
    { index: 0, value: 0 },
    { index: 1, error: { name: 'Error', message: 'bad 1' } },
  ]);
});

test("onItemError 'stop' ends the batch under a leader that finds only the failed item recorded", () => {
  const cluster = startCluster(() => 'hold', { w1: 1_000 });
  const worker = cluster.get('w1');
  const one = facts({ items: 2_000, unitItemsMax: 1, onItemError: 'stop' }, { cores: 1_000 });
  const jobId = cluster.submit({ workflows: [one] });
  cluster.until(() => worker.runs.size === 1_000, 'every core runs a unit');
  // Large enough that the units go into one commit and the state of the job into the next.
  const output = json('x'.repeat(900));
  const failures = encodeFailures({ runs: [], items: [{ index: 0, error: { name: 'Error', message: 'bad' } }] });
  for (const [key, { id }] of worker.runs) {
    const isBad = id.unit === 0;
    const more = isBad ? { completed: 0, failed: 1, failures } : { completed: 1, output, summary: output };
    worker.runs.delete(key);
    worker.ends.set(key, { ...emptyReport(id), ...more });
  }
  worker.sendReports();
  const isFailureRecorded = (): boolean => {
    const { value } = cluster.registry.keyspace.range(onlyKey(jobKeys.unitBlock(jobId, 0, 0)), 1).entries[0] ?? {};
    return value !== undefined && decodeUnitBlock(value)?.[0]?.end?.failed === 1;
  };
  cluster.until(isFailureRecorded, 'the end of the first unit is recorded');
  cluster.managers.get('m1')?.registry.interrupt();
  const stored = cluster.registry.keyspace.range(onlyKey(jobKeys.state(jobId)), 1).entries[0]?.value;
  assert.equal(stored && decodeJobState(stored)?.workflows[0]?.code, undefined, 'the failure is not recorded yet');
  cluster.elect('m2');
  const view = cluster.untilStatus(jobId, 'FAILED');
  assert.match(view.error?.message ?? '', /stopped after the first failed item/);
  assert.equal(worker.started.length, 1_000, 'no further unit started');
});

test('failed items of a lost attempt do not count', () => {
  const cluster = startCluster(
    (spec, _worker, { attempt }) => (attempt === 1 ? 'hold' : unitOutcome(spec, () => false)),
    {
      w1: 1,
      w2: 1,
    },
  );
  const jobId = cluster.submit({ workflows: [facts({ items: 4 }, { cores: 1, maxRetries: 1 })] });
  cluster.until(() => [...cluster.workers.values()].some(({ runs }) => runs.size === 1), 'it runs');
  const first = [...cluster.workers.values()].find(({ runs }) => runs.size === 1) ?? assert.fail();
  const { id } = first.started[0] ?? assert.fail();
  first.progress(id, 1, 2);
  cluster.until(() => cluster.show(jobId).totals.failed === 2, 'its progress is known');
  assert.deepEqual(cluster.show(jobId).totals, { completed: 1, failed: 2 });
  first.kill();
  cluster.host('m1').processGone(first.identity.id, first.identity.generation);
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(view.totals, { completed: 4, failed: 0 });
});

test('the next leader decides the end from recorded results', () => {
  const cluster = startCluster((spec) => (spec.unit === 0 ? unitOutcome(spec, isOdd) : 'hold'));
  const jobId = cluster.submit({ workflows: [facts({ items: 10, onItemError: 'continue' })] });
  cluster.until(() => cluster.show(jobId).workflows[0]?.units.done === 1, 'one unit is done');
  cluster.elect('m2');
  cluster.run(500);
  const worker = cluster.get('w1');
  for (const { id } of worker.runs.values()) worker.end(id, { completed: 5 });
  const view = cluster.untilStatus(jobId, 'PARTIAL');
  assert.deepEqual(view.totals, { completed: 8, failed: 2 });
  assert.equal(view.error?.message, 'one: 2 of 10 items failed');
});

test('invalid failure options are rejected', () => {
  const cluster = ManagerTestCluster.start({});
  for (const wrong of [{ onItemError: 'ignore' as never }, { maxFailures: -1 }, { maxFailures: 0.5 }])
    assert.throws(() => cluster.submit({ workflows: [facts(wrong)] }), JSON.stringify(wrong));
});
