import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManagerTestCluster } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../test/support/jobs/workflow-facts.ts';
import { type FakeWorkerBehaviour, type FakeWorker, itemCountInSpec } from '../../../test/fakes/fake-worker.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

function setBehaviour(cluster: ManagerTestCluster, behave: FakeWorkerBehaviour): void {
  for (const worker of cluster.workers.values()) worker.behave = behave;
}

function allStarted(cluster: ManagerTestCluster): FakeWorker['started'][number][] {
  return [...cluster.workers.values()].flatMap(({ started }) => started);
}

test('a load test on several cores runs setup once, then all users, then teardown', () => {
  const cluster = ManagerTestCluster.start({ w1: 2, w2: 2 });
  setBehaviour(cluster, (spec) => ({
    afterMs: 30,
    report: {
      completed: itemCountInSpec(spec),
      ...(spec.phase === 'plan' ? { output: json({ data: { base: 7 } }) } : {}),
    },
  }));
  const facts = loadTestFacts('one', { cores: 4, hasSetup: true, hasTeardown: true }, { vus: 10, iterations: 101 });
  const view = cluster.untilStatus(cluster.submit({ workflows: [facts] }), 'COMPLETED');
  const orders = allStarted(cluster).map(({ spec }) => spec);
  assert.deepEqual(orders.map(({ phase }) => phase).toSorted(), ['finish', 'plan', 'work', 'work', 'work', 'work']);
  const work = orders.filter(({ phase }) => phase === 'work').toSorted((a, b) => a.unit - b.unit);
  assert.deepEqual(
    work.map(({ users }) => users?.from),
    [0, 2, 5, 7],
  );
  assert.equal(
    work.reduce((sum, { users }) => sum + (users?.count ?? 0), 0),
    10,
  );
  assert.equal(
    work.reduce((sum, { iterations }) => sum + (iterations ?? 0), 0),
    101,
  );
  assert.equal(new Set(work.map(({ seed }) => seed)).size, 4);
  for (const spec of orders) assert.equal(spec.data, spec.phase === 'plan' ? undefined : '{"base":7}');
  assert.equal(view.totals.completed, 101);
  assert.equal(view.workflows[0]?.units.total, 4);
});

test('a batch gets its items from its plan', () => {
  const cluster = ManagerTestCluster.start({ w1: 3 });
  setBehaviour(cluster, (spec) => {
    const list = spec.items?.list === undefined ? [] : (JSON.parse(spec.items.list) as string[]);
    const items = { count: 5, list: ['a', 'b', 'c', 'd', 'e'] };
    const output = spec.phase === 'plan' ? json({ items }) : json(list.map((item) => item.toUpperCase()));
    return { afterMs: 10, report: { completed: list.length, output } };
  });
  const jobId = cluster.submit({
    workflows: [batchTestFacts('one', { cores: 3 }, { items: undefined, unitItemsMax: 2 })],
  });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(view.totals.completed, 5);
  assert.deepEqual(cluster.commandOk('result', { jobId }), { results: { one: ['A', 'B', 'C', 'D', 'E'] } });
});

test('a plan without items fails the workflow, and one with 0 items completes it', () => {
  const cluster = ManagerTestCluster.start({ w1: 3 });
  setBehaviour(cluster, () => ({ afterMs: 10, report: { output: json({}) } }));
  const facts = batchTestFacts('one', { cores: 3 }, { items: undefined });
  const failed = cluster.untilStatus(cluster.submit({ workflows: [facts] }), 'FAILED');
  assert.equal(failed.workflows[0]?.error?.code, 'WORKFLOW_FAILED');
  setBehaviour(cluster, () => ({ afterMs: 10, report: { output: json({ items: { count: 0 } }) } }));
  const empty = cluster.untilStatus(cluster.submit({ workflows: [facts] }), 'COMPLETED');
  assert.equal(empty.workflows[0]?.units.total, 0);
});

test('an invalid plan fails its workflow', () => {
  const cluster = ManagerTestCluster.start({ w1: 3 });
  for (const output of ['{', '7', '{"items":7}', '{"items":{"count":-1}}', '{"items":{"count":2,"list":[1]}}']) {
    setBehaviour(cluster, () => ({ afterMs: 10, report: { output: new TextEncoder().encode(output) } }));
    const jobId = cluster.submit({ workflows: [batchTestFacts('one', { cores: 3 }, { items: undefined })] });
    assert.equal(cluster.untilStatus(jobId, 'FAILED').workflows[0]?.error?.code, 'WORKFLOW_FAILED', output);
  }
});

