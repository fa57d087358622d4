/** C6 "Manager failover": jobs and running units when leaders are lost. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobView } from '../../src/jobs/job-types.ts';
import { defaultBatchFacts } from '../simulation/workloads/jobs/job-plans.ts';
import { JobsTestCluster, batch } from '../support/jobs/jobs-cluster.ts';

function losses({ workflows }: JobView): number {
  return workflows.flatMap(({ attempts }) => attempts).filter(({ outcome }) => outcome === 'lost').length;
}

/** Two units on two workers, for about five seconds. */
const long = batch(10, 5, 2);
const longCode = { itemMs: 1_000 };

function running(options: ConstructorParameters<typeof JobsTestCluster>[0] = {}): {
  readonly cluster: JobsTestCluster;
  readonly job: string;
} {
  const cluster = new JobsTestCluster(options);
  const job = cluster.submit(cluster.plan([[long, longCode]]));
  cluster.until('both units run', () => cluster.started.length === 2);
  cluster.advance(500);
  return { cluster, job };
}

describe('during a manager failover', () => {
  it('a running unit goes on after its worker lists it to the new leader', () => {
    const { cluster, job } = running();
    cluster.world.crash(cluster.leader, 'lost');
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 10);
    assert.equal(losses(shown), 0);
    assert.equal(cluster.started.length, 2);
  });

  it('an accepted job survives the death of the leader that accepted it, at any instant', () => {
    for (const delayMs of [0, 1, 5, 20, 50]) {
      const cluster = new JobsTestCluster();
      const job = cluster.submit(cluster.plan([[batch(4, 2, 2), {}]]));
      cluster.advance(delayMs);
      cluster.world.crash(cluster.leader, 'lost');
      assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 4, `${delayMs} ms after its acceptance`);
    }
  });

  it('a worker that is isolated for less than its lease goes on', () => {
    const { cluster, job } = running();
    const mend = cluster.world.partition([cluster.workers, cluster.managers]);
    cluster.advance(2_000);
    mend();
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.equal(cluster.started.length, 2);
    assert.equal(losses(shown), 0);
  });

  it('a worker that is isolated for longer stops its units before its lease expires', () => {
    const { cluster, job } = running();
    const cutMs = cluster.nowMs;
    const mend = cluster.world.partition([cluster.workers, cluster.managers]);
    cluster.advance(20_000);
    const last = Math.max(...cluster.acted.map(({ atMs }) => atMs));
    assert.ok(last - cutMs < 8_000, `it still acted ${last - cutMs} ms after the cut`);
    assert.equal(cluster.started.length, 2, 'no other worker could start it');
    mend();
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 10);
  });

  it('the death of a manager that does not lead changes nothing', () => {
    const { cluster, job } = running();
    const { leader } = cluster;
    cluster.world.crash(cluster.managers.find((name) => name !== leader) as string, 'lost');
    assert.equal(losses(cluster.untilEnd(job, 'COMPLETED')), 0);
    assert.equal(cluster.leader, leader);
    assert.equal(cluster.started.length, 2);
  });

  it('only units of the lost worker are retried', () => {
    const { cluster, job } = running();
    const victim = cluster.started[0]?.node as string;
    const hers = cluster.started.filter(({ node }) => node === victim).length;
    cluster.world.crash(cluster.leader, 'lost');
    cluster.world.crash(victim, 'lost');
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.equal(losses(shown), hers);
    assert.equal(cluster.started.length, 2 + hers);
    assert.equal(shown.totals.completed, 10);
  });

  it('a job completes when the leader, the next leader and a worker fail in a row', () => {
    const { cluster, job } = running();
    const first = cluster.leader;
    cluster.world.crash(first, 'lost');
    const second = cluster.leader;
    cluster.world.start(first);
    cluster.advance(1_500);
    cluster.world.crash(second, 'kept');
    cluster.advance(300);
    cluster.world.crash(cluster.started[0]?.node as string, 'kept');
    cluster.world.start(second);
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 10);
    cluster.untilCoresFree();
  });

  it('an end that the old leader recorded counts once when it is resent to the new leader', () => {
    const cluster = new JobsTestCluster();
    cluster.fate('reportUnits', 'loseReply');
    const job = cluster.submit(cluster.plan([[batch(4, 2, 2), { itemMs: 100 }]]));
    cluster.until('one unit has ended', () => cluster.ended.length === 1);
    cluster.advance(200);
    cluster.world.crash(cluster.leader, 'kept');
    cluster.rule(() => 'pass');
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 4);
    assert.equal(cluster.started.length, 2);
    cluster.untilCoresFree();
  });

  it('a worker is asked to stop an attempt that the leader does not know', () => {
    const cluster = new JobsTestCluster();
    const { leader } = cluster;
    const worker = cluster.workers[0] as string;
    const foreign = { job: 'no-such-job', workflow: 0, unit: 0, attempt: 1, fence: 3n };
    const told = cluster.sendMessage(worker, leader, {
      ...{ kind: 'workerHeartbeat', generation: cluster.core(worker).identity.generation, coresTotal: 2 },
      ...{ loadLevel: 'normal', draining: false, attempts: [foreign], isolation: 'full' },
    });
    assert.ok(told?.kind === 'workerHeartbeatReply');
    assert.deepEqual(told.stop, [foreign]);
  });

  it('jobs go on with their progress after a leadership transfer', () => {
    const { cluster, job } = running();
    const { leader } = cluster;
    let hasStopped = false;
    cluster.world.host(leader).process?.run(() => {
      cluster.core(leader).stop(() => {
        hasStopped = true;
      });
    });
    cluster.until('it has stopped', () => hasStopped);
    cluster.world.crash(leader, 'kept');
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.equal(losses(shown), 0);
    assert.equal(cluster.started.length, 2);
  });

  it('a stopping worker returns its units, which run elsewhere without a failure', () => {
    const { cluster, job } = running();
    const leaving = cluster.started[0]?.node as string;
    let hasStopped = false;
    cluster.world.host(leaving).process?.run(() => {
      cluster.core(leaving).stop(() => {
        hasStopped = true;
      });
    });
    cluster.until('it has stopped', () => hasStopped);
    cluster.world.crash(leaving, 'kept');
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 10);
    assert.equal(losses(shown), 0);
  });

  it('all jobs are restored from disks and workers when all managers restart at once', () => {
    const { cluster, job } = running();
    const waiting = cluster.submit(cluster.plan([[batch(6, 2, 2), {}]], { startAtMs: 0 }));
    for (const name of cluster.managers) cluster.world.crash(name, 'lost');
    cluster.advance(1_000);
    for (const name of cluster.managers) cluster.world.start(name);
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 10);
    assert.equal(cluster.untilEnd(waiting, 'COMPLETED').totals.completed, 6);
  });

  it('an old leader assigns nothing when it resumes after a pause', () => {
    const { cluster, job } = running();
    const old = cluster.leader;
    cluster.world.pauseNode(old, 8_000);
    cluster.advance(3_000);
    assert.notEqual(cluster.leader, old);
    cluster.world.crash(cluster.started[0]?.node as string, 'lost');
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 10);
    cluster.advance(8_000);
  });

  it('the result of an isolated worker never counts after its unit was reassigned', () => {
    const cluster = new JobsTestCluster();
    const facts = {
      batch: defaultBatchFacts({ items: 3, unitItemsMax: 3, onItemError: 'continue' }),
      cores: 1,
    } as const;
    const job = cluster.submit(cluster.plan([[facts, { itemMs: 900, failingPercent: 50 }]]));
    cluster.until('it runs', () => cluster.started.length === 1);
    const cut = cluster.started[0]?.node as string;
    const mend = cluster.world.partition([[cut], cluster.world.names.filter((name) => name !== cut)]);
    cluster.until('another one runs it', () => cluster.started.length === 2);
    mend();
    const { completed, failed } = cluster.untilEnd(job, 'PARTIAL').totals;
    assert.equal(completed + failed, 3);
  });

  it('a schedule creates one job a minute across leader changes', () => {
    const cluster = new JobsTestCluster();
    const plan = cluster.plan([[batch(2, 2, 1), {}]], { cron: '* * * * *', idempotencyKey: 'each-minute' });
    cluster.request({ verb: 'store', sha256: plan.request.bundle, code: plan.code });
    cluster.command('submit', plan.request);
    cluster.command('submit', plan.request);
    cluster.until('it is nearly a minute', () => cluster.nowMs > 59_900);
    assert.equal(cluster.started.length, 0);
    cluster.until('the first one runs', () => cluster.started.length === 1);
    cluster.world.crash(cluster.leader, 'lost');
    cluster.until('the second one runs', () => cluster.started.length === 2);
    cluster.until('it is three minutes', () => cluster.nowMs > 190_000, 120_000);
    assert.equal(cluster.started.length, 3);
    cluster.command('unschedule', { name: 'each-minute' });
    cluster.advance(70_000);
    assert.equal(cluster.started.length, 3);
  });

  it('many jobs all end and every attempt starts once across leader changes', () => {
    const cluster = new JobsTestCluster({ workers: 4 });
    const plans = Array.from({ length: 12 }, () => cluster.plan([[batch(6, 2, 2), { itemMs: 150 }]]));
    const jobs = plans.map((plan) => cluster.submit(plan));
    cluster.world.crash(cluster.leader, 'kept');
    for (const job of jobs) assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 6);
    const attempts = cluster.started.map(({ job, unit, attempt }) => `${job}/${unit}/${attempt}`);
    assert.equal(new Set(attempts).size, attempts.length);
  });
});
