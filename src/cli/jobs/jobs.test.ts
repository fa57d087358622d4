/** The commands about jobs as a shell runs them, against a node with real routes and fake managers. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { JobCli, jobReport } from '../../../test/support/jobs/job-cli.ts';
import { failure } from '../../base/errors.ts';
import type { JobRequest, JobView } from '../../jobs/job-types.ts';
import type { Report } from '../../jobs/report/report.ts';

const cli = new JobCli();
before(() => cli.start());
after(() => cli.close());
beforeEach(() => cli.reset());

function progress(version: number, status: string, others: object = {}): object {
  return {
    ...{ jobId: 'j1', version, status, elapsedMs: version * 1_000, completed: version * 10, failed: 0 },
    ...{ ratePerSecond: 12.5, latencyMs: { p50: 1, p95: 2, p99: 3 }, queue: null, workers: ['w1'], incidents: [] },
    workflows: [
      {
        ...{
          id: '0',
          name: 'checkout',
          style: 'load',
          status: 'RUNNING',
          completed: version * 10,
          failed: 0,
          ratePerSecond: 12.5,
        },
        units: { total: 2, done: 0, running: 2 },
      },
    ],
    ...others,
  };
}

/** A fake job that ends with this status after three polls. */
function runToEnd(status: Report['status'], failed = 0): void {
  let request: JobRequest | undefined;
  let polls = 0;
  cli.replies = {
    submit: (args) => {
      request = args as unknown as JobRequest;
      if (!cli.stored.has(request.bundle)) return failure('UNKNOWN_BUNDLE');
      return { jobId: 'j1', status: 'QUEUED', isNew: true };
    },
    watch: () => {
      polls += 1;
      return progress(polls, polls > 3 ? status : 'RUNNING');
    },
    report: () => jobReport(status, failed, request),
    result: () => ({ results: { checkout: { base: 'x' } } }),
  };
}

test('run bundles, submits and follows a job, prints the report, and exits with 0 when it completed', async () => {
  runToEnd('COMPLETED');
  const good = await cli.run([
    'run',
    cli.file,
    '--vus',
    '5',
    '--duration',
    '2s',
    '--env',
    'A=b=c',
    '--env',
    'D=',
    '-o',
    'json',
  ]);
  assert.equal(good.exitCode, 0, good.err);
  const view = JSON.parse(good.out) as Report;
  assert.deepEqual([view.schemaVersion, view.status, view.totals.completed], [1, 'COMPLETED', 100]);
  assert.match(good.err, /RUNNING .* 13\/s/);
  assert.equal(cli.stored.size, 1);
  assert.equal(cli.commands.filter(({ verb }) => verb === 'submit').length, 2, 'once without the code, once with it');
  const { idempotencyKey, env, workflows, bundle } = cli.submission(0);
  assert.match(idempotencyKey ?? '', /^cli-[0-9a-f]{32}$/);
  assert.equal(cli.submission(1).idempotencyKey, idempotencyKey);
  assert.deepEqual(env, { A: 'b=c', D: '' });
  assert.deepEqual([workflows[0]?.load?.vus, workflows[0]?.load?.durationMs], [5, 2_000]);
  assert.match(new TextDecoder().decode(cli.stored.get(bundle)), /checkout/);
});

test('run exits with 99 after a failed threshold, 4 for PARTIAL/TIMEOUT, 1 for FAILED, 130 for CANCELLED', async () => {
  for (const [status, failed, exitCode] of [
    ['COMPLETED', 50, 99],
    ['PARTIAL', 0, 4],
    ['FAILED', 0, 1],
    ['TIMEOUT', 0, 4],
    ['CANCELLED', 0, 130],
  ] as const) {
    runToEnd(status, failed);
    const ran = await cli.run(['run', cli.file]);
    assert.equal(ran.exitCode, exitCode, ran.err);
    assert.match(ran.out, new RegExp(status));
    assert.match(ran.out, /worker\.lost {2}w2 {2}unit 1 restarts/);
  }
});

test('run --out writes a page and a JSON file with the results', async () => {
  runToEnd('COMPLETED');
  const [page, json] = [join(cli.folder, 'report.html'), join(cli.folder, 'results.json')];
  const ran = await cli.run(['run', cli.file, '--out', page, '--out', json]);
  assert.equal(ran.exitCode, 0, ran.err);
  assert.match(readFileSync(page, 'utf8'), /^<!doctype html>[\s\S]*<svg[\s\S]*worker\.lost/);
  const written = JSON.parse(readFileSync(json, 'utf8')) as Report & { results: unknown };
  assert.deepEqual([written.jobId, written.results], ['j1', { checkout: { base: 'x' } }]);
});

