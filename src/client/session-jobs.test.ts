/** Jobs of a session, against nodes that answer as real ones do and lose answers when told to. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Done, type ErrorCode, failure, isRemusterError, success } from '../base/errors.ts';
import type { JobRequest } from '../jobs/job-types.ts';
import { encodeMessage, type Message } from '../messages/catalogue.ts';
import { workflow } from '../runner/definition/workflow.ts';
import { FakeCluster, opened } from '../../test/fakes/fake-cluster.ts';
import { type WorkflowBundler, type PreparedJob, preparedJob } from './submission.ts';
import { isJobFailure } from './job-failure.ts';

type Order = Message & { kind: 'jobRequest' };

const checkout = workflow('checkout', { vus: 4, duration: '10s', steps: { browse: () => 1 } });
const code = new TextEncoder().encode('code');
const bundler: WorkflowBundler = async () => ({ sha256: 'ab', code, exports: { default: checkout } });
const prepared = (): PreparedJob => preparedJob({ sha256: 'ab', code, exports: { default: checkout } });
const refusedWith = (code_: ErrorCode) => (error: unknown) => isRemusterError(error, code_);

/** Managers behind all nodes: they keep jobs by key, and know code that was stored. */
class PretendManagers {
  readonly cluster: FakeCluster;
  readonly orders: { readonly node: string; readonly verb: string; readonly words: Record<string, unknown> }[] = [];
  readonly jobs = new Map<string, JobRequest>();
  stored = 0;
  has = new Set<string>();
  /** Instead of the answer. */
  misbehave: (node: string, order: Order, reply: Done<Uint8Array>) => 'handled' | undefined = () => undefined;
  answers: Record<string, (words: Record<string, unknown>) => unknown> = {};

  constructor(nodes: number) {
    this.cluster = new FakeCluster(nodes);
    this.cluster.answerOther = (node, message, reply) => {
      if (message.kind === 'storeBundle') {
        this.stored += 1;
        this.has.add(message.sha256);
        return reply(success(encodeMessage({ kind: 'storeBundleReply', sha256: message.sha256 })));
      }
      assert.equal(message.kind, 'jobRequest');
      this.#ordered(node, message, reply);
    };
  }

  #ordered(node: string, order: Order, reply: Done<Uint8Array>): void {
    const words = JSON.parse(order.args) as Record<string, unknown>;
    this.orders.push({ node, verb: order.verb, words });
    if (this.misbehave(node, order, reply) !== undefined) return;
    reply(this.carriedOut(order));
  }

  carriedOut(order: Order): ReturnType<typeof success<Uint8Array>> | ReturnType<typeof failure> {
    const words = JSON.parse(order.args) as Record<string, unknown>;
    if (order.verb !== 'submit' || (this.answers['submit'] !== undefined && (order.waitMs ?? 0) > 0)) {
      const answer = this.answers[order.verb] ?? assert.fail(`nobody answers ${order.verb}`);
      return success(encodeMessage({ kind: 'jobReply', answer: JSON.stringify(answer(words)) }));
    }
    const request = words as unknown as JobRequest;
    if (!this.has.has(request.bundle)) return failure('UNKNOWN_BUNDLE');
    const key = order.idempotencyKey ?? assert.fail('a submission without a key');
    const isNew = !this.jobs.has(key);
    this.jobs.set(key, request);
    const jobId = `job-${[...this.jobs.keys()].indexOf(key) + 1}`;
    return success(encodeMessage({ kind: 'jobReply', answer: JSON.stringify({ jobId, status: 'QUEUED', isNew }) }));
  }
}

const at = (version: number, status: string): object => ({ jobId: 'job-1', version, status });

