/** HE-9 and HE-10: a sum over several nodes is right when one is lost; the first success ends a search on all nodes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ItemResult } from '../fakes/fake-runner.ts';
import { defaultBatchFacts } from '../simulation/workloads/jobs/job-plans.ts';
import { JobsTestCluster, batch } from '../support/jobs/jobs-cluster.ts';

function sumOf(results: unknown): number {
  return (results as readonly ItemResult[]).reduce((sum, { item }) => sum + item + 1, 0);
}

describe('a batch', () => {
  it('HE-9: sums 1 to 100 over three nodes to 5050', () => {
    const cluster = new JobsTestCluster({ workers: 3, cores: 1 });
    const job = cluster.submit(cluster.plan([[batch(100, 10, 3, { name: 'sum' }), { itemMs: 30 }]]));
    cluster.untilEnd(job, 'COMPLETED');
    assert.equal(sumOf(cluster.result(job)['sum']), 5_050);
    assert.equal(new Set(cluster.started.map(({ node }) => node)).size, 3, 'all three nodes ran units');
  });

  it('HE-9: sums to 5050 when a worker is killed in the middle', () => {
    for (const power of ['kept', 'lost'] as const) {
      const cluster = new JobsTestCluster({ workers: 3, cores: 1 });
      const job = cluster.submit(cluster.plan([[batch(100, 10, 3, { name: 'sum' }), { itemMs: 100 }]]));
      cluster.until('some units have ended', () => cluster.ended.length >= 3);
      cluster.world.crash(cluster.started.at(-1)?.node as string, power);
      const view = cluster.untilEnd(job, 'COMPLETED');
      assert.equal(sumOf(cluster.result(job)['sum']), 5_050);
      assert.equal(view.totals.completed, 100);
    }
  });

  it('HE-10: ends all units of a search with the first success', () => {
    const cluster = new JobsTestCluster({ workers: 3, cores: 2 });
    const facts = {
      name: 'search',
      cores: 6,
      batch: defaultBatchFacts({ items: 600, unitItemsMax: 20, firstOnly: true }),
    };
    const plan = cluster.plan([[facts, { itemMs: 50, finds: 45 }]], {}, 'search');
    const job = cluster.submit(plan);
    const view = cluster.untilEnd(job, 'COMPLETED');
    assert.ok(cluster.started.length < 30, 'most units never started');
    assert.ok(
      cluster.ended.some(({ outcome }) => outcome === 'cancelled'),
      'running units were cancelled',
    );
    assert.equal(view.workflows[0]?.status, 'COMPLETED');
    cluster.untilCoresFree();
    const { length } = cluster.acted;
    cluster.advance(5_000);
    assert.equal(cluster.acted.length, length, 'no unit runs any more');
    assert.equal((cluster.result(job)['search'] as ItemResult).item, 45);
  });

  it('HE-10: completes a search without a success when all items are done', () => {
    const cluster = new JobsTestCluster();
    const facts = {
      name: 'search',
      cores: 3,
      batch: defaultBatchFacts({ items: 30, unitItemsMax: 5, firstOnly: true }),
    };
    const view = cluster.untilEnd(cluster.submit(cluster.plan([[facts, { itemMs: 20 }]])), 'COMPLETED');
    assert.equal(view.totals.completed, 30);
  });
});