test('Ctrl-C cancels the job of run and waits for its end', async () => {
  runToEnd('COMPLETED');
  let cancelled = false;
  let version = 0;
  cli.replies['watch'] = () => progress((version += 1), cancelled ? 'CANCELLED' : 'RUNNING');
  cli.replies['cancel'] = () => {
    cancelled = true;
    return { jobId: 'j1', status: 'CANCELLING' };
  };
  cli.replies['report'] = () => jobReport('CANCELLED', 0);
  let signals = 0;
  const ran = await cli.run(['run', cli.file], (err, kill) => {
    if (err.includes('RUNNING') && signals++ === 0) kill();
  });
  assert.equal(ran.exitCode, 130, ran.err);
  assert.match(ran.err, /cancelling the job/);
  assert.match(ran.out, /CANCELLED/);
  assert.ok(cli.commands.some(({ verb }) => verb === 'cancel'));
});

test('a second Ctrl-C exits run at once, and prints that the job may still run', async () => {
  runToEnd('COMPLETED');
  let version = 0;
  cli.replies['watch'] = () => progress((version += 1), 'RUNNING');
  cli.replies['cancel'] = () => ({ jobId: 'j1', status: 'CANCELLING' });
  let signals = 0;
  const ran = await cli.run(['run', cli.file], (err, kill) => {
    if (err.includes('RUNNING') && signals === 0) kill();
    else if (err.includes('cancelling') && signals === 1) kill();
    else return;
    signals += 1;
  });
  assert.equal(ran.exitCode, 130, ran.err);
  assert.match(ran.err, /j1 may still run/);
});

test('run --detach and job submit print the job id, and pass on when it starts', async () => {
  runToEnd('COMPLETED');
  const detached = await cli.run(['run', cli.file, '--detach']);
  assert.deepEqual([detached.exitCode, detached.out], [0, 'j1\n']);
  const flags = ['--key', 'k', '--in', '1h', '--priority', '3', '--timeout', '2m', '--seed', '7', '--name', 'n'];
  const submitted = await cli.run(['job', 'submit', cli.file, ...flags, '-o', 'json']);
  assert.deepEqual(JSON.parse(submitted.out), { schemaVersion: 1, jobId: 'j1', status: 'QUEUED', isNew: true });
  const request = cli.submission();
  assert.deepEqual(
    [request.idempotencyKey, request.priority, request.timeoutMs, request.seed, request.name],
    ['k', 3, 120_000, 7, 'n'],
  );
  assert.ok((request.startAtMs ?? 0) > Date.now());
  const cron = await cli.run(['job', 'submit', cli.file, '--cron', '0 3 * * *', '--key', 'nightly']);
  assert.match(cron.out, /^SCHEDULE +nightly$/m);
  assert.equal(cli.submission().cron, '0 3 * * *');
});

test('run and job submit refuse a wrong argument or file before they send a request', async () => {
  const broken = join(cli.folder, 'broken.ts');
  writeFileSync(
    broken,
    `import { workflow } from 'remuster';\n\nexport default workflow('Bad Name', { steps: {} });\n`,
  );
  for (const [code, exitCode, pattern, ...args] of [
    ['BAD_ARGUMENT', 2, /no file/, 'run', 'nothing.ts'],
    ['BUNDLE_INVALID', 1, /broken\.ts:3/, 'run', broken],
    ['BAD_ARGUMENT', 2, /KEY=VALUE/, 'run', cli.file, '--env', 'A'],
    ['BAD_ARGUMENT', 2, /duration such as/, 'run', cli.file, '--duration', 'long'],
    ['BAD_ARGUMENT', 2, /\.html or \.json/, 'run', cli.file, '--out', 'report.pdf'],
    ['BAD_ARGUMENT', 2, /a schedule needs a name/, 'job', 'submit', cli.file, '--cron', '* * * * *'],
    ['BAD_ARGUMENT', 2, /one of --at, --in and --cron/, 'job', 'submit', cli.file, '--in', '1s', '--at', '2030-01-01'],
    ['BAD_ARGUMENT', 2, /--at takes a time/, 'job', 'submit', cli.file, '--at', 'noon'],
    ['BAD_ARGUMENT', 2, /one datacenter/, 'run', cli.file, '--dc-count', '2'],
  ] as const) {
    const ran = await cli.run([...args, '-o', 'json']);
    const { error } = JSON.parse(ran.err) as { error: { code: string; message: string } };
    assert.deepEqual([error.code, ran.exitCode, ran.out], [code, exitCode, ''], args.join(' '));
    assert.match(error.message, pattern);
  }
  assert.deepEqual(cli.commands, []);
});