test('a file is bundled, its code stored once, and each submission is one job', async () => {
  const managers = new PretendManagers(2);
  const session = await opened(managers.cluster, { bundler });
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

test('a long load test has the time it needs, unless the caller says otherwise', async () => {
  const managers = new PretendManagers(1);
  const session = await opened(managers.cluster);
  for (const options of [{}, { duration: '2h' }, { duration: '2h', timeoutMs: 5 }])
    await managers.cluster.until(session.submit(prepared(), options));
  assert.deepEqual(
    [...managers.jobs.values()].map(({ timeoutMs }) => timeoutMs),
    [undefined, 3 * 3_600_000, 5],
  );
  for (const { workflows } of managers.jobs.values())
    assert.ok((workflows[0]?.timeoutMs ?? 0) > (workflows[0]?.load?.durationMs ?? 0));
});

test('a submission whose answer is lost is sent again and is the same job', async () => {
  const managers = new PretendManagers(2);
  const session = await opened(managers.cluster);
  let lost = 0;
  managers.misbehave = (_node, order, reply) => {
    if (order.verb !== 'submit' || lost > 0) return undefined;
    lost += 1;
    managers.carriedOut(order);
    reply(failure('NETWORK_TIMEOUT'));
    return 'handled';
  };
  const job = await managers.cluster.until(session.submit(prepared()));
  assert.deepEqual([job.id, managers.jobs.size, lost], ['job-1', 1, 1]);
  assert.equal(managers.orders.length, 2);
});

test('while nobody leads it is asked again; code that the managers have lost is stored again', async () => {
  const managers = new PretendManagers(2);
  const session = await opened(managers.cluster);
  await managers.cluster.until(session.submit(prepared()));
  managers.has.clear();
  let refusals = 3;
  managers.misbehave = (_node, _order, reply) => {
    if (refusals === 0) return undefined;
    refusals -= 1;
    reply(failure(refusals === 1 ? 'NOT_LEADER' : 'NO_QUORUM'));
    return 'handled';
  };
  await managers.cluster.until(session.submit(prepared()));
  assert.deepEqual([managers.stored, managers.jobs.size, refusals], [2, 2, 0]);
});

test('what makes no sense is refused before anything is sent, and what the managers refuse is told as it is', async () => {
  const managers = new PretendManagers(1);
  const session = await opened(managers.cluster, { bundler: async () => ({ sha256: 'ab', code, exports: { a: 1 } }) });
  await assert.rejects(session.submit('a.ts'), refusedWith('BAD_ARGUMENT'));
  await assert.rejects(session.submit(prepared(), { cron: '* * * * *' }), refusedWith('BAD_ARGUMENT'));
  await assert.rejects(session.submit(prepared(), { duration: 'soon' }), refusedWith('BAD_ARGUMENT'));
  await assert.rejects(session.submit(prepared(), { startAt: Number.NaN }), refusedWith('BAD_ARGUMENT'));
  await assert.rejects(session.submit(prepared(), { env: { A: 'x'.repeat(70_000) } }), refusedWith('TOO_LARGE'));
  const without = await opened(managers.cluster);
  await assert.rejects(without.submit('a.ts'), refusedWith('BAD_ARGUMENT'));
  assert.deepEqual(managers.orders, []);
  managers.misbehave = (_node, _order, reply) => (reply(failure('PRECONDITION', 'another content')), 'handled');
  const asked = managers.cluster.until(session.submit(prepared(), { idempotencyKey: 'k' }));
  await assert.rejects(asked, refusedWith('PRECONDITION'));
});

test('progress ends with the job, also when the node it is asked of is gone', async () => {
  const managers = new PretendManagers(3);
  const session = await opened(managers.cluster);
  const versions = [at(1, 'QUEUED'), at(5, 'RUNNING'), at(5, 'RUNNING'), at(2, 'RUNNING'), at(3, 'COMPLETED')];
  managers.answers['watch'] = () => versions.shift() ?? assert.fail('asked on after the end');
  const seen: number[] = [];
  const follow = async (): Promise<void> => {
    for await (const { version } of session.job('job-1').progress()) {
      seen.push(version);
      if (version === 5) managers.cluster.world.crash(managers.orders.at(-1)?.node ?? '');
    }
  };
  await managers.cluster.until(follow());
  assert.deepEqual(seen, [1, 5, 2, 3]);
  const asked = managers.orders.filter(({ verb }) => verb === 'watch');
  assert.deepEqual(
    asked.map(({ words }) => words['afterVersion']),
    [0, 1, 5, 5, 2],
  );
  assert.ok(new Set(asked.map(({ node }) => node)).size > 1);
});

test('a node that never answers, though it lives, is not waited for', async () => {
  const managers = new PretendManagers(2);
  const session = await opened(managers.cluster);
  managers.answers['show'] = () => ({ status: 'RUNNING' });
  managers.misbehave = (node) => (node === 'n1' ? 'handled' : undefined);
  assert.equal(await managers.cluster.until(session.job('job-1').status()), 'RUNNING');
  assert.deepEqual(
    managers.orders.map(({ node }) => node),
    ['n1', 'n2'],
  );
});

test('results come whole or in parts, after the end; a job that failed throws its error', async () => {
  const managers = new PretendManagers(1);
  const session = await opened(managers.cluster);
  const job = session.job('job-1');
  managers.answers = {
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
  managers.answers['result'] = ({ part = 0 }) => ({ part, parts: 3, json: pieces[part as number] });
  assert.deepEqual(await managers.cluster.until(job.result()), { sum: [1, 2, 3] });

  managers.answers['watch'] = () => ({
    status: 'FAILED',
    error: { code: 'RETRIES_EXHAUSTED', message: 'three times' },
  });
  managers.answers['show'] = () => ({ totals: { completed: 3, failed: 0 } });
  managers.answers['failures'] = () => ({ failures: [] });
  const changed = { code: 'RETRIES_EXHAUSTED', stateChanged: 'yes' };
  await assert.rejects(managers.cluster.until(job.result()), changed);
  managers.answers['watch'] = () => ({ status: 'CANCELLED' });
  await assert.rejects(managers.cluster.until(job.result()), refusedWith('CANCELLED'));
});

async function listed<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const one of items) all.push(one);
  return all;
}

test('an end that is not COMPLETED throws what is known of it; results tell of every item one by one', async () => {
  const managers = new PretendManagers(1);
  const session = await opened(managers.cluster);
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
  managers.answers = {
    watch: () => ({ jobId: 'job-1', status: 'PARTIAL', error }),
    show: () => ({ totals: { completed: 3_000, failed: 1_500 }, workflows: [{ name: 'sum', style: 'batch' }] }),
    failures: ({ part = 0 }) => ({ part, parts: 2, json: part === 0 ? text.slice(0, 90) : text.slice(90) }),
    result: (words) => (
      assert.deepEqual(words, { jobId: 'job-1', workflow: 'sum', oneByOne: true }),
      { results: { sum: [{ index: 0, value: 1 }, item(1)] } }
    ),
  };
  await assert.rejects(managers.cluster.until(job.result()), (thrown: unknown) => {
    assert.ok(isJobFailure(thrown));
    const { code, status, completed, failed, jobId, message } = thrown;
    assert.deepEqual([code, status, completed, failed, jobId], ['PARTIAL', 'PARTIAL', 3_000, 1_500, 'job-1']);
    assert.equal(message, error.message);
    assert.equal(thrown.stateChanged, 'yes', 'what completed has happened');
    assert.equal(thrown.failures.length, 1_000);
    assert.deepEqual(thrown.failures[7], { workflow: 'sum', ...item(7) });
    return true;
  });
  const all = await managers.cluster.until(listed(job.results()));
  assert.deepEqual(all, [{ index: 0, value: 1 }, item(1)]);
  managers.answers['show'] = () => ({
    workflows: [
      { name: 'a', style: 'batch' },
      { name: 'b', style: 'batch' },
      { name: 'c', style: 'load' },
    ],
  });
  await assert.rejects(managers.cluster.until(listed(job.results())), /has 2 batches: name one of a, b/);
  await assert.rejects(managers.cluster.until(listed(job.results('c'))), /no batch called "c": name one of a, b/);
});

test('run waits for the end in one question, and asks on when the job takes longer', async () => {
  const managers = new PretendManagers(1);
  const session = await opened(managers.cluster);
  managers.answers = { submit: () => ({ jobId: 'short', status: 'COMPLETED' }) };
  assert.deepEqual(await managers.cluster.until(session.run(prepared())), { jobId: 'short', status: 'COMPLETED' });
  assert.deepEqual(
    managers.orders.map(({ verb }) => verb),
    ['submit'],
  );
  const error = { code: 'RETRIES_EXHAUSTED', message: 'three times' };
  managers.answers = {
    submit: () => ({ jobId: 'long', status: 'RUNNING', isNew: true }),
    watch: () => ({ jobId: 'long', status: 'FAILED', error }),
  };
  assert.deepEqual(await managers.cluster.until(session.run(prepared())), { jobId: 'long', status: 'FAILED', error });
});

test('closing the session ends what waits; full managers are told of, not waited for without end', async () => {
  const managers = new PretendManagers(1);
  const session = await opened(managers.cluster);
  managers.misbehave = () => 'handled';
  const waiting = session.job('job-1').status();
  waiting.catch(() => undefined);
  await managers.cluster.pass(50);
  await managers.cluster.until(session.close());
  await assert.rejects(waiting, refusedWith('CANCELLED'));

  const full = new PretendManagers(1);
  const other = await opened(full.cluster);
  full.misbehave = (_node, { verb }, reply) =>
    verb === 'submit' ? (reply(failure('CAPACITY')), 'handled') : undefined;
  await assert.rejects(full.cluster.until(other.submit(prepared())), refusedWith('CAPACITY'));
});
