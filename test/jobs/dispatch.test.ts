/** C6 "Provisioning" and "Dispatch": how units reach workers, and what happens when any step fails. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobView } from '../../src/jobs/job-types.ts';
import { JobsTestCluster, batch } from '../support/jobs/jobs-cluster.ts';

/** Outcomes of all attempts, in order. */
function outcomes({ workflows }: JobView): readonly string[] {
  return workflows.flatMap(({ attempts }) => attempts.map(({ outcome }) => outcome));
}

const one = batch(4, 10, 1);

describe('the provisioning of units', () => {
  it('sends a unit only after a majority has its assignment', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[one, {}]]));
    let known = 0;
    cluster.rule((message) => {
      if (message.kind === 'assignUnits') known = knowing(cluster, job);
      return 'pass';
    });
    cluster.untilEnd(job, 'COMPLETED');
    const later = cluster.submit(cluster.plan([[one, {}]]));
    cluster.untilEnd(later, 'COMPLETED');
    assert.ok(known >= 2, `${known} of 3 managers have the job in their logs`);
  });

  it('accepts no job and assigns no unit without a quorum, and resumes with it', () => {
    const cluster = new JobsTestCluster();
    const { leader } = cluster;
    const plan = cluster.plan([[one, {}]], { idempotencyKey: 'k' });
    const first = cluster.submit(cluster.plan([[one, {}]]));
    cluster.untilEnd(first, 'COMPLETED');
    cluster.request({ verb: 'store', sha256: plan.request.bundle, code: plan.code });
    const others = cluster.managers.filter((name) => name !== leader);
    for (const name of others) cluster.world.crash(name, 'kept');
    const told = cluster.requestOnce({ verb: 'submit', request: plan.request, submitter: 'client' }, leader);
    assert.ok(told?.ok !== true, 'no manager accepts a job without a majority');
    assert.equal(cluster.started.length, 1);
    for (const name of others) cluster.world.start(name);
    cluster.untilEnd(cluster.submit(plan), 'COMPLETED');
  });

  it('counts a majority of the configured managers, not of the alive ones', () => {
    const cluster = new JobsTestCluster();
    const { leader } = cluster;
    const job = cluster.submit(cluster.plan([[batch(30, 2, 2), { itemMs: 400 }]]));
    cluster.until('it runs', () => cluster.started.length > 0);
    for (const name of cluster.managers) if (name !== leader) cluster.world.crash(name, 'kept');
    cluster.advance(3_000);
    const before = cluster.started.length;
    cluster.advance(10_000);
    assert.equal(cluster.started.length, before, 'one manager of three gives nothing');
    for (const name of cluster.managers) if (!cluster.world.isUp(name)) cluster.world.start(name);
    cluster.untilEnd(job, 'COMPLETED');
  });

  it('gives a refused unit to another worker without counting an attempt', () => {
    const cluster = new JobsTestCluster();
    for (const name of cluster.workers.slice(1)) cluster.core(name).jobs?.worker?.setDraining(true);
    const refusing = cluster.workers[0] as string;
    cluster.core(refusing).jobs?.worker?.setDraining(true);
    const job = cluster.submit(cluster.plan([[batch(4, 10, 1, { maxRetries: 0 }), {}]]));
    cluster.advance(3_000);
    assert.equal(cluster.started.length, 0);
    for (const name of cluster.workers.slice(1)) cluster.core(name).jobs?.worker?.setDraining(false);
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.notEqual(shown.workflows[0]?.attempts.at(-1)?.worker, refusing);
  });

  it('soon stops assigning units to a worker that receives no assignment', () => {
    const cluster = new JobsTestCluster();
    const isolated = cluster.workers[0] as string;
    const lost = cluster.fate('assignUnits', 'lose', Infinity, isolated);
    const job = cluster.submit(cluster.plan([[batch(40, 1, 6), { itemMs: 300 }]]));
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 40);
    assert.ok(lost.applied() > 0 && lost.applied() < 40, `${lost.applied()} messages to an isolated worker`);
    assert.ok(cluster.started.every(({ node }) => node !== isolated));
  });
});

/** Number of managers with the job in their log. */
function knowing(cluster: JobsTestCluster, job: string): number {
  const range = { from: '/jobs/', to: '/jobs0' };
  const keyspaces = cluster.managers.map((name) => cluster.core(name).control?.manager?.replica.keyspace);
  return keyspaces.filter((one) => one?.range(range, 1_000).entries.some(({ key }) => key.includes(job))).length;
}

