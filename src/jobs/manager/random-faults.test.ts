import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../base/random.ts';
import { type JobView, isTerminalStatus, jobStatuses } from '../job-types.ts';
import type { WorkflowFacts } from '../workflow-facts.ts';
import { FakeManagerCluster, bundle } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../test/support/jobs/workflow-facts.ts';
import { type FakeWorker, itemCountInSpec } from '../../../test/fakes/fake-worker.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

type Expected = { readonly completed: number; readonly workflows: readonly WorkflowFacts[] };

/** Workers die, come back, are cut off; leaders change; the registry stops; messages are doubled and late. */
class Storm {
  readonly world: FakeManagerCluster;
  readonly random: Random;
  readonly expected = new Map<string, Expected>();
  readonly seen = new Map<string, JobView>();
  readonly bytes = new Map<string, string>();
  readonly generations = new Map<string, number>();
  readonly cancelled = new Set<string>();
  overlaps = 0;

  constructor(seed: string) {
    this.random = new Random(seed);
    this.world = FakeManagerCluster.start({ w1: 2, w2: 2, w3: 1, w4: 3 }, seed);
    this.world.delayMsMax = 40;
    for (const worker of this.world.workers.values()) this.#setUp(worker);
  }

  act(): void {
    const { world, random } = this;
    const worker = random.pick([...world.workers.values()]);
    const deeds: readonly (readonly [number, () => void])[] = [
      [8, () => this.#submit()],
      [1, () => this.#cancel()],
      [1, () => this.#kill(worker)],
      [2, () => this.#restart(worker)],
      [1, () => void (worker.cut = true)],
      [2, () => void (worker.cut = false)],
      [1, () => world.elect(random.pick(['m1', 'm2']))],
      [1, () => this.#pauseRegistry()],
      [2, () => worker.tell([...worker.ends.values()])],
      [2, () => this.#oldNews(worker)],
      [1, () => void (worker.draining = !worker.draining)],
      [3, () => this.#look()],
    ];
    let at = random.below(deeds.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, deed] of deeds) {
      if (at < weight) return deed();
      at -= weight;
    }
  }

  calm(): void {
    const { world } = this;
    for (const manager of world.managers.values()) manager.registry.resume();
    for (const worker of [...world.workers.values()]) {
      if (!worker.alive) this.#restart(worker);
      worker.cut = worker.draining = false;
    }
    world.elect('m1');
    world.run(2_000);
    world.until(() => world.host('m1').counts().open === 0, 'every job is over', 400_000);
    world.run(15_000);
  }

  check(): void {
    const { world } = this;
    const { items } = world.must<{ items: { jobId: string }[] }>('list', { limit: 1_000 });
    for (const { jobId } of items) this.#checkJob(world.show(jobId));
    for (const jobId of this.expected.keys())
      assert.ok(
        items.some((item) => item.jobId === jobId),
        `${jobId} is lost`,
      );
    for (const { runs, ends, identity } of world.workers.values())
      assert.deepEqual([runs.size, ends.size], [0, 0], identity.name);
    assert.equal(this.overlaps, 0, 'a unit ran at two places');
  }

  #checkJob(shown: JobView): void {
    const { jobId, status } = shown;
    assert.ok(isTerminalStatus(status), `${jobId} is ${status}`);
    const before = this.seen.get(jobId);
    if (before !== undefined && isTerminalStatus(before.status)) assert.deepEqual(shown.totals, before.totals);
    const expected = this.expected.get(jobId);
    if (status === 'COMPLETED' && expected !== undefined)
      assert.equal(shown.totals.completed, expected.completed, jobId);
    if (status === 'CANCELLED') assert.ok(expected === undefined || this.cancelled.has(jobId));
    for (const workflow of shown.workflows) {
      const won = workflow.attempts.filter(({ outcome }) => outcome === 'completed');
      assert.equal(new Set(won.map(({ unit }) => unit)).size, won.length, 'a unit was counted twice');
      if (status === 'COMPLETED') assert.ok(won.length >= workflow.units.total, `${jobId} ${workflow.name}`);
      const tries = new Map<number, number>();
      for (const { unit, outcome } of workflow.attempts)
        if (outcome !== 'refused' && outcome !== 'returned') tries.set(unit, (tries.get(unit) ?? 0) + 1);
      for (const count of tries.values()) assert.ok(count <= 4, `${count} attempts`);
      const fences = workflow.attempts.map(({ fence }) => fence);
      assert.equal(new Set(fences).size, fences.length, 'a fence was given twice');
    }
  }

  #look(): void {
    const { world } = this;
    if (world.leader === undefined || this.expected.size === 0) return;
    const jobId = this.random.pick([...this.expected.keys()]);
    world.host(world.leader).command('show', JSON.stringify({ jobId }), 'ann', 5_000, (outcome) => {
      if (!outcome.ok) return;
      const shown = JSON.parse(outcome.value) as JobView;
      const before = this.seen.get(jobId);
      this.seen.set(jobId, shown);
      if (before === undefined) return;
      const [was, is] = [before.status, shown.status].map((status) => jobStatuses.indexOf(status)) as [number, number];
      assert.ok(is >= was, `${jobId} went from ${before.status} back to ${shown.status}`);
      if (isTerminalStatus(before.status)) assert.deepEqual(shown, before);
    });
  }

  #submit(): void {
    const { world, random } = this;
    const { leader } = world;
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
    const words = JSON.stringify({ bundle, workflows: expected.workflows, timeoutMs: 300_000, ...key });
    const submit = (): void => {
      world.host(world.leader ?? leader).command('submit', words, random.pick(['ann', 'bob']), 20_000, (outcome) => {
        if (outcome.ok) this.expected.set((JSON.parse(outcome.value) as { jobId: string }).jobId, expected);
      });
    };
    submit();
  }

  #cancel(): void {
    const { world, random } = this;
    if (world.leader === undefined || this.expected.size === 0) return;
    const jobId = random.pick([...this.expected.keys()]);
    this.cancelled.add(jobId);
    world.host(world.leader).command('cancel', JSON.stringify({ jobId }), 'ann', 5_000, () => {});
  }

  #kill(worker: FakeWorker): void {
    if (!worker.alive) return;
    worker.kill();
    const { id, generation } = worker.identity;
    if (this.random.chance(0.5)) this.world.timeline.after(200, () => this.#gone(id, generation));
  }

  #gone(...proof: Parameters<ReturnType<FakeManagerCluster['host']>['processGone']>): void {
    if (this.world.leader !== undefined) this.world.host(this.world.leader).processGone(...proof);
  }

  #restart(worker: FakeWorker): void {
    if (worker.alive) return;
    const { name, generation } = worker.identity;
    this.#setUp(this.world.worker(name, worker.coresTotal, generation + 1));
  }

