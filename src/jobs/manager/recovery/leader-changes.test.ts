import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobRanges } from '../../job-keys.ts';
import type { SubmitReply } from '../../job-types.ts';
import { ManagerTestCluster, bundle, leaseMs } from '../../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../../test/support/jobs/workflow-facts.ts';
import { itemCountInSpec } from '../../../../test/fakes/fake-worker.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

test('when the leader dies between commit and send, the next leader sends the same attempt', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const worker = cluster.get('w1');
  worker.behave = () => 'hold';
  worker.isolated = true;
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { maxRetries: 0 })] });
  cluster.elect(undefined);
  cluster.run(500);
  worker.isolated = false;
  cluster.elect('m2');
  cluster.until(() => worker.runs.size === 1, 'it runs');
  worker.end(worker.started[0]?.id as never, { completed: 100 });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.deepEqual(
    view.workflows[0]?.attempts.map(({ attempt, outcome }) => [attempt, outcome]),
    [[1, 'completed']],
  );
});

test('an end that the old leader did not record is reported to the new leader', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const worker = cluster.get('w1');
  worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.until(() => worker.runs.size === 1, 'it runs');
  cluster.managers.get('m1')?.registry.interrupt();
  worker.end(worker.started[0]?.id as never, { completed: 100 });
  cluster.run(1_000);
  cluster.elect('m2');
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(view.totals.completed, 100);
  assert.equal(worker.started.length, 1);
});

test('a deposed leader that still believes it leads writes nothing and sends nothing', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const first = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.untilStatus(first, 'COMPLETED');
  // Both believe that they lead; the registry has the fence of the new one.
  const old = cluster.host('m1');
  cluster.keepBelieving('m1');
  cluster.elect('m2');
  cluster.run(200);
  const codes: string[] = [];
  old.command('submit', JSON.stringify({ bundle, workflows: [loadTestFacts('two')] }), 'ann', 2_000, (outcome) => {
    codes.push(outcome.ok ? 'ok' : outcome.error.code);
  });
  cluster.run(10_000);
  assert.deepEqual(codes, ['DEADLINE']);
  assert.equal(cluster.get('w1').started.length, 1);
  assert.equal(cluster.commandOk<{ items: unknown[] }>('list', {}).items.length, 1);
});

test('a new leader completes a cancel', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  const worker = cluster.get('w1');
  worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { cores: 2 })] });
  cluster.until(() => worker.runs.size === 2, 'it runs');
  worker.isolated = true;
  assert.equal(cluster.commandOk<{ status: string }>('cancel', { jobId }).status, 'CANCELLING');
  cluster.elect('m2');
  cluster.run(300);
  assert.equal(cluster.show(jobId).status, 'CANCELLING');
  worker.isolated = false;
  cluster.untilStatus(jobId, 'CANCELLED');
  assert.equal(worker.runs.size, 0);
  assert.equal(cluster.show(jobId).totals.completed, 0);
});

test('a workflow completes across leader changes during plan, work and finish', () => {
  for (const phase of ['plan', 'work', 'finish']) {
    const cluster = ManagerTestCluster.start({ w1: 2, w2: 2 }, phase);
    let isHeld = true;
    for (const worker of cluster.workers.values())
      worker.behave = (spec) => {
        if (spec.phase === phase && isHeld) return 'hold';
        const output = spec.phase === 'plan' ? json({ data: 5, items: { count: 40 } }) : json(['x']);
        return { afterMs: 20, report: { completed: itemCountInSpec(spec), output } };
      };
    const facts = batchTestFacts(
      'one',
      { cores: 4, hasSetup: true, hasTeardown: true },
      { items: undefined, unitItemsMax: 1 },
    );
    const jobId = cluster.submit({ workflows: [facts, batchTestFacts('two', { after: ['one'] }, { items: 1 })] });
    const held = () =>
      [...cluster.workers.values()].flatMap((worker) => [...worker.runs.values()].map((run) => ({ worker, run })));
    cluster.until(() => held().some(({ run }) => run.spec.phase === phase), `${phase} runs`);
    isHeld = false;
    cluster.elect('m2');
    cluster.run(1_000);
    cluster.elect('m1');
    cluster.run(1_000);
    for (const { worker, run } of held()) {
      const output = phase === 'plan' ? json({ data: 5, items: { count: 40 } }) : json(['x']);
      worker.end(run.id, { completed: itemCountInSpec(run.spec), output });
    }
    const view = cluster.untilStatus(jobId, 'COMPLETED');
    assert.equal(view.totals.completed, 41, phase);
    const all = [...cluster.workers.values()].flatMap(({ started }) => started);
    assert.equal(new Set(all.map(({ id }) => `${id.workflow}/${id.unit}`)).size, all.length, 'no unit ran twice');
    const context = all.find(({ id }) => id.workflow === 1)?.spec.context;
    assert.equal(context, JSON.stringify({ one: Array.from({ length: 40 }, () => 'x') }));
  }
});

