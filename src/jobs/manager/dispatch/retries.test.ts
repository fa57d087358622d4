import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManagerTestCluster, leaseMs } from '../../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../../test/support/jobs/workflow-facts.ts';
import type { FakeWorker } from '../../../../test/fakes/fake-worker.ts';

function allWorkers(cluster: ManagerTestCluster): FakeWorker[] {
  return [...cluster.workers.values()];
}

function holder(cluster: ManagerTestCluster): FakeWorker | undefined {
  return allWorkers(cluster).find((worker) => worker.alive && worker.runs.size > 0);
}

function untilHeld(cluster: ManagerTestCluster): FakeWorker {
  cluster.until(() => holder(cluster) !== undefined, 'a worker runs it');
  return holder(cluster) as FakeWorker;
}

test('a unit that kills its workers fails after maxRetries + 1 attempts and kills no further worker', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1, w3: 1, w4: 1, w5: 1 });
  for (const worker of allWorkers(cluster)) worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('poison', { maxRetries: 2 })] });
  for (let i = 0; i < 3; i++) {
    const worker = untilHeld(cluster);
    cluster.run(200);
    worker.kill();
    cluster.host('m1').processGone(worker.identity.id, 1);
  }
  const view = cluster.untilStatus(jobId, 'FAILED');
  assert.equal(view.workflows[0]?.error?.code, 'RETRIES_EXHAUSTED');
  assert.equal(allWorkers(cluster).filter(({ alive }) => alive).length, 2);
  assert.equal(new Set(view.workflows[0]?.attempts.map(({ worker }) => worker)).size, 3);
  const { incidents } = cluster.watch(jobId);
  assert.deepEqual(
    incidents.map(({ type }) => type),
    ['worker.lost', 'worker.lost', 'worker.lost'],
  );
  assert.match(
    incidents[0]?.effect ?? '',
    /unit 0 of poison is retried on another worker; 0 iterations of the lost attempt do not count/,
  );
  assert.match(incidents[2]?.effect ?? '', /is not retried/);
});

test('a unit whose runner was killed is retried on another worker', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
  for (const worker of allWorkers(cluster)) worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  const first = untilHeld(cluster);
  const [started] = first.started;
  assert.ok(started !== undefined);
  first.progress(started.id, 50);
  first.end(started.id, { status: 'failed', code: 'RUNNER_KILLED', message: 'memory' });
  cluster.until(() => holder(cluster) !== undefined && holder(cluster) !== first, 'another worker runs it');
  const second = untilHeld(cluster);
  second.end(second.started[0]?.id as never, { completed: 100 });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(view.totals, { completed: 100, failed: 0 });
  assert.deepEqual(
    view.workflows[0]?.attempts.map(({ outcome }) => outcome),
    ['failed', 'completed'],
  );
});

test('a unit that the only worker failed waits for another worker and explains it', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.get('w1').behave = () => ({ afterMs: 10, report: { status: 'failed', code: 'RUNNER_KILLED' } });
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.run(5_000);
  assert.equal(cluster.get('w1').started.length, 1);
  const { lines } = cluster.commandOk<{ lines: string[] }>('explain', { jobId });
  assert.ok(
    lines.some((line) => line.includes('w1: not eligible: it failed this unit before')),
    lines.join('\n'),
  );
  cluster.worker('w2', 1);
  cluster.untilStatus(jobId, 'COMPLETED');
});

test('a lost worker fails a workflow with maxRetries 0', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
  for (const worker of allWorkers(cluster)) worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
  const worker = untilHeld(cluster);
  worker.kill();
  cluster.host('m1').processGone(worker.identity.id, 1);
  const view = cluster.untilStatus(jobId, 'FAILED');
  assert.equal(view.workflows[0]?.attempts.length, 1);
  assert.equal(view.workflows[0].error?.code, 'RUNNER_KILLED');
});

test('with maxRetries 0 a returned unit is retried only if it had not started', () => {
  for (const [durationMs, status] of [
    [5, 'FAILED'],
    [undefined, 'RUNNING'],
  ] as const) {
    const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
    for (const worker of allWorkers(cluster)) worker.behave = () => 'hold';
    const jobId = cluster.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
    const worker = untilHeld(cluster);
    worker.end(worker.started[0]?.id as never, { status: 'returned', durationMs });
    cluster.run(2_000);
    assert.equal(cluster.show(jobId).status, status);
  }
});

test('the unit of a silent worker is not reassigned before its lease has surely expired', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
  for (const worker of allWorkers(cluster)) worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  const first = untilHeld(cluster);
  const [started] = first.started;
  first.isolated = true;
  first.state = 'dead';
  const other = allWorkers(cluster).find((worker) => worker !== first) as FakeWorker;
  cluster.until(() => other.started.length > 0, 'it is retried');
  assert.equal(first.runs.size, 0, 'the first worker has stopped it before');
  cluster.run(leaseMs);
  // A late end of the first attempt arrives and does not count.
  first.isolated = false;
  first.ends.clear();
  first.sendReports([{ ...(started?.id as object), status: 'completed', completed: 77, failed: 0 } as never]);
  cluster.run(1_000);
  assert.equal(cluster.show(jobId).totals.completed, 0);
  other.end(other.started[0]?.id as never, { completed: 100 });
  assert.equal(cluster.untilStatus(jobId, 'COMPLETED').totals.completed, 100);
});

