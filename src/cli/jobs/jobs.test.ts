/** The commands about jobs as a shell runs them, against a node with real routes and a desk that the test speaks for. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Outcome, failure, success } from '../../base/errors.ts';
import { systemClock } from '../../io/system/clock.ts';
import { type HttpServer, openHttpServer } from '../../io/http/http-server.ts';
import type { JobRequest, JobView } from '../../jobs/job-types.ts';
import { Summary } from '../../jobs/report/summary.ts';
import { type Report, buildReport } from '../../jobs/report/report.ts';
import { jobRoutes } from '../../node/http/job-routes.ts';

const main = fileURLToPath(new URL('../main.ts', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'remuster-jobs-cli-'));
const file = join(folder, 'checkout.ts');

type Words = Record<string, unknown>;
let server: HttpServer;
let orders: { readonly verb: string; readonly words: Words }[] = [];
let stored = new Map<string, Uint8Array>();
let answers: Record<string, (words: Words) => object | Outcome<string>> = {};

before(async () => {
  writeFileSync(
    file,
    `import { workflow } from 'remuster';
    export default workflow('checkout', {
      vus: 2, duration: '10s', thresholds: { failed: ['rate<1%'] }, steps: { browse: () => 1 },
    });`,
  );
  const desk: ReturnType<Parameters<typeof jobRoutes>[0]> = {
    send: (verb, text, _submitter, _remainingMs, done) => {
      const words = JSON.parse(text) as Words;
      orders.push({ verb, words });
      const answer = (answers[verb] ?? (() => failure('UNKNOWN_JOB')))(words);
      const outcome = 'ok' in answer ? answer : success(JSON.stringify(answer));
      // As managers do: whoever asks for news that there is not waits a little.
      setTimeout(() => done(outcome), verb === 'watch' ? 20 : 0);
    },
    storeBundle: (sha256, code, done) => {
      stored.set(sha256, code);
      done(success(undefined));
    },
  };
  const routes = jobRoutes(() => desk, systemClock());
  server = await openHttpServer({ host: '127.0.0.1', port: 0, routes, log: () => {} });
});

after(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

beforeEach(() => {
  orders = [];
  stored = new Map();
  answers = {};
});

/** What the last submission said, or one before it. */
function submission(place = -1): JobRequest {
  const { words } = orders.filter(({ verb }) => verb === 'submit').at(place) ?? assert.fail('nothing was submitted');
  return words as unknown as JobRequest;
}

type Ran = { readonly exitCode: number | null; readonly out: string; readonly err: string };

/** `said` sees everything on stderr so far, and may signal. */
function run(words: readonly string[], said: (err: string, kill: () => void) => void = () => {}): Promise<Ran> {
  return new Promise((resolve) => {
    const env = { ...process.env, NO_COLOR: '1', REMUSTER_ADDR: `http://127.0.0.1:${server.port}` };
    const child = spawn(process.execPath, [main, ...words], { env, cwd: folder, timeout: 60_000 });
    let [out, err] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      err += text;
      said(err, () => child.kill('SIGINT'));
    });
    child.once('close', (exitCode) => resolve({ exitCode, out, err }));
  });
}

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

function report(status: Report['status'], failed: number, request?: JobRequest): Report {
  const summary = new Summary();
  summary.iterations = 100;
  summary.failed = failed;
  const [facts] = request?.workflows ?? [];
  const one =
    facts === undefined
      ? []
      : [{ facts, status: 'COMPLETED' as const, summary, completed: 100, failed, elapsedMs: 9_000 }];
  return buildReport({
    ...{ jobId: 'j1', name: 'checkout', status, elapsedMs: 10_000, workflows: one, attempts: [] },
    incidents: [{ time: '2026-01-01T10:00:00.000Z', type: 'worker.lost', node: 'w2', effect: 'unit 1 begins anew' }],
  });
}

/** A job that ends like that after a few looks. */
function goesOn(status: Report['status'], failed = 0): void {
  let request: JobRequest | undefined;
  let looks = 0;
  answers = {
    submit: (words) => {
      request = words as unknown as JobRequest;
      if (!stored.has(request.bundle)) return failure('UNKNOWN_BUNDLE');
      return { jobId: 'j1', status: 'QUEUED', isNew: true };
    },
    watch: () => {
      looks += 1;
      return progress(looks, looks > 3 ? status : 'RUNNING');
    },
    report: () => report(status, failed, request),
    result: () => ({ results: { checkout: { base: 'x' } } }),
  };
}

