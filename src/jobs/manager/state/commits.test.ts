import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../../../base/errors.ts';
import type { SubmitReply } from '../../job-types.ts';
import { jobKeys, jobRanges } from '../../job-keys.ts';
import { decodeUnitBlock, decodeJobState } from '../../records/job-record.ts';
import { ManagerTestCluster, bundle, code, fakeBundleHash } from '../../../../test/support/jobs/manager-cluster.ts';
import { batchTestFacts, loadTestFacts } from '../../../../test/support/jobs/workflow-facts.ts';

const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const requestJson = JSON.stringify({ bundle, workflows: [loadTestFacts('one')] });

/** The connection of a manager to the registry. */
function registryOf(cluster: ManagerTestCluster, name: string) {
  const manager = cluster.managers.get(name);
  assert.ok(manager !== undefined);
  return manager.registry;
}

function keysOf(cluster: ManagerTestCluster, prefix: string): readonly string[] {
  const range = { from: prefix, to: `${prefix}\u{10ffff}` };
  return cluster.registry.keyspace.range(range, 10_000).entries.map(({ key }) => key);
}

test('a job is invisible and not assigned before it is recorded', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  registryOf(cluster, 'm1').interrupt();
  const answers: Outcome<string>[] = [];
  cluster.host('m1').command('submit', requestJson, 'ann', 60_000, (outcome) => answers.push(outcome));
  cluster.run(2_000);
  assert.equal(answers.length, 0);
  assert.equal(cluster.get('w1').started.length, 0);
  assert.deepEqual(cluster.commandOk<{ items: unknown[] }>('list', {}).items, []);
  registryOf(cluster, 'm1').resume();
  cluster.until(() => answers.length > 0, 'the answer');
  const [answer] = answers;
  assert.ok(answer?.ok);
  const { jobId } = JSON.parse(answer.value) as SubmitReply;
  assert.ok(
    cluster.registry.keyspace.range({ from: jobKeys.job(jobId), to: `${jobKeys.job(jobId)}\0` }, 1).entries.length > 0,
  );
  cluster.untilStatus(jobId, 'COMPLETED');
});

test('an end is acknowledged and shown only when it is recorded', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const worker = cluster.get('w1');
  worker.behave = () => 'hold';
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.until(() => worker.runs.size === 1, 'it runs');
  cluster.run(1_000);
  registryOf(cluster, 'm1').interrupt();
  const [started] = worker.started;
  assert.ok(started !== undefined);
  worker.end(started.id, { completed: 100 });
  cluster.run(2_000);
  assert.equal(worker.ends.size, 1, 'the end is not acknowledged');
  const items = cluster.commandOk<{ items: { status: string }[] }>('list', {}).items;
  assert.equal(items[0]?.status, 'RUNNING');
  registryOf(cluster, 'm1').resume();
  cluster.until(() => worker.ends.size === 0, 'the end is acknowledged');
  assert.equal(cluster.show(jobId).status, 'COMPLETED');
});

test('a transaction whose reply is lost is resent, and its effects occur once', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  registryOf(cluster, 'm1').interrupt('DEADLINE', { takesEffect: true });
  let answers = 0;
  cluster.host('m1').command('submit', requestJson, 'ann', 60_000, (outcome) => {
    assert.ok(outcome.ok);
    answers += 1;
  });
  cluster.run(6_000);
  assert.equal(answers, 0);
  registryOf(cluster, 'm1').resume();
  cluster.until(() => answers === 1, 'the answer');
  cluster.run(5_000);
  assert.equal(answers, 1);
  assert.equal(cluster.get('w1').started.length, 1);
  assert.equal(cluster.commandOk<{ items: unknown[] }>('list', {}).items.length, 1);
});

test('a small job takes two writes, the second with less than 200 bytes', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const writes: number[] = [];
  const connection = registryOf(cluster, 'm1');
  const transact = connection.transact.bind(connection);
  connection.transact = (transaction, options, done) => {
    for (const op of transaction.then) if (op.kind === 'put' && op.key !== jobKeys.clock) writes.push(op.value.length);
    transact(transaction, options, done);
  };
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')] });
  cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(writes.length, 2);
  assert.ok((writes[1] as number) < 200, `${writes[1]} bytes`);
});

