import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../base/random.ts';
import { type JobView, isTerminalStatus, jobStatuses } from '../job-types.ts';
import type { WorkflowFacts } from '../workflow-facts.ts';
import { ManagerTestCluster, bundle } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../test/support/jobs/workflow-facts.ts';
import { type FakeWorker, itemCountInSpec } from '../../../test/fakes/fake-worker.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

type Expected = { readonly completed: number; readonly workflows: readonly WorkflowFacts[] };

/**
 * Random faults: workers die, restart and are isolated; leaders change; the registry stops; messages repeat and are
 * late.
 */
class RandomFaults {
  readonly cluster: ManagerTestCluster;
  readonly random: Random;
  readonly expected = new Map<string, Expected>();
  readonly seen = new Map<string, JobView>();
  readonly bytes = new Map<string, string>();
  readonly generations = new Map<string, number>();
  readonly cancelled = new Set<string>();
  overlaps = 0;

  constructor(seed: string) {
    this.random = new Random(seed);
    this.cluster = ManagerTestCluster.start({ w1: 2, w2: 2, w3: 1, w4: 3 }, seed);
    this.cluster.delayMsMax = 40;
    for (const worker of this.cluster.workers.values()) this.#setUp(worker);
  }

  injectOne(): void {
    const { cluster, random } = this;
    const worker = random.pick([...cluster.workers.values()]);
    const actions: readonly (readonly [number, () => void])[] = [
      [8, () => this.#submit()],
      [1, () => this.#cancel()],
      [1, () => this.#kill(worker)],
      [2, () => this.#restart(worker)],
      [1, () => void (worker.isolated = true)],
      [2, () => void (worker.isolated = false)],
      [1, () => cluster.elect(random.pick(['m1', 'm2']))],
      [1, () => this.#pauseRegistry()],
      [2, () => worker.sendReports([...worker.ends.values()])],
      [2, () => this.#sendLateProgress(worker)],
      [1, () => void (worker.draining = !worker.draining)],
      [3, () => this.#checkForwardOnly()],
    ];
    let at = random.below(actions.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, action] of actions) {
      if (at < weight) return action();
      at -= weight;
    }
  }

  recover(): void {
    const { cluster } = this;
    for (const manager of cluster.managers.values()) manager.registry.resume();
    for (const worker of [...cluster.workers.values()]) {
      if (!worker.alive) this.#restart(worker);
      worker.isolated = worker.draining = false;
    }
    cluster.elect('m1');
    cluster.run(2_000);
    cluster.until(() => cluster.host('m1').counts().open === 0, 'every job has ended', 400_000);
    cluster.run(15_000);
  }

  check(): void {
    const { cluster } = this;
    const { items } = cluster.commandOk<{ items: { jobId: string }[] }>('list', { limit: 1_000 });
    for (const { jobId } of items) this.#checkJob(cluster.show(jobId));
    for (const jobId of this.expected.keys())
      assert.ok(
        items.some((item) => item.jobId === jobId),
        `${jobId} is lost`,
      );
    for (const { runs, ends, identity } of cluster.workers.values())
      assert.deepEqual([runs.size, ends.size], [0, 0], identity.name);
    assert.equal(this.overlaps, 0, 'a unit ran on two workers at a time');
  }

  #checkJob(view: JobView): void {
    const { jobId, status } = view;
    assert.ok(isTerminalStatus(status), `${jobId} is ${status}`);
    const before = this.seen.get(jobId);
    if (before !== undefined && isTerminalStatus(before.status)) assert.deepEqual(view.totals, before.totals);
    const expected = this.expected.get(jobId);
    if (status === 'COMPLETED' && expected !== undefined)
      assert.equal(view.totals.completed, expected.completed, jobId);
    if (status === 'CANCELLED') assert.ok(expected === undefined || this.cancelled.has(jobId));
    for (const workflow of view.workflows) {
      const won = workflow.attempts.filter(({ outcome }) => outcome === 'completed');
      assert.equal(new Set(won.map(({ unit }) => unit)).size, won.length, 'a unit was counted twice');
      if (status === 'COMPLETED') assert.ok(won.length >= workflow.units.total, `${jobId} ${workflow.name}`);
      const tries = new Map<number, number>();
      for (const { unit, outcome } of workflow.attempts)
        if (outcome !== 'refused' && outcome !== 'returned') tries.set(unit, (tries.get(unit) ?? 0) + 1);
      for (const count of tries.values()) assert.ok(count <= 4, `${count} attempts`);
      const fences = workflow.attempts.map(({ fence }) => fence);
      assert.equal(new Set(fences).size, fences.length, 'a fence was used twice');
    }
  }

  #checkForwardOnly(): void {
    const { cluster } = this;
    if (cluster.leader === undefined || this.expected.size === 0) return;
    const jobId = this.random.pick([...this.expected.keys()]);
    cluster.host(cluster.leader).command('show', JSON.stringify({ jobId }), 'ann', 5_000, (outcome) => {
      if (!outcome.ok) return;
      const view = JSON.parse(outcome.value) as JobView;
      const before = this.seen.get(jobId);
      this.seen.set(jobId, view);
      if (before === undefined) return;
      const [was, is] = [before.status, view.status].map((status) => jobStatuses.indexOf(status)) as [number, number];
      assert.ok(is >= was, `${jobId} went from ${before.status} back to ${view.status}`);
      if (isTerminalStatus(before.status)) assert.deepEqual(view, before);
    });
  }

  #submit(): void {
    const { cluster, random } = this;
    const { leader } = cluster;
    if (leader === undefined || this.expected.size > 60) return;
    const items = random.below(30) + 1;
    const large = batchTestFacts('large', { cores: 3 }, { items, unitItemsMax: 1 });
    const planned = batchTestFacts(
      'planned',
      { cores: 2, hasSetup: true, hasTeardown: true },
      { items: undefined, unitItemsMax: 4 },
    );
    const shapes: readonly Expected[] = [
      { completed: 100, workflows: [loadTestFacts('small')] },
      { completed: 100, workflows: [loadTestFacts('gang', { cores: 2, hasTeardown: true })] },
      { completed: items, workflows: [large] },
      { completed: 12, workflows: [planned] },
      {
        completed: 101,
        workflows: [batchTestFacts('last', { after: ['first'] }, { items: 1 }), loadTestFacts('first', { cores: 2 })],
      },
    ];
    const expected = random.pick(shapes);
    const key = random.chance(0.5) ? { idempotencyKey: `k${random.uint32()}` } : {};
    const args = JSON.stringify({ bundle, workflows: expected.workflows, timeoutMs: 300_000, ...key });
    const submit = (): void => {
      cluster.host(cluster.leader ?? leader).command('submit', args, random.pick(['ann', 'bob']), 20_000, (outcome) => {
        if (outcome.ok) this.expected.set((JSON.parse(outcome.value) as { jobId: string }).jobId, expected);
      });
    };
    submit();
  }

  #cancel(): void {
    const { cluster, random } = this;
    if (cluster.leader === undefined || this.expected.size === 0) return;
    const jobId = random.pick([...this.expected.keys()]);
    this.cancelled.add(jobId);
    cluster.host(cluster.leader).command('cancel', JSON.stringify({ jobId }), 'ann', 5_000, () => {});
  }

  #kill(worker: FakeWorker): void {
    if (!worker.alive) return;
    worker.kill();
    const { id, generation } = worker.identity;
    if (this.random.chance(0.5)) this.cluster.timeline.after(200, () => this.#reportGone(id, generation));
  }

  #reportGone(...proof: Parameters<ReturnType<ManagerTestCluster['host']>['processGone']>): void {
    if (this.cluster.leader !== undefined) this.cluster.host(this.cluster.leader).processGone(...proof);
  }

  #restart(worker: FakeWorker): void {
    if (worker.alive) return;
    const { name, generation } = worker.identity;
    this.#setUp(this.cluster.worker(name, worker.coresTotal, generation + 1));
  }