test('an error of setup fails the workflow without a retry', () => {
  const cluster = ManagerTestCluster.start({ w1: 3 });
  setBehaviour(cluster, () => ({
    afterMs: 10,
    report: { status: 'failed', code: 'WORKFLOW_FAILED', message: 'setup threw' },
  }));
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { cores: 2, hasSetup: true, hasTeardown: true })] });
  const view = cluster.untilStatus(jobId, 'FAILED');
  assert.equal(allStarted(cluster).length, 1);
  assert.deepEqual(view.workflows[0]?.error, { code: 'WORKFLOW_FAILED', message: 'setup threw' });
  assert.equal(view.error?.code, 'WORKFLOW_FAILED');
});

test('teardown runs after a failure too, and its own failure is only an incident', () => {
  const cluster = ManagerTestCluster.start({ w1: 3 });
  setBehaviour(cluster, ({ phase, unit }) => {
    if (phase === 'finish')
      return { afterMs: 10, report: { status: 'failed', code: 'WORKFLOW_FAILED', message: 'too late' } };
    if (unit === 1) return { afterMs: 10, report: { status: 'failed', code: 'BUNDLE_INVALID', message: 'bad' } };
    return 'hold';
  });
  const jobId = cluster.submit({ workflows: [loadTestFacts('one', { cores: 2, hasTeardown: true })] });
  const view = cluster.untilStatus(jobId, 'FAILED');
  assert.equal(view.workflows[0]?.error?.code, 'BUNDLE_INVALID');
  assert.deepEqual(
    allStarted(cluster).map(({ spec }) => spec.phase),
    ['work', 'work', 'finish'],
  );
  assert.equal(cluster.get('w1').runs.size, 0);
  const { incidents } = cluster.watch(jobId);
  assert.deepEqual(
    incidents.map(({ type }) => type),
    ['unit.failed'],
  );
});

test('workflows run in the order of their dependencies and get the results of those before them', () => {
  const cluster = ManagerTestCluster.start({ w1: 4 });
  setBehaviour(cluster, (spec) => ({ afterMs: 10, report: { completed: 1, output: json([spec.workflow]) } }));
  const workflows = [
    batchTestFacts('c', { after: ['a', 'b'] }, { items: 1 }),
    batchTestFacts('a', {}, { items: 1 }),
    batchTestFacts('b', { after: ['a'] }, { items: 1 }),
  ];
  cluster.untilStatus(cluster.submit({ workflows }), 'COMPLETED');
  const started = allStarted(cluster).map(({ spec }) => [spec.workflow, spec.context]);
  assert.deepEqual(started, [
    [1, '{}'],
    [2, '{"a":[1]}'],
    [0, '{"a":[1],"b":[2]}'],
  ]);
});

test('a failed workflow cancels its dependents, and independent workflows complete', () => {
  const cluster = ManagerTestCluster.start({ w1: 4 });
  setBehaviour(cluster, ({ workflow }) =>
    workflow === 0
      ? { afterMs: 10, report: { status: 'failed', code: 'WORKFLOW_FAILED' } }
      : { afterMs: 500, report: { completed: 1 } },
  );
  const workflows = [
    loadTestFacts('a'),
    loadTestFacts('b', { after: ['a'] }),
    loadTestFacts('c', { after: ['b'] }),
    loadTestFacts('d'),
  ];
  const view = cluster.untilStatus(cluster.submit({ workflows }), 'FAILED');
  assert.deepEqual(
    view.workflows.map(({ status }) => status),
    ['FAILED', 'CANCELLED', 'CANCELLED', 'COMPLETED'],
  );
});

test('the first success ends a search: other units are stopped and do not count', () => {
  const cluster = ManagerTestCluster.start({ w1: 4 });
  setBehaviour(cluster, ({ unit }) =>
    unit === 2
      ? { afterMs: 50, report: { completed: 5, found: true, output: json({ index: 23, value: 'here' }) } }
      : 'hold',
  );
  const facts = batchTestFacts('search', { cores: 4 }, { items: 400, firstOnly: true, unitItemsMax: 10 });
  const jobId = cluster.submit({ workflows: [facts] });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(view.totals.completed, 5);
  assert.deepEqual(cluster.commandOk('result', { jobId }), { results: { search: 'here' } });
  assert.deepEqual(cluster.commandOk('result', { jobId, oneByOne: true }), {
    results: { search: [{ index: 23, value: 'here' }] },
  });
  cluster.until(() => cluster.get('w1').runs.size === 0, 'the others are stopped');
  assert.equal(allStarted(cluster).length, 4);
});

