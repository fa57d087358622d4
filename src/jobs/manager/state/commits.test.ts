import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../../../base/errors.ts';
import type { SubmitReply } from '../../job-types.ts';
import { jobKeys, jobRanges } from '../../job-keys.ts';
import { decodeUnitBlock, decodeJobState } from '../../records/job-record.ts';
import { FakeManagerCluster, bundle, code, fakeBundleHash } from '../../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../../test/support/jobs/workflow-facts.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const words = JSON.stringify({ bundle, workflows: [loadTestFacts('one')] });

/** The registry as the leader sees it. */
function sideOf(world: FakeManagerCluster, name: string) {
  const manager = world.managers.get(name);
  assert.ok(manager !== undefined);
  return manager.registry;
}

function keysOf(world: FakeManagerCluster, prefix: string): readonly string[] {
  const range = { from: prefix, to: `${prefix}\u{10ffff}` };
  return world.registry.keyspace.range(range, 10_000).entries.map(({ key }) => key);
}

test('nobody hears of a job, and no worker gets it, before it is recorded', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  sideOf(world, 'm1').interrupt();
  const answers: Outcome<string>[] = [];
  world.host('m1').command('submit', words, 'ann', 60_000, (outcome) => answers.push(outcome));
  world.run(2_000);
  assert.equal(answers.length, 0);
  assert.equal(world.get('w1').began.length, 0);
  assert.deepEqual(world.must<{ items: unknown[] }>('list', {}).items, []);
  sideOf(world, 'm1').resume();
  world.until(() => answers.length > 0, 'the answer');
  const [answer] = answers;
  assert.ok(answer?.ok);
  const { jobId } = JSON.parse(answer.value) as SubmitReply;
  assert.ok(
    world.registry.keyspace.range({ from: jobKeys.job(jobId), to: `${jobKeys.job(jobId)}\0` }, 1).entries.length > 0,
  );
  world.untilStatus(jobId, 'COMPLETED');
});

test('an end is heard, and shown, only when it is recorded', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const worker = world.get('w1');
  worker.behave = () => 'hold';
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  world.until(() => worker.runs.size === 1, 'it runs');
  world.run(1_000);
  sideOf(world, 'm1').interrupt();
  const [began] = worker.began;
  assert.ok(began !== undefined);
  worker.end(began.name, { completed: 100 });
  world.run(2_000);
  assert.equal(worker.ends.size, 1, 'it was not heard');
  const items = world.must<{ items: { status: string }[] }>('list', {}).items;
  assert.equal(items[0]?.status, 'RUNNING');
  sideOf(world, 'm1').resume();
  world.until(() => worker.ends.size === 0, 'it is heard');
  assert.equal(world.show(jobId).status, 'COMPLETED');
});

test('a transaction whose answer is lost is sent again, and everything happens once', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  sideOf(world, 'm1').interrupt('DEADLINE', { takesEffect: true });
  let answers = 0;
  world.host('m1').command('submit', words, 'ann', 60_000, (outcome) => {
    assert.ok(outcome.ok);
    answers += 1;
  });
  world.run(6_000);
  assert.equal(answers, 0);
  sideOf(world, 'm1').resume();
  world.until(() => answers === 1, 'the answer');
  world.run(5_000);
  assert.equal(answers, 1);
  assert.equal(world.get('w1').began.length, 1);
  assert.equal(world.must<{ items: unknown[] }>('list', {}).items.length, 1);
});

test('a small job is written twice, and in few bytes', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const writes: number[] = [];
  const side = sideOf(world, 'm1');
  const transact = side.transact.bind(side);
  side.transact = (transaction, options, done) => {
    for (const op of transaction.then) if (op.kind === 'put' && op.key !== jobKeys.clock) writes.push(op.value.length);
    transact(transaction, options, done);
  };
  const jobId = world.submit({ workflows: [loadTestFacts('one')] });
  world.untilStatus(jobId, 'COMPLETED');
  assert.equal(writes.length, 2);
  assert.ok((writes[1] as number) < 200, `${writes[1]} bytes`);
});

test('a worker that is not registered gets nothing', () => {
  const world = FakeManagerCluster.start({ w1: 1, w2: 1 });
  world.setRegistered(world.get('w1'), false);
  for (let i = 0; i < 6; i++) {
    const shown = world.untilStatus(world.submit({ workflows: [loadTestFacts('one')] }), 'COMPLETED');
    assert.deepEqual(
      shown.workflows[0]?.attempts.map(({ worker }) => worker),
      ['w2'],
    );
  }
  assert.equal(world.get('w1').began.length, 0);
});

