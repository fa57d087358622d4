import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobRanges } from '../../job-keys.ts';
import type { SubmitReply } from '../../job-types.ts';
import { FakeManagerCluster, bundle, leaseMs } from '../../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../../test/support/jobs/workflow-facts.ts';
import { itemCountInSpec } from '../../../../test/fakes/fake-worker.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

test('the leader dies between recording and sending: the next one sends the same attempt', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const worker = world.get('w1');
  worker.behave = () => 'hold';
  worker.cut = true;
  const jobId = world.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
  world.elect(undefined);
  world.run(500);
  worker.cut = false;
  world.elect('m2');
  world.until(() => worker.runs.size === 1, 'it runs');
  worker.end(worker.began[0]?.name as never, { completed: 100 });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(
    shown.workflows[0]?.attempts.map(({ attempt, outcome }) => [attempt, outcome]),
    [[1, 'completed']],
  );
});

test('an end that the old leader did not record is told to the new one', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const worker = world.get('w1');
  worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  world.until(() => worker.runs.size === 1, 'it runs');
  world.managers.get('m1')?.registry.interrupt();
  worker.end(worker.began[0]?.name as never, { completed: 100 });
  world.run(1_000);
  world.elect('m2');
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.equal(shown.totals.completed, 100);
  assert.equal(worker.began.length, 1);
});

test('an old leader that does not know it yet writes nothing and sends nothing', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const first = world.submit({ workflows: [loadTestFacts('one')] });
  world.untilStatus(first, 'COMPLETED');
  // Both believe that they lead: the fence of the new one stands in the registry.
  const old = world.host('m1');
  world.believe('m1');
  world.elect('m2');
  world.run(200);
  const codes: string[] = [];
  old.command('submit', JSON.stringify({ bundle, workflows: [loadTestFacts('two')] }), 'ann', 2_000, (outcome) => {
    codes.push(outcome.ok ? 'ok' : outcome.error.code);
  });
  world.run(10_000);
  assert.deepEqual(codes, ['DEADLINE']);
  assert.equal(world.get('w1').began.length, 1);
  assert.equal(world.must<{ items: unknown[] }>('list', {}).items.length, 1);
});

test('cancelling survives the leader', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  const worker = world.get('w1');
  worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one', { cores: 2 })] });
  world.until(() => worker.runs.size === 2, 'it runs');
  worker.cut = true;
  assert.equal(world.must<{ status: string }>('cancel', { jobId }).status, 'CANCELLING');
  world.elect('m2');
  world.run(300);
  assert.equal(world.show(jobId).status, 'CANCELLING');
  worker.cut = false;
  world.untilStatus(jobId, 'CANCELLED');
  assert.equal(worker.runs.size, 0);
  assert.equal(world.show(jobId).totals.completed, 0);
});

test('in the middle of a plan, of the work and of the finish', () => {
  for (const phase of ['plan', 'work', 'finish']) {
    const world = FakeManagerCluster.start({ w1: 2, w2: 2 }, phase);
    let isHeld = true;
    for (const worker of world.workers.values())
      worker.behave = (order) => {
        if (order.phase === phase && isHeld) return 'hold';
        const output = order.phase === 'plan' ? json({ data: 5, items: { count: 40 } }) : json(['x']);
        return { afterMs: 20, news: { completed: itemCountInSpec(order), output } };
      };
    const facts = batchTestFacts(
      'one',
      { cores: 4, hasSetup: true, hasTeardown: true },
      { items: undefined, unitItemsMax: 1 },
    );
    const jobId = world.submit({ workflows: [facts, batchTestFacts('two', { after: ['one'] }, { items: 1 })] });
    const held = () =>
      [...world.workers.values()].flatMap((worker) => [...worker.runs.values()].map((run) => ({ worker, run })));
    world.until(() => held().some(({ run }) => run.order.phase === phase), `${phase} runs`);
    isHeld = false;
    world.elect('m2');
    world.run(1_000);
    world.elect('m1');
    world.run(1_000);
    for (const { worker, run } of held()) {
      const output = phase === 'plan' ? json({ data: 5, items: { count: 40 } }) : json(['x']);
      worker.end(run.name, { completed: itemCountInSpec(run.order), output });
    }
    const shown = world.untilStatus(jobId, 'COMPLETED');
    assert.equal(shown.totals.completed, 41, phase);
    const all = [...world.workers.values()].flatMap(({ began }) => began);
    assert.equal(new Set(all.map(({ name }) => `${name.workflow}/${name.unit}`)).size, all.length, 'nothing ran twice');
    const context = all.find(({ name }) => name.workflow === 1)?.order.context;
    assert.equal(context, JSON.stringify({ one: Array.from({ length: 40 }, () => 'x') }));
  }
});