  #pauseRegistry(): void {
    const { world, random } = this;
    const side = world.managers.get(random.pick(['m1', 'm2']))?.registry;
    if (random.chance(0.5)) side?.interrupt();
    else side?.interrupt('DEADLINE', { takesEffect: random.chance(0.5) });
    world.timeline.after(random.between(100, 4_000), () => side?.resume());
  }

  /** Progress and ends of attempts that began here at some time. */
  #oldNews(worker: FakeWorker): void {
    if (worker.began.length === 0 || !worker.alive) return;
    const { name } = this.random.pick(worker.began);
    worker.progress(name, this.random.below(1_000));
  }

  #setUp(worker: FakeWorker): void {
    worker.behave = (order, _worker, name) => {
      const key = `${name.job}/${name.workflow}/${name.unit}`;
      const began = worker.began.at(-1)?.bytes.join(',') ?? '';
      assert.equal(this.bytes.get(key) ?? began, began, 'other bytes than the attempt before');
      this.bytes.set(key, began);
      for (const other of this.world.workers.values()) {
        if (other === worker || !other.alive) continue;
        for (const run of other.runs.values())
          if (`${run.name.job}/${run.name.workflow}/${run.name.unit}` === key) this.overlaps += 1;
      }
      const afterMs = this.random.between(5, 3_000);
      if (this.random.chance(0.05)) return { afterMs, news: { status: 'failed', code: 'RUNNER_KILLED' } };
      if (this.random.chance(0.05)) return { afterMs, news: { status: 'returned' } };
      const output = order.phase === 'plan' ? json({ data: 1, items: { count: 12 } }) : json([this.random.uint32()]);
      const large = this.random.chance(0.1) ? json(['x'.repeat(3_000)]) : output;
      const news = {
        completed: itemCountInSpec(order),
        output: order.phase === 'plan' ? output : large,
        durationMs: 30,
      };
      return { afterMs, news };
    };
  }
}

const seeds = Number(process.env['SEEDS'] ?? 25);
const first = Number(process.env['SEED'] ?? 0);

for (let seed = first; seed < first + seeds; seed++)
  test(`whatever happens to workers, leaders and messages, jobs end as they should: seed ${seed}`, () => {
    const storm = new Storm(`storm-${seed}`);
    for (let i = 0; i < 250; i++) {
      storm.act();
      storm.world.run(storm.random.between(0, 800));
    }
    storm.calm();
    storm.check();
  });
