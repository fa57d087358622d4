/** C6 "Provisioning" and "Dispatch": how a unit gets to a worker, and what happens when that goes wrong at any step. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { JobView } from '../src/jobs/job-types.ts';
import { JobsTestCluster, batch } from './support/jobs/jobs-cluster.ts';

/** Outcomes of all attempts, in order. */
function outcomes({ workflows }: JobView): readonly string[] {
  return workflows.flatMap(({ attempts }) => attempts.map(({ outcome }) => outcome));
}

const one = batch(4, 10, 1);

describe('provisioning', () => {
  it('with a quorum a unit is given, and the assignment is known to a majority before', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[one, {}]]));
    let known = 0;
    cluster.rule((message) => {
      if (message.kind === 'assignUnits') known = knowing(cluster, job);
      return 'pass';
    });
    cluster.ends(job, 'COMPLETED');
    const later = cluster.submit(cluster.plan([[one, {}]]));
    cluster.ends(later, 'COMPLETED');
    assert.ok(known >= 2, `${known} of 3 managers have the job in their logs`);
  });

  it('without a quorum nothing is accepted and nothing is given; both come back with it', () => {
    const cluster = new JobsTestCluster();
    const { leader } = cluster;
    const plan = cluster.plan([[one, {}]], { idempotencyKey: 'k' });
    const first = cluster.submit(cluster.plan([[one, {}]]));
    cluster.ends(first, 'COMPLETED');
    cluster.answer({ verb: 'store', sha256: plan.request.bundle, code: plan.code });
    const others = cluster.managers.filter((name) => name !== leader);
    for (const name of others) cluster.world.crash(name, 'kept');
    const told = cluster.once({ verb: 'submit', request: plan.request, submitter: 'client' }, leader);
    assert.ok(told?.ok !== true, 'nobody may accept a job without a majority');
    assert.equal(cluster.began.length, 1);
    for (const name of others) cluster.world.start(name);
    cluster.ends(cluster.submit(plan), 'COMPLETED');
  });

  it('a majority is counted among the managers that are configured, not among those that are alive', () => {
    const cluster = new JobsTestCluster();
    const { leader } = cluster;
    const job = cluster.submit(cluster.plan([[batch(30, 2, 2), { itemMs: 400 }]]));
    cluster.until('it runs', () => cluster.began.length > 0);
    for (const name of cluster.managers) if (name !== leader) cluster.world.crash(name, 'kept');
    cluster.advance(3_000);
    const before = cluster.began.length;
    cluster.advance(10_000);
    assert.equal(cluster.began.length, before, 'one manager of three gives nothing');
    for (const name of cluster.managers) if (!cluster.world.isUp(name)) cluster.world.start(name);
    cluster.ends(job, 'COMPLETED');
  });

  it('a worker that refuses costs no attempt: another one gets the unit', () => {
    const cluster = new JobsTestCluster();
    for (const name of cluster.workers.slice(1)) cluster.core(name).jobs?.worker?.setDraining(true);
    const refusing = cluster.workers[0] as string;
    cluster.core(refusing).jobs?.worker?.setDraining(true);
    const job = cluster.submit(cluster.plan([[batch(4, 10, 1, { maxRetries: 0 }), {}]]));
    cluster.advance(3_000);
    assert.equal(cluster.began.length, 0);
    for (const name of cluster.workers.slice(1)) cluster.core(name).jobs?.worker?.setDraining(false);
    const shown = cluster.ends(job, 'COMPLETED');
    assert.notEqual(shown.workflows[0]?.attempts.at(-1)?.worker, refusing);
  });

  it('a worker that never hears what it is given is soon given nothing', () => {
    const cluster = new JobsTestCluster();
    const deaf = cluster.workers[0] as string;
    const lost = cluster.fate('assignUnits', 'lose', Infinity, deaf);
    const job = cluster.submit(cluster.plan([[batch(40, 1, 6), { itemMs: 300 }]]));
    const shown = cluster.ends(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 40);
    assert.ok(lost.struck() > 0 && lost.struck() < 40, `${lost.struck()} messages for a worker that hears none`);
    assert.ok(cluster.began.every(({ node }) => node !== deaf));
  });
});

