/** C6 "Cancel/timeout": a user or a timeout can end every job in every status, and none of its units runs on. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobsTestCluster, batch } from '../support/jobs/jobs-cluster.ts';

/** Six units on all cores of three workers. */
const wide = batch(60, 10, 6);
const wideCode = { itemMs: 1_000 };

function running(): { readonly cluster: JobsTestCluster; readonly job: string } {
  const cluster = new JobsTestCluster();
  const job = cluster.submit(cluster.plan([[wide, wideCode]]));
  cluster.until('all units run', () => cluster.started.length === 6);
  return { cluster, job };
}

describe('cancel and timeout', () => {
  it('reach the manager, the worker, the runner and the code, and each confirms', () => {
    const { cluster, job } = running();
    assert.ok(['CANCELLING', 'CANCELLED'].includes(cluster.cancel(job)));
    const shown = cluster.untilEnd(job, 'CANCELLED');
    assert.ok(
      cluster.ended.filter(({ outcome }) => outcome === 'cancelled').length === 6,
      'the code of all six has heard it',
    );
    assert.equal(shown.workflows[0]?.status, 'CANCELLED');
    cluster.untilCoresFree();
    const { length } = cluster.acted;
    cluster.advance(5_000);
    assert.equal(cluster.acted.length, length);
  });

  it('keep what the stopped units of a load test have done', () => {
    const cluster = new JobsTestCluster();
    const load = { vus: 4, iterations: 10_000, steps: [{ name: 'one', after: [] }] };
    const job = cluster.submit(cluster.plan([[{ style: 'load', load, cores: 4 }, { itemMs: 5 }]], {}, 'load'));
    cluster.until('all units run', () => cluster.started.length === 4);
    cluster.until('work is done', () => cluster.show(job).totals.completed > 100);
    const before = cluster.show(job).totals.completed;
    cluster.cancel(job);
    const { totals } = cluster.untilEnd(job, 'CANCELLED');
    const done = cluster.ended.reduce((sum, { totals: own }) => sum + own.completed, 0);
    assert.ok(totals.completed >= before, `${totals.completed} after ${before}`);
    assert.equal(totals.completed, done);
    const report = cluster.command('report', { jobId: job }) as { totals: object; partial: object };
    assert.equal((report.totals as { completed: number }).completed, done);
    assert.deepEqual(report.partial, { unitsReported: 4, units: 4 });
  });

  it('keep a job CANCELLING until the lease of an unreachable worker has expired', () => {
    const { cluster, job } = running();
    const cut = cluster.started[0]?.node as string;
    const mend = cluster.world.partition([[cut], cluster.world.names.filter((name) => name !== cut)]);
    assert.equal(cluster.cancel(job), 'CANCELLING');
    cluster.advance(1_500);
    assert.equal(cluster.show(job).status, 'CANCELLING');
    cluster.untilEnd(job, 'CANCELLED');
    const { length } = cluster.acted;
    cluster.advance(3_000);
    assert.equal(cluster.acted.length, length, 'what it ran has ended before');
    mend();
    cluster.advance(3_000);
    cluster.untilCoresFree();
  });

  it('change nothing when a cancel is repeated, and report an unknown job', () => {
    const { cluster, job } = running();
    cluster.cancel(job);
    cluster.cancel(job);
    cluster.untilEnd(job, 'CANCELLED');
    assert.equal(cluster.cancel(job), 'CANCELLED');
    assert.equal(cluster.show(job).status, 'CANCELLED');
    const told = cluster.requestOnce({ verb: 'cancel', request: { jobId: 'no-such-job' }, submitter: 'client' });
    assert.ok(told?.ok === false && told.error.code === 'UNKNOWN_JOB');
  });

  it('do not cancel a completed job', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[batch(2, 2, 1), {}]]));
    cluster.untilEnd(job, 'COMPLETED');
    const told = cluster.requestOnce({ verb: 'cancel', request: { jobId: job }, submitter: 'client' });
    assert.ok(told?.ok !== true || (JSON.parse(told.value) as { status: string }).status === 'COMPLETED');
    assert.equal(cluster.show(job).status, 'COMPLETED');
  });

  it('survive the loss of the leader once acknowledged', () => {
    for (const delayMs of [0, 2, 10]) {
      const { cluster, job } = running();
      cluster.fate('stopUnits', 'lose');
      cluster.cancel(job);
      cluster.advance(delayMs);
      cluster.world.crash(cluster.leader, 'lost');
      cluster.rule(() => 'pass');
      cluster.untilEnd(job, 'CANCELLED');
      cluster.untilCoresFree();
    }
  });

  it('make a job CANCELLED under a new leader only when no unit can run, also after its timeout', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[wide, wideCode]], { timeoutMs: 5_000 }));
    cluster.until('all units run', () => cluster.started.length === 6);
    const cut = cluster.started[0]?.node as string;
    cluster.advance(3_000);
    const mend = cluster.world.partition([[cut], cluster.world.names.filter((name) => name !== cut)]);
    assert.equal(cluster.cancel(job), 'CANCELLING');
    cluster.world.crash(cluster.leader, 'kept');
    cluster.untilEnd(job, 'CANCELLED');
    const { length } = cluster.acted;
    cluster.advance(10_000);
    assert.equal(cluster.acted.length, length);
    mend();
  });

  it('repeat lost stop requests until they are answered', () => {
    const { cluster, job } = running();
    const lost = cluster.fate('stopUnits', 'lose', 3);
    cluster.cancel(job);
    cluster.untilEnd(job, 'CANCELLED');
    assert.ok(lost.applied() > 0);
    cluster.untilCoresFree();
  });

  it('cancel a waiting job before any unit runs', () => {
    const cluster = new JobsTestCluster({ workers: 1, cores: 1 });
    const first = cluster.submit(cluster.plan([[batch(1, 1, 1), { itemMs: 5_000 }]]));
    cluster.until('it runs', () => cluster.started.length === 1);
    const second = cluster.submit(cluster.plan([[batch(1, 1, 1), {}]]));
    cluster.cancel(second);
    cluster.untilEnd(second, 'CANCELLED');
    cluster.untilEnd(first, 'COMPLETED');
    assert.equal(cluster.runsOf(second).length, 0);
  });

  it('end a stuck workflow with WORKFLOW_TIMEOUT', () => {
    for (const trouble of ['hangs', 'ignoresStop'] as const) {
      const cluster = new JobsTestCluster();
      const plan = cluster.plan([[batch(4, 2, 2, { timeoutMs: 3_000 }), { trouble }]], {}, 'stuck');
      const shown = cluster.untilEnd(cluster.submit(plan), 'TIMEOUT');
      assert.equal(shown.error?.code, 'WORKFLOW_TIMEOUT', trouble);
      cluster.untilCoresFree();
    }
  });

  it('end a running job with TIMEOUT and free its cores', () => {
    const cluster = new JobsTestCluster();
    const plan = cluster.plan([[batch(4, 2, 2), { trouble: 'ignoresStop' }]], { timeoutMs: 4_000 }, 'stuck');
    cluster.untilEnd(cluster.submit(plan), 'TIMEOUT');
    cluster.untilCoresFree();
  });

  it('end a waiting job with TIMEOUT, also one that no worker could ever run', () => {
    const cluster = new JobsTestCluster();
    for (const name of cluster.workers) cluster.world.crash(name, 'kept');
    cluster.advance(15_000);
    const job = cluster.submit(cluster.plan([[batch(4, 2, 2), {}]], { timeoutMs: 5_000 }));
    cluster.advance(1_000);
    assert.equal(cluster.show(job).status, 'QUEUED');
    cluster.untilEnd(job, 'TIMEOUT');
    assert.equal(cluster.runsOf(job).length, 0);
  });

  it('end a job that is being cancelled in time, although workers do not reply', () => {
    const { cluster, job } = running();
    for (const name of cluster.workers) cluster.world.pauseNode(name, 30_000);
    cluster.cancel(job);
    cluster.untilEnd(job, 'CANCELLED');
  });

  it('count the timeout across leader changes', () => {
    const cluster = new JobsTestCluster();
    const plan = cluster.plan([[batch(4, 2, 2), { trouble: 'hangs' }]], { timeoutMs: 6_000 }, 'stuck');
    const submittedMs = cluster.nowMs;
    const job = cluster.submit(plan);
    cluster.advance(4_000);
    cluster.world.crash(cluster.leader, 'lost');
    cluster.untilEnd(job, 'TIMEOUT');
    assert.ok(cluster.nowMs - submittedMs < 16_000, 'within its time and ten seconds');
  });
});
