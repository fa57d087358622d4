/** C6 "Cancel/timeout": every job can be ended, by a person or by its time, in every state, and nothing of it runs on. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JobsTestCluster, batch } from './support/jobs/jobs-cluster.ts';

/** Six units, on all cores of three workers. */
const wide = batch(60, 10, 6);
const wideCode = { itemMs: 1_000 };

function running(): { readonly cluster: JobsTestCluster; readonly job: string } {
  const cluster = new JobsTestCluster();
  const job = cluster.submit(cluster.plan([[wide, wideCode]]));
  cluster.until('all units run', () => cluster.began.length === 6);
  return { cluster, job };
}

describe('cancel and timeout', () => {
  it('the word goes to the manager, the worker, the runner and the code, and each confirms it', () => {
    const { cluster, job } = running();
    assert.ok(['CANCELLING', 'CANCELLED'].includes(cluster.cancel(job)));
    const shown = cluster.ends(job, 'CANCELLED');
    assert.ok(
      cluster.ended.filter(({ outcome }) => outcome === 'cancelled').length === 6,
      'the code of all six has heard it',
    );
    assert.equal(shown.workflows[0]?.status, 'CANCELLED');
    cluster.coresReturn();
    const { length } = cluster.acted;
    cluster.advance(5_000);
    assert.equal(cluster.acted.length, length);
  });

  it('partial: a worker that cannot be reached keeps the job CANCELLING until its lease is over', () => {
    const { cluster, job } = running();
    const cut = cluster.began[0]?.node as string;
    const mend = cluster.world.partition([[cut], cluster.world.names.filter((name) => name !== cut)]);
    assert.equal(cluster.cancel(job), 'CANCELLING');
    cluster.advance(1_500);
    assert.equal(cluster.show(job).status, 'CANCELLING');
    cluster.ends(job, 'CANCELLED');
    const { length } = cluster.acted;
    cluster.advance(3_000);
    assert.equal(cluster.acted.length, length, 'what it ran has ended before');
    mend();
    cluster.advance(3_000);
    cluster.coresReturn();
  });

  it('a replayed cancel changes nothing; an unknown job is an error', () => {
    const { cluster, job } = running();
    cluster.cancel(job);
    cluster.cancel(job);
    cluster.ends(job, 'CANCELLED');
    assert.equal(cluster.cancel(job), 'CANCELLED');
    assert.equal(cluster.show(job).status, 'CANCELLED');
    const told = cluster.once({ verb: 'cancel', request: { jobId: 'no-such-job' }, submitter: 'client' });
    assert.ok(told?.ok === false && told.error.code === 'UNKNOWN_JOB');
  });

  it('a job that is completed cannot be cancelled any more', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[batch(2, 2, 1), {}]]));
    cluster.ends(job, 'COMPLETED');
    const told = cluster.once({ verb: 'cancel', request: { jobId: job }, submitter: 'client' });
    assert.ok(told?.ok !== true || (JSON.parse(told.value) as { status: string }).status === 'COMPLETED');
    assert.equal(cluster.show(job).status, 'COMPLETED');
  });

  it('a cancel that was acknowledged survives the loss of the leader', () => {
    for (const delayMs of [0, 2, 10]) {
      const { cluster, job } = running();
      cluster.fate('stopUnits', 'lose');
      cluster.cancel(job);
      cluster.advance(delayMs);
      cluster.world.crash(cluster.leader, 'lost');
      cluster.rule(() => 'pass');
      cluster.ends(job, 'CANCELLED');
      cluster.coresReturn();
    }
  });

  it('under a new leader it is CANCELLED only when nothing of it can run, also when its own time is over before', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[wide, wideCode]], { timeoutMs: 5_000 }));
    cluster.until('all units run', () => cluster.began.length === 6);
    const cut = cluster.began[0]?.node as string;
    cluster.advance(3_000);
    const mend = cluster.world.partition([[cut], cluster.world.names.filter((name) => name !== cut)]);
    assert.equal(cluster.cancel(job), 'CANCELLING');
    cluster.world.crash(cluster.leader, 'kept');
    cluster.ends(job, 'CANCELLED');
    const { length } = cluster.acted;
    cluster.advance(10_000);
    assert.equal(cluster.acted.length, length);
    mend();
  });

  it('lost stops are repeated until they are answered', () => {
    const { cluster, job } = running();
    const lost = cluster.fate('stopUnits', 'lose', 3);
    cluster.cancel(job);
    cluster.ends(job, 'CANCELLED');
    assert.ok(lost.struck() > 0);
    cluster.coresReturn();
  });

  it('a job that waits is cancelled without having run', () => {
    const cluster = new JobsTestCluster({ workers: 1, cores: 1 });
    const first = cluster.submit(cluster.plan([[batch(1, 1, 1), { itemMs: 5_000 }]]));
    cluster.until('it runs', () => cluster.began.length === 1);
    const second = cluster.submit(cluster.plan([[batch(1, 1, 1), {}]]));
    cluster.cancel(second);
    cluster.ends(second, 'CANCELLED');
    cluster.ends(first, 'COMPLETED');
    assert.equal(cluster.runsOf(second).length, 0);
  });

  it('a workflow that is stuck but alive is found: WORKFLOW_TIMEOUT', () => {
    for (const trouble of ['hangs', 'ignoresStop'] as const) {
      const cluster = new JobsTestCluster();
      const plan = cluster.plan([[batch(4, 2, 2, { timeoutMs: 3_000 }), { trouble }]], {}, 'stuck');
      const shown = cluster.ends(cluster.submit(plan), 'TIMEOUT');
      assert.equal(shown.error?.code, 'WORKFLOW_TIMEOUT', trouble);
      cluster.coresReturn();
    }
  });

  it('a job that outlives its time is TIMEOUT while it runs, and its cores return', () => {
    const cluster = new JobsTestCluster();
    const plan = cluster.plan([[batch(4, 2, 2), { trouble: 'ignoresStop' }]], { timeoutMs: 4_000 }, 'stuck');
    cluster.ends(cluster.submit(plan), 'TIMEOUT');
    cluster.coresReturn();
  });

  it('a job that outlives its time is TIMEOUT while it waits, also when nobody could ever run it', () => {
    const cluster = new JobsTestCluster();
    for (const name of cluster.workers) cluster.world.crash(name, 'kept');
    cluster.advance(15_000);
    const job = cluster.submit(cluster.plan([[batch(4, 2, 2), {}]], { timeoutMs: 5_000 }));
    cluster.advance(1_000);
    assert.equal(cluster.show(job).status, 'QUEUED');
    cluster.ends(job, 'TIMEOUT');
    assert.equal(cluster.runsOf(job).length, 0);
  });

  it('a job that is being cancelled ends in its time, whoever does not answer', () => {
    const { cluster, job } = running();
    for (const name of cluster.workers) cluster.world.pauseNode(name, 30_000);
    cluster.cancel(job);
    cluster.ends(job, 'CANCELLED');
  });

  it('time goes on under another leader', () => {
    const cluster = new JobsTestCluster();
    const plan = cluster.plan([[batch(4, 2, 2), { trouble: 'hangs' }]], { timeoutMs: 6_000 }, 'stuck');
    const submittedMs = cluster.nowMs;
    const job = cluster.submit(plan);
    cluster.advance(4_000);
    cluster.world.crash(cluster.leader, 'lost');
    cluster.ends(job, 'TIMEOUT');
    assert.ok(cluster.nowMs - submittedMs < 16_000, 'within its time and ten seconds');
  });
});
