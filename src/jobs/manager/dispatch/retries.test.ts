import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeManagerCluster, leaseMs } from '../../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../../test/support/jobs/workflow-facts.ts';
import type { FakeWorker } from '../../../../test/fakes/fake-worker.ts';

function everyone(world: FakeManagerCluster): FakeWorker[] {
  return [...world.workers.values()];
}

function holder(world: FakeManagerCluster): FakeWorker | undefined {
  return everyone(world).find((worker) => worker.alive && worker.runs.size > 0);
}

function untilHeld(world: FakeManagerCluster): FakeWorker {
  world.until(() => holder(world) !== undefined, 'somebody has it');
  return holder(world) as FakeWorker;
}

test('poison: after maxRetries + 1 workers it is FAILED, and no other worker is taken down', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1, w3: 1, w4: 1, w5: 1 });
  for (const worker of everyone(world)) worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('poison', { maxRetries: 2 })] });
  for (let i = 0; i < 3; i++) {
    const worker = untilHeld(world);
    world.run(200);
    worker.kill();
    world.host('m1').processGone(worker.identity.id, 1);
  }
  const shown = world.untilStatus(jobId, 'FAILED');
  assert.equal(shown.workflows[0]?.error?.code, 'RETRIES_EXHAUSTED');
  assert.equal(everyone(world).filter(({ alive }) => alive).length, 2);
  assert.equal(new Set(shown.workflows[0]?.attempts.map(({ worker }) => worker)).size, 3);
  const { incidents } = world.watch(jobId);
  assert.deepEqual(
    incidents.map(({ type }) => type),
    ['worker.lost', 'worker.lost', 'worker.lost'],
  );
  assert.match(incidents[0]?.effect ?? '', /unit 0 of poison begins anew elsewhere; 0 iterations .* not counted/);
  assert.match(incidents[2]?.effect ?? '', /is not tried again/);
});

test('a runner that is killed: another worker, not the same one', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
  for (const worker of everyone(world)) worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  const first = untilHeld(world);
  const [began] = first.began;
  assert.ok(began !== undefined);
  first.progress(began.name, 50);
  first.end(began.name, { status: 'failed', code: 'RUNNER_KILLED', message: 'memory' });
  world.until(() => holder(world) !== undefined && holder(world) !== first, 'another has it');
  const second = untilHeld(world);
  second.end(second.began[0]?.name as never, { completed: 100 });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(shown.totals, { completed: 100, failed: 0 });
  assert.deepEqual(
    shown.workflows[0]?.attempts.map(({ outcome }) => outcome),
    ['failed', 'completed'],
  );
});

test('the only worker failed it: it waits for another one, and says so', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  world.get('w1').behave = () => ({ afterMs: 10, news: { status: 'failed', code: 'RUNNER_KILLED' } });
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  world.run(5_000);
  assert.equal(world.get('w1').began.length, 1);
  const { lines } = world.must<{ lines: string[] }>('explain', { jobId });
  assert.ok(
    lines.some((line) => line.includes('w1: cannot take it, it failed this unit before')),
    lines.join('\n'),
  );
  world.worker('w2', 1);
  world.untilStatus(jobId, 'COMPLETED');
});

test('at most once: without retries a lost worker is the end', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
  for (const worker of everyone(world)) worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
  const worker = untilHeld(world);
  worker.kill();
  world.host('m1').processGone(worker.identity.id, 1);
  const shown = world.untilStatus(jobId, 'FAILED');
  assert.equal(shown.workflows[0]?.attempts.length, 1);
  assert.equal(shown.workflows[0].error?.code, 'RUNNER_KILLED');
});

test('at most once: what had begun and is given back does not begin anew, what had not begun does', () => {
  for (const [durationMs, status] of [
    [5, 'FAILED'],
    [undefined, 'RUNNING'],
  ] as const) {
    const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
    for (const worker of everyone(world)) worker.behave = () => 'hold';
    const jobId = world.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
    const worker = untilHeld(world);
    worker.end(worker.began[0]?.name as never, { status: 'returned', durationMs });
    world.run(2_000);
    assert.equal(world.show(jobId).status, status);
  }
});

test('a silent worker keeps its unit until its lease is surely over, and not a moment less', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
  for (const worker of everyone(world)) worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  const first = untilHeld(world);
  const [began] = first.began;
  first.cut = true;
  first.state = 'dead';
  const other = everyone(world).find((worker) => worker !== first) as FakeWorker;
  world.until(() => other.began.length > 0, 'it begins anew');
  assert.equal(first.runs.size, 0, 'the first one has stopped by itself before');
  world.run(leaseMs);
  // It finished before it stopped, and only now gets through: nobody counts it.
  first.cut = false;
  first.ends.clear();
  first.tell([{ ...(began?.name as object), status: 'completed', completed: 77, failed: 0 } as never]);
  world.run(1_000);
  assert.equal(world.show(jobId).totals.completed, 0);
  other.end(other.began[0]?.name as never, { completed: 100 });
  assert.equal(world.untilStatus(jobId, 'COMPLETED').totals.completed, 100);
});

