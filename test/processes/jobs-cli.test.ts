/** Jobs as operators use them: commands against a small dev cluster of real processes; a worker is killed. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startSampleTarget } from '../../src/cli/dev/sample-target.ts';
import type { JobRow, JobView } from '../../src/jobs/job-types.ts';
import type { Report } from '../../src/jobs/report/report.ts';
import { connect, type Job } from '../../src/index.ts';
import { ProcessLab } from '../support/processes/process-lab.ts';

/** For a start that takes seconds on an idle machine. */
const startTimeoutMs = 120_000;

const sumFile = `import { workflow } from 'remuster';
const shares = workflow('shares', { cores: 2, items: 10, each: (n) => { let sum = 0; for (let i = 1; i <= 10; i++) sum += n * 10 + i; return sum; } });
const sum = workflow('sum', { after: ['shares'], items: (ctx) => [ctx.from(shares)], each: (all) => all.reduce((a, b) => a + b, 0) });
export { shares, sum };
`;
/** Items that complete when the test opens the gate: until then every core is busy. */
const gatedItems = 8;
const gatedFile = `import { workflow } from 'remuster';
export const gated = workflow('gated', { cores: 4, items: ${gatedItems}, unitItems: 2, network: true, each: async (item, ctx) => {
  while ((await ctx.http.get(ctx.env.GATE)).text() !== 'open') await ctx.sleep(200);
  return item;
} });
`;
const endlessFile = `import { workflow } from 'remuster';
export const endless = workflow('endless', { items: 1, each: async (item, ctx) => { await ctx.sleep(600_000); } });
`;
const throwsFile = `import { workflow } from 'remuster';

export const bad = workflow('bad', { setup: () => {
  throw new Error('not today');
}, items: 1, each: () => 1 });
`;
const loadFile = `import { workflow } from 'remuster';
export const load = workflow('load', {
  vus: 2, duration: '2s', cores: 2, thresholds: { failed: ['rate<1%'], iterations: ['count>0'] },
  steps: { go: async (ctx) => ctx.check(await ctx.http.get(ctx.env.TARGET + ctx.env.PATH), ({ status }) => status === 200) },
  think: '5ms',
});
`;

