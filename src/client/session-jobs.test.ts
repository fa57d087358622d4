/** Jobs of a session against fake managers that lose replies and refuse requests as each test wants. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, failure, isRemusterError } from '../base/errors.ts';
import { workflow } from '../runner/definition/workflow.ts';
import { connectedSession } from '../../test/fakes/fake-cluster.ts';
import { FakeManagers } from '../../test/fakes/fake-managers.ts';
import { type WorkflowBundler, type PreparedJob, preparedJob } from './submission.ts';
import { isJobFailure } from './job-failure.ts';

const checkout = workflow('checkout', { vus: 4, duration: '10s', steps: { browse: () => 1 } });
const code = new TextEncoder().encode('code');
const bundler: WorkflowBundler = async () => ({ sha256: 'ab', code, exports: { default: checkout } });
const prepared = (): PreparedJob => preparedJob({ sha256: 'ab', code, exports: { default: checkout } });
const refusedWith = (code_: ErrorCode) => (error: unknown) => isRemusterError(error, code_);

const at = (version: number, status: string): object => ({ jobId: 'job-1', version, status });

test('a session uploads a bundle once, and each submission is one job', async () => {
  const managers = new FakeManagers(2);
  const session = await connectedSession(managers.cluster, { bundler });
  const options = { vus: 8, duration: '3s', env: { TARGET: 't' }, priority: 2, startAt: new Date(5_000) };
  const first = await managers.cluster.until(session.submit('checkout.ts', options));
  const second = await managers.cluster.until(session.submit('checkout.ts'));
  assert.deepEqual([first.id, second.id, managers.stored], ['job-1', 'job-2', 1]);
  const [request] = managers.jobs.values();
  assert.equal(request?.bundle, 'ab');
  assert.deepEqual([request.env, request.priority, request.startAtMs], [{ TARGET: 't' }, 2, 5_000]);
  const [facts] = request.workflows;
  assert.deepEqual([facts?.name, facts?.load?.vus, facts?.load?.durationMs], ['checkout', 8, 3_000]);
});

test('a long load test gets a longer timeout, unless the caller sets one', async () => {
  const managers = new FakeManagers(1);
  const session = await connectedSession(managers.cluster);
  for (const options of [{}, { duration: '2h' }, { duration: '2h', timeoutMs: 5 }])
    await managers.cluster.until(session.submit(prepared(), options));
  assert.deepEqual(
    [...managers.jobs.values()].map(({ timeoutMs }) => timeoutMs),
    [undefined, 3 * 3_600_000, 5],
  );
  for (const { workflows } of managers.jobs.values())
    assert.ok((workflows[0]?.timeoutMs ?? 0) > (workflows[0]?.load?.durationMs ?? 0));
});

test('a submission with a lost reply is resent and is the same job', async () => {
  const managers = new FakeManagers(2);
  const session = await connectedSession(managers.cluster);
  let lost = 0;
  managers.injectFault = (_node, request, reply) => {
    if (request.verb !== 'submit' || lost > 0) return undefined;
    lost += 1;
    managers.execute(request);
    reply(failure('NETWORK_TIMEOUT'));
    return 'handled';
  };
  const job = await managers.cluster.until(session.submit(prepared()));
  assert.deepEqual([job.id, managers.jobs.size, lost], ['job-1', 1, 1]);
  assert.equal(managers.requests.length, 2);
});

test('a submission is retried without a leader, and a lost bundle is uploaded again', async () => {
  const managers = new FakeManagers(2);
  const session = await connectedSession(managers.cluster);
  await managers.cluster.until(session.submit(prepared()));
  managers.bundles.clear();
  let refusals = 3;
  managers.injectFault = (_node, _request, reply) => {
    if (refusals === 0) return undefined;
    refusals -= 1;
    reply(failure(refusals === 1 ? 'NOT_LEADER' : 'NO_QUORUM'));
    return 'handled';
  };
  await managers.cluster.until(session.submit(prepared()));
  assert.deepEqual([managers.stored, managers.jobs.size, refusals], [2, 2, 0]);
});

test('an invalid submission sends nothing, and an error of the managers reaches the caller', async () => {
  const managers = new FakeManagers(1);
  const session = await connectedSession(managers.cluster, {
    bundler: async () => ({ sha256: 'ab', code, exports: { a: 1 } }),
  });
  await assert.rejects(session.submit('a.ts'), refusedWith('BAD_ARGUMENT'));
  await assert.rejects(session.submit(prepared(), { cron: '* * * * *' }), refusedWith('BAD_ARGUMENT'));
  await assert.rejects(session.submit(prepared(), { duration: 'soon' }), refusedWith('BAD_ARGUMENT'));
  await assert.rejects(session.submit(prepared(), { startAt: Number.NaN }), refusedWith('BAD_ARGUMENT'));
  await assert.rejects(session.submit(prepared(), { env: { A: 'x'.repeat(70_000) } }), refusedWith('TOO_LARGE'));
  const without = await connectedSession(managers.cluster);
  await assert.rejects(without.submit('a.ts'), refusedWith('BAD_ARGUMENT'));
  assert.deepEqual(managers.requests, []);
  managers.injectFault = (_node, _request, reply) => (reply(failure('PRECONDITION', 'other content')), 'handled');
  const submitted = managers.cluster.until(session.submit(prepared(), { idempotencyKey: 'k' }));
  await assert.rejects(submitted, refusedWith('PRECONDITION'));
});

test('progress continues through the loss of a node and ends with the job', async () => {
  const managers = new FakeManagers(3);
  const session = await connectedSession(managers.cluster);
  const versions = [at(1, 'QUEUED'), at(5, 'RUNNING'), at(5, 'RUNNING'), at(2, 'RUNNING'), at(3, 'COMPLETED')];
  managers.results['watch'] = () => versions.shift() ?? assert.fail('a request after the end');
  const seen: number[] = [];
  const readProgress = async (): Promise<void> => {
    for await (const { version } of session.job('job-1').progress()) {
      seen.push(version);
      if (version === 5) managers.cluster.world.crash(managers.requests.at(-1)?.node ?? '');
    }
  };
  await managers.cluster.until(readProgress());
  assert.deepEqual(seen, [1, 5, 2, 3]);
  const watches = managers.requests.filter(({ verb }) => verb === 'watch');
  assert.deepEqual(
    watches.map(({ args }) => args['afterVersion']),
    [0, 1, 5, 5, 2],
  );
  assert.ok(new Set(watches.map(({ node }) => node)).size > 1);
});

test('a job request goes to another node when one is alive but never replies', async () => {
  const managers = new FakeManagers(2);
  const session = await connectedSession(managers.cluster);
  managers.results['show'] = () => ({ status: 'RUNNING' });
  managers.injectFault = (node) => (node === 'n1' ? 'handled' : undefined);
  assert.equal(await managers.cluster.until(session.job('job-1').status()), 'RUNNING');
  assert.deepEqual(
    managers.requests.map(({ node }) => node),
    ['n1', 'n2'],
  );
});

test('a result arrives whole or in parts, and a failed job throws its error', async () => {
  const managers = new FakeManagers(1);
  const session = await connectedSession(managers.cluster);
  const job = session.job('job-1');
  managers.results = {
    watch: () => at(9, 'COMPLETED'),
    show: () => ({ status: 'COMPLETED' }),
    result: () => ({ results: { sum: 5050 } }),
    report: () => ({ jobId: 'job-1', totals: {} }),
    cancel: () => ({ jobId: 'job-1', status: 'CANCELLING' }),
    list: ({ limit }) => ({ items: [{ jobId: `limit ${String(limit)}` }] }),
  };
  assert.deepEqual(await managers.cluster.until(job.result()), { sum: 5050 });
  assert.equal((await managers.cluster.until(job.report())).jobId, 'job-1');
  assert.equal(await managers.cluster.until(job.cancel()), 'CANCELLING');
  assert.equal(await managers.cluster.until(job.status()), 'COMPLETED');
  assert.equal((await managers.cluster.until(session.jobs({ limit: 3 })))[0]?.jobId, 'limit 3');

  const pieces = ['{"results":{"sum":[1,', '2,3', ']}}'];
  managers.results['result'] = ({ part = 0 }) => ({ part, parts: 3, json: pieces[part as number] });
  assert.deepEqual(await managers.cluster.until(job.result()), { sum: [1, 2, 3] });

  managers.results['watch'] = () => ({
    status: 'FAILED',
    error: { code: 'RETRIES_EXHAUSTED', message: 'three times' },
  });
  managers.results['show'] = () => ({ totals: { completed: 3, failed: 0 } });
  managers.results['failures'] = () => ({ failures: [] });
  const changed = { code: 'RETRIES_EXHAUSTED', stateChanged: 'yes' };
  await assert.rejects(managers.cluster.until(job.result()), changed);
  managers.results['watch'] = () => ({ status: 'CANCELLED' });
  await assert.rejects(managers.cluster.until(job.result()), refusedWith('CANCELLED'));
});

async function collect<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

test('a job that is not COMPLETED throws its failures, and results yields every item', async () => {
  const managers = new FakeManagers(1);
  const session = await connectedSession(managers.cluster);
  const job = session.job('job-1');
  const item = (index: number) => ({ index, error: { name: 'TypeError', message: 'bad', at: 'a.ts:1:2' } });
  const failures = {
    workflow: 'sum',
    count: 1_500,
    messages: [],
    other: 0,
    items: Array.from({ length: 1_000 }, (_, i) => item(i)),
  };
  const text = JSON.stringify({ failures: [failures, { ...failures, workflow: 'other' }] });
  const error = { code: 'PARTIAL', message: 'sum: 1500 of 4500 items failed' };
  managers.results = {
    watch: () => ({ jobId: 'job-1', status: 'PARTIAL', error }),
    show: () => ({ totals: { completed: 3_000, failed: 1_500 }, workflows: [{ name: 'sum', style: 'batch' }] }),
    failures: ({ part = 0 }) => ({ part, parts: 2, json: part === 0 ? text.slice(0, 90) : text.slice(90) }),
    result: (args) => (
      assert.deepEqual(args, { jobId: 'job-1', workflow: 'sum', oneByOne: true }),
      { results: { sum: [{ index: 0, value: 1 }, item(1)] } }
    ),
  };
  await assert.rejects(managers.cluster.until(job.result()), (thrown: unknown) => {
    assert.ok(isJobFailure(thrown));
    const { code, status, completed, failed, jobId, message } = thrown;
    assert.deepEqual([code, status, completed, failed, jobId], ['PARTIAL', 'PARTIAL', 3_000, 1_500, 'job-1']);
    assert.equal(message, error.message);
    assert.equal(thrown.stateChanged, 'yes', 'completed items have had their effect');
    assert.equal(thrown.failures.length, 1_000);
    assert.deepEqual(thrown.failures[7], { workflow: 'sum', ...item(7) });
    return true;
  });
  const all = await managers.cluster.until(collect(job.results()));
  assert.deepEqual(all, [{ index: 0, value: 1 }, item(1)]);
  managers.results['show'] = () => ({
    workflows: [
      { name: 'a', style: 'batch' },
      { name: 'b', style: 'batch' },
      { name: 'c', style: 'load' },
    ],
  });
  await assert.rejects(managers.cluster.until(collect(job.results())), /has 2 batches: name one of a, b/);
  await assert.rejects(managers.cluster.until(collect(job.results('c'))), /no batch called "c": name one of a, b/);
});

test('run waits for the end in one request, and continues with others for a longer job', async () => {
  const managers = new FakeManagers(1);
  const session = await connectedSession(managers.cluster);
  managers.results = { submit: () => ({ jobId: 'short', status: 'COMPLETED' }) };
  assert.deepEqual(await managers.cluster.until(session.run(prepared())), { jobId: 'short', status: 'COMPLETED' });
  assert.deepEqual(
    managers.requests.map(({ verb }) => verb),
    ['submit'],
  );
  const error = { code: 'RETRIES_EXHAUSTED', message: 'three times' };
  managers.results = {
    submit: () => ({ jobId: 'long', status: 'RUNNING', isNew: true }),
    watch: () => ({ jobId: 'long', status: 'FAILED', error }),
  };
  assert.deepEqual(await managers.cluster.until(session.run(prepared())), { jobId: 'long', status: 'FAILED', error });
});

test('closing the session cancels pending requests, and full managers end a submission with CAPACITY', async () => {
  const managers = new FakeManagers(1);
  const session = await connectedSession(managers.cluster);
  managers.injectFault = () => 'handled';
  const waiting = session.job('job-1').status();
  waiting.catch(() => undefined);
  await managers.cluster.advance(50);
  await managers.cluster.until(session.close());
  await assert.rejects(waiting, refusedWith('CANCELLED'));

  const full = new FakeManagers(1);
  const other = await connectedSession(full.cluster);
  full.injectFault = (_node, { verb }, reply) =>
    verb === 'submit' ? (reply(failure('CAPACITY')), 'handled') : undefined;
  await assert.rejects(full.cluster.until(other.submit(prepared())), refusedWith('CAPACITY'));
});
