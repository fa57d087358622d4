/** The report of a cancelled load test: what its stopped attempts measured, each unit once. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ManagerTestCluster } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../test/support/jobs/workflow-facts.ts';
import type { UnitReport } from '../../messages/jobs.ts';
import type { Report } from '../report/report.ts';
import { Summary } from '../report/summary.ts';
import { encodeSummary } from '../report/summary-codec.ts';

describe('a cancelled load test', () => {
  /** A summary of so many iterations of 1 to n ms, and `steps` further steps. */
  function measured(iterations: number, steps = 0): Partial<UnitReport> {
    const summary = new Summary();
    for (let i = 1; i <= iterations; i++) {
      summary.iterations += 1;
      summary.step('one').durations.record(i * 1_000);
    }
    for (let i = 0; i < steps; i++) summary.step(`a step with a long name, number ${i}`).durations.record(i);
    return { completed: iterations, summary: encodeSummary(summary) };
  }

  type Counted = Pick<Report, 'totals' | 'steps' | 'partial' | 'workflows'>;

  function cancelledReport(cluster: ManagerTestCluster, jobId: string): Counted {
    cluster.commandOk('cancel', { jobId });
    cluster.untilStatus(jobId, 'CANCELLED');
    const report = cluster.commandOk<Counted>('report', { jobId });
    const { totals } = cluster.show(jobId);
    assert.deepEqual([totals.completed, totals.failed], [report.totals.completed, report.totals.failed]);
    return report;
  }

  function runningLoad(workers: Readonly<Record<string, number>>, cores: number, seed?: string) {
    const cluster = ManagerTestCluster.start(workers, seed);
    for (const name of Object.keys(workers)) cluster.get(name).behave = () => 'hold';
    const jobId = cluster.submit({ workflows: [loadTestFacts('one', { cores }, { iterations: 10_000 })] });
    cluster.until(
      () => Object.keys(workers).reduce((sum, name) => sum + cluster.get(name).runs.size, 0) === cores,
      'all units run',
    );
    cluster.run(100);
    return { cluster, jobId };
  }

  test('reports what its stopped attempts measured, whichever message arrives first', () => {
    for (const seed of ['a', 'b', 'c', 'd', 'e', 'f']) {
      const { cluster, jobId } = runningLoad({ w1: 2 }, 2, seed);
      cluster.get('w1').whenStopped = () => measured(30);
      const report = cancelledReport(cluster, jobId);
      assert.deepEqual([report.totals.completed, report.totals.iterations], [60, 60], seed);
      assert.equal(report.steps.find(({ step }) => step === 'one')?.count, 60);
      assert.deepEqual(report.partial, { unitsReported: 2, units: 2 });
      assert.ok((report.workflows[0]?.ratePerSecond ?? 0) > 0);
    }
  });

  test('keeps a large summary out of line, and a new leader reports the same', () => {
    const { cluster, jobId } = runningLoad({ w1: 2 }, 2);
    cluster.get('w1').whenStopped = () => measured(30, 60);
    const report = cancelledReport(cluster, jobId);
    assert.equal(report.totals.iterations, 60);
    cluster.elect('m2');
    assert.deepEqual(cluster.commandOk<Counted>('report', { jobId }), report);
  });

  test('counts an attempt that completes while it is being stopped', () => {
    const { cluster, jobId } = runningLoad({ w1: 1 }, 1);
    cluster.get('w1').whenStopped = () => ({ status: 'completed', ...measured(40) });
    const report = cancelledReport(cluster, jobId);
    assert.deepEqual([report.totals.completed, report.partial], [40, { unitsReported: 1, units: 1 }]);
  });

  test('reports the units whose worker was lost as missing', () => {
    const { cluster, jobId } = runningLoad({ w1: 1, w2: 1 }, 2);
    cluster.get('w1').whenStopped = () => measured(30);
    cluster.get('w2').isolated = true;
    const report = cancelledReport(cluster, jobId);
    assert.deepEqual([report.totals.completed, report.partial], [30, { unitsReported: 1, units: 2 }]);
  });

  test('takes counts and steps of a killed runner from its last summary', () => {
    const { cluster, jobId } = runningLoad({ w1: 1 }, 1);
    cluster.get('w1').whenStopped = () => ({ ...measured(30), completed: 37 });
    const report = cancelledReport(cluster, jobId);
    assert.deepEqual([report.totals.completed, report.totals.iterations], [30, 30]);
  });

  test('does not count a lost attempt beside the one that replaced it', () => {
    const { cluster, jobId } = runningLoad({ w1: 1, w2: 1 }, 1);
    const [first, second] = ['w1', 'w2'].map((name) => cluster.get(name)).toSorted((a, b) => b.runs.size - a.runs.size);
    assert.ok(first !== undefined && second !== undefined);
    for (const worker of [first, second]) worker.whenStopped = () => measured(worker === first ? 500 : 30);
    first.kill();
    cluster.until(() => second.runs.size === 1, 'the unit runs elsewhere');
    assert.equal(cancelledReport(cluster, jobId).totals.completed, 30);
  });
});

test('a cancelled batch counts only the units that completed', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  const worker = cluster.get('w1');
  worker.behave = (spec) => (spec.unit === 0 ? { afterMs: 10, report: { completed: 1 } } : 'hold');
  worker.whenStopped = () => ({ completed: 1 });
  const jobId = cluster.submit({ workflows: [batchTestFacts('one', { cores: 2 }, { items: 2, unitItemsMax: 1 })] });
  cluster.until(() => cluster.show(jobId).totals.completed === 1, 'the first unit is done');
  cluster.commandOk('cancel', { jobId });
  cluster.untilStatus(jobId, 'CANCELLED');
  const report = cluster.commandOk<Report>('report', { jobId });
  assert.deepEqual([report.totals.completed, report.partial], [1, null]);
});
