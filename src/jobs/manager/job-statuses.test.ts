import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobProgress } from '../job-types.ts';
import { Summary } from '../report/summary.ts';
import { encodeSummary } from '../report/summary-codec.ts';
import { FakeManagerCluster, bundle, leaseMs } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../test/support/jobs/workflow-facts.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

function told(world: FakeManagerCluster): readonly string[] {
  return world.events.flatMap((event) => (event.kind === 'job.state' ? [event.status] : []));
}

test('a job that takes its time goes through its states in order', () => {
  const world = FakeManagerCluster.start({});
  const jobId = world.submit({
    workflows: [batchTestFacts('one', {}, { items: 1 })],
    startAtMs: world.clock.wallMs() + 3_000,
  });
  assert.equal(world.show(jobId).status, 'SUBMITTED');
  world.untilStatus(jobId, 'QUEUED');
  const worker = world.worker('w1', 1);
  worker.cut = true;
  worker.behave = () => 'hold';
  world.run(500);
  assert.equal(world.show(jobId).status, 'QUEUED');
  worker.cut = false;
  worker.report();
  world.untilStatus(jobId, 'DISPATCHING');
  world.untilStatus(jobId, 'RUNNING');
  assert.equal(world.show(jobId).workflows[0]?.status, 'RUNNING');
  worker.end(worker.began[0]?.name as never, { completed: 1, output: json(['x'.repeat(3_000_000)]) });
  world.untilStatus(jobId, 'COMPLETED');
  world.run(1_000);
  assert.deepEqual(told(world), ['QUEUED', 'DISPATCHING', 'RUNNING', 'COMPLETING', 'COMPLETED']);
});

test('cancelling in each state ends the job, frees the cores and answers at once', () => {
  const cases: Readonly<Record<string, (world: FakeManagerCluster) => string>> = {
    SUBMITTED: (world) => world.submit({ workflows: [loadTestFacts('one')], startAtMs: world.clock.wallMs() + 60_000 }),
    QUEUED: (world) => {
      world.get('w1').admin = 'drained';
      return world.submit({ workflows: [loadTestFacts('one')] });
    },
    DISPATCHING: (world) => {
      world.get('w1').cut = true;
      return world.submit({ workflows: [loadTestFacts('one', { cores: 2 })] });
    },
    RUNNING: (world) => world.submit({ workflows: [loadTestFacts('one', { cores: 2 })] }),
  };
  for (const [status, submit] of Object.entries(cases)) {
    const world = FakeManagerCluster.start({ w1: 2 }, status);
    world.get('w1').behave = () => 'hold';
    const jobId = submit(world);
    world.untilStatus(jobId, status);
    const answer = world.must<{ status: string }>('cancel', { jobId });
    assert.ok(['CANCELLING', 'CANCELLED'].includes(answer.status), answer.status);
    assert.equal(world.must<{ jobId: string }>('cancel', { jobId }).jobId, jobId);
    world.run(200);
    world.get('w1').cut = false;
    const shown = world.untilStatus(jobId, 'CANCELLED', 2 * leaseMs);
    assert.equal(shown.workflows[0]?.status, 'CANCELLED');
    world.run(2 * leaseMs);
    assert.equal(world.get('w1').runs.size, 0, status);
    assert.equal(world.must<{ status: string }>('cancel', { jobId }).status, 'CANCELLED');
  }
});

test('cancelling with a worker that is gone ends with its lease', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  world.get('w1').behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  world.untilStatus(jobId, 'RUNNING');
  world.get('w1').kill();
  assert.equal(world.must<{ status: string }>('cancel', { jobId }).status, 'CANCELLING');
  world.untilStatus(jobId, 'CANCELLED', 1.2 * leaseMs);
});

test('time is over in each state', () => {
  const cases: Readonly<Record<string, (world: FakeManagerCluster) => void>> = {
    QUEUED: (world) => {
      world.get('w1').admin = 'drained';
    },
    DISPATCHING: (world) => {
      world.get('w1').cut = true;
    },
    RUNNING: () => {},
  };
  for (const [status, prepare] of Object.entries(cases)) {
    const world = FakeManagerCluster.start({ w1: 1 }, status);
    world.get('w1').behave = () => 'hold';
    prepare(world);
    const jobId = world.submit({
      workflows: [loadTestFacts('one'), loadTestFacts('two', { after: ['one'] })],
      timeoutMs: 3_000,
    });
    world.untilStatus(jobId, status);
    const shown = world.untilStatus(jobId, 'TIMEOUT', 5_000);
    assert.equal(shown.error?.code, 'WORKFLOW_TIMEOUT');
    assert.equal(shown.workflows[1]?.status, 'CANCELLED');
    world.get('w1').cut = false;
    world.run(2 * leaseMs);
    assert.equal(world.get('w1').runs.size, 0, status);
    assert.deepEqual(world.show(jobId).status, 'TIMEOUT');
  }
});