test('a large end lies apart, in parts, and comes back whole, also from the next leader', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const text = 'y'.repeat(1_500_000);
  world.get('w1').behave = () => ({
    afterMs: 10,
    news: { completed: 1, output: json([text]), summary: new Uint8Array(5_000) },
  });
  const jobId = world.submit({ workflows: [batchTestFacts('one', {}, { items: 1 })] });
  world.untilStatus(jobId, 'COMPLETED');
  assert.equal(keysOf(world, jobRanges.resultsOf(jobId).from).length, 4);
  const parts: string[] = [];
  for (let part = 0, all = 1; part < all; part++) {
    const answer = world.must<{ part: number; parts: number; json: string }>('result', { jobId, part });
    parts.push(answer.json);
    all = answer.parts;
  }
  assert.deepEqual(JSON.parse(parts.join('')), { results: { one: [text] } });
  world.elect('m2');
  const again = world.must<{ json: string }>('result', { jobId, part: 0 });
  assert.equal(again.json, parts[0]);
});

test('a job of many units writes blocks and not everything with each change', () => {
  const world = FakeManagerCluster.start({ w1: 16 });
  const jobId = world.submit({ workflows: [batchTestFacts('one', { cores: 16 }, { items: 1_000, unitItemsMax: 5 })] });
  const shown = world.untilStatus(jobId, 'COMPLETED');
  assert.equal(shown.totals.completed, 1_000);
  assert.equal(shown.workflows[0]?.units.total, 200);
  assert.equal(keysOf(world, jobRanges.unitBlocksOf(jobId).from).length, 13);
  assert.equal(world.get('w1').mostRuns, 16);
});

test('the same key is the same job; with other content it is refused', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const request = { bundle, workflows: [loadTestFacts('one')], idempotencyKey: 'k1' };
  const first = world.must<SubmitReply>('submit', request);
  const again = world.must<SubmitReply>('submit', request);
  assert.deepEqual([first.isNew, again.isNew, again.jobId], [true, false, first.jobId]);
  const other = world.order('submit', { ...request, priority: 3 });
  assert.ok(!other.ok && other.error.code === 'PRECONDITION');
  const another = world.must<SubmitReply>('submit', request, 'bob');
  assert.ok(another.isNew && another.jobId !== first.jobId);
  world.untilStatus(first.jobId, 'COMPLETED');
  world.elect('m2');
  const later = world.must<SubmitReply>('submit', request);
  assert.deepEqual([later.isNew, later.jobId, later.status], [false, first.jobId, 'COMPLETED']);
});

test('a key beside the words tells jobs apart that are asked for in the same words', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const request = { bundle, workflows: [loadTestFacts('one')] };
  const submit = (words: object, key: string): Outcome<string> =>
    world.wait((done) => {
      world.host(world.leader as string).command('submit', JSON.stringify(words), 'ann', 30_000, done, 0, key);
    });
  const told = (words: object, key: string): SubmitReply => {
    const outcome = submit(words, key);
    assert.ok(outcome.ok);
    return JSON.parse(outcome.value) as SubmitReply;
  };
  const [first, second, again] = [told(request, 'k1'), told(request, 'k2'), told(request, 'k1')];
  assert.deepEqual([first.isNew, second.isNew, again.isNew, again.jobId], [true, true, false, first.jobId]);
  assert.notEqual(first.jobId, second.jobId);
  const within = world.must<SubmitReply>('submit', { idempotencyKey: 'k2', ...request });
  assert.deepEqual([within.isNew, within.jobId], [false, second.jobId], 'the same content, wherever its key is');
  const other = submit({ ...request, priority: 3 }, 'k1');
  assert.ok(!other.ok && other.error.code === 'PRECONDITION');
  for (const [words, key] of [[{ ...request, idempotencyKey: 'k3' }, 'k3'] as const, [request, 'a\nb'] as const]) {
    const refused = submit(words, key);
    assert.ok(!refused.ok && refused.error.code === 'BAD_ARGUMENT');
  }
  for (const { jobId } of [first, second]) world.untilStatus(jobId, 'COMPLETED');
  world.elect('m2');
  assert.deepEqual([told(request, 'k2').jobId, told(request, 'k1').jobId], [second.jobId, first.jobId]);
  assert.ok(told(request, 'k4').isNew);
});