test('only progress of the current attempt counts, in any order and any number of times', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
  for (const worker of allWorkers(cluster)) worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  const first = untilHeld(cluster);
  const old = first.started[0]?.id as never;
  first.progress(old, 60);
  first.progress(old, 40);
  first.progress(old, 60);
  cluster.run(50);
  assert.equal(cluster.show(jobId).totals.completed, 60);
  first.end(old, { status: 'failed', code: 'RUNNER_KILLED' });
  cluster.until(() => holder(cluster) !== undefined && holder(cluster) !== first, 'another worker runs it');
  const second = untilHeld(cluster);
  assert.equal(cluster.show(jobId).totals.completed, 0);
  first.progress(old, 90);
  // Another worker reports the id of the current attempt.
  first.progress(second.started[0]?.id as never, 95);
  second.progress(second.started[0]?.id as never, 10);
  cluster.run(50);
  assert.equal(cluster.show(jobId).totals.completed, 10);
  second.end(second.started[0]?.id as never, { completed: 100, failed: 3 });
  second.sendReports([
    { ...(second.started[0]?.id as object), status: 'completed', completed: 500, failed: 0 } as never,
  ]);
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  second.progress(second.started[0]?.id as never, 700);
  cluster.run(1_000);
  assert.deepEqual(cluster.show(jobId), view);
  assert.deepEqual(view.totals, { completed: 100, failed: 3 });
});

test('a refused unit costs no attempt', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
  cluster.get('w1').refuse = 'CAPACITY';
  cluster.get('w2').refuse = 'CAPACITY';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
  cluster.run(3_000);
  assert.equal(
    allWorkers(cluster).reduce((sum, { started }) => sum + started.length, 0),
    0,
  );
  cluster.get('w1').refuse = 'DRAINED';
  cluster.get('w2').refuse = undefined;
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  const outcomes = view.workflows[0]?.attempts.map(({ outcome }) => outcome) ?? [];
  assert.equal(outcomes.at(-1), 'completed');
  assert.ok(outcomes.slice(0, -1).every((outcome) => outcome === 'refused'));
});

test('a unit that a stopping worker returns before its start costs no attempt', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
  for (const worker of allWorkers(cluster)) worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
  const first = untilHeld(cluster);
  first.draining = true;
  first.end(first.started[0]?.id as never, { status: 'returned', durationMs: undefined });
  cluster.until(() => holder(cluster) !== undefined && holder(cluster) !== first, 'another worker runs it');
  const second = untilHeld(cluster);
  second.end(second.started[0]?.id as never, { completed: 100 });
  cluster.untilStatus(jobId, 'COMPLETED');
});

test('no unit is assigned to a worker that is drained, draining, suspect or not registered', () => {
  const cluster = ManagerTestCluster.start({ w1: 4, w2: 4, w3: 4, w4: 4, w5: 1 });
  cluster.get('w1').admin = 'drained';
  cluster.get('w2').admin = 'draining';
  cluster.get('w3').state = 'suspect';
  cluster.get('w4').admin = undefined;
  for (let i = 0; i < 5; i++) cluster.untilStatus(cluster.submit({ workflows: [loadTestFacts('one')] }), 'COMPLETED');
  assert.deepEqual(
    allWorkers(cluster).map(({ started }) => started.length),
    [0, 0, 0, 0, 5],
  );
});

test('the attempts of a worker are lost when it restarts', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.get('w1').behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  untilHeld(cluster).kill();
  cluster.worker('w1', 1, 2);
  const view = cluster.untilStatus(jobId, 'COMPLETED', 5_000);
  assert.deepEqual(
    view.workflows[0]?.attempts.map(({ outcome }) => outcome),
    ['lost', 'completed'],
  );
});

test('an assignment whose reply is lost is resent as the same attempt and runs once', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const worker = cluster.get('w1');
  worker.behave = () => 'hold';
  worker.isolated = true;
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.run(3_000);
  worker.isolated = false;
  cluster.until(() => worker.runs.size === 1, 'the worker runs it');
  cluster.run(12_000);
  assert.equal(worker.started.length, 1);
  worker.end(worker.started[0]?.id as never, { completed: 100 });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(
    view.workflows[0]?.attempts.map(({ attempt }) => attempt),
    [1],
  );
});

test('many small units, some of which wait at the worker, all complete', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  cluster.get('w1').behave = () => ({ afterMs: 1, report: { completed: 1, durationMs: 1 } });
  const ids = Array.from({ length: 200 }, () =>
    cluster.submit({ workflows: [batchTestFacts('one', {}, { items: 1 })] }),
  );
  for (const id of ids) assert.equal(cluster.untilStatus(id, 'COMPLETED').totals.completed, 1);
  assert.equal(cluster.get('w1').started.length, 200);
});