test('no unit is assigned to a worker that is not registered', () => {
  const cluster = ManagerTestCluster.start({ w1: 1, w2: 1 });
  cluster.setRegistered(cluster.get('w1'), false);
  for (let i = 0; i < 6; i++) {
    const view = cluster.untilStatus(cluster.submit({ workflows: [loadTestFacts('one')] }), 'COMPLETED');
    assert.deepEqual(
      view.workflows[0]?.attempts.map(({ worker }) => worker),
      ['w2'],
    );
  }
  assert.equal(cluster.get('w1').started.length, 0);
});

test('a large result is stored in parts and returned whole, also by the next leader', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const text = 'y'.repeat(1_500_000);
  cluster.get('w1').behave = () => ({
    afterMs: 10,
    report: { completed: 1, output: json([text]), summary: new Uint8Array(5_000) },
  });
  const jobId = cluster.submit({ workflows: [batchTestFacts('one', {}, { items: 1 })] });
  cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(keysOf(cluster, jobRanges.resultsOf(jobId).from).length, 4);
  const parts: string[] = [];
  for (let part = 0, all = 1; part < all; part++) {
    const answer = cluster.commandOk<{ part: number; parts: number; json: string }>('result', { jobId, part });
    parts.push(answer.json);
    all = answer.parts;
  }
  assert.deepEqual(JSON.parse(parts.join('')), { results: { one: [text] } });
  cluster.elect('m2');
  const again = cluster.commandOk<{ json: string }>('result', { jobId, part: 0 });
  assert.equal(again.json, parts[0]);
});

test('a job with many units records them in blocks', () => {
  const cluster = ManagerTestCluster.start({ w1: 16 });
  const jobId = cluster.submit({
    workflows: [batchTestFacts('one', { cores: 16 }, { items: 1_000, unitItemsMax: 5 })],
  });
  const view = cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(view.totals.completed, 1_000);
  assert.equal(view.workflows[0]?.units.total, 200);
  assert.equal(keysOf(cluster, jobRanges.unitBlocksOf(jobId).from).length, 13);
  assert.equal(cluster.get('w1').runsMax, 16);
});

test('an equal idempotency key names the same job, and is refused with other content', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const request = { bundle, workflows: [loadTestFacts('one')], idempotencyKey: 'k1' };
  const first = cluster.commandOk<SubmitReply>('submit', request);
  const again = cluster.commandOk<SubmitReply>('submit', request);
  assert.deepEqual([first.isNew, again.isNew, again.jobId], [true, false, first.jobId]);
  const other = cluster.command('submit', { ...request, priority: 3 });
  assert.ok(!other.ok && other.error.code === 'PRECONDITION');
  const another = cluster.commandOk<SubmitReply>('submit', request, 'bob');
  assert.ok(another.isNew && another.jobId !== first.jobId);
  cluster.untilStatus(first.jobId, 'COMPLETED');
  cluster.elect('m2');
  const later = cluster.commandOk<SubmitReply>('submit', request);
  assert.deepEqual([later.isNew, later.jobId, later.status], [false, first.jobId, 'COMPLETED']);
});

test('an idempotency key beside the request distinguishes jobs with equal requests', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const request = { bundle, workflows: [loadTestFacts('one')] };
  const submit = (content: object, key: string): Outcome<string> =>
    cluster.wait((done) => {
      cluster.host(cluster.leader as string).command('submit', JSON.stringify(content), 'ann', 30_000, done, 0, key);
    });
  const submitted = (content: object, key: string): SubmitReply => {
    const outcome = submit(content, key);
    assert.ok(outcome.ok);
    return JSON.parse(outcome.value) as SubmitReply;
  };
  const [first, second, again] = [submitted(request, 'k1'), submitted(request, 'k2'), submitted(request, 'k1')];
  assert.deepEqual([first.isNew, second.isNew, again.isNew, again.jobId], [true, true, false, first.jobId]);
  assert.notEqual(first.jobId, second.jobId);
  const within = cluster.commandOk<SubmitReply>('submit', { idempotencyKey: 'k2', ...request });
  assert.deepEqual([within.isNew, within.jobId], [false, second.jobId], 'equal content, wherever the key is');
  const other = submit({ ...request, priority: 3 }, 'k1');
  assert.ok(!other.ok && other.error.code === 'PRECONDITION');
  for (const [content, key] of [[{ ...request, idempotencyKey: 'k3' }, 'k3'] as const, [request, 'a\nb'] as const]) {
    const refused = submit(content, key);
    assert.ok(!refused.ok && refused.error.code === 'BAD_ARGUMENT');
  }
  for (const { jobId } of [first, second]) cluster.untilStatus(jobId, 'COMPLETED');
  cluster.elect('m2');
  assert.deepEqual([submitted(request, 'k2').jobId, submitted(request, 'k1').jobId], [second.jobId, first.jobId]);
  assert.ok(submitted(request, 'k4').isNew);
});