test('a workflow that takes longer than it may is ended, and what waits for it never begins', () => {
  const world = FakeManagerCluster.start({ w1: 3 });
  world.get('w1').behave = ({ workflow }) => (workflow === 0 ? 'hold' : { afterMs: 10, news: { completed: 1 } });
  const workflows = [
    loadTestFacts('slow', { cores: 2, timeoutMs: 2_000 }),
    loadTestFacts('after', { after: ['slow'] }),
    loadTestFacts('other'),
  ];
  const shown = world.untilStatus(world.submit({ workflows }), 'TIMEOUT', 5_000);
  assert.deepEqual(
    shown.workflows.map(({ status }) => status),
    ['FAILED', 'CANCELLED', 'COMPLETED'],
  );
  assert.equal(shown.workflows[0]?.error?.code, 'WORKFLOW_TIMEOUT');
  assert.equal(world.get('w1').runs.size, 0);
});

test('a job that cannot run says why, and where it stands', () => {
  const world = FakeManagerCluster.start({});
  const reasonOf = (jobId: string) => world.show(jobId).queue?.reason ?? '';
  const jobId = world.submit({ workflows: [loadTestFacts('one', { cores: 4 })] });
  assert.equal(reasonOf(jobId), 'no worker has reported yet');
  world.worker('w1', 2).admin = 'drained';
  world.run(100);
  assert.equal(reasonOf(jobId), 'none of 1 workers may take anything now');
  const { lines } = world.must<{ lines: string[] }>('explain', { jobId });
  assert.ok(lines.includes('w1: cannot take it, it is drained (2 of 2 cores free)'), lines.join('\n'));
  world.get('w1').admin = 'active';
  world.run(100);
  assert.equal(reasonOf(jobId), 'needs 4 cores at one time, and all workers together have 2');
  world.worker('w2', 2).behave = () => 'hold';
  world.untilStatus(jobId, 'RUNNING');
  const next = world.submit({ workflows: [loadTestFacts('one', { cores: 3 })] });
  world.run(100);
  assert.match(reasonOf(next), /needs 3 cores at one time: \d of 4 cores are free/);
  assert.equal(world.show(next).queue?.position, 1);
});

test('higher priority first, then submitters in turns, then first come, first served', () => {
  const world = FakeManagerCluster.start({});
  const names: string[] = [];
  const submit = (name: string, submitter: string, priority = 0) => {
    names.push(name);
    return world.submit({ name, priority, workflows: [batchTestFacts(name, {}, { items: 1 })] }, submitter);
  };
  for (let i = 0; i < 4; i++) submit(`ann-${i}`, 'ann');
  for (let i = 0; i < 2; i++) submit(`bob-${i}`, 'bob');
  submit('cid-0', 'cid');
  submit('vip-0', 'ann', 5);
  const worker = world.worker('w1', 1);
  worker.behave = () => ({ afterMs: 100, news: { completed: 1, durationMs: 100 } });
  world.until(() => worker.began.length === names.length, 'all of them');
  const order = worker.began.map(({ order: { facts } }) => (JSON.parse(facts) as { name: string }).name);
  assert.deepEqual(order, ['vip-0', 'ann-0', 'bob-0', 'cid-0', 'ann-1', 'bob-1', 'ann-2', 'ann-3']);
});

test('a giant does not keep others out', () => {
  const world = FakeManagerCluster.start({ w1: 4 });
  world.get('w1').behave = () => ({ afterMs: 200, news: { completed: 1, durationMs: 200 } });
  const giant = world.submit(
    { workflows: [batchTestFacts('giant', { cores: 4 }, { items: 2_000, unitItemsMax: 1 })] },
    'ann',
  );
  world.run(1_000);
  const small = world.submit({ workflows: [loadTestFacts('small')] }, 'bob');
  world.untilStatus(small, 'COMPLETED', 2_000);
  assert.equal(world.show(giant).status, 'RUNNING');
});