test('progress counts from the present attempt only, in any order, any number of times', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
  for (const worker of everyone(world)) worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  const first = untilHeld(world);
  const old = first.began[0]?.name as never;
  first.progress(old, 60);
  first.progress(old, 40);
  first.progress(old, 60);
  world.run(50);
  assert.equal(world.show(jobId).totals.completed, 60);
  first.end(old, { status: 'failed', code: 'RUNNER_KILLED' });
  world.until(() => holder(world) !== undefined && holder(world) !== first, 'another has it');
  const second = untilHeld(world);
  assert.equal(world.show(jobId).totals.completed, 0);
  first.progress(old, 90);
  // Somebody else claims to be the present attempt.
  first.progress(second.began[0]?.name as never, 95);
  second.progress(second.began[0]?.name as never, 10);
  world.run(50);
  assert.equal(world.show(jobId).totals.completed, 10);
  second.end(second.began[0]?.name as never, { completed: 100, failed: 3 });
  second.tell([{ ...(second.began[0]?.name as object), status: 'completed', completed: 500, failed: 0 } as never]);
  const shown = world.untilStatus(jobId, 'COMPLETED');
  second.progress(second.began[0]?.name as never, 700);
  world.run(1_000);
  assert.deepEqual(world.show(jobId), shown);
  assert.deepEqual(shown.totals, { completed: 100, failed: 3 });
});

test('a refusal costs no attempt: no core, draining, an old leader', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
  world.get('w1').refuse = 'CAPACITY';
  world.get('w2').refuse = 'CAPACITY';
  const jobId = world.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
  world.run(3_000);
  assert.equal(
    everyone(world).reduce((sum, { began }) => sum + began.length, 0),
    0,
  );
  world.get('w1').refuse = 'DRAINED';
  world.get('w2').refuse = undefined;
  const shown = world.untilStatus(jobId, 'COMPLETED');
  const outcomes = shown.workflows[0]?.attempts.map(({ outcome }) => outcome) ?? [];
  assert.equal(outcomes.at(-1), 'completed');
  assert.ok(outcomes.slice(0, -1).every((outcome) => outcome === 'refused'));
});

test('a worker that stops gives back what had not begun, which costs no attempt', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
  for (const worker of everyone(world)) worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
  const first = untilHeld(world);
  first.draining = true;
  first.end(first.began[0]?.name as never, { status: 'returned', durationMs: undefined });
  world.until(() => holder(world) !== undefined && holder(world) !== first, 'another has it');
  const second = untilHeld(world);
  second.end(second.began[0]?.name as never, { completed: 100 });
  world.untilStatus(jobId, 'COMPLETED');
});

test('nothing for those that are drained, draining, suspect, stuck elsewhere or not alive', () => {
  const world = FakeManagerCluster.start({ w1: 4, w2: 4, w3: 4, w4: 4, w5: 1 });
  world.get('w1').admin = 'drained';
  world.get('w2').admin = 'draining';
  world.get('w3').state = 'suspect';
  world.get('w4').admin = undefined;
  for (let i = 0; i < 5; i++) world.untilStatus(world.submit({ workflows: [loadTestFacts('one')] }), 'COMPLETED');
  assert.deepEqual(
    everyone(world).map(({ began }) => began.length),
    [0, 0, 0, 0, 5],
  );
});

test('a worker that was started anew has lost what it had', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  world.get('w1').behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  untilHeld(world).kill();
  world.worker('w1', 1, 2);
  const shown = world.untilStatus(jobId, 'COMPLETED', 5_000);
  assert.deepEqual(
    shown.workflows[0]?.attempts.map(({ outcome }) => outcome),
    ['lost', 'completed'],
  );
});

test('an answer to a dispatch that is lost: the same attempt again, and it runs once', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const worker = world.get('w1');
  worker.behave = () => 'hold';
  worker.cut = true;
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  world.run(3_000);
  worker.cut = false;
  world.until(() => worker.runs.size === 1, 'it has it');
  world.run(12_000);
  assert.equal(worker.began.length, 1);
  worker.end(worker.began[0]?.name as never, { completed: 100 });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(
    shown.workflows[0]?.attempts.map(({ attempt }) => attempt),
    [1],
  );
});

test('many small units: some are given ahead, none is lost, cores are never exceeded by others', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  world.get('w1').behave = () => ({ afterMs: 1, news: { completed: 1, durationMs: 1 } });
  const ids = Array.from({ length: 200 }, () => world.submit({ workflows: [batchTestFacts('one', {}, { items: 1 })] }));
  for (const id of ids) assert.equal(world.untilStatus(id, 'COMPLETED').totals.completed, 1);
  assert.equal(world.get('w1').began.length, 200);
});
