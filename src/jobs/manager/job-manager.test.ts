import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobOutcome } from '../job-types.ts';
import { ManagerTestCluster, bundle } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../test/support/jobs/workflow-facts.ts';

test('a small job is recorded, assigned, completed and shown', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(view.totals, { completed: 100, failed: 0 });
  assert.deepEqual(
    view.workflows.map(({ name, status, attempts }) => [name, status, attempts.map(({ outcome }) => outcome)]),
    [['one', 'COMPLETED', ['completed']]],
  );
  assert.equal(cluster.get('w1').runs.size, 0);
});

test('a submission can wait for the end of its job, at most for the requested time', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const args = { bundle, workflows: [loadTestFacts('one')], idempotencyKey: 'k' };
  const ended = cluster.command<JobOutcome>('submit', args, 'ann', 20_000);
  assert.equal(ended.ok && ended.value.status, 'COMPLETED');
  assert.deepEqual(cluster.command('submit', args, 'ann', 20_000), ended, 'an equal submission gets the same reply');

  cluster.get('w1').behave = () => 'hold';
  const late = cluster.command<JobOutcome>('submit', { bundle, workflows: [loadTestFacts('one')] }, 'ann', 2_000);
  assert.equal(late.ok && late.value.status, 'RUNNING');
  assert.equal(late.ok && cluster.show(late.value.jobId).status, 'RUNNING', 'the job is recorded and goes on');
});

test('a batch is split into units, and its results are joined in order', () => {
  const cluster = ManagerTestCluster.start({ w1: 2, w2: 2 });
  for (const worker of cluster.workers.values())
    worker.behave = (spec) => {
      const { from = 0, count = 0 } = spec.items ?? {};
      const list = Array.from({ length: count }, (_, index) => from + index);
      return { afterMs: 20, report: { completed: count, output: new TextEncoder().encode(JSON.stringify(list)) } };
    };
  const jobId = cluster.submit({ workflows: [batchTestFacts('sum', { cores: 4 })] });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(view.totals.completed, 100);
  const { results } = cluster.commandOk<{ results: { sum: number[] } }>('result', { jobId });
  assert.deepEqual(
    results.sum,
    Array.from({ length: 100 }, (_, index) => index),
  );
});

test('another worker retries the unit of a dead worker with the same spec', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
  const held = () => [...cluster.workers.values()].find((worker) => worker.runs.size > 0);
  for (const worker of cluster.workers.values()) worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.until(() => held() !== undefined, 'it runs');
  const first = held();
  assert.ok(first !== undefined);
  first.kill();
  cluster.host('m1').processGone(first.identity.id, first.identity.generation);
  cluster.until(() => held() !== undefined, 'another worker runs it');
  const second = held();
  assert.ok(second !== undefined && second !== first);
  assert.deepEqual(second.started[0]?.bytes, first.started[0]?.bytes);
  assert.equal(second.started[0]?.id.attempt, 2);
  second.end(second.started[0].id, { completed: 100 });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(view.totals.completed, 100);
  assert.deepEqual(
    view.workflows[0]?.attempts.map(({ outcome }) => outcome),
    ['lost', 'completed'],
  );
});

test('a new leader adopts a running attempt and counts its end', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.get('w1').behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.until(() => cluster.get('w1').runs.size === 1, 'it runs');
  cluster.elect('m2');
  cluster.run(3_000);
  const [run] = cluster.get('w1').started;
  assert.ok(run !== undefined && cluster.get('w1').runs.size === 1);
  cluster.get('w1').end(run.id, { completed: 100 });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(view.workflows[0]?.attempts.length, 1);
  assert.equal(cluster.get('w1').started.length, 1);
});

test('a cancelled job stops its running units', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  cluster.get('w1').behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { cores: 2 })] });
  cluster.until(() => cluster.get('w1').runs.size === 2, 'it runs');
  const answer = cluster.commandOk<{ status: string }>('cancel', { jobId });
  assert.equal(answer.status, 'CANCELLING');
  cluster.untilStatus(jobId, 'CANCELLED');
  assert.equal(cluster.get('w1').runs.size, 0);
});

test('a job that exceeds its timeout ends with TIMEOUT', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  cluster.get('w1').behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')], timeoutMs: 5_000 });
  cluster.untilStatus(jobId, 'TIMEOUT');
  cluster.until(() => cluster.get('w1').runs.size === 0, 'it stopped');
});
