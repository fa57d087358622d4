import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeManagerCluster } from '../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../test/support/jobs/workflow-facts.ts';
import { type FakeWorkerBehaviour, type FakeWorker, itemCountInSpec } from '../../../test/fakes/fake-worker.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

function everywhere(world: FakeManagerCluster, behave: FakeWorkerBehaviour): void {
  for (const worker of world.workers.values()) worker.behave = behave;
}

function allBegan(world: FakeManagerCluster): FakeWorker['began'][number][] {
  return [...world.workers.values()].flatMap(({ began }) => began);
}

test('a load on several cores: setup once, then all its users, then teardown', () => {
  const world = FakeManagerCluster.start({ w1: 2, w2: 2 });
  everywhere(world, (order) => ({
    afterMs: 30,
    news: {
      completed: itemCountInSpec(order),
      ...(order.phase === 'plan' ? { output: json({ data: { base: 7 } }) } : {}),
    },
  }));
  const facts = loadTestFacts('one', { cores: 4, hasSetup: true, hasTeardown: true }, { vus: 10, iterations: 101 });
  const shown = world.untilStatus(world.submit({ workflows: [facts] }), 'COMPLETED');
  const orders = allBegan(world).map(({ order }) => order);
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
  for (const order of orders) assert.equal(order.data, order.phase === 'plan' ? undefined : '{"base":7}');
  assert.equal(shown.totals.completed, 101);
  assert.equal(shown.workflows[0]?.units.total, 4);
});

test('a batch whose code says which items there are', () => {
  const world = FakeManagerCluster.start({ w1: 3 });
  everywhere(world, (order) => {
    const list = order.items?.list === undefined ? [] : (JSON.parse(order.items.list) as string[]);
    const items = { count: 5, list: ['a', 'b', 'c', 'd', 'e'] };
    const output = order.phase === 'plan' ? json({ items }) : json(list.map((item) => item.toUpperCase()));
    return { afterMs: 10, news: { completed: list.length, output } };
  });
  const jobId = world.submit({
    workflows: [batchTestFacts('one', { cores: 3 }, { items: undefined, unitItemsMax: 2 })],
  });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.equal(shown.totals.completed, 5);
  assert.deepEqual(world.must('result', { jobId }), { results: { one: ['A', 'B', 'C', 'D', 'E'] } });
});

test('a plan without items, and one with none', () => {
  const world = FakeManagerCluster.start({ w1: 3 });
  everywhere(world, () => ({ afterMs: 10, news: { output: json({}) } }));
  const facts = batchTestFacts('one', { cores: 3 }, { items: undefined });
  const failed = world.untilStatus(world.submit({ workflows: [facts] }), 'FAILED');
  assert.equal(failed.workflows[0]?.error?.code, 'WORKFLOW_FAILED');
  everywhere(world, () => ({ afterMs: 10, news: { output: json({ items: { count: 0 } }) } }));
  const empty = world.untilStatus(world.submit({ workflows: [facts] }), 'COMPLETED');
  assert.equal(empty.workflows[0]?.units.total, 0);
});

test('a plan that is no plan fails its workflow, whatever it is', () => {
  const world = FakeManagerCluster.start({ w1: 3 });
  for (const output of ['{', '7', '{"items":7}', '{"items":{"count":-1}}', '{"items":{"count":2,"list":[1]}}']) {
    everywhere(world, () => ({ afterMs: 10, news: { output: new TextEncoder().encode(output) } }));
    const jobId = world.submit({ workflows: [batchTestFacts('one', { cores: 3 }, { items: undefined })] });
    assert.equal(world.untilStatus(jobId, 'FAILED').workflows[0]?.error?.code, 'WORKFLOW_FAILED', output);
  }
});