describe('the dispatcher', () => {
  it('gives a unit that a worker without cores refused to another worker, without a failure', () => {
    const cluster = new JobsTestCluster({ workers: 2, cores: 1 });
    const slow = cluster.submit(cluster.plan([[batch(1, 1, 1), { itemMs: 8_000 }]]));
    cluster.until('it runs', () => cluster.started.length === 1);
    const quick = cluster.submit(cluster.plan([[batch(6, 1, 2, { maxRetries: 0 }), {}]]));
    assert.deepEqual(
      new Set(outcomes(cluster.untilEnd(quick, 'COMPLETED')).filter((one) => one === 'failed')),
      new Set(),
    );
    cluster.untilEnd(slow, 'COMPLETED');
  });

  it('retries a unit whose worker dies before its reply', () => {
    const cluster = new JobsTestCluster();
    let victim = '';
    cluster.rule((message, at) => {
      if (message.kind !== 'assignUnits' || victim !== '') return 'pass';
      victim = at;
      cluster.world.timeline.after(0, () => cluster.world.crash(at, 'kept'));
      return 'lose';
    });
    const shown = cluster.untilEnd(cluster.submit(cluster.plan([[one, {}]])), 'COMPLETED');
    assert.deepEqual(outcomes(shown), ['lost', 'completed']);
    assert.notEqual(cluster.started[0]?.node, victim);
  });

  it('retries a unit whose worker dies after its reply', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[one, { itemMs: 500 }]]));
    cluster.until('it runs', () => cluster.started.length === 1);
    const victim = cluster.started[0]?.node as string;
    cluster.world.crash(victim, 'lost');
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.deepEqual(outcomes(shown), ['lost', 'completed']);
    assert.equal(shown.totals.completed, 4);
  });

  it('retries a unit whose worker dies while it runs and restarts at once', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[batch(20, 20, 1), { itemMs: 200 }]]));
    cluster.until('it is at work', () => cluster.acted.length >= 5);
    const victim = cluster.started[0]?.node as string;
    cluster.world.crash(victim, 'kept');
    cluster.world.start(victim);
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 20);
    assert.deepEqual(outcomes(shown), ['lost', 'completed']);
  });

  it('counts a result once when a worker dies before its result is acknowledged', () => {
    const cluster = new JobsTestCluster();
    cluster.fate('reportUnits', 'lose');
    const job = cluster.submit(cluster.plan([[one, {}]]));
    cluster.until('it has finished', () => cluster.ended.length === 1);
    cluster.world.crash(cluster.ended[0]?.node as string, 'kept');
    cluster.rule(() => 'pass');
    const shown = cluster.untilEnd(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 4);
    assert.equal(cluster.ended.length, 2);
  });

  it('runs and counts a unit once when the reply is late', () => {
    const cluster = new JobsTestCluster();
    const late = cluster.fate('assignUnits', 'late', 1);
    const shown = cluster.untilEnd(cluster.submit(cluster.plan([[one, { itemMs: 900 }]])), 'COMPLETED');
    assert.equal(late.applied(), 1);
    assert.equal(shown.totals.completed, 4);
    assert.equal(cluster.started.length, 1);
  });

  it('runs a unit once when the reply is lost', () => {
    const cluster = new JobsTestCluster();
    cluster.fate('assignUnits', 'loseReply', 1);
    const shown = cluster.untilEnd(cluster.submit(cluster.plan([[one, { itemMs: 900 }]])), 'COMPLETED');
    assert.equal(shown.totals.completed, 4);
    assert.equal(cluster.started.length, 1);
  });

  it('runs a unit once, on one core, when its assignment arrives twice', () => {
    const cluster = new JobsTestCluster({ workers: 1, cores: 2 });
    const twice = cluster.fate('assignUnits', 'twice');
    const job = cluster.submit(cluster.plan([[batch(8, 2, 2), { itemMs: 300 }]]));
    cluster.until('both run', () => cluster.started.length === 2);
    assert.equal(cluster.core('n4').jobs?.worker?.coreCounts().free, 0);
    assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 8);
    assert.ok(twice.applied() > 0);
    assert.equal(cluster.started.length, 4);
    cluster.untilCoresFree();
  });

  it('counts an end once that is reported twice', () => {
    const cluster = new JobsTestCluster();
    cluster.fate('reportUnits', 'twice');
    const shown = cluster.untilEnd(cluster.submit(cluster.plan([[batch(30, 3, 4), { itemMs: 40 }]])), 'COMPLETED');
    assert.equal(shown.totals.completed, 30);
  });

  it('never assigns a core twice when two jobs race for it, and both end', () => {
    const cluster = new JobsTestCluster({ workers: 2, cores: 2 });
    const plans = [cluster.plan([[batch(12, 1, 4), {}]]), cluster.plan([[batch(12, 1, 4), {}]])];
    const jobs = plans.map((plan) => cluster.submit(plan));
    for (const job of jobs) assert.equal(cluster.untilEnd(job, 'COMPLETED').totals.completed, 12);
    cluster.untilCoresFree();
  });

  it('retries with the same spec on other workers and ends with RETRIES_EXHAUSTED', () => {
    const cluster = new JobsTestCluster({ workers: 4 });
    const plan = cluster.plan([[batch(4, 10, 1, { maxRetries: 2 }), { trouble: 'crashes' }]], {}, 'poison');
    const shown = cluster.untilEnd(cluster.submit(plan), 'FAILED');
    assert.equal(shown.error?.code, 'RETRIES_EXHAUSTED');
    assert.equal(cluster.started.length, 3, 'one attempt and two retries');
    assert.equal(new Set(cluster.started.map(({ node }) => node)).size, 3, 'each on another worker');
    cluster.untilCoresFree();
  });

  it('queues a job with a reason while all workers are full, and starts it when a core is free', () => {
    const cluster = new JobsTestCluster({ workers: 1, cores: 1 });
    const first = cluster.submit(cluster.plan([[batch(1, 1, 1), { itemMs: 6_000 }]]));
    cluster.until('it runs', () => cluster.started.length === 1);
    const second = cluster.submit(cluster.plan([[one, {}]]));
    cluster.advance(1_000);
    const waiting = cluster.show(second);
    assert.equal(waiting.status, 'QUEUED');
    assert.equal(waiting.queue?.position, 1);
    assert.match(waiting.queue?.reason ?? '', /core/);
    const { lines } = cluster.command('explain', { jobId: second }) as { lines: string[] };
    assert.ok(lines.length > 0);
    cluster.untilEnd(first, 'COMPLETED');
    cluster.untilEnd(second, 'COMPLETED');
  });

  it('runs no unit after a cancel that races a dispatch', () => {
    for (const seed of [1, 2, 3]) {
      const cluster = new JobsTestCluster({ seed });
      const job = cluster.submit(cluster.plan([[batch(40, 4, 4), { itemMs: 100 }]]));
      cluster.cancel(job);
      cluster.untilEnd(job, 'CANCELLED');
      const { length } = cluster.acted;
      cluster.advance(5_000);
      assert.equal(cluster.acted.length, length);
      cluster.untilCoresFree();
    }
  });

  it('starts no further attempt after a cancel that races a retry', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[one, { itemMs: 2_000 }]]));
    cluster.until('it runs', () => cluster.started.length === 1);
    cluster.world.crash(cluster.started[0]?.node as string, 'lost');
    cluster.cancel(job);
    cluster.untilEnd(job, 'CANCELLED');
    cluster.advance(10_000);
    assert.equal(cluster.started.length, 1);
  });

  it('keeps one final status when a cancel races the completion', () => {
    for (const seed of [1, 2, 3, 4]) {
      const cluster = new JobsTestCluster({ seed });
      const job = cluster.submit(cluster.plan([[batch(2, 2, 1), { itemMs: 60 }]]));
      cluster.until('it is about to end', () => cluster.ended.length === 1);
      cluster.command('cancel', { jobId: job });
      cluster.until('it is over', () =>
        ['COMPLETED', 'CANCELLED'].includes((cluster.command('show', { jobId: job }) as JobView).status),
      );
      const { status } = cluster.command('show', { jobId: job }) as JobView;
      cluster.advance(10_000);
      assert.equal((cluster.command('show', { jobId: job }) as JobView).status, status);
    }
  });

  it('conserves cores across completion, failure, cancel, worker death and duplicate messages', () => {
    const cluster = new JobsTestCluster();
    cluster.fate('assignUnits', 'twice');
    const jobs = [
      cluster.submit(cluster.plan([[batch(20, 2, 3), {}]])),
      cluster.submit(
        cluster.plan([[batch(6, 2, 2, { maxRetries: 1 }), { trouble: 'crashes', troubleUnit: 0 }]], {}, 'poison'),
      ),
      cluster.submit(cluster.plan([[batch(9, 3, 2, { hasSetup: true }), { trouble: 'throws' }]], {}, 'broken')),
      cluster.submit(cluster.plan([[batch(50, 5, 4), { itemMs: 300 }]])),
    ];
    cluster.advance(1_000);
    cluster.cancel(jobs[3] as string);
    const victim = cluster.workers.find((name) => (cluster.core(name).jobs?.worker?.runningUnits() ?? 0) > 0);
    if (victim !== undefined) {
      cluster.world.crash(victim, 'kept');
      cluster.advance(500);
      cluster.world.start(victim);
    }
    cluster.untilEnd(jobs[0] as string, 'COMPLETED');
    cluster.untilEnd(jobs[1] as string, 'FAILED');
    cluster.untilEnd(jobs[2] as string, 'FAILED');
    cluster.untilEnd(jobs[3] as string, 'CANCELLED');
    cluster.untilCoresFree();
    const all = cluster.submit(cluster.plan([[batch(6, 1, 6), { itemMs: 1_000 }]]));
    cluster.until('it has all cores', () => cluster.runsOf(all).length === 6);
    cluster.untilEnd(all, 'COMPLETED');
  });

  it('starts wf4 before wf3 with 8 cores, wf1 = 4, wf2 = 4, wf3 = 6 after wf2, wf4 = 1 after wf2', () => {
    const cluster = new JobsTestCluster({ workers: 4, cores: 2 });
    const steps = [{ name: 'step', after: [] }];
    const load = (vus: number, durationMs: number) => ({ style: 'load' as const, load: { vus, durationMs, steps } });
    const job = cluster.submit(
      cluster.plan([
        [
          { name: 'wf1', cores: 4, ...load(4, 8_000) },
          { itemMs: 100, hasOutput: false },
        ],
        [
          { name: 'wf2', cores: 4, ...load(4, 2_000) },
          { itemMs: 100, hasOutput: false },
        ],
        [{ name: 'wf3', cores: 6, after: ['wf2'], ...load(6, 1_000) }, { itemMs: 100 }],
        [{ name: 'wf4', cores: 1, after: ['wf2'], ...load(1, 1_000) }, { itemMs: 100 }],
      ]),
    );
    cluster.untilEnd(job, 'COMPLETED');
    const startedMs = (workflow: number): number =>
      Math.min(...cluster.started.filter((run) => run.workflow === workflow).map(({ atMs }) => atMs));
    assert.ok(startedMs(3) < startedMs(2), 'the small one passes the large one that does not fit');
    assert.ok(startedMs(3) > startedMs(1));
  });

  it('rejects zero, negative and too many cores, and keeps no job', () => {
    const cluster = new JobsTestCluster();
    for (const cores of [0, -1, 1.5, 1_000_000]) {
      const plan = cluster.plan([[{ ...one, cores }, {}]], { idempotencyKey: 'cores' });
      cluster.request({ verb: 'store', sha256: plan.request.bundle, code: plan.code });
      const told = cluster.requestOnce({ verb: 'submit', request: plan.request, submitter: 'client' });
      assert.ok(told?.ok === false && told.error.code === 'BAD_ARGUMENT', `${cores} cores`);
    }
    cluster.untilEnd(cluster.submit(cluster.plan([[one, {}]], { idempotencyKey: 'cores' })), 'COMPLETED');
    cluster.untilCoresFree();
  });

  it('rejects a cycle of dependencies and an unknown dependency', () => {
    const cluster = new JobsTestCluster();
    for (const after of [['b'], ['c']]) {
      const plan = cluster.plan([
        [{ ...one, name: 'a', after }, {}],
        [{ ...one, name: 'b', after: ['a'] }, {}],
      ]);
      cluster.request({ verb: 'store', sha256: plan.request.bundle, code: plan.code });
      const told = cluster.requestOnce({ verb: 'submit', request: plan.request, submitter: 'client' });
      assert.ok(told?.ok === false && told.error.code === 'BAD_ARGUMENT');
    }
  });
});