test('run bundles, submits, follows and reports; the exit code says how it ended', async () => {
  goesOn('COMPLETED');
  const good = await run([
    'run',
    file,
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
  const shown = JSON.parse(good.out) as Report;
  assert.deepEqual([shown.schemaVersion, shown.status, shown.totals.completed], [1, 'COMPLETED', 100]);
  assert.match(good.err, /RUNNING .* 13\/s/);
  assert.equal(stored.size, 1);
  assert.equal(orders.filter(({ verb }) => verb === 'submit').length, 2, 'once without the code, once with it');
  const { idempotencyKey, env, workflows, bundle } = submission(0);
  assert.match(idempotencyKey ?? '', /^cli-[0-9a-f]{32}$/);
  assert.equal(submission(1).idempotencyKey, idempotencyKey);
  assert.deepEqual(env, { A: 'b=c', D: '' });
  assert.deepEqual([workflows[0]?.load?.vus, workflows[0]?.load?.durationMs], [5, 2_000]);
  assert.match(new TextDecoder().decode(stored.get(bundle)), /checkout/);
});

test('run ends with 99 for thresholds, 1 for failure, 4 for time, 130 for a cancelled job', async () => {
  for (const [status, failed, exitCode] of [
    ['COMPLETED', 50, 99],
    ['PARTIAL', 0, 4],
    ['FAILED', 0, 1],
    ['TIMEOUT', 0, 4],
    ['CANCELLED', 0, 130],
  ] as const) {
    goesOn(status, failed);
    const ran = await run(['run', file]);
    assert.equal(ran.exitCode, exitCode, ran.err);
    assert.match(ran.out, new RegExp(status));
    assert.match(ran.out, /worker\.lost {2}w2 {2}unit 1 begins anew/);
  }
});

/** A batch of which the odd items failed. */
function partialBatch(): void {
  const bad = (index: number) => ({
    index,
    error: { name: 'TypeError', message: `item ${index} is bad`, at: 'b.ts:3:4' },
  });
  const items = Array.from({ length: 100 }, (_, at) => bad(2 * at + 1));
  const messages = [{ message: 'TypeError: bad', at: 'b.ts:3:4', count: 90 }];
  const failures = [{ workflow: 'w', count: 2_000, messages, other: 1_910, items }];
  answers = {
    report: () => ({ ...report('PARTIAL', 0), failures }),
    result: () => ({ results: { w: [0, ...items.slice(0, 10)] } }),
    failures: () => ({ jobId: 'j1', failures }),
  };
}

test('job result prints 50 lines for people and all for programs, and exits as the job ended', async () => {
  partialBatch();
  const people = await run(['job', 'result', 'j1']);
  assert.equal(people.exitCode, 4, people.err);
  assert.equal(people.out.trimEnd().split('\n').length, 50);
  assert.match(people.out, /^\{\n {2}"w": \[\n {4}0,\n {4}\{\n {6}"index": 1,/);
  assert.match(people.err, /35 more lines: remuster job result j1 --out FILE/);
  assert.match(
    people.err,
    /the job is PARTIAL\nw: 2,000 failed items\n {2}90 x {2}TypeError: bad \(b\.ts:3:4\)\n {2}1,910 x/,
  );
  const whole = await run(['job', 'result', 'j1', '-o', 'json']);
  assert.equal((JSON.parse(whole.out) as { w: unknown[] }).w.length, 11);
  assert.equal(whole.exitCode, 4);
});

test('job failures lists failed items as a table or one in a line, and says how many are not listed', async () => {
  partialBatch();
  const table = await run(['job', 'failures', 'j1']);
  assert.match(table.out, /^WORKFLOW {2}INDEX {2}ERROR +AT\nw +1 +TypeError: item 1 is bad +b\.ts:3:4\n/);
  assert.match(table.err, /2,000 items failed; the first 100 are listed/);
  const lines = (await run(['job', 'failures', 'j1', '-o', 'jsonl'])).out.trim().split('\n');
  assert.equal(lines.length, 100);
  assert.deepEqual(JSON.parse(lines[1] ?? ''), {
    ...{ workflow: 'w', index: 3 },
    error: { name: 'TypeError', message: 'item 3 is bad', at: 'b.ts:3:4' },
  });
  answers['failures'] = () => ({ jobId: 'j1', failures: [] });
  const none = await run(['job', 'failures', 'j1']);
  assert.deepEqual([none.exitCode, none.out, none.err], [0, 'WORKFLOW  INDEX  ERROR  AT\n', 'no item failed\n']);
});

test('run writes a page and a file with the results', async () => {
  goesOn('COMPLETED');
  const [page, json] = [join(folder, 'report.html'), join(folder, 'results.json')];
  const ran = await run(['run', file, '--out', page, '--out', json]);
  assert.equal(ran.exitCode, 0, ran.err);
  assert.match(readFileSync(page, 'utf8'), /^<!doctype html>[\s\S]*<svg[\s\S]*worker\.lost/);
  const written = JSON.parse(readFileSync(json, 'utf8')) as Report & { results: unknown };
  assert.deepEqual([written.jobId, written.results], ['j1', { checkout: { base: 'x' } }]);
});

test('Ctrl-C cancels the job and waits for its end', async () => {
  goesOn('COMPLETED');
  let cancelled = false;
  let version = 0;
  answers['watch'] = () => progress((version += 1), cancelled ? 'CANCELLED' : 'RUNNING');
  answers['cancel'] = () => {
    cancelled = true;
    return { jobId: 'j1', status: 'CANCELLING' };
  };
  answers['report'] = () => report('CANCELLED', 0);
  let signals = 0;
  const ran = await run(['run', file], (err, kill) => {
    if (err.includes('RUNNING') && signals++ === 0) kill();
  });
  assert.equal(ran.exitCode, 130, ran.err);
  assert.match(ran.err, /cancelling the job/);
  assert.match(ran.out, /CANCELLED/);
  assert.ok(orders.some(({ verb }) => verb === 'cancel'));
});

test('a second Ctrl-C leaves at once, and says that the job may still run', async () => {
  goesOn('COMPLETED');
  let version = 0;
  answers['watch'] = () => progress((version += 1), 'RUNNING');
  answers['cancel'] = () => ({ jobId: 'j1', status: 'CANCELLING' });
  let signals = 0;
  const ran = await run(['run', file], (err, kill) => {
    if (err.includes('RUNNING') && signals === 0) kill();
    else if (err.includes('cancelling') && signals === 1) kill();
    else return;
    signals += 1;
  });
  assert.equal(ran.exitCode, 130, ran.err);
  assert.match(ran.err, /j1 may still run/);
});

test('run --detach and job submit say the id; when it starts is passed on', async () => {
  goesOn('COMPLETED');
  const detached = await run(['run', file, '--detach']);
  assert.deepEqual([detached.exitCode, detached.out], [0, 'j1\n']);
  const flags = ['--key', 'k', '--in', '1h', '--priority', '3', '--timeout', '2m', '--seed', '7', '--name', 'n'];
  const submitted = await run(['job', 'submit', file, ...flags, '-o', 'json']);
  assert.deepEqual(JSON.parse(submitted.out), { schemaVersion: 1, jobId: 'j1', status: 'QUEUED', isNew: true });
  const request = submission();
  assert.deepEqual(
    [request.idempotencyKey, request.priority, request.timeoutMs, request.seed, request.name],
    ['k', 3, 120_000, 7, 'n'],
  );
  assert.ok((request.startAtMs ?? 0) > Date.now());
  const cron = await run(['job', 'submit', file, '--cron', '0 3 * * *', '--key', 'nightly']);
  assert.match(cron.out, /^SCHEDULE +nightly$/m);
  assert.equal(submission().cron, '0 3 * * *');
});

test('what is wrong is said before anything is submitted', async () => {
  const broken = join(folder, 'broken.ts');
  writeFileSync(
    broken,
    `import { workflow } from 'remuster';\n\nexport default workflow('Bad Name', { steps: {} });\n`,
  );
  for (const [code, exitCode, pattern, ...words] of [
    ['BAD_ARGUMENT', 2, /no file/, 'run', 'nothing.ts'],
    ['BUNDLE_INVALID', 1, /broken\.ts:3/, 'run', broken],
    ['BAD_ARGUMENT', 2, /KEY=VALUE/, 'run', file, '--env', 'A'],
    ['BAD_ARGUMENT', 2, /duration such as/, 'run', file, '--duration', 'long'],
    ['BAD_ARGUMENT', 2, /\.html or \.json/, 'run', file, '--out', 'report.pdf'],
    ['BAD_ARGUMENT', 2, /a schedule needs a name/, 'job', 'submit', file, '--cron', '* * * * *'],
    ['BAD_ARGUMENT', 2, /one of --at, --in and --cron/, 'job', 'submit', file, '--in', '1s', '--at', '2030-01-01'],
    ['BAD_ARGUMENT', 2, /--at takes a moment/, 'job', 'submit', file, '--at', 'noon'],
    ['BAD_ARGUMENT', 2, /one datacenter/, 'run', file, '--dc-count', '2'],
  ] as const) {
    const ran = await run([...words, '-o', 'json']);
    const { error } = JSON.parse(ran.err) as { error: { code: string; message: string } };
    assert.deepEqual([error.code, ran.exitCode, ran.out], [code, exitCode, ''], words.join(' '));
    assert.match(error.message, pattern);
  }
  assert.deepEqual(orders, []);
});

test('job list, show, explain, cancel, watch, report and result', async () => {
  const shown: JobView = {
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
  const { jobId, name, status, submitter, submittedAtMs, endedAtMs } = shown;
  const row = { jobId, name, status, submitter, submittedAtMs, endedAtMs, completed: 5, failed: 1 };
  let looks = 0;
  answers = {
    list: () => ({ items: [row] }),
    show: () => shown,
    explain: () => ({ lines: ['w1 has no free core'] }),
    cancel: () => ({ jobId, status: 'CANCELLING' }),
    watch: () => progress((looks += 1), looks > 2 ? 'COMPLETED' : 'RUNNING'),
    report: () => report('COMPLETED', 0),
    result: ({ part }) => ({ part: part ?? 0, parts: 2, json: part === 1 ? '"b"]}}' : '{"results":{"w":["a",' }),
    schedules: () => ({ items: [{ name: 'nightly', cron: '0 3 * * *', nextAtMs: 0 }] }),
    unschedule: () => ({}),
  };
  assert.deepEqual(JSON.parse((await run(['job', 'list', '-o', 'json'])).out), { schemaVersion: 1, items: [row] });
  assert.deepEqual(JSON.parse((await run(['job', 'show', 'j1', '-o', 'json'])).out), { schemaVersion: 1, ...shown });
  assert.match((await run(['job', 'show', 'j1'])).out, /checkout +1 +1 +w2 +lost/);
  assert.equal((await run(['job', 'explain', 'j1'])).out, 'w1 has no free core\n');
  assert.match((await run(['job', 'cancel', 'j1'])).out, /CANCELLING/);
  const watched = await run(['job', 'watch', 'j1', '-o', 'json']);
  assert.deepEqual(
    watched.out
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { status: string }).status),
    ['RUNNING', 'RUNNING', 'COMPLETED'],
  );
  assert.equal(watched.exitCode, 0);
  assert.equal((JSON.parse((await run(['job', 'report', 'j1', '-o', 'json'])).out) as Report).jobId, 'j1');
  assert.deepEqual(JSON.parse((await run(['job', 'result', 'j1'])).out), { w: ['a', 'b'] });
  await run(['job', 'result', 'j1', '--out', 'result.json']);
  assert.deepEqual(JSON.parse(readFileSync(join(folder, 'result.json'), 'utf8')), { w: ['a', 'b'] });
  assert.match((await run(['schedule', 'list'])).out, /nightly +0 3 \* \* \* +1970/);
  assert.match((await run(['schedule', 'delete', 'nightly'])).out, /DELETED +nightly/);
  answers = {};
  const unknown = await run(['job', 'show', 'none', '-o', 'json']);
  assert.equal(unknown.exitCode, 1);
  assert.equal((JSON.parse(unknown.err) as { error: { code: string } }).error.code, 'UNKNOWN_JOB');
});