test('an error of setup fails the workflow at once; the code runs once', () => {
  const world = FakeManagerCluster.start({ w1: 3 });
  everywhere(world, () => ({
    afterMs: 10,
    news: { status: 'failed', code: 'WORKFLOW_FAILED', message: 'setup threw' },
  }));
  const jobId = world.submit({ workflows: [loadTestFacts('one', { cores: 2, hasSetup: true, hasTeardown: true })] });
  const shown = world.untilStatus(jobId, 'FAILED');
  assert.equal(allBegan(world).length, 1);
  assert.deepEqual(shown.workflows[0]?.error, { code: 'WORKFLOW_FAILED', message: 'setup threw' });
  assert.equal(shown.error?.code, 'WORKFLOW_FAILED');
});

test('teardown also after a failure; its own failure changes nothing but the incidents', () => {
  const world = FakeManagerCluster.start({ w1: 3 });
  everywhere(world, ({ phase, unit }) => {
    if (phase === 'finish')
      return { afterMs: 10, news: { status: 'failed', code: 'WORKFLOW_FAILED', message: 'too late' } };
    if (unit === 1) return { afterMs: 10, news: { status: 'failed', code: 'BUNDLE_INVALID', message: 'bad' } };
    return 'hold';
  });
  const jobId = world.submit({ workflows: [loadTestFacts('one', { cores: 2, hasTeardown: true })] });
  const shown = world.untilStatus(jobId, 'FAILED');
  assert.equal(shown.workflows[0]?.error?.code, 'BUNDLE_INVALID');
  assert.deepEqual(
    allBegan(world).map(({ order }) => order.phase),
    ['work', 'work', 'finish'],
  );
  assert.equal(world.get('w1').runs.size, 0);
  const { incidents } = world.watch(jobId);
  assert.deepEqual(
    incidents.map(({ type }) => type),
    ['unit.failed'],
  );
});

test('workflows in the order of their dependencies, with what those before them gave', () => {
  const world = FakeManagerCluster.start({ w1: 4 });
  everywhere(world, (order) => ({ afterMs: 10, news: { completed: 1, output: json([order.workflow]) } }));
  const workflows = [
    batchTestFacts('c', { after: ['a', 'b'] }, { items: 1 }),
    batchTestFacts('a', {}, { items: 1 }),
    batchTestFacts('b', { after: ['a'] }, { items: 1 }),
  ];
  world.untilStatus(world.submit({ workflows }), 'COMPLETED');
  const began = allBegan(world).map(({ order }) => [order.workflow, order.context]);
  assert.deepEqual(began, [
    [1, '{}'],
    [2, '{"a":[1]}'],
    [0, '{"a":[1],"b":[2]}'],
  ]);
});

test('what waits for a failed workflow never begins; what does not goes on to its end', () => {
  const world = FakeManagerCluster.start({ w1: 4 });
  everywhere(world, ({ workflow }) =>
    workflow === 0
      ? { afterMs: 10, news: { status: 'failed', code: 'WORKFLOW_FAILED' } }
      : { afterMs: 500, news: { completed: 1 } },
  );
  const workflows = [
    loadTestFacts('a'),
    loadTestFacts('b', { after: ['a'] }),
    loadTestFacts('c', { after: ['b'] }),
    loadTestFacts('d'),
  ];
  const shown = world.untilStatus(world.submit({ workflows }), 'FAILED');
  assert.deepEqual(
    shown.workflows.map(({ status }) => status),
    ['FAILED', 'CANCELLED', 'CANCELLED', 'COMPLETED'],
  );
});

test('the first success ends a search: others are stopped, nothing of them is counted', () => {
  const world = FakeManagerCluster.start({ w1: 4 });
  everywhere(world, ({ unit }) =>
    unit === 2
      ? { afterMs: 50, news: { completed: 5, found: true, output: json({ index: 23, value: 'here' }) } }
      : 'hold',
  );
  const facts = batchTestFacts('search', { cores: 4 }, { items: 400, firstOnly: true, unitItemsMax: 10 });
  const jobId = world.submit({ workflows: [facts] });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.equal(shown.totals.completed, 5);
  assert.deepEqual(world.must('result', { jobId }), { results: { search: 'here' } });
  assert.deepEqual(world.must('result', { jobId, oneByOne: true }), {
    results: { search: [{ index: 23, value: 'here' }] },
  });
  world.until(() => world.get('w1').runs.size === 0, 'the others are stopped');
  assert.equal(allBegan(world).length, 4);
});