test('watching: at once if there is news, later if not, and always the whole', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  const worker = world.get('w1');
  worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one', { cores: 2 })] });
  world.untilStatus(jobId, 'RUNNING');
  const first = world.watch(jobId);
  assert.deepEqual([first.status, first.workers], ['RUNNING', ['w1']]);
  const beforeMs = world.timeline.nowMs;
  const quiet = world.watch(jobId, first.version, 700);
  assert.equal(quiet.version, first.version);
  assert.ok(world.timeline.nowMs - beforeMs >= 700);
  const summary = new Summary();
  for (let i = 1; i <= 100; i++) {
    summary.iterations += 1;
    (summary.step('one').durations as { record(us: number): void }).record(i * 1_000);
  }
  const bytes = encodeSummary(summary);
  const [began] = worker.began;
  worker.tell([{ ...(began?.name as object), status: 'progress', completed: 30, failed: 2, summary: bytes } as never]);
  const news = world.watch(jobId, first.version, 5_000);
  assert.ok(news.version > first.version);
  assert.deepEqual([news.completed, news.failed], [30, 2]);
  for (const { name } of [...worker.runs.values()]) worker.end(name, { completed: 50, summary: bytes });
  const last = world.watch(jobId, news.version, 5_000);
  assert.deepEqual([last.status, last.completed], ['COMPLETED', 100]);
  const report = world.must<{ totals: { iterations: number }; steps: { count: number }[] }>('report', { jobId });
  assert.equal(report.totals.iterations, 200);
  assert.equal(report.steps[0]?.count, 200);
});

test('versions grow over a change of the leader, and many may watch', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  world.get('w1').behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  world.untilStatus(jobId, 'RUNNING');
  const before = world.watch(jobId);
  world.elect('m2');
  const after = world.watch(jobId, before.version, 10_000);
  assert.ok(after.version > before.version);
  assert.ok(after.incidents.some(({ type }) => type === 'leader.changed'));
  const answers: (JobProgress | string)[] = [];
  const words = JSON.stringify({ jobId, afterVersion: after.version, waitMs: 30_000 });
  for (let i = 0; i < 5_001; i++)
    world.host('m2').command('watch', words, 'ann', 60_000, (outcome) => {
      answers.push(outcome.ok ? (JSON.parse(outcome.value) as JobProgress) : outcome.error.code);
    });
  world.run(10);
  assert.deepEqual(answers, ['CAPACITY']);
  world.must('cancel', { jobId });
  world.until(() => answers.length === 5_001, 'all are told');
});

test('a schedule fires at its times, once each, over changes of the leader', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  world.wallOffsetMs = Date.parse('2026-01-01T00:00:30Z') - world.timeline.nowMs;
  const request = { bundle, workflows: [loadTestFacts('one')], cron: '* * * * *', idempotencyKey: 'every-minute' };
  const answer = world.must<{ isNew: boolean }>('submit', request);
  assert.equal(answer.isNew, true);
  assert.equal(world.must<{ isNew: boolean }>('submit', request).isNew, false);
  const other = world.order('submit', { ...request, cron: '*/2 * * * *' });
  assert.ok(!other.ok && other.error.code === 'PRECONDITION');
  const leaders = ['m2', 'm1'];
  for (let i = 0; i < 20; i++) {
    world.run(15_000);
    world.elect(leaders[i % 2]);
  }
  world.run(1_000);
  const { items, open } = world.must<{ items: { status: string }[]; open: number }>('list', {});
  assert.equal(open, 0);
  assert.deepEqual(
    items.map(({ status }) => status),
    Array.from({ length: 5 }, () => 'COMPLETED'),
  );
  const { items: schedules } = world.must<{ items: { name: string; nextAtMs: number }[] }>('schedules', {});
  assert.deepEqual(
    schedules.map(({ name, nextAtMs }) => [name, new Date(nextAtMs).toISOString()]),
    [['every-minute', '2026-01-01T00:06:00.000Z']],
  );
  assert.ok(!world.order('unschedule', { name: 'every-minute' }, 'bob').ok);
  world.must('unschedule', { name: 'every-minute' });
  world.run(120_000);
  assert.equal(world.must<{ items: unknown[] }>('list', {}).items.length, 5);
  world.elect('m2');
  assert.deepEqual(world.must('schedules', {}), { items: [] });
});

test('a schedule whose job is still open leaves the time out; times in which nobody led fire once', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  world.wallOffsetMs = Date.parse('2026-01-01T00:00:30Z') - world.timeline.nowMs;
  world.get('w1').behave = () => 'hold';
  world.must('submit', { bundle, workflows: [loadTestFacts('one')], cron: '* * * * *', idempotencyKey: 'k' });
  const count = () => world.must<{ items: unknown[] }>('list', {}).items.length;
  world.run(180_000);
  assert.equal(count(), 1);
  world.get('w1').end(world.get('w1').began[0]?.name as never, { completed: 1 });
  world.get('w1').behave = () => ({ afterMs: 10, news: { completed: 1 } });
  world.run(500);
  world.elect(undefined);
  world.run(300_000);
  world.elect('m2');
  world.run(2_000);
  assert.equal(count(), 2);
});