test('two submissions with one key at the same time are one job', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const request = JSON.stringify({ bundle, workflows: [loadTestFacts('one')], idempotencyKey: 'k1' });
  const answers: SubmitReply[] = [];
  for (let i = 0; i < 3; i++)
    world.host('m1').command('submit', request, 'ann', 60_000, (outcome) => {
      assert.ok(outcome.ok);
      answers.push(JSON.parse(outcome.value) as SubmitReply);
    });
  world.until(() => answers.length === 3, 'all answers');
  assert.equal(new Set(answers.map(({ jobId }) => jobId)).size, 1);
  assert.equal(answers.filter(({ isNew }) => isNew).length, 1);
});

test('history has a bound: the oldest go, with all that was theirs', () => {
  const world = FakeManagerCluster.start({ w1: 8 });
  const ids: string[] = [];
  for (let i = 0; i < 1_250; i++) {
    const facts = batchTestFacts('one', {}, { items: 1 });
    if (i === 3) world.get('w1').behave = () => ({ afterMs: 1, news: { output: json('z'.repeat(2_000)) } });
    if (i === 4) world.get('w1').behave = () => ({ afterMs: 1, news: {} });
    ids.push(world.submit({ workflows: [facts] }));
    if (i < 10) world.untilStatus(ids.at(-1) as string, 'COMPLETED');
  }
  world.untilStatus(ids.at(-1) as string, 'COMPLETED');
  world.run(500);
  const left = keysOf(world, jobRanges.jobs.from).length;
  assert.ok(left >= 1_000 && left <= 1_100, `${left} are left`);
  assert.equal(keysOf(world, jobRanges.states.from).length, left);
  assert.deepEqual(keysOf(world, jobRanges.resultsOf(ids[3] as string).from), []);
  const gone = world.order('show', { jobId: ids[0] });
  assert.ok(!gone.ok && gone.error.code === 'UNKNOWN_JOB');
  world.elect('m2');
  assert.equal(world.show(ids.at(-1) as string).status, 'COMPLETED');
});

test('code is stored once, checked, and has to be there', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const bad = world.wait((done) => world.host('m1').storeBundle(bundle, new Uint8Array([1]), done));
  assert.ok(!bad.ok && bad.error.code === 'BUNDLE_INVALID');
  const large = new Uint8Array(1_200_000).fill(65);
  const stored = world.wait((done) => world.host('m2').storeBundle(fakeBundleHash(large), large, done));
  assert.ok(stored.ok);
  assert.equal(keysOf(world, jobRanges.bundleParts(fakeBundleHash(large)).from).length, 3);
  const { revision } = world.registry.keyspace.range(jobRanges.bundleMarkers, 1);
  assert.ok(world.wait((done) => world.host('m1').storeBundle(bundle, code, done)).ok);
  assert.equal(world.registry.keyspace.range(jobRanges.bundleMarkers, 1).revision, revision);
  const unknown = world.order('submit', { bundle: 'ab'.repeat(32), workflows: [loadTestFacts('one')] });
  assert.ok(!unknown.ok && unknown.error.code === 'UNKNOWN_BUNDLE');
});

test('code that nobody names is removed after a while, and what is named stays', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const other = new Uint8Array([1, 2, 3]);
  assert.ok(world.wait((done) => world.host('m2').storeBundle(fakeBundleHash(other), other, done)).ok);
  world.untilStatus(world.submit({ workflows: [loadTestFacts('one')] }), 'COMPLETED');
  world.run(15 * 60_000);
  assert.deepEqual(keysOf(world, jobRanges.bundleMarkers.from), [jobKeys.bundleMarker(bundle)]);
  assert.deepEqual(keysOf(world, jobRanges.bundleParts(fakeBundleHash(other)).from), []);
});