  #pauseRegistry(): void {
    const { cluster, random } = this;
    const side = cluster.managers.get(random.pick(['m1', 'm2']))?.registry;
    if (random.chance(0.5)) side?.interrupt();
    else side?.interrupt('DEADLINE', { takesEffect: random.chance(0.5) });
    cluster.timeline.after(random.between(100, 4_000), () => side?.resume());
  }

  /** Late progress of an attempt that started on this worker at some time. */
  #sendLateProgress(worker: FakeWorker): void {
    if (worker.started.length === 0 || !worker.alive) return;
    const { id } = this.random.pick(worker.started);
    worker.progress(id, this.random.below(1_000));
  }

  #setUp(worker: FakeWorker): void {
    worker.behave = (spec, _worker, id) => {
      const key = `${id.job}/${id.workflow}/${id.unit}`;
      const started = worker.started.at(-1)?.bytes.join(',') ?? '';
      assert.equal(this.bytes.get(key) ?? started, started, 'the spec differs from the attempt before');
      this.bytes.set(key, started);
      for (const other of this.cluster.workers.values()) {
        if (other === worker || !other.alive) continue;
        for (const run of other.runs.values())
          if (`${run.id.job}/${run.id.workflow}/${run.id.unit}` === key) this.overlaps += 1;
      }
      const afterMs = this.random.between(5, 3_000);
      if (this.random.chance(0.05)) return { afterMs, report: { status: 'failed', code: 'RUNNER_KILLED' } };
      if (this.random.chance(0.05)) return { afterMs, report: { status: 'returned' } };
      const output = spec.phase === 'plan' ? json({ data: 1, items: { count: 12 } }) : json([this.random.uint32()]);
      const large = this.random.chance(0.1) ? json(['x'.repeat(3_000)]) : output;
      const report = {
        completed: itemCountInSpec(spec),
        output: spec.phase === 'plan' ? output : large,
        durationMs: 30,
      };
      return { afterMs, report };
    };
  }
}

const seeds = Number(process.env['SEEDS'] ?? 25);
const first = Number(process.env['SEED'] ?? 0);

for (let seed = first; seed < first + seeds; seed++)
  test(`jobs end correctly under random faults of workers, leaders and messages: seed ${seed}`, () => {
    const faults = new RandomFaults(`faults-${seed}`);
    for (let i = 0; i < 250; i++) {
      faults.injectOne();
      faults.cluster.run(faults.random.between(0, 800));
    }
    faults.recover();
    faults.check();
  });
