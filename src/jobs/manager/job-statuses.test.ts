import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobProgress } from '../job-types.ts';
import { Summary } from '../report/summary.ts';
import { encodeSummary } from '../report/summary-codec.ts';
import { ManagerTestCluster, bundle, leaseMs } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../test/support/jobs/workflow-facts.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

function reportedStatuses(cluster: ManagerTestCluster): readonly string[] {
  return cluster.events.flatMap((event) => (event.kind === 'job.state' ? [event.status] : []));
}

test('a job passes through its statuses in order', () => {
  const cluster = ManagerTestCluster.start({});
  const jobId = cluster.submit({
    workflows: [batchTestFacts('one', {}, { items: 1 })],
    startAtMs: cluster.clock.wallMs() + 3_000,
  });
  assert.equal(cluster.show(jobId).status, 'SUBMITTED');
  cluster.untilStatus(jobId, 'QUEUED');
  const worker = cluster.worker('w1', 1);
  worker.isolated = true;
  worker.behave = () => 'hold';
  cluster.run(500);
  assert.equal(cluster.show(jobId).status, 'QUEUED');
  worker.isolated = false;
  worker.sendHeartbeat();
  cluster.untilStatus(jobId, 'DISPATCHING');
  cluster.untilStatus(jobId, 'RUNNING');
  assert.equal(cluster.show(jobId).workflows[0]?.status, 'RUNNING');
  worker.end(worker.started[0]?.id as never, { completed: 1, output: json(['x'.repeat(3_000_000)]) });
  cluster.untilStatus(jobId, 'COMPLETED');
  cluster.run(1_000);
  assert.deepEqual(reportedStatuses(cluster), ['QUEUED', 'DISPATCHING', 'RUNNING', 'COMPLETING', 'COMPLETED']);
});

test('a cancel in any status ends the job, frees the cores and is answered at once', () => {
  const cases: Readonly<Record<string, (cluster: ManagerTestCluster) => string>> = {
    SUBMITTED: (cluster) =>
      cluster.submit({ workflows: [loadTestFacts('one')], startAtMs: cluster.clock.wallMs() + 60_000 }),
    QUEUED: (cluster) => {
      cluster.get('w1').admin = 'drained';
      return cluster.submit({ workflows: [loadTestFacts('one')] });
    },
    DISPATCHING: (cluster) => {
      cluster.get('w1').isolated = true;
      return cluster.submit({ workflows: [loadTestFacts('one', { cores: 2 })] });
    },
    RUNNING: (cluster) => cluster.submit({ workflows: [loadTestFacts('one', { cores: 2 })] }),
  };
  for (const [status, submit] of Object.entries(cases)) {
    const cluster = ManagerTestCluster.start({ w1: 2 }, status);
    cluster.get('w1').behave = () => 'hold';
    const jobId = submit(cluster);
    cluster.untilStatus(jobId, status);
    const answer = cluster.commandOk<{ status: string }>('cancel', { jobId });
    assert.ok(['CANCELLING', 'CANCELLED'].includes(answer.status), answer.status);
    assert.equal(cluster.commandOk<{ jobId: string }>('cancel', { jobId }).jobId, jobId);
    cluster.run(200);
    cluster.get('w1').isolated = false;
    const view = cluster.untilStatus(jobId, 'CANCELLED', 2 * leaseMs);
    assert.equal(view.workflows[0]?.status, 'CANCELLED');
    cluster.run(2 * leaseMs);
    assert.equal(cluster.get('w1').runs.size, 0, status);
    assert.equal(cluster.commandOk<{ status: string }>('cancel', { jobId }).status, 'CANCELLED');
  }
});

test('a cancelled job on a dead worker ends when the lease of the worker expires', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.get('w1').behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.untilStatus(jobId, 'RUNNING');
  cluster.get('w1').kill();
  assert.equal(cluster.commandOk<{ status: string }>('cancel', { jobId }).status, 'CANCELLING');
  cluster.untilStatus(jobId, 'CANCELLED', 1.2 * leaseMs);
});

test('the timeout of a job ends it in any status', () => {
  const cases: Readonly<Record<string, (cluster: ManagerTestCluster) => void>> = {
    QUEUED: (cluster) => {
      cluster.get('w1').admin = 'drained';
    },
    DISPATCHING: (cluster) => {
      cluster.get('w1').isolated = true;
    },
    RUNNING: () => {},
  };
  for (const [status, prepare] of Object.entries(cases)) {
    const cluster = ManagerTestCluster.start({ w1: 1 }, status);
    cluster.get('w1').behave = () => 'hold';
    prepare(cluster);
    const jobId = cluster.submit({
      workflows: [loadTestFacts('one'), loadTestFacts('two', { after: ['one'] })],
      timeoutMs: 3_000,
    });
    cluster.untilStatus(jobId, status);
    const view = cluster.untilStatus(jobId, 'TIMEOUT', 5_000);
    assert.equal(view.error?.code, 'WORKFLOW_TIMEOUT');
    assert.equal(view.workflows[1]?.status, 'CANCELLED');
    cluster.get('w1').isolated = false;
    cluster.run(2 * leaseMs);
    assert.equal(cluster.get('w1').runs.size, 0, status);
    assert.deepEqual(cluster.show(jobId).status, 'TIMEOUT');
  }
});