/** One cluster for this file; each test has jobs of its own. */
describe('jobs on a dev cluster', () => {
  const ends: (() => Promise<void>)[] = [];
  let lab: ProcessLab;
  let ready: { readonly secret: string; readonly nodes: readonly { readonly name: string; readonly port: number }[] };

  before(async () => {
    lab = new ProcessLab({ after: (end) => void ends.push(end) });
    const texts = { sum: sumFile, gated: gatedFile, endless: endlessFile, throws: throwsFile, load: loadFile };
    for (const [name, text] of Object.entries(texts)) writeFileSync(join(lab.folder, `${name}.ts`), text);
    const size = ['--gates', '0', '--managers', '1', '--workers', '2', '--port-base', '0'];
    const dev = lab.program(['dev', '--with-parent', ...size, '-o', 'json'], { REMUSTER_CORES: '2' });
    const [line] = await dev.waitForOutput('stdout', /^\{"ready":true.*\}$/m, startTimeoutMs);
    ready = JSON.parse(line) as typeof ready;
  });

  after(async () => {
    for (const end of ends) await end();
  });

  /** Runs a command to its end, without a time limit. */
  async function ran(...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
    const program = lab.program(args);
    const { code } = await program.ended;
    return { code, stdout: program.stdout, stderr: program.stderr };
  }

  async function json<T>(...args: string[]): Promise<T> {
    const { code, stdout, stderr } = await ran(...args, '-o', 'json');
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout) as T;
  }

  test('are submitted once per key, watched, shown, listed and reported, and have results', async () => {
    type Submitted = { jobId: string; isNew: boolean };
    const first = await json<Submitted>('job', 'submit', 'sum.ts', '--key', 'once');
    assert.equal(first.isNew, true);
    const again = await json<Submitted>('job', 'submit', 'sum.ts', '--key', 'once');
    assert.deepEqual([again.jobId, again.isNew], [first.jobId, false]);
    const other = await ran('job', 'submit', 'gated.ts', '--key', 'once', '-o', 'json');
    assert.equal(other.code, 5, other.stderr);
    assert.equal((JSON.parse(other.stderr) as { error: { code: string } }).error.code, 'PRECONDITION');

    const { jobId } = first;
    const watched = await ran('job', 'watch', jobId);
    assert.equal(watched.code, 0, watched.stderr);
    assert.match(watched.stderr, /COMPLETED/);
    const shown = await json<JobView>('job', 'show', jobId);
    assert.deepEqual([shown.jobId, shown.status, shown.totals], [jobId, 'COMPLETED', { completed: 11, failed: 0 }]);
    assert.deepEqual(
      shown.workflows.map(({ name, status }) => `${name} ${status}`),
      ['shares COMPLETED', 'sum COMPLETED'],
    );
    for (const { attempts } of shown.workflows) {
      assert.ok(attempts.length > 0);
      for (const { worker, outcome, cores } of attempts)
        assert.ok(/^w[12]$/.test(worker) && outcome === 'completed' && cores === 1);
    }
    const { items } = await json<{ items: JobRow[] }>('job', 'list');
    assert.ok(items.some((row) => row.jobId === jobId && row.status === 'COMPLETED' && row.completed === 11));
    const report = await json<Report>('job', 'report', jobId);
    assert.deepEqual([report.schemaVersion, report.jobId, report.totals.completed], [1, jobId, 11]);
    const result = await ran('job', 'result', jobId);
    assert.deepEqual((JSON.parse(result.stdout) as { sum: unknown }).sum, [5_050]);
    assert.equal((await ran('job', 'show', 'no-such-job')).code, 1);
    assert.match((await ran('run', 'sum.ts')).stdout, /COMPLETED[\s\S]*"sum": \[\n {4}5050\n/);
  });

  test('are submitted and followed by a program, from a file or prepared for many submissions', async () => {
    const addr = ready.nodes.map(({ port }) => `127.0.0.1:${port}`);
    const cluster = await connect({ addr, cluster: 'dev', secret: ready.secret });
    try {
      const job = await cluster.submit(join(lab.folder, 'sum.ts'), { cores: 1 });
      const seen: string[] = [];
      for await (const { status } of job.progress()) seen.push(status);
      assert.equal(seen.at(-1), 'COMPLETED');
      assert.deepEqual((await job.result())['sum'], [5_050]);
      assert.equal((await job.report()).totals.completed, 11);

      const prepared = await cluster.prepare(join(lab.folder, 'sum.ts'));
      const jobs = await Promise.all(Array.from({ length: 8 }, () => cluster.submit(prepared)));
      assert.equal(new Set(jobs.map(({ id }) => id)).size, 8);
      for (const one of jobs) assert.deepEqual((await one.result())['sum'], [5_050]);

      const endless = await cluster.submit(join(lab.folder, 'endless.ts'));
      await endless.cancel();
      await assert.rejects(endless.result(), { code: 'CANCELLED' });
    } finally {
      await cluster.close();
    }
  });

  test('run a load test with thresholds that hold, with one that fails, and until Ctrl-C', async () => {
    const target = await startSampleTarget();
    try {
      const good = await ran('run', 'load.ts', '--env', `TARGET=${target.url}`, '--env', 'PATH=/', '-o', 'json');
      assert.equal(good.code, 0, good.stderr);
      const { totals, steps, thresholds } = JSON.parse(good.stdout) as Report;
      assert.equal(totals.requests, target.counts['/']);
      assert.equal(totals.iterations, steps[0]?.count);
      assert.deepEqual(
        thresholds.map(({ ok }) => ok),
        [true, true],
      );
      const args = ['--env', `TARGET=${target.url}`, '--env', 'PATH=/nothing', '--duration', '1s'];
      const bad = await ran('run', 'load.ts', ...args, '--out', 'report.html');
      assert.equal(bad.code, 99, bad.stderr);
      assert.match(bad.stdout, /FAILED {2}failed: rate<1%/);

      const long = ['--env', `TARGET=${target.url}`, '--env', 'PATH=/', '--duration', '10m', '--out', 'cut.json'];
      const cut = lab.program(['run', 'load.ts', ...long]);
      await cut.waitForOutput('stderr', /RUNNING.* [1-9]\d* done/, startTimeoutMs);
      cut.kill('SIGINT');
      assert.equal((await cut.ended).code, 130, cut.stderr);
      assert.match(cut.stdout, /CANCELLED[\s\S]*Partial: the load test was cancelled/);
      const measured = JSON.parse(readFileSync(join(lab.folder, 'cut.json'), 'utf8')) as Report;
      assert.deepEqual(measured.partial, { unitsReported: 2, units: 2 });
      assert.ok(measured.totals.iterations > 0);
      assert.equal(measured.totals.completed + measured.totals.failed, measured.totals.iterations);
      assert.equal(measured.steps[0]?.count, measured.totals.iterations);
    } finally {
      await target.close();
    }
  });

  test('fail with a position in the file, time out, and are cancelled by command or Ctrl-C', async () => {
    const failed = await ran('run', 'throws.ts');
    assert.equal(failed.code, 1, failed.stderr);
    assert.match(failed.stdout, /WORKFLOW_FAILED[\s\S]*not today[\s\S]*throws\.ts:4/);
    const late = await ran('run', 'endless.ts', '--timeout', '2s');
    assert.equal(late.code, 4, late.stderr);
    assert.match(late.stdout, /TIMEOUT/);

    const { jobId } = await json<{ jobId: string }>('job', 'submit', 'endless.ts');
    await json('job', 'cancel', jobId);
    assert.equal((await ran('job', 'watch', jobId)).code, 130);
    assert.equal((await json<JobView>('job', 'show', jobId)).status, 'CANCELLED');

    const run = lab.program(['run', 'endless.ts']);
    await run.waitForOutput('stderr', /RUNNING/, startTimeoutMs);
    run.kill('SIGINT');
    assert.equal((await run.ended).code, 130, run.stderr);
    assert.match(run.stdout, /CANCELLED/);
  });

  test('complete when a busy worker is killed, and report its lost units', async (context) => {
    let isOpen = false;
    const gate = createServer((_request, response) => response.end(isOpen ? 'open' : 'closed'));
    await new Promise<void>((listening) => gate.listen(0, '127.0.0.1', listening));
    context.after(() => {
      gate.close();
      gate.closeAllConnections();
    });
    const url = `http://127.0.0.1:${(gate.address() as AddressInfo).port}/`;
    const { jobId } = await json<{ jobId: string }>('job', 'submit', 'gated.ts', '--env', `GATE=${url}`);
    const isOnW2 = async (): Promise<boolean> => {
      const { workflows, status } = await json<JobView>('job', 'show', jobId);
      assert.ok(['SUBMITTED', 'QUEUED', 'DISPATCHING', 'RUNNING'].includes(status), status);
      return workflows.some(({ attempts }) =>
        attempts.some(({ worker, outcome }) => worker === 'w2' && outcome === 'running'),
      );
    };
    while (!(await isOnW2()));
    const { dcs } = await json<{ dcs: { jobs: number }[] }>('status');
    assert.deepEqual(
      dcs.map(({ jobs }) => jobs),
      [1],
    );
    // A client follows the job through the node that is killed.
    const w2 = ready.nodes.find(({ name }) => name === 'w2') ?? assert.fail('there is no w2');
    const cluster = await connect({ addr: `127.0.0.1:${w2.port}`, cluster: 'dev', secret: ready.secret });
    const followed = lastStatus(cluster.job(jobId));
    followed.catch(() => undefined);
    assert.equal((await ran('dev', 'kill', 'w2')).code, 0);
    isOpen = true;
    assert.equal(await followed, 'COMPLETED');
    await cluster.close();
    const watched = await ran('job', 'watch', jobId);
    assert.equal(watched.code, 0, watched.stderr);
    const report = await json<Report>('job', 'report', jobId);
    assert.deepEqual([report.status, report.totals.completed], ['COMPLETED', gatedItems]);
    assert.ok(report.incidents.length > 0);
    const { gated } = JSON.parse((await ran('job', 'result', jobId)).stdout) as { gated: number[] };
    assert.deepEqual(
      gated,
      Array.from({ length: gatedItems }, (_, i) => i),
    );
  });
});

async function lastStatus(job: Job): Promise<string | undefined> {
  let last: string | undefined;
  for await (const { status } of job.progress()) last = status;
  return last;
}