test('each job and schedule command prints the reply of the managers', async () => {
  const view: JobView = {
    ...{ jobId: 'j1', name: 'checkout', status: 'RUNNING', submitter: 'http', priority: 0, submittedAtMs: 0 },
    ...{ startedAtMs: 1, endedAtMs: null, timeoutMs: 3_600_000, queue: null, totals: { completed: 5, failed: 1 } },
    datacenters: [{ dc: 'dc1', status: 'RUNNING' }],
    workflows: [
      {
        ...{ id: '0', name: 'checkout', style: 'load', status: 'RUNNING', completed: 5, failed: 1, ratePerSecond: 2.5 },
        units: { total: 3, done: 1, running: 2 },
        attempts: [{ worker: 'w2', cores: 1, fence: '77', outcome: 'lost', unit: 1, attempt: 1 }],
      },
    ],
  };
  const { jobId, name, status, submitter, submittedAtMs, endedAtMs } = view;
  const row = { jobId, name, status, submitter, submittedAtMs, endedAtMs, completed: 5, failed: 1 };
  let polls = 0;
  cli.replies = {
    list: () => ({ items: [row] }),
    show: () => view,
    explain: () => ({ lines: ['w1 has no free core'] }),
    cancel: () => ({ jobId, status: 'CANCELLING' }),
    watch: () => progress((polls += 1), polls > 2 ? 'COMPLETED' : 'RUNNING'),
    report: () => jobReport('COMPLETED', 0),
    result: ({ part }) => ({ part: part ?? 0, parts: 2, json: part === 1 ? '"b"]}}' : '{"results":{"w":["a",' }),
    schedules: () => ({ items: [{ name: 'nightly', cron: '0 3 * * *', nextAtMs: 0 }] }),
    unschedule: () => ({}),
  };
  assert.deepEqual(JSON.parse((await cli.run(['job', 'list', '-o', 'json'])).out), { schemaVersion: 1, items: [row] });
  assert.deepEqual(JSON.parse((await cli.run(['job', 'show', 'j1', '-o', 'json'])).out), {
    schemaVersion: 1,
    ...view,
  });
  assert.match((await cli.run(['job', 'show', 'j1'])).out, /checkout +1 +1 +w2 +lost/);
  assert.equal((await cli.run(['job', 'explain', 'j1'])).out, 'w1 has no free core\n');
  assert.match((await cli.run(['job', 'cancel', 'j1'])).out, /CANCELLING/);
  const watched = await cli.run(['job', 'watch', 'j1', '-o', 'json']);
  assert.deepEqual(
    watched.out
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { status: string }).status),
    ['RUNNING', 'RUNNING', 'COMPLETED'],
  );
  assert.equal(watched.exitCode, 0);
  assert.equal((JSON.parse((await cli.run(['job', 'report', 'j1', '-o', 'json'])).out) as Report).jobId, 'j1');
  assert.deepEqual(JSON.parse((await cli.run(['job', 'result', 'j1'])).out), { w: ['a', 'b'] });
  await cli.run(['job', 'result', 'j1', '--out', 'result.json']);
  assert.deepEqual(JSON.parse(readFileSync(join(cli.folder, 'result.json'), 'utf8')), { w: ['a', 'b'] });
  assert.match((await cli.run(['schedule', 'list'])).out, /nightly +0 3 \* \* \* +1970/);
  assert.match((await cli.run(['schedule', 'delete', 'nightly'])).out, /DELETED +nightly/);
  cli.replies = {};
  const unknown = await cli.run(['job', 'show', 'none', '-o', 'json']);
  assert.equal(unknown.exitCode, 1);
  assert.equal((JSON.parse(unknown.err) as { error: { code: string } }).error.code, 'UNKNOWN_JOB');
});