test('concurrent submissions with one idempotency key create one job', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const request = JSON.stringify({ bundle, workflows: [loadTestFacts('one')], idempotencyKey: 'k1' });
  const answers: SubmitReply[] = [];
  for (let i = 0; i < 3; i++)
    cluster.host('m1').command('submit', request, 'ann', 60_000, (outcome) => {
      assert.ok(outcome.ok);
      answers.push(JSON.parse(outcome.value) as SubmitReply);
    });
  cluster.until(() => answers.length === 3, 'all answers');
  assert.equal(new Set(answers.map(({ jobId }) => jobId)).size, 1);
  assert.equal(answers.filter(({ isNew }) => isNew).length, 1);
});

test('the number of finished jobs is bounded: the oldest are deleted with all their records', () => {
  const cluster = ManagerTestCluster.start({ w1: 8 });
  const ids: string[] = [];
  for (let i = 0; i < 1_250; i++) {
    const facts = batchTestFacts('one', {}, { items: 1 });
    if (i === 3) cluster.get('w1').behave = () => ({ afterMs: 1, report: { output: json('z'.repeat(2_000)) } });
    if (i === 4) cluster.get('w1').behave = () => ({ afterMs: 1, report: {} });
    ids.push(cluster.submit({ workflows: [facts] }));
    if (i < 10) cluster.untilStatus(ids.at(-1) as string, 'COMPLETED');
  }
  cluster.untilStatus(ids.at(-1) as string, 'COMPLETED');
  cluster.run(500);
  const left = keysOf(cluster, jobRanges.jobs.from).length;
  assert.ok(left >= 1_000 && left <= 1_100, `${left} are left`);
  assert.equal(keysOf(cluster, jobRanges.states.from).length, left);
  assert.deepEqual(keysOf(cluster, jobRanges.resultsOf(ids[3] as string).from), []);
  const gone = cluster.command('show', { jobId: ids[0] });
  assert.ok(!gone.ok && gone.error.code === 'UNKNOWN_JOB');
  cluster.elect('m2');
  assert.equal(cluster.show(ids.at(-1) as string).status, 'COMPLETED');
});

test('a bundle is verified, stored once, and required by a submission', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const bad = cluster.wait((done) => cluster.host('m1').storeBundle(bundle, new Uint8Array([1]), done));
  assert.ok(!bad.ok && bad.error.code === 'BUNDLE_INVALID');
  const large = new Uint8Array(1_200_000).fill(65);
  const stored = cluster.wait((done) => cluster.host('m2').storeBundle(fakeBundleHash(large), large, done));
  assert.ok(stored.ok);
  assert.equal(keysOf(cluster, jobRanges.bundleParts(fakeBundleHash(large)).from).length, 3);
  const { revision } = cluster.registry.keyspace.range(jobRanges.bundleMarkers, 1);
  assert.ok(cluster.wait((done) => cluster.host('m1').storeBundle(bundle, code, done)).ok);
  assert.equal(cluster.registry.keyspace.range(jobRanges.bundleMarkers, 1).revision, revision);
  const unknown = cluster.command('submit', { bundle: 'ab'.repeat(32), workflows: [loadTestFacts('one')] });
  assert.ok(!unknown.ok && unknown.error.code === 'UNKNOWN_BUNDLE');
});

test('an unused bundle is deleted after a while, and a used one stays', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const other = new Uint8Array([1, 2, 3]);
  assert.ok(cluster.wait((done) => cluster.host('m2').storeBundle(fakeBundleHash(other), other, done)).ok);
  cluster.untilStatus(cluster.submit({ workflows: [loadTestFacts('one')] }), 'COMPLETED');
  cluster.run(15 * 60_000);
  assert.deepEqual(keysOf(cluster, jobRanges.bundleMarkers.from), [jobKeys.bundleMarker(bundle)]);
  assert.deepEqual(keysOf(cluster, jobRanges.bundleParts(fakeBundleHash(other)).from), []);
});