test('orders that are wrong get an error and lose nothing', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  const codeOf = (verb: Parameters<FakeManagerCluster['order']>[0], text: unknown) => {
    const outcome = world.order(verb, text);
    return outcome.ok ? 'ok' : outcome.error.code;
  };
  assert.equal(codeOf('show', { jobId: 'none' }), 'UNKNOWN_JOB');
  assert.equal(codeOf('cancel', { jobId: 'none' }), 'UNKNOWN_JOB');
  assert.equal(codeOf('show', {}), 'BAD_ARGUMENT');
  assert.equal(codeOf('list', { limit: -1 }), 'BAD_ARGUMENT');
  assert.equal(codeOf('list', { status: 'NONE' }), 'BAD_ARGUMENT');
  assert.equal(codeOf('submit', [1]), 'BAD_ARGUMENT');
  assert.equal(
    codeOf('submit', { bundle, workflows: [loadTestFacts('one')], name: 'x'.repeat(1_000_000) }),
    'TOO_LARGE',
  );
  assert.equal(codeOf('unschedule', { name: 'none' }), 'UNKNOWN_JOB');
  const jobId = world.submit({ workflows: [loadTestFacts('one')], startAtMs: world.clock.wallMs() + 5_000 });
  assert.equal(codeOf('report', { jobId }), 'PRECONDITION');
  assert.equal(codeOf('result', { jobId, workflow: 'none' }), 'PRECONDITION');
  world.untilStatus(jobId, 'COMPLETED');
  assert.equal(codeOf('result', { jobId, workflow: 'none' }), 'BAD_ARGUMENT');
  assert.equal(codeOf('report', { jobId }), 'ok');
});

test('results of all jobs together have a bound: those that are over make room, then it is TOO_LARGE', () => {
  const world = FakeManagerCluster.start({ w1: 1 });
  world.get('w1').behave = () => ({ afterMs: 10, news: { completed: 1, output: json('x'.repeat(9_000_000)) } });
  const submit = () => world.submit({ workflows: [batchTestFacts('one', {}, { items: 1 })] });
  const ids = Array.from({ length: 6 }, () => {
    const jobId = submit();
    world.untilStatus(jobId, 'COMPLETED');
    return jobId;
  });
  world.run(500);
  const bytes = () => keysOf(world, '/jobs/end/').length * 524_288;
  assert.ok(bytes() <= 42_000_000, `${bytes()} bytes`);
  const first = world.order('show', { jobId: ids[0] });
  assert.ok(!first.ok && first.error.code === 'UNKNOWN_JOB');
  const names = ['a', 'b', 'c', 'd', 'e'];
  const jobId = world.submit({ workflows: names.map((name) => batchTestFacts(name, {}, { items: 1 })) });
  const shown = world.untilStatus(jobId, 'FAILED');
  assert.equal(shown.error?.code, 'TOO_LARGE');
  assert.equal(shown.workflows.filter(({ status }) => status === 'COMPLETED').length, 4);
});

test('the end of a job with many units is never recorded before all ends of its units', () => {
  const world = FakeManagerCluster.start({ w1: 2_000 });
  const worker = world.get('w1');
  worker.behave = () => 'hold';
  const facts = batchTestFacts('one', { cores: 2_000 }, { items: 2_000, unitItemsMax: 1 });
  const jobId = world.submit({ workflows: [facts] });
  world.until(() => worker.runs.size === 2_000, 'all of it runs');
  const blocks = new Map<string, number>();
  let endedWith = -1;
  const side = sideOf(world, 'm1');
  const transact = side.transact.bind(side);
  side.transact = (transaction, options, done) => {
    for (const op of transaction.then)
      if (op.kind === 'put' && op.key.startsWith(jobRanges.unitBlocksOf(jobId).from))
        blocks.set(op.key, decodeUnitBlock(op.value)?.filter(({ state }) => state === 'done').length ?? 0);
    for (const op of transaction.then)
      if (op.kind === 'put' && op.key === jobKeys.state(jobId) && decodeJobState(op.value)?.status === 'COMPLETED')
        endedWith = [...blocks.values()].reduce((sum, count) => sum + count, 0);
    transact(transaction, options, done);
  };
  const names = [...worker.runs.values()].map(({ name }) => name);
  worker.cut = true;
  for (const name of names) worker.end(name, { completed: 1 });
  world.run(50);
  worker.cut = false;
  worker.tell();
  assert.equal(world.untilStatus(jobId, 'COMPLETED').totals.completed, 2_000);
  assert.equal(endedWith, 2_000);
});

test('a full registry: jobs that are over make room, and what is under way goes on', () => {
  const world = FakeManagerCluster.start({ w1: 1 }, 'full', { totalBytesMax: 2_500_000 });
  world.get('w1').behave = () => ({ afterMs: 10, news: { completed: 1, output: json('x'.repeat(900_000)) } });
  for (let i = 0; i < 5; i++)
    world.untilStatus(world.submit({ workflows: [batchTestFacts('one', {}, { items: 1 })] }), 'COMPLETED');
  assert.ok(world.must<{ items: unknown[] }>('list', {}).items.length < 5);
});