/** How many managers have that job among what they have applied or will apply: in their logs. */
function knowing(cluster: JobsTestCluster, job: string): number {
  const range = { from: '/jobs/', to: '/jobs0' };
  const keyspaces = cluster.managers.map((name) => cluster.core(name).control?.manager?.replica.keyspace);
  return keyspaces.filter((one) => one?.range(range, 1_000).entries.some(({ key }) => key.includes(job))).length;
}

describe('dispatch', () => {
  it('worker rejects (no cores): the unit goes elsewhere, and nothing counts as a failure', () => {
    const cluster = new JobsTestCluster({ workers: 2, cores: 1 });
    const slow = cluster.submit(cluster.plan([[batch(1, 1, 1), { itemMs: 8_000 }]]));
    cluster.until('it runs', () => cluster.began.length === 1);
    const quick = cluster.submit(cluster.plan([[batch(6, 1, 2, { maxRetries: 0 }), {}]]));
    assert.deepEqual(new Set(outcomes(cluster.ends(quick, 'COMPLETED')).filter((one) => one === 'failed')), new Set());
    cluster.ends(slow, 'COMPLETED');
  });

  it('worker dies before its answer', () => {
    const cluster = new JobsTestCluster();
    let victim = '';
    cluster.rule((message, at) => {
      if (message.kind !== 'assignUnits' || victim !== '') return 'pass';
      victim = at;
      cluster.world.timeline.after(0, () => cluster.world.crash(at, 'kept'));
      return 'lose';
    });
    const shown = cluster.ends(cluster.submit(cluster.plan([[one, {}]])), 'COMPLETED');
    assert.deepEqual(outcomes(shown), ['lost', 'completed']);
    assert.notEqual(cluster.began[0]?.node, victim);
  });

  it('worker dies after its answer', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[one, { itemMs: 500 }]]));
    cluster.until('it runs', () => cluster.began.length === 1);
    const victim = cluster.began[0]?.node as string;
    cluster.world.crash(victim, 'lost');
    const shown = cluster.ends(job, 'COMPLETED');
    assert.deepEqual(outcomes(shown), ['lost', 'completed']);
    assert.equal(shown.totals.completed, 4);
  });

  it('worker dies in the middle of a run, and comes back at once as a new life: the unit begins anew', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[batch(20, 20, 1), { itemMs: 200 }]]));
    cluster.until('it is at work', () => cluster.acted.length >= 5);
    const victim = cluster.began[0]?.node as string;
    cluster.world.crash(victim, 'kept');
    cluster.world.start(victim);
    const shown = cluster.ends(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 20);
    assert.deepEqual(outcomes(shown), ['lost', 'completed']);
  });

  it('worker dies after finishing, before its result was heard: another one does it again, and it counts once', () => {
    const cluster = new JobsTestCluster();
    cluster.fate('reportUnits', 'lose');
    const job = cluster.submit(cluster.plan([[one, {}]]));
    cluster.until('it has finished', () => cluster.ended.length === 1);
    cluster.world.crash(cluster.ended[0]?.node as string, 'kept');
    cluster.rule(() => 'pass');
    const shown = cluster.ends(job, 'COMPLETED');
    assert.equal(shown.totals.completed, 4);
    assert.equal(cluster.ended.length, 2);
  });

  it('a late answer: the unit runs once, and counts once', () => {
    const cluster = new JobsTestCluster();
    const late = cluster.fate('assignUnits', 'late', 1);
    const shown = cluster.ends(cluster.submit(cluster.plan([[one, { itemMs: 900 }]])), 'COMPLETED');
    assert.equal(late.struck(), 1);
    assert.equal(shown.totals.completed, 4);
    assert.equal(cluster.began.length, 1);
  });

  it('a lost answer: the unit runs once', () => {
    const cluster = new JobsTestCluster();
    cluster.fate('assignUnits', 'loseAnswer', 1);
    const shown = cluster.ends(cluster.submit(cluster.plan([[one, { itemMs: 900 }]])), 'COMPLETED');
    assert.equal(shown.totals.completed, 4);
    assert.equal(cluster.began.length, 1);
  });

  it('given twice it runs once, and one core is taken', () => {
    const cluster = new JobsTestCluster({ workers: 1, cores: 2 });
    const twice = cluster.fate('assignUnits', 'twice');
    const job = cluster.submit(cluster.plan([[batch(8, 2, 2), { itemMs: 300 }]]));
    cluster.until('both run', () => cluster.began.length === 2);
    assert.equal(cluster.core('n4').jobs?.worker?.coreCounts().free, 0);
    assert.equal(cluster.ends(job, 'COMPLETED').totals.completed, 8);
    assert.ok(twice.struck() > 0);
    assert.equal(cluster.began.length, 4);
    cluster.coresReturn();
  });

  it('its end told twice counts once', () => {
    const cluster = new JobsTestCluster();
    cluster.fate('reportUnits', 'twice');
    const shown = cluster.ends(cluster.submit(cluster.plan([[batch(30, 3, 4), { itemMs: 40 }]])), 'COMPLETED');
    assert.equal(shown.totals.completed, 30);
  });

  it('two jobs race for the same cores: none is given twice, and both end', () => {
    const cluster = new JobsTestCluster({ workers: 2, cores: 2 });
    const plans = [cluster.plan([[batch(12, 1, 4), {}]]), cluster.plan([[batch(12, 1, 4), {}]])];
    const jobs = plans.map((plan) => cluster.submit(plan));
    for (const job of jobs) assert.equal(cluster.ends(job, 'COMPLETED').totals.completed, 12);
    cluster.coresReturn();
  });

  it('a retry keeps the words, avoids who failed, and ends with RETRIES_EXHAUSTED', () => {
    const cluster = new JobsTestCluster({ workers: 4 });
    const plan = cluster.plan([[batch(4, 10, 1, { maxRetries: 2 }), { trouble: 'crashes' }]], {}, 'poison');
    const shown = cluster.ends(cluster.submit(plan), 'FAILED');
    assert.equal(shown.error?.code, 'RETRIES_EXHAUSTED');
    assert.equal(cluster.began.length, 3, 'one attempt and two retries');
    assert.equal(new Set(cluster.began.map(({ node }) => node)).size, 3, 'each on another worker');
    cluster.coresReturn();
  });

  it('all workers full: the job waits in its place and says why; it starts when a core is free', () => {
    const cluster = new JobsTestCluster({ workers: 1, cores: 1 });
    const first = cluster.submit(cluster.plan([[batch(1, 1, 1), { itemMs: 6_000 }]]));
    cluster.until('it runs', () => cluster.began.length === 1);
    const second = cluster.submit(cluster.plan([[one, {}]]));
    cluster.advance(1_000);
    const waiting = cluster.show(second);
    assert.equal(waiting.status, 'QUEUED');
    assert.equal(waiting.queue?.position, 1);
    assert.match(waiting.queue?.reason ?? '', /core/);
    const { lines } = cluster.order('explain', { jobId: second }) as { lines: string[] };
    assert.ok(lines.length > 0);
    cluster.ends(first, 'COMPLETED');
    cluster.ends(second, 'COMPLETED');
  });

  it('cancel races dispatch: nothing of it runs afterwards', () => {
    for (const seed of [1, 2, 3]) {
      const cluster = new JobsTestCluster({ seed });
      const job = cluster.submit(cluster.plan([[batch(40, 4, 4), { itemMs: 100 }]]));
      cluster.cancel(job);
      cluster.ends(job, 'CANCELLED');
      const { length } = cluster.acted;
      cluster.advance(5_000);
      assert.equal(cluster.acted.length, length);
      cluster.coresReturn();
    }
  });

  it('cancel races a retry: the next attempt does not begin', () => {
    const cluster = new JobsTestCluster();
    const job = cluster.submit(cluster.plan([[one, { itemMs: 2_000 }]]));
    cluster.until('it runs', () => cluster.began.length === 1);
    cluster.world.crash(cluster.began[0]?.node as string, 'lost');
    cluster.cancel(job);
    cluster.ends(job, 'CANCELLED');
    cluster.advance(10_000);
    assert.equal(cluster.began.length, 1);
  });

  it('cancel races completion: the job ends in one of both, and stays there', () => {
    for (const seed of [1, 2, 3, 4]) {
      const cluster = new JobsTestCluster({ seed });
      const job = cluster.submit(cluster.plan([[batch(2, 2, 1), { itemMs: 60 }]]));
      cluster.until('it is about to end', () => cluster.ended.length === 1);
      cluster.order('cancel', { jobId: job });
      cluster.until('it is over', () =>
        ['COMPLETED', 'CANCELLED'].includes((cluster.order('show', { jobId: job }) as JobView).status),
      );
      const { status } = cluster.order('show', { jobId: job }) as JobView;
      cluster.advance(10_000);
      assert.equal((cluster.order('show', { jobId: job }) as JobView).status, status);
    }
  });

  it('cores are conserved over completion, failure, cancelling, death and doubled messages', () => {
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
    cluster.ends(jobs[0] as string, 'COMPLETED');
    cluster.ends(jobs[1] as string, 'FAILED');
    cluster.ends(jobs[2] as string, 'FAILED');
    cluster.ends(jobs[3] as string, 'CANCELLED');
    cluster.coresReturn();
    const all = cluster.submit(cluster.plan([[batch(6, 1, 6), { itemMs: 1_000 }]]));
    cluster.until('it has all cores', () => cluster.runsOf(all).length === 6);
    cluster.ends(all, 'COMPLETED');
  });

  it('8 cores, wf1 = 4, wf2 = 4, wf3 = 6 after wf2, wf4 = 1 after wf2: wf4 starts first, wf3 waits', () => {
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
    cluster.ends(job, 'COMPLETED');
    const startedMs = (workflow: number): number =>
      Math.min(...cluster.began.filter((run) => run.workflow === workflow).map(({ atMs }) => atMs));
    assert.ok(startedMs(3) < startedMs(2), 'the small one passes the large one that does not fit');
    assert.ok(startedMs(3) > startedMs(1));
  });

  it('no cores, less than none, or more than there can be are refused, and nothing of it is kept', () => {
    const cluster = new JobsTestCluster();
    for (const cores of [0, -1, 1.5, 1_000_000]) {
      const plan = cluster.plan([[{ ...one, cores }, {}]], { idempotencyKey: 'cores' });
      cluster.answer({ verb: 'store', sha256: plan.request.bundle, code: plan.code });
      const told = cluster.once({ verb: 'submit', request: plan.request, submitter: 'client' });
      assert.ok(told?.ok === false && told.error.code === 'BAD_ARGUMENT', `${cores} cores`);
    }
    cluster.ends(cluster.submit(cluster.plan([[one, {}]], { idempotencyKey: 'cores' })), 'COMPLETED');
    cluster.coresReturn();
  });

  it('a circle of dependencies is refused, and so is one that nobody has', () => {
    const cluster = new JobsTestCluster();
    for (const after of [['b'], ['c']]) {
      const plan = cluster.plan([
        [{ ...one, name: 'a', after }, {}],
        [{ ...one, name: 'b', after: ['a'] }, {}],
      ]);
      cluster.answer({ verb: 'store', sha256: plan.request.bundle, code: plan.code });
      const told = cluster.once({ verb: 'submit', request: plan.request, submitter: 'client' });
      assert.ok(told?.ok === false && told.error.code === 'BAD_ARGUMENT');
    }
  });
});