test('a workflow that exceeds its timeout fails, and its dependents are cancelled', () => {
  const cluster = ManagerTestCluster.start({ w1: 3 });
  cluster.get('w1').behave = ({ workflow }) => (workflow === 0 ? 'hold' : { afterMs: 10, report: { completed: 1 } });
  const workflows = [
    loadTestFacts('slow', { cores: 2, timeoutMs: 2_000 }),
    loadTestFacts('after', { after: ['slow'] }),
    loadTestFacts('other'),
  ];
  const view = cluster.untilStatus(cluster.submit({ workflows }), 'TIMEOUT', 5_000);
  assert.deepEqual(
    view.workflows.map(({ status }) => status),
    ['FAILED', 'CANCELLED', 'COMPLETED'],
  );
  assert.equal(view.workflows[0]?.error?.code, 'WORKFLOW_TIMEOUT');
  assert.equal(cluster.get('w1').runs.size, 0);
});

test('a queued job shows its reason and position', () => {
  const cluster = ManagerTestCluster.start({});
  const reasonOf = (jobId: string) => cluster.show(jobId).queue?.reason ?? '';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { cores: 4 })] });
  assert.equal(reasonOf(jobId), 'no worker has sent a heartbeat yet');
  cluster.worker('w1', 2).admin = 'drained';
  cluster.run(100);
  assert.equal(reasonOf(jobId), 'none of 1 workers accepts units now');
  const { lines } = cluster.commandOk<{ lines: string[] }>('explain', { jobId });
  assert.ok(lines.includes('w1: not eligible: it is drained (2 of 2 cores free)'), lines.join('\n'));
  assert.ok(lines.includes('one: PENDING, 0 of 4 units done, 0 assigned to workers'), lines.join('\n'));
  const odd = cluster.command('list', { status: 'HAPPY' });
  assert.ok(!odd.ok);
  assert.match(odd.error.message, /^there is no status "HAPPY": use one of SUBMITTED, QUEUED, /);
  cluster.get('w1').admin = 'active';
  cluster.run(100);
  assert.equal(reasonOf(jobId), 'needs 4 cores at a time, and all workers together have 2');
  cluster.worker('w2', 2).behave = () => 'hold';
  cluster.untilStatus(jobId, 'RUNNING');
  const next = cluster.submit({ workflows: [loadTestFacts('one', { cores: 3 })] });
  cluster.run(100);
  assert.match(reasonOf(next), /needs 3 cores at a time: \d of 4 cores are free/);
  assert.equal(cluster.show(next).queue?.position, 1);
});

test('units are assigned by priority, then round-robin over submitters, then first come first served', () => {
  const cluster = ManagerTestCluster.start({});
  const names: string[] = [];
  const submit = (name: string, submitter: string, priority = 0) => {
    names.push(name);
    return cluster.submit({ name, priority, workflows: [batchTestFacts(name, {}, { items: 1 })] }, submitter);
  };
  for (let i = 0; i < 4; i++) submit(`ann-${i}`, 'ann');
  for (let i = 0; i < 2; i++) submit(`bob-${i}`, 'bob');
  submit('cid-0', 'cid');
  submit('vip-0', 'ann', 5);
  const worker = cluster.worker('w1', 1);
  worker.behave = () => ({ afterMs: 100, report: { completed: 1, durationMs: 100 } });
  cluster.until(() => worker.started.length === names.length, 'all of them');
  const order = worker.started.map(({ spec: { facts } }) => (JSON.parse(facts) as { name: string }).name);
  assert.deepEqual(order, ['vip-0', 'ann-0', 'bob-0', 'cid-0', 'ann-1', 'bob-1', 'ann-2', 'ann-3']);
});

test('a huge job does not block other submitters', () => {
  const cluster = ManagerTestCluster.start({ w1: 4 });
  cluster.get('w1').behave = () => ({ afterMs: 200, report: { completed: 1, durationMs: 200 } });
  const giant = cluster.submit(
    { workflows: [batchTestFacts('giant', { cores: 4 }, { items: 2_000, unitItemsMax: 1 })] },
    'ann',
  );
  cluster.run(1_000);
  const small = cluster.submit({ workflows: [loadTestFacts('small')] }, 'bob');
  cluster.untilStatus(small, 'COMPLETED', 2_000);
  assert.equal(cluster.show(giant).status, 'RUNNING');
});