test('a small workflow overtakes a large one that does not fit', () => {
  const cluster = ManagerTestCluster.start({ w1: 8 });
  setBehaviour(cluster, () => 'hold');
  const workflows = [
    loadTestFacts('wf1', { cores: 4 }),
    loadTestFacts('wf2', { cores: 4 }),
    loadTestFacts('wf3', { cores: 6, after: ['wf2'] }),
    loadTestFacts('wf4', { cores: 1, after: ['wf2'] }),
  ];
  const jobId = cluster.submit({ workflows });
  cluster.until(() => cluster.get('w1').runs.size === 8, 'both workflows run');
  const end = (workflow: number) => {
    for (const { id } of cluster.get('w1').runs.values())
      if (id.workflow === workflow) cluster.get('w1').end(id, { completed: 1 });
  };
  end(1);
  cluster.until(() => allStarted(cluster).some(({ id }) => id.workflow === 3), 'wf4 runs');
  cluster.run(1_000);
  assert.ok(!allStarted(cluster).some(({ id }) => id.workflow === 2), 'wf3 waits');
  assert.equal(cluster.show(jobId).workflows[2]?.status, 'PENDING');
  end(0);
  end(3);
  cluster.until(() => cluster.get('w1').runs.size === 6, 'wf3 runs on all its cores');
  end(2);
  cluster.untilStatus(jobId, 'COMPLETED');
});

test('a large workflow that has waited long enough is not overtaken', () => {
  const cluster = ManagerTestCluster.start({ w1: 4 });
  setBehaviour(cluster, ({ submitter }) => (submitter === 'ann' ? 'hold' : { afterMs: 400, report: { completed: 1 } }));
  cluster.submit({ workflows: [loadTestFacts('long', { cores: 1 })] }, 'ann');
  cluster.until(() => cluster.get('w1').runs.size === 1, 'it runs');
  const large = cluster.submit({ workflows: [loadTestFacts('large', { cores: 3 })] }, 'bob');
  const small = () => cluster.submit({ workflows: [loadTestFacts('small', { cores: 2 })] }, 'cid');
  for (let i = 0; i < 40; i++) {
    small();
    cluster.run(200);
  }
  cluster.untilStatus(large, 'COMPLETED', 20_000);
});

test('a workflow whose results are too large together fails', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  const output = json('x'.repeat(6_000_000));
  setBehaviour(cluster, () => ({ afterMs: 10, report: { completed: 1, output } }));
  const jobId = cluster.submit({ workflows: [batchTestFacts('one', { cores: 2 }, { items: 2, unitItemsMax: 1 })] });
  const view = cluster.untilStatus(jobId, 'FAILED');
  assert.equal(view.workflows[0]?.error?.code, 'TOO_LARGE');
});

test('a plan whose items are too large for a spec fails its workflow, and the manager goes on', () => {
  const cluster = ManagerTestCluster.start({ w1: 2 });
  // Short in the plan, long when each number is written out in the spec.
  const list = Array.from({ length: 1_500_000 }, () => '1e20').join(',');
  const output = new TextEncoder().encode(`{"items":{"count":1500000,"list":[${list}]}}`);
  setBehaviour(cluster, () => ({ afterMs: 10, report: { output } }));
  const facts = batchTestFacts('one', { cores: 2 }, { items: undefined, unitItemsMax: 1_000_000 });
  const view = cluster.untilStatus(cluster.submit({ workflows: [facts] }), 'FAILED');
  assert.equal(view.workflows[0]?.error?.code, 'TOO_LARGE');
  setBehaviour(cluster, () => ({ afterMs: 10, report: { completed: 1 } }));
  cluster.untilStatus(cluster.submit({ workflows: [loadTestFacts('two')] }), 'COMPLETED');
});

test('an error message is recorded when its limit cuts a surrogate pair', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const message = `${'x'.repeat(999)}\u{1f600}`;
  setBehaviour(cluster, () => ({ afterMs: 10, report: { status: 'failed', code: 'WORKFLOW_FAILED', message } }));
  cluster.untilStatus(cluster.submit({ workflows: [loadTestFacts('one')] }), 'FAILED');
});