test('a worker that sends the new leader no heartbeat is lost when its lease has expired, not before', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
  for (const worker of cluster.workers.values()) worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  const held = () => [...cluster.workers.values()].find((worker) => worker.alive && worker.runs.size > 0);
  cluster.until(() => held() !== undefined, 'it runs');
  const first = held();
  assert.ok(first !== undefined);
  first.kill();
  cluster.elect('m2');
  cluster.run(leaseMs);
  assert.equal(held(), undefined);
  cluster.until(() => held() !== undefined, 'it is retried', leaseMs);
  cluster.commandOk('cancel', { jobId });
  cluster.untilStatus(jobId, 'CANCELLED');
});

test('a worker is asked to stop an attempt of a finished job', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  const worker = cluster.get('w1');
  worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')], timeoutMs: 3_000 });
  cluster.until(() => worker.runs.size === 1, 'it runs');
  worker.isolated = true;
  cluster.untilStatus(jobId, 'TIMEOUT');
  cluster.elect('m2');
  cluster.run(100);
  worker.isolated = false;
  cluster.until(() => worker.runs.size === 0, 'it is stopped', 5_000);
  assert.equal(cluster.show(jobId).status, 'TIMEOUT');
});

test('the timeout of a job goes on across leader changes', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.get('w1').behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')], timeoutMs: 20_000 });
  for (const leader of ['m2', 'm1', 'm2', 'm1']) {
    cluster.run(4_000);
    cluster.elect(leader);
    // Wall clocks of managers differ and must not matter.
    cluster.wallOffsetMs += leader === 'm2' ? 3_600_000 : -3_600_000;
  }
  const view = cluster.untilStatus(jobId, 'TIMEOUT', 14_000);
  assert.equal(view.error?.code, 'WORKFLOW_TIMEOUT');
});

test('a new leader restores ten thousand waiting jobs', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.get('w1').behave = () => 'hold';
  let answers = 0;
  const args = JSON.stringify({ bundle, workflows: [batchTestFacts('one', {}, { items: 1 })] });
  for (let i = 0; i < 10_000; i++)
    cluster.host('m1').command('submit', args, `user-${i % 10}`, 60_000, (outcome) => {
      assert.ok(outcome.ok);
      answers += 1;
    });
  cluster.until(() => answers === 10_000, 'all are recorded');
  assert.equal(cluster.host('m1').counts().open, 10_000);
  cluster.elect('m2');
  cluster.run(500);
  assert.deepEqual(cluster.host('m2').counts(), { open: 10_000, queued: 9_999, running: 1 });
  assert.equal(cluster.host('m1').counts().open, 0);
  const last = cluster.commandOk<{ items: { jobId: string }[] }>('list', { limit: 1 }).items[0];
  const { queue } = cluster.show(last?.jobId as string);
  assert.equal(queue?.position, 9_999);
  assert.match(queue.reason, /waits for a core: 0 of 1 cores are free/);
});

test('jobs beyond the limit of open jobs of a submitter are refused, those of others accepted', () => {
  const cluster = ManagerTestCluster.start({});
  const codes = new Map<string, number>();
  const args = JSON.stringify({ bundle, workflows: [batchTestFacts('one', {}, { items: 1 })] });
  for (let i = 0; i < 15_010; i++)
    cluster.host('m1').command('submit', args, 'ann', 60_000, (outcome) => {
      const code = outcome.ok ? 'ok' : outcome.error.code;
      codes.set(code, (codes.get(code) ?? 0) + 1);
    });
  cluster.until(() => [...codes.values()].reduce((sum, count) => sum + count, 0) === 15_010, 'all answers');
  assert.deepEqual(Object.fromEntries(codes), { CAPACITY: 10, ok: 15_000 });
  assert.ok(cluster.commandOk<SubmitReply>('submit', { bundle, workflows: [loadTestFacts('one')] }, 'bob').isNew);
});

test('a manager that does not lead replies NOT_LEADER, and a stopping leader ends its calls', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const outcome = cluster.wait<string>((done) => cluster.host('m2').command('list', '{}', 'ann', 1_000, done));
  assert.ok(!outcome.ok && outcome.error.code === 'NOT_LEADER');
  cluster.managers.get('m1')?.registry.interrupt();
  const codes: string[] = [];
  const args = JSON.stringify({ bundle, workflows: [loadTestFacts('one')] });
  cluster.host('m1').command('submit', args, 'ann', 60_000, (answer) => {
    codes.push(answer.ok ? 'ok' : answer.error.code);
  });
  cluster.run(100);
  cluster.host('m1').stop();
  assert.deepEqual(codes, ['NETWORK_TIMEOUT']);
  assert.equal(cluster.registry.keyspace.range(jobRanges.jobs, 10).entries.length, 0);
});
