/** C6 "Manager failover": what becomes of jobs and of running units when those who lead them are lost. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobView } from '../src/jobs/job-types.ts';
import { defaultBatchFacts } from './simulation/workloads/jobs/job-plans.ts';
import { JobsTestCluster, batch } from './support/jobs/jobs-cluster.ts';

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
  cluster.until('both units run', () => cluster.began.length === 2);
  cluster.advance(500);
  return { cluster, job };
}

describe('manager failover', () => {
  it('the worker finds the new leader and reports what runs: it goes on, and is not begun again', () => {
    const { cluster, job } = running();
    cluster.world.crash(cluster.leader, 'lost');
    const shown = cluster.ends(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 10);
    assert.equal(losses(shown), 0);
    assert.equal(cluster.began.length, 2);
  });

  it('an accepted job survives the death of the leader that accepted it, at whatever instant', () => {
    for (const delayMs of [0, 1, 5, 20, 50]) {
      const cluster = new JobsTestCluster();
      const job = cluster.submit(cluster.plan([[batch(4, 2, 2), {}]]));
      cluster.advance(delayMs);
      cluster.world.crash(cluster.leader, 'lost');
      assert.equal(cluster.ends(job, 'COMPLETED').totals.completed, 4, `${delayMs} ms after its acceptance`);
    }
  });

  it('a worker that nobody hears for less than its lease goes on', () => {
    const { cluster, job } = running();
    const mend = cluster.world.partition([cluster.workers, cluster.managers]);
    cluster.advance(2_000);
    mend();
    const shown = cluster.ends(job, 'COMPLETED');
    assert.equal(cluster.began.length, 2);
    assert.equal(losses(shown), 0);
  });

  it('a worker that nobody hears for longer stops by itself before its lease is over', () => {
    const { cluster, job } = running();
    const cutMs = cluster.nowMs;
    const mend = cluster.world.partition([cluster.workers, cluster.managers]);
    cluster.advance(20_000);
    const last = Math.max(...cluster.acted.map(({ atMs }) => atMs));
    assert.ok(last - cutMs < 8_000, `it still acted ${last - cutMs} ms after the cut`);
    assert.equal(cluster.began.length, 2, 'nobody else could begin it');
    mend();
    assert.equal(cluster.ends(job, 'COMPLETED').totals.completed, 10);
  });

  it('the death of a manager that does not lead changes nothing', () => {
    const { cluster, job } = running();
    const { leader } = cluster;
    cluster.world.crash(cluster.managers.find((name) => name !== leader) as string, 'lost');
    assert.equal(losses(cluster.ends(job, 'COMPLETED')), 0);
    assert.equal(cluster.leader, leader);
    assert.equal(cluster.began.length, 2);
  });

  it('only what the lost worker had is begun again', () => {
    const { cluster, job } = running();
    const victim = cluster.began[0]?.node as string;
    const hers = cluster.began.filter(({ node }) => node === victim).length;
    cluster.world.crash(cluster.leader, 'lost');
    cluster.world.crash(victim, 'lost');
    const shown = cluster.ends(job, 'COMPLETED');
    assert.equal(losses(shown), hers);
    assert.equal(cluster.began.length, 2 + hers);
    assert.equal(shown.totals.completed, 10);
  });

  it('failures in a row: leader, next leader, worker', () => {
    const { cluster, job } = running();
    const first = cluster.leader;
    cluster.world.crash(first, 'lost');
    const second = cluster.leader;
    cluster.world.start(first);
    cluster.advance(1_500);
    cluster.world.crash(second, 'kept');
    cluster.advance(300);
    cluster.world.crash(cluster.began[0]?.node as string, 'kept');
    cluster.world.start(second);
    assert.equal(cluster.ends(job, 'COMPLETED').totals.completed, 10);
    cluster.coresReturn();
  });

  it('an end that the old leader has recorded, told again to the new one, counts once', () => {
    const cluster = new JobsTestCluster();
    cluster.fate('reportUnits', 'loseAnswer');
    const job = cluster.submit(cluster.plan([[batch(4, 2, 2), { itemMs: 100 }]]));
    cluster.until('one unit has ended', () => cluster.ended.length === 1);
    cluster.advance(200);
    cluster.world.crash(cluster.leader, 'kept');
    cluster.rule(() => 'pass');
    assert.equal(cluster.ends(job, 'COMPLETED').totals.completed, 4);
    assert.equal(cluster.began.length, 2);
    cluster.coresReturn();
  });

  it('a worker that reports what nobody knows is told to stop it', () => {
    const cluster = new JobsTestCluster();
    const { leader } = cluster;
    const worker = cluster.workers[0] as string;
    const foreign = { job: 'no-such-job', workflow: 0, unit: 0, attempt: 1, fence: 3n };
    const told = cluster.say(worker, leader, {
      ...{ kind: 'workerHeartbeat', generation: cluster.core(worker).identity.generation, coresTotal: 2 },
      ...{ loadLevel: 'normal', draining: false, attempts: [foreign], isolation: 'full' },
    });
    assert.ok(told?.kind === 'workerHeartbeatReply');
    assert.deepEqual(told.stop, [foreign]);
  });

  it('graceful: the leader hands over, and everything goes on with what was done', () => {
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
    const shown = cluster.ends(job, 'COMPLETED');
    assert.equal(losses(shown), 0);
    assert.equal(cluster.began.length, 2);
  });

  it('a stop of the worker gives its units back: they begin elsewhere, and it is no failure', () => {
    const { cluster, job } = running();
    const leaving = cluster.began[0]?.node as string;
    let hasStopped = false;
    cluster.world.host(leaving).process?.run(() => {
      cluster.core(leaving).stop(() => {
        hasStopped = true;
      });
    });
    cluster.until('it has stopped', () => hasStopped);
    cluster.world.crash(leaving, 'kept');
    const shown = cluster.ends(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 10);
    assert.equal(losses(shown), 0);
  });

  it('all managers at once: what runs and what waits is known again from their disks and from the workers', () => {
    const { cluster, job } = running();
    const waiting = cluster.submit(cluster.plan([[batch(6, 2, 2), {}]], { startAtMs: 0 }));
    for (const name of cluster.managers) cluster.world.crash(name, 'lost');
    cluster.advance(1_000);
    for (const name of cluster.managers) cluster.world.start(name);
    assert.equal(cluster.ends(job, 'COMPLETED').totals.completed, 10);
    assert.equal(cluster.ends(waiting, 'COMPLETED').totals.completed, 6);
  });

  it('an old leader that stood still gives nothing when it goes on', () => {
    const { cluster, job } = running();
    const old = cluster.leader;
    cluster.world.pauseNode(old, 8_000);
    cluster.advance(3_000);
    assert.notEqual(cluster.leader, old);
    cluster.world.crash(cluster.began[0]?.node as string, 'lost');
    assert.equal(cluster.ends(job, 'COMPLETED').totals.completed, 10);
    cluster.advance(8_000);
  });

  it('an isolated worker finishes what was given to another one meanwhile: its result is never counted', () => {
    const cluster = new JobsTestCluster();
    const facts = {
      batch: defaultBatchFacts({ items: 3, unitItemsMax: 3, onItemError: 'continue' }),
      cores: 1,
    } as const;
    const job = cluster.submit(cluster.plan([[facts, { itemMs: 900, failingPercent: 50 }]]));
    cluster.until('it runs', () => cluster.began.length === 1);
    const cut = cluster.began[0]?.node as string;
    const mend = cluster.world.partition([[cut], cluster.world.names.filter((name) => name !== cut)]);
    cluster.until('another one runs it', () => cluster.began.length === 2);
    mend();
    const { completed, failed } = cluster.ends(job, 'PARTIAL').totals;
    assert.equal(completed + failed, 3);
  });

  it('a schedule makes one job a minute, whoever leads', () => {
    const cluster = new JobsTestCluster();
    const plan = cluster.plan([[batch(2, 2, 1), {}]], { cron: '* * * * *', idempotencyKey: 'each-minute' });
    cluster.answer({ verb: 'store', sha256: plan.request.bundle, code: plan.code });
    cluster.order('submit', plan.request);
    cluster.order('submit', plan.request);
    cluster.until('it is nearly a minute', () => cluster.nowMs > 59_900);
    assert.equal(cluster.began.length, 0);
    cluster.until('the first one runs', () => cluster.began.length === 1);
    cluster.world.crash(cluster.leader, 'lost');
    cluster.until('the second one runs', () => cluster.began.length === 2);
    cluster.until('it is three minutes', () => cluster.nowMs > 190_000, 120_000);
    assert.equal(cluster.began.length, 3);
    cluster.order('unschedule', { name: 'each-minute' });
    cluster.advance(70_000);
    assert.equal(cluster.began.length, 3);
  });

  it('no job is without a leader, and none is led twice: all of many end, each attempt was begun once', () => {
    const cluster = new JobsTestCluster({ workers: 4 });
    const plans = Array.from({ length: 12 }, () => cluster.plan([[batch(6, 2, 2), { itemMs: 150 }]]));
    const jobs = plans.map((plan) => cluster.submit(plan));
    cluster.world.crash(cluster.leader, 'kept');
    for (const job of jobs) assert.equal(cluster.ends(job, 'COMPLETED').totals.completed, 6);
    const attempts = cluster.began.map(({ job, unit, attempt }) => `${job}/${unit}/${attempt}`);
    assert.equal(new Set(attempts).size, attempts.length);
  });
});
