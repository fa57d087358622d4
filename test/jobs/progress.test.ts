/** C6 "Progress": reports of workers count exactly, in any order, any number of times and from any worker. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobProgress } from '../../src/jobs/job-types.ts';
import type { UnitReport } from '../../src/messages/jobs.ts';
import { JobsTestCluster, batch } from '../support/jobs/jobs-cluster.ts';

const nothing = {
  ...{ completed: 0, failed: 0, summary: undefined, output: undefined, code: undefined, message: undefined },
  ...{ found: undefined, durationMs: undefined, failures: undefined },
};

function running(): {
  readonly cluster: JobsTestCluster;
  readonly job: string;
  readonly worker: string;
  readonly name: UnitReport;
} {
  const cluster = new JobsTestCluster();
  const job = cluster.submit(cluster.plan([[batch(10, 10, 1), { itemMs: 400 }]]));
  cluster.until('it is at work', () => cluster.acted.length === 3);
  const { node, workflow, unit, attempt, fence } = cluster.started[0] as JobsTestCluster['started'][number];
  return { cluster, job, worker: node, name: { ...nothing, job, workflow, unit, attempt, fence, status: 'progress' } };
}

function tell(cluster: JobsTestCluster, worker: string, ...news: readonly UnitReport[]): void {
  const { generation } = cluster.core(worker).identity;
  cluster.sendMessage(worker, cluster.leader, { kind: 'reportUnits', generation, reports: [...news] });
}

describe('progress', () => {
  it('does not count after the end, out of order or repeated', () => {
    const { cluster, job, worker, name } = running();
    tell(cluster, worker, { ...name, completed: 9 }, { ...name, completed: 2 });
    tell(cluster, worker, { ...name, completed: 2 });
    tell(cluster, worker, { ...name, completed: 2 });
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 10);
  });

  it('changes nothing after completion', () => {
    const { cluster, job, worker, name } = running();
    cluster.untilEnd(job, 'COMPLETED');
    tell(cluster, worker, { ...name, completed: 99 });
    tell(cluster, worker, { ...name, status: 'completed', completed: 99 });
    tell(cluster, worker, { ...name, status: 'failed', code: 'RUNNER_KILLED' });
    assert.deepEqual(cluster.show(job).totals, { completed: 10, failed: 0 });
  });

  it('of an unknown job is acknowledged and dropped', () => {
    const { cluster, job, worker, name } = running();
    tell(cluster, worker, { ...name, job: 'no-such-job', status: 'completed', completed: 5 });
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 10);
  });

  it('of a superseded attempt or another fence does not count', () => {
    const { cluster, job, worker, name } = running();
    tell(cluster, worker, { ...name, attempt: name.attempt + 1, status: 'completed', completed: 77 });
    tell(cluster, worker, { ...name, fence: name.fence + 1n, status: 'completed', completed: 77 });
    tell(cluster, worker, { ...name, fence: 1n, status: 'failed', code: 'RUNNER_KILLED' });
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 10);
    assert.equal(cluster.started.length, 1);
  });

  it('from a worker without the unit does not count', () => {
    const { cluster, job, worker, name } = running();
    const other = cluster.workers.find((one) => one !== worker) as string;
    tell(cluster, other, { ...name, status: 'completed', completed: 77 });
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 10);
  });

  it('is refused by a manager that does not lead and counted by the leader', () => {
    const { cluster, job, worker, name } = running();
    const { leader } = cluster;
    for (const manager of cluster.managers.filter((one) => one !== leader)) {
      const { generation } = cluster.core(worker).identity;
      const told = cluster.sendMessage(worker, manager, { kind: 'reportUnits', generation, reports: [name] });
      assert.notEqual(told?.kind, 'reportUnitsAck');
    }
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 10);
  });

  it('has exact totals after a retry', () => {
    const { cluster, job, worker } = running();
    cluster.world.crash(worker, 'lost');
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.deepEqual(shown.totals, { completed: 10, failed: 0 });
  });

  it('reaches a watcher at once, and a waiting watcher delays no other request', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[batch(10, 10, 1), { itemMs: 400 }]]));
    const first = cluster.command('watch', { jobId: job, afterVersion: 0, waitMs: 2_000 }) as JobProgress;
    assert.equal(first.jobId, job);
    let { version } = first;
    let progress = first;
    for (let turn = 0; turn < 100 && progress.status !== 'COMPLETED'; turn++) {
      progress = cluster.command('watch', { jobId: job, afterVersion: version, waitMs: 2_000 }) as JobProgress;
      assert.ok(progress.version >= version);
      ({ version } = progress);
    }
    assert.equal(progress.status, 'COMPLETED');
    assert.equal(progress.completed, 10);
  });

  it('of other jobs is not slowed down by many waiting watchers', () => {
    const cluster = new JobsTestCluster();
    const slow = cluster.submit(cluster.plan([[batch(2, 2, 1), { itemMs: 10_000 }]]));
    cluster.until('it runs', () => cluster.started.length === 1);
    const { version } = cluster.command('watch', { jobId: slow, afterVersion: 0, waitMs: 10 }) as JobProgress;
    let waiting = 50;
    for (let at = 0; at < 50; at++) {
      cluster
        .core('n1')
        .jobs?.gateway.send(
          'watch',
          JSON.stringify({ jobId: slow, afterVersion: version + 1_000, waitMs: 4_000 }),
          'client',
          5_000,
          () => (waiting -= 1),
        );
    }
    const startedMs = cluster.nowMs;
    cluster.untilEnd(cluster.submit(cluster.plan([[batch(2, 2, 1), { itemMs: 10 }]])), 'COMPLETED');
    assert.ok(cluster.nowMs - startedMs < 2_000, 'in virtual time');
    cluster.until('all watchers are answered', () => waiting === 0);
    cluster.untilEnd(slow, 'COMPLETED');
  });

  it('is sent at most ten times a second, and an end is never delayed', () => {
    const cluster = new JobsTestCluster();
    let told = 0;
    cluster.rule((message) => {
      if (message.kind === 'reportUnits') told += 1;
      return 'pass';
    });
    const job = cluster.submit(cluster.plan([[batch(3_000, 3_000, 1), { itemMs: 1 }]]));
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 3_000);
    assert.ok(told <= 45, `${told} messages in about three seconds`);
  });
});
