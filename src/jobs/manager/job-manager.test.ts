import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobOutcome } from '../job-types.ts';
import { FakeManagerCluster, bundle } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../test/support/jobs/workflow-facts.ts';

test('a small job is recorded, given, done and shown', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(shown.totals, { completed: 100, failed: 0 });
  assert.deepEqual(
    shown.workflows.map(({ name, status, attempts }) => [name, status, attempts.map(({ outcome }) => outcome)]),
    [['one', 'COMPLETED', ['completed']]],
  );
  assert.equal(world.get('w1').runs.size, 0);
});

test('a submission may wait for the end, but not longer than it says', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const words = { bundle, workflows: [loadTestFacts('one')], idempotencyKey: 'k' };
  const ended = world.order<JobOutcome>('submit', words, 'ann', 20_000);
  assert.equal(ended.ok && ended.value.status, 'COMPLETED');
  assert.deepEqual(world.order('submit', words, 'ann', 20_000), ended, 'the same again: the same end');

  world.get('w1').behave = () => 'hold';
  const late = world.order<JobOutcome>('submit', { bundle, workflows: [loadTestFacts('one')] }, 'ann', 2_000);
  assert.equal(late.ok && late.value.status, 'RUNNING');
  assert.equal(late.ok && world.show(late.value.jobId).status, 'RUNNING', 'it was recorded and goes on');
});

test('a batch is cut into units and its results are put together in order', () => {
  const world = FakeManagerCluster.start({ w1: 2, w2: 2 });
  for (const worker of world.workers.values())
    worker.behave = (order) => {
      const { from = 0, count = 0 } = order.items ?? {};
      const list = Array.from({ length: count }, (_, index) => from + index);
      return { afterMs: 20, news: { completed: count, output: new TextEncoder().encode(JSON.stringify(list)) } };
    };
  const jobId = world.submit({ workflows: [batchTestFacts('sum', { cores: 4 })] });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.equal(shown.totals.completed, 100);
  const { results } = world.must<{ results: { sum: number[] } }>('result', { jobId });
  assert.deepEqual(
    results.sum,
    Array.from({ length: 100 }, (_, index) => index),
  );
});

test('a worker that dies loses its unit to another one, with the same bytes', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
  const held = () => [...world.workers.values()].find((worker) => worker.runs.size > 0);
  for (const worker of world.workers.values()) worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  world.until(() => held() !== undefined, 'it runs');
  const first = held();
  assert.ok(first !== undefined);
  first.kill();
  world.host('m1').processGone(first.identity.id, first.identity.generation);
  world.until(() => held() !== undefined, 'it runs elsewhere');
  const second = held();
  assert.ok(second !== undefined && second !== first);
  assert.deepEqual(second.began[0]?.bytes, first.began[0]?.bytes);
  assert.equal(second.began[0]?.name.attempt, 2);
  second.end(second.began[0].name, { completed: 100 });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.equal(shown.totals.completed, 100);
  assert.deepEqual(
    shown.workflows[0]?.attempts.map(({ outcome }) => outcome),
    ['lost', 'completed'],
  );
});

test('a new leader adopts what runs and counts its end', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  world.get('w1').behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  world.until(() => world.get('w1').runs.size === 1, 'it runs');
  world.elect('m2');
  world.run(3_000);
  const [run] = world.get('w1').began;
  assert.ok(run !== undefined && world.get('w1').runs.size === 1);
  world.get('w1').end(run.name, { completed: 100 });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.equal(shown.workflows[0]?.attempts.length, 1);
  assert.equal(world.get('w1').began.length, 1);
});

test('cancelling ends what runs', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  world.get('w1').behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one', { cores: 2 })] });
  world.until(() => world.get('w1').runs.size === 2, 'it runs');
  const answer = world.must<{ status: string }>('cancel', { jobId });
  assert.equal(answer.status, 'CANCELLING');
  world.untilStatus(jobId, 'CANCELLED');
  assert.equal(world.get('w1').runs.size, 0);
});

test('a job that takes too long ends with TIMEOUT', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  world.get('w1').behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')], timeoutMs: 5_000 });
  world.untilStatus(jobId, 'TIMEOUT');
  world.until(() => world.get('w1').runs.size === 0, 'it stopped');
});