test('cores: a small workflow passes a large one that does not fit', () => {
  const world = FakeManagerCluster.start({ w1: 8 });
  everywhere(world, () => 'hold');
  const workflows = [
    loadTestFacts('wf1', { cores: 4 }),
    loadTestFacts('wf2', { cores: 4 }),
    loadTestFacts('wf3', { cores: 6, after: ['wf2'] }),
    loadTestFacts('wf4', { cores: 1, after: ['wf2'] }),
  ];
  const jobId = world.submit({ workflows });
  world.until(() => world.get('w1').runs.size === 8, 'both begin');
  const end = (workflow: number) => {
    for (const { name } of world.get('w1').runs.values())
      if (name.workflow === workflow) world.get('w1').end(name, { completed: 1 });
  };
  end(1);
  world.until(() => allBegan(world).some(({ name }) => name.workflow === 3), 'wf4 begins');
  world.run(1_000);
  assert.ok(!allBegan(world).some(({ name }) => name.workflow === 2), 'wf3 waits');
  assert.equal(world.show(jobId).workflows[2]?.status, 'PENDING');
  end(0);
  end(3);
  world.until(() => world.get('w1').runs.size === 6, 'wf3 begins with all its cores');
  end(2);
  world.untilStatus(jobId, 'COMPLETED');
});

test('a large workflow that waited for long is not passed any more', () => {
  const world = FakeManagerCluster.start({ w1: 4 });
  everywhere(world, ({ submitter }) => (submitter === 'ann' ? 'hold' : { afterMs: 400, news: { completed: 1 } }));
  world.submit({ workflows: [loadTestFacts('long', { cores: 1 })] }, 'ann');
  world.until(() => world.get('w1').runs.size === 1, 'it runs');
  const large = world.submit({ workflows: [loadTestFacts('large', { cores: 3 })] }, 'bob');
  const small = () => world.submit({ workflows: [loadTestFacts('small', { cores: 2 })] }, 'cid');
  for (let i = 0; i < 40; i++) {
    small();
    world.run(200);
  }
  world.untilStatus(large, 'COMPLETED', 20_000);
});

test('results that are too large together fail their workflow', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  const output = json('x'.repeat(6_000_000));
  everywhere(world, () => ({ afterMs: 10, news: { completed: 1, output } }));
  const jobId = world.submit({ workflows: [batchTestFacts('one', { cores: 2 }, { items: 2, unitItemsMax: 1 })] });
  const shown = world.untilStatus(jobId, 'FAILED');
  assert.equal(shown.workflows[0]?.error?.code, 'TOO_LARGE');
});

test('a plan whose items cannot be sent fails its workflow, and the manager goes on', () => {
  const world = FakeManagerCluster.start({ w1: 2 });
  // Short as it comes, long as it would be sent.
  const list = Array.from({ length: 1_500_000 }, () => '1e20').join(',');
  const output = new TextEncoder().encode(`{"items":{"count":1500000,"list":[${list}]}}`);
  everywhere(world, () => ({ afterMs: 10, news: { output } }));
  const facts = batchTestFacts('one', { cores: 2 }, { items: undefined, unitItemsMax: 1_000_000 });
  const shown = world.untilStatus(world.submit({ workflows: [facts] }), 'FAILED');
  assert.equal(shown.workflows[0]?.error?.code, 'TOO_LARGE');
  everywhere(world, () => ({ afterMs: 10, news: { completed: 1 } }));
  world.untilStatus(world.submit({ workflows: [loadTestFacts('two')] }), 'COMPLETED');
});

test('an error text that ends in half a character is recorded all the same', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const why = `${'x'.repeat(999)}\u{1f600}`;
  everywhere(world, () => ({ afterMs: 10, news: { status: 'failed', code: 'WORKFLOW_FAILED', message: why } }));
  world.untilStatus(world.submit({ workflows: [loadTestFacts('one')] }), 'FAILED');
});