test('invalid commands get an error and change nothing', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  const codeOf = (verb: Parameters<ManagerTestCluster['command']>[0], text: unknown) => {
    const outcome = cluster.command(verb, text);
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
  const jobId = cluster.submit({ workflows: [loadTestFacts('one')], startAtMs: cluster.clock.wallMs() + 5_000 });
  assert.equal(codeOf('report', { jobId }), 'PRECONDITION');
  assert.equal(codeOf('result', { jobId, workflow: 'none' }), 'PRECONDITION');
  cluster.untilStatus(jobId, 'COMPLETED');
  assert.equal(codeOf('result', { jobId, workflow: 'none' }), 'BAD_ARGUMENT');
  assert.equal(codeOf('report', { jobId }), 'ok');
});

test('out-of-line results are bounded: finished jobs are evicted first, then a result is TOO_LARGE', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 });
  cluster.get('w1').behave = () => ({ afterMs: 10, report: { completed: 1, output: json('x'.repeat(9_000_000)) } });
  const submit = () => cluster.submit({ workflows: [batchTestFacts('one', {}, { items: 1 })] });
  const ids = Array.from({ length: 6 }, () => {
    const jobId = submit();
    cluster.untilStatus(jobId, 'COMPLETED');
    return jobId;
  });
  cluster.run(500);
  const bytes = () => keysOf(cluster, '/jobs/end/').length * 524_288;
  assert.ok(bytes() <= 42_000_000, `${bytes()} bytes`);
  const first = cluster.command('show', { jobId: ids[0] });
  assert.ok(!first.ok && first.error.code === 'UNKNOWN_JOB');
  const names = ['a', 'b', 'c', 'd', 'e'];
  const jobId = cluster.submit({ workflows: names.map((name) => batchTestFacts(name, {}, { items: 1 })) });
  const view = cluster.untilStatus(jobId, 'FAILED');
  assert.equal(view.error?.code, 'TOO_LARGE');
  assert.equal(view.workflows.filter(({ status }) => status === 'COMPLETED').length, 4);
});

test('the end of a job with many units is never recorded before the results of its units', () => {
  const cluster = ManagerTestCluster.start({ w1: 2_000 });
  const worker = cluster.get('w1');
  worker.behave = () => 'hold';
  const facts = batchTestFacts('one', { cores: 2_000 }, { items: 2_000, unitItemsMax: 1 });
  const jobId = cluster.submit({ workflows: [facts] });
  cluster.until(() => worker.runs.size === 2_000, 'every unit runs');
  const blocks = new Map<string, number>();
  let endedWith = -1;
  const connection = registryOf(cluster, 'm1');
  const transact = connection.transact.bind(connection);
  connection.transact = (transaction, options, done) => {
    for (const op of transaction.then)
      if (op.kind === 'put' && op.key.startsWith(jobRanges.unitBlocksOf(jobId).from))
        blocks.set(op.key, decodeUnitBlock(op.value)?.filter(({ state }) => state === 'done').length ?? 0);
    for (const op of transaction.then)
      if (op.kind === 'put' && op.key === jobKeys.state(jobId) && decodeJobState(op.value)?.status === 'COMPLETED')
        endedWith = [...blocks.values()].reduce((sum, count) => sum + count, 0);
    transact(transaction, options, done);
  };
  const ids = [...worker.runs.values()].map(({ id }) => id);
  worker.isolated = true;
  for (const id of ids) worker.end(id, { completed: 1 });
  cluster.run(50);
  worker.isolated = false;
  worker.sendReports();
  assert.equal(cluster.untilStatus(jobId, 'COMPLETED').totals.completed, 2_000);
  assert.equal(endedWith, 2_000);
});

test('with a full registry finished jobs are deleted, and open jobs go on', () => {
  const cluster = ManagerTestCluster.start({ w1: 1 }, 'full', { totalBytesMax: 2_500_000 });
  cluster.get('w1').behave = () => ({ afterMs: 10, report: { completed: 1, output: json('x'.repeat(900_000)) } });
  for (let i = 0; i < 5; i++)
    cluster.untilStatus(cluster.submit({ workflows: [batchTestFacts('one', {}, { items: 1 })] }), 'COMPLETED');
  assert.ok(cluster.commandOk<{ items: unknown[] }>('list', {}).items.length < 5);
});