test('a worker that never reports to the new leader is lost after its lease, not before', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
  for (const worker of world.workers.values()) worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  const held = () => [...world.workers.values()].find((worker) => worker.alive && worker.runs.size > 0);
  world.until(() => held() !== undefined, 'it runs');
  const first = held();
  assert.ok(first !== undefined);
  first.kill();
  world.elect('m2');
  world.run(leaseMs);
  assert.equal(held(), undefined);
  world.until(() => held() !== undefined, 'it begins anew', leaseMs);
  world.must('cancel', { jobId });
  world.untilStatus(jobId, 'CANCELLED');
});

test('what a worker runs of a job that is over, or that nobody knows, is ended', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  const worker = world.get('w1');
  worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')], timeoutMs: 3_000 });
  world.until(() => worker.runs.size === 1, 'it runs');
  worker.cut = true;
  world.untilStatus(jobId, 'TIMEOUT');
  world.elect('m2');
  world.run(100);
  worker.cut = false;
  world.until(() => worker.runs.size === 0, 'it is ended', 5_000);
  assert.equal(world.show(jobId).status, 'TIMEOUT');
});

test('time goes on over a change of the leader', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  world.get('w1').behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')], timeoutMs: 20_000 });
  for (const leader of ['m2', 'm1', 'm2', 'm1']) {
    world.run(4_000);
    world.elect(leader);
    // Clocks of machines differ; nothing is decided by them.
    world.wallOffsetMs += leader === 'm2' ? 3_600_000 : -3_600_000;
  }
  const shown = world.untilStatus(jobId, 'TIMEOUT', 14_000);
  assert.equal(shown.error?.code, 'WORKFLOW_TIMEOUT');
});

test('ten thousand jobs wait; a new leader knows them all', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  world.get('w1').behave = () => 'hold';
  let answers = 0;
  const words = JSON.stringify({ bundle, workflows: [batchTestFacts('one', {}, { items: 1 })] });
  for (let i = 0; i < 10_000; i++)
    world.host('m1').command('submit', words, `user-${i % 10}`, 60_000, (outcome) => {
      assert.ok(outcome.ok);
      answers += 1;
    });
  world.until(() => answers === 10_000, 'all are recorded');
  assert.equal(world.host('m1').counts().open, 10_000);
  world.elect('m2');
  world.run(500);
  assert.deepEqual(world.host('m2').counts(), { open: 10_000, queued: 9_999, running: 1 });
  assert.equal(world.host('m1').counts().open, 0);
  const last = world.must<{ items: { jobId: string }[] }>('list', { limit: 1 }).items[0];
  const { queue } = world.show(last?.jobId as string);
  assert.equal(queue?.position, 9_999);
  assert.match(queue.reason, /waits for a core: 0 of 1 cores are free/);
});

test('too many open jobs are refused, and nothing else is harmed', () => {
  const world = FakeManagerCluster.start({});
  const codes = new Map<string, number>();
  const words = JSON.stringify({ bundle, workflows: [batchTestFacts('one', {}, { items: 1 })] });
  for (let i = 0; i < 15_010; i++)
    world.host('m1').command('submit', words, 'ann', 60_000, (outcome) => {
      const code = outcome.ok ? 'ok' : outcome.error.code;
      codes.set(code, (codes.get(code) ?? 0) + 1);
    });
  world.until(() => [...codes.values()].reduce((sum, count) => sum + count, 0) === 15_010, 'all answers');
  assert.deepEqual(Object.fromEntries(codes), { CAPACITY: 10, ok: 15_000 });
  assert.ok(world.must<SubmitReply>('submit', { bundle, workflows: [loadTestFacts('one')] }, 'bob').isNew);
});

test('a leader that is told nothing answers NOT_LEADER, and calls end when it stops', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const outcome = world.wait<string>((done) => world.host('m2').command('list', '{}', 'ann', 1_000, done));
  assert.ok(!outcome.ok && outcome.error.code === 'NOT_LEADER');
  world.managers.get('m1')?.registry.interrupt();
  const codes: string[] = [];
  const words = JSON.stringify({ bundle, workflows: [loadTestFacts('one')] });
  world.host('m1').command('submit', words, 'ann', 60_000, (answer) => {
    codes.push(answer.ok ? 'ok' : answer.error.code);
  });
  world.run(100);
  world.host('m1').stop();
  assert.deepEqual(codes, ['NETWORK_TIMEOUT']);
  assert.equal(world.registry.keyspace.range(jobRanges.jobs, 10).entries.length, 0);
});