test('a watch is answered at once after a change, else at its deadline, and with the full state', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  const worker = cluster.get('w1');
  worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { cores: 2 })] });
  cluster.untilStatus(jobId, 'RUNNING');
  const first = cluster.watch(jobId);
  assert.deepEqual([first.status, first.workers], ['RUNNING', ['w1']]);
  const beforeMs = cluster.timeline.nowMs;
  const unchanged = cluster.watch(jobId, first.version, 700);
  assert.equal(unchanged.version, first.version);
  assert.ok(cluster.timeline.nowMs - beforeMs >= 700);
  const summary = new Summary();
  for (let i = 1; i <= 100; i++) {
    summary.iterations += 1;
    (summary.step('one').durations as { record(us: number): void }).record(i * 1_000);
  }
  const bytes = encodeSummary(summary);
  const [started] = worker.started;
  worker.sendReports([
    { ...(started?.id as object), status: 'progress', completed: 30, failed: 2, summary: bytes } as never,
  ]);
  const changed = cluster.watch(jobId, first.version, 5_000);
  assert.ok(changed.version > first.version);
  assert.deepEqual([changed.completed, changed.failed], [30, 2]);
  for (const { id } of [...worker.runs.values()]) worker.end(id, { completed: 50, summary: bytes });
  const last = cluster.watch(jobId, changed.version, 5_000);
  assert.deepEqual([last.status, last.completed], ['COMPLETED', 100]);
  const report = cluster.commandOk<{ totals: { iterations: number }; steps: { count: number }[] }>('report', { jobId });
  assert.equal(report.totals.iterations, 200);
  assert.equal(report.steps[0]?.count, 200);
});

test('versions grow across leader changes, and thousands can watch', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.get('w1').behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.untilStatus(jobId, 'RUNNING');
  const before = cluster.watch(jobId);
  cluster.elect('m2');
  const after = cluster.watch(jobId, before.version, 10_000);
  assert.ok(after.version > before.version);
  assert.ok(after.incidents.some(({ type }) => type === 'leader.changed'));
  const answers: (JobProgress | string)[] = [];
  const args = JSON.stringify({ jobId, afterVersion: after.version, waitMs: 30_000 });
  for (let i = 0; i < 5_001; i++)
    cluster.host('m2').command('watch', args, 'ann', 60_000, (outcome) => {
      answers.push(outcome.ok ? (JSON.parse(outcome.value) as JobProgress) : outcome.error.code);
    });
  cluster.run(10);
  assert.deepEqual(answers, ['CAPACITY']);
  cluster.commandOk('cancel', { jobId });
  cluster.until(() => answers.length === 5_001, 'all watchers are notified');
});

test('a schedule fires once at each of its times, across leader changes', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  cluster.wallOffsetMs = Date.parse('2026-01-01T00:00:30Z') - cluster.timeline.nowMs;
  const request = { bundle, workflows: [loadTestFacts('one')], cron: '* * * * *', idempotencyKey: 'every-minute' };
  const answer = cluster.commandOk<{ isNew: boolean }>('submit', request);
  assert.equal(answer.isNew, true);
  assert.equal(cluster.commandOk<{ isNew: boolean }>('submit', request).isNew, false);
  const other = cluster.command('submit', { ...request, cron: '*/2 * * * *' });
  assert.ok(!other.ok && other.error.code === 'PRECONDITION');
  const leaders = ['m2', 'm1'];
  for (let i = 0; i < 20; i++) {
    cluster.run(15_000);
    cluster.elect(leaders[i % 2]);
  }
  cluster.run(1_000);
  const { items, open } = cluster.commandOk<{ items: { status: string }[]; open: number }>('list', {});
  assert.equal(open, 0);
  assert.deepEqual(
    items.map(({ status }) => status),
    Array.from({ length: 5 }, () => 'COMPLETED'),
  );
  const { items: schedules } = cluster.commandOk<{ items: { name: string; nextAtMs: number }[] }>('schedules', {});
  assert.deepEqual(
    schedules.map(({ name, nextAtMs }) => [name, new Date(nextAtMs).toISOString()]),
    [['every-minute', '2026-01-01T00:06:00.000Z']],
  );
  const foreign = cluster.command('unschedule', { name: 'every-minute' }, 'bob');
  const text = 'there is no schedule "every-minute" of submitter "bob": `remuster schedule list` lists all schedules';
  assert.ok(!foreign.ok);
  assert.equal(foreign.error.message, text);
  cluster.commandOk('unschedule', { name: 'every-minute' });
  cluster.run(120_000);
  assert.equal(cluster.commandOk<{ items: unknown[] }>('list', {}).items.length, 5);
  cluster.elect('m2');
  assert.deepEqual(cluster.commandOk('schedules', {}), { items: [] });
});

test('a schedule skips a time while its job is open, and fires once for the times without a leader', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.wallOffsetMs = Date.parse('2026-01-01T00:00:30Z') - cluster.timeline.nowMs;
  cluster.get('w1').behave = () => 'hold';
  cluster.commandOk('submit', { bundle, workflows: [loadTestFacts('one')], cron: '* * * * *', idempotencyKey: 'k' });
  const count = () => cluster.commandOk<{ items: unknown[] }>('list', {}).items.length;
  cluster.run(180_000);
  assert.equal(count(), 1);
  cluster.get('w1').end(cluster.get('w1').started[0]?.id as never, { completed: 1 });
  cluster.get('w1').behave = () => ({ afterMs: 10, report: { completed: 1 } });
  cluster.run(500);
  cluster.elect(undefined);
  cluster.run(300_000);
  cluster.elect('m2');
  cluster.run(2_000);
  assert.equal(count(), 2);
});
