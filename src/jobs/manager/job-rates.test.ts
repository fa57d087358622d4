/** Rates and durations of jobs and workflows: `show`, `watch` and the report agree, also under a new leader. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManagerTestCluster } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts } from '../../../test/support/jobs/workflow-facts.ts';
import type { Report } from '../report/report.ts';

const chain = [
  batchTestFacts('a', { cores: 1 }, { items: 100, onItemError: 'continue' }),
  batchTestFacts('b', { cores: 1, after: ['a'] }, { items: 10 }),
];

/** Workflow a takes 10 s for 100 items, b 1 s for 10. */
function started(): { readonly cluster: ManagerTestCluster; readonly jobId: string } {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.get('w1').behave = ({ workflow }) =>
    workflow === 0
      ? { afterMs: 10_000, report: { completed: 99, failed: 1 } }
      : { afterMs: 1_000, report: { completed: 10, failed: 0 } };
  return { cluster, jobId: cluster.submit({ workflows: chain }) };
}

test('the rate of a running job is the rate of its running workflows', () => {
  const { cluster, jobId } = started();
  cluster.until(() => cluster.show(jobId).workflows[1]?.status === 'RUNNING', 'b runs');
  const { ratePerSecond, workflows } = cluster.watch(jobId);
  assert.deepEqual([ratePerSecond, workflows[1]?.ratePerSecond], [0, 0], 'nothing of b has ended');
  const [a] = workflows;
  assert.ok(Math.abs((a?.ratePerSecond ?? 0) - 10) < 0.5, `a ended with ${a?.ratePerSecond}/s`);
});

test('the rate of an ended job is its items over its duration, and show and report agree on each workflow', () => {
  const { cluster, jobId } = started();
  cluster.untilStatus(jobId, 'PARTIAL');
  for (const leader of ['m1', 'm2']) {
    if (leader === 'm2') cluster.elect('m2');
    cluster.run(500);
    const { ratePerSecond, elapsedMs, workflows: live } = cluster.watch(jobId);
    assert.ok(elapsedMs >= 11_000 && elapsedMs < 12_500, `${elapsedMs} ms`);
    assert.ok(Math.abs(ratePerSecond - 110_000 / elapsedMs) < 0.01, `${ratePerSecond}/s in ${elapsedMs} ms`);
    const report = cluster.commandOk<Report>('report', { jobId });
    const view = cluster.show(jobId).workflows;
    const rates = (list: readonly { readonly ratePerSecond: number }[]) => list.map((one) => one.ratePerSecond);
    assert.deepEqual(rates(report.workflows), rates(view), leader);
    assert.deepEqual(rates(live), rates(view), leader);
    for (const rate of rates(view)) assert.ok(rate > 8 && rate <= 10, `${rate}/s`);
    const times = report.workflows.map((one) => one.elapsedMs);
    assert.ok((times[0] ?? 0) >= 10_000 && (times[1] ?? 0) < 2_000, times.join(' '));
  }
});

test('a job that times out in the queue has its waiting time as duration', () => {
  const cluster = ManagerTestCluster.start({});
  const jobId = cluster.submit({ workflows: [batchTestFacts('a', {}, { items: 1 })], timeoutMs: 4_000 });
  cluster.untilStatus(jobId, 'TIMEOUT');
  for (const elapsedMs of [cluster.watch(jobId).elapsedMs, cluster.commandOk<Report>('report', { jobId }).elapsedMs])
    assert.ok(elapsedMs >= 4_000 && elapsedMs < 6_000, `${elapsedMs} ms`);
});
