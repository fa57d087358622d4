/** How batches end, as operators and programs see it, on a dev cluster of real processes with items that throw. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { JobRow, JobView } from '../../src/jobs/job-types.ts';
import type { Report } from '../../src/jobs/report/report.ts';
import { type ItemFailure, connect, isJobFailure } from '../../src/index.ts';
import { ProcessLab } from '../support/processes/process-lab.ts';

/** For a start that takes seconds on an idle machine. */
const startMs = 120_000;

/** `BAD` says which share of the items throws: all, half, none. */
const batchFile = (options: string): string => `import { workflow } from 'remuster';

export default workflow('batch', { items: 40, cores: 2, unitItems: 5, ${options} each: (item, ctx) => {
  if (ctx.env['BAD'] === 'all' || (ctx.env['BAD'] === 'half' && item % 2 === 1)) throw new TypeError('item ' + item % 4 + ' is bad');
  return item;
} });
export const next = workflow('next', { after: ['batch'], items: 1, each: (item, ctx) => ctx.from('batch').length });
`;
const files = {
  plain: batchFile(''),
  within: batchFile('maxFailures: 20,'),
  beyond: batchFile('maxFailures: 19,'),
  goOn: batchFile(`onItemError: 'continue',`),
  holds: batchFile(`thresholds: { failed: ['rate<=50%'] },`),
  breaks: batchFile(`thresholds: { failed: ['rate<10%'] },`),
  stops: `import { workflow } from 'remuster';
export default workflow('batch', { items: 1000, cores: 2, unitItems: 10, onItemError: 'stop', each: async (item, ctx) => {
  await ctx.sleep(5);
  if (item === 3) throw new Error('item 3 is bad');
} });
`,
  search: `import { workflow } from 'remuster';
export default workflow('search', { items: 40, cores: 2, unitItems: 5, first: true, each: async (item, ctx) => {
  if (item === 1) throw { code: 7 };
  await ctx.sleep(20);
  return item === 3 ? { password: item } : undefined;
} });
`,
  odd: `import { workflow } from 'remuster';
export default workflow('odd', { items: 3, onItemError: 'continue', each: (item) => (item === 1 ? 1n : item) });
`,
  wrong: `import { workflow } from 'remuster';
export default workflow('batch', { items: 1, onItemError: 'ignore', each: () => 1 });
`,
};

describe('the end of a batch', () => {
  const ends: (() => Promise<void>)[] = [];
  let lab: ProcessLab;
  let ready: { readonly secret: string; readonly nodes: readonly { readonly name: string; readonly port: number }[] };

  before(async () => {
    lab = new ProcessLab({ after: (end) => void ends.push(end) });
    for (const [name, text] of Object.entries(files)) writeFileSync(join(lab.folder, `${name}.ts`), text);
    const size = ['--gates', '0', '--managers', '1', '--workers', '2', '--port-base', '0'];
    const dev = lab.program(['dev', '--with-parent', ...size, '-o', 'json'], { REMUSTER_CORES: '2' });
    const [line] = await dev.waitForOutput('stdout', /^\{"ready":true.*\}$/m, startMs);
    ready = JSON.parse(line) as typeof ready;
  });

  after(async () => {
    for (const end of ends) await end();
  });

  type Ran = { code: number | null; stdout: string; stderr: string };
  async function ran(...args: string[]): Promise<Ran> {
    const program = lab.program(args);
    const { code } = await program.ended;
    return { code, stdout: program.stdout, stderr: program.stderr };
  }

  /** Runs a file to its end; `job show` must agree with the report of the run. */
  async function runFile(file: string, bad: string): Promise<{ code: number | null; report: Report }> {
    const { code, stdout, stderr } = await ran('run', `${file}.ts`, '--env', `BAD=${bad}`, '-o', 'json');
    assert.notEqual(stdout, '', stderr);
    const report = JSON.parse(stdout) as Report;
    const shown = JSON.parse((await ran('job', 'show', report.jobId, '-o', 'json')).stdout) as JobView;
    assert.deepEqual([shown.status, shown.totals.failed], [report.status, report.totals.failed]);
    return { code, report };
  }

  const endOf = ({ code, report }: { code: number | null; report: Report }): readonly unknown[] => {
    const [batch, next] = report.workflows;
    return [report.status, code, batch?.completed, batch?.failed, next?.status];
  };

  test('is COMPLETED with exit code 0 without a failed item, and FAILED with 1 if all or half of them throw', async () => {
    assert.deepEqual(endOf(await runFile('plain', 'none')), ['COMPLETED', 0, 40, 0, 'COMPLETED']);
    const all = await runFile('plain', 'all');
    assert.deepEqual(endOf(all), ['FAILED', 1, 0, 40, 'CANCELLED']);
    assert.equal(all.report.error?.code, 'WORKFLOW_FAILED');
    assert.match(all.report.error?.message ?? '', /40 of 40 items failed/);
    assert.deepEqual(endOf(await runFile('plain', 'half')), ['FAILED', 1, 20, 20, 'CANCELLED']);
    assert.deepEqual(endOf(await runFile('beyond', 'half')), ['FAILED', 1, 20, 20, 'CANCELLED']);
  });

  test('is PARTIAL with exit code 4 within the tolerated failures, and the next workflow runs', async () => {
    assert.deepEqual(endOf(await runFile('goOn', 'half')), ['PARTIAL', 4, 20, 20, 'COMPLETED']);
    assert.deepEqual(endOf(await runFile('within', 'half')), ['PARTIAL', 4, 20, 20, 'COMPLETED']);
    assert.deepEqual(endOf(await runFile('goOn', 'all')), ['FAILED', 1, 0, 40, 'CANCELLED']);
    assert.deepEqual(endOf(await runFile('goOn', 'none')), ['COMPLETED', 0, 40, 0, 'COMPLETED']);
  });

  test('is decided by a threshold on `failed` alone, if there is one', async () => {
    assert.deepEqual(endOf(await runFile('holds', 'half')), ['COMPLETED', 0, 20, 20, 'COMPLETED']);
    assert.deepEqual(endOf(await runFile('breaks', 'half')), ['COMPLETED', 99, 20, 20, 'COMPLETED']);
  });

  test('comes with the first failed item with onItemError stop; an unknown value is refused', async () => {
    const { code, report } = await runFile('stops', '');
    assert.deepEqual([report.status, code, report.totals.failed], ['FAILED', 1, 1]);
    assert.ok(report.totals.completed < 500, `${report.totals.completed} items were done after the first failure`);
    const refused = await ran('run', 'wrong.ts', '-o', 'json');
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /onItemError must be one of fail, stop, continue/);
  });

  test('lists failed items with error and position: in failures, result, report and page', async () => {
    const { report } = await runFile('goOn', 'half');
    const { jobId } = report;
    const odd = Array.from({ length: 20 }, (_, i) => i * 2 + 1);
    const [failures] = report.failures;
    assert.deepEqual(
      [failures?.workflow, failures?.count, failures?.messages.map(({ message, count }) => [message, count])],
      [
        'batch',
        20,
        [
          ['TypeError: item 1 is bad', 10],
          ['TypeError: item 3 is bad', 10],
        ],
      ],
    );
    const lines = await ran('job', 'failures', jobId, '-o', 'jsonl');
    assert.equal(lines.code, 0, lines.stderr);
    const listed = lines.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as ItemFailure);
    assert.deepEqual(
      listed.map(({ index }) => index),
      odd,
    );
    assert.deepEqual(listed[0], {
      workflow: 'batch',
      index: 1,
      error: { name: 'TypeError', message: 'item 1 is bad', at: 'goOn.ts:4:88' },
    });
    assert.match((await ran('job', 'failures', jobId)).stdout, /INDEX[\s\S]*item 1 is bad[\s\S]*goOn\.ts:4/);

    const result = await ran('job', 'result', jobId, '-o', 'json');
    assert.equal(result.code, 4, result.stderr);
    const { batch, next } = JSON.parse(result.stdout) as { batch: unknown[]; next: unknown };
    assert.deepEqual(next, [40]);
    assert.deepEqual(batch[0], 0);
    assert.deepEqual(batch[3], {
      index: 3,
      error: { name: 'TypeError', message: 'item 3 is bad', at: 'goOn.ts:4:88' },
    });
    const people = await ran('job', 'result', jobId);
    assert.match(people.stdout, /^\{\n {2}"batch": \[\n {4}0,/);
    assert.equal(
      (JSON.parse(people.stdout) as { batch: unknown[] }).batch.length,
      40,
      'complete, because stdout is no terminal',
    );
    assert.match(people.stderr, /the job is PARTIAL\nbatch: 20 failed items\n/);

    const text = await ran('job', 'report', jobId, '--out', 'report.html');
    assert.match(
      text.stdout,
      /PARTIAL[\s\S]*21 completed, 20 failed[\s\S]*10 x {2}batch\/each: TypeError: item 1 is bad/,
    );
    const { items } = JSON.parse((await ran('job', 'list', '-o', 'json')).stdout) as { items: JobRow[] };
    assert.ok(items.some((row) => row.jobId === jobId && row.status === 'PARTIAL' && row.completed === 21));
  });

  test('gives a program the failures with the error, and every item one by one', async () => {
    const addr = ready.nodes.map(({ port }) => `127.0.0.1:${port}`);
    const cluster = await connect({ addr, cluster: 'dev', secret: ready.secret });
    try {
      const good = await cluster.submit(join(lab.folder, 'plain.ts'), { env: { BAD: 'none' } });
      assert.equal(((await good.result())['batch'] as unknown[]).length, 40);
      const job = await cluster.submit(join(lab.folder, 'goOn.ts'), { env: { BAD: 'half' } });
      await assert.rejects(job.result(), (error: unknown) => {
        assert.ok(isJobFailure(error));
        assert.deepEqual([error.code, error.status, error.completed, error.failed], ['PARTIAL', 'PARTIAL', 21, 20]);
        assert.equal(error.failures.length, 20);
        assert.equal(error.failures[0]?.error.message, 'item 1 is bad');
        return true;
      });
      const values: unknown[] = [];
      const errors: number[] = [];
      for await (const one of job.results('batch')) {
        if ('error' in one) errors.push(one.index);
        else values.push(one.value);
      }
      assert.deepEqual([values.length, errors.length], [20, 20]);
      const failed = await cluster.submit(join(lab.folder, 'plain.ts'), { env: { BAD: 'all' } });
      await assert.rejects(failed.result(), { code: 'WORKFLOW_FAILED', completed: 0, failed: 40 });
      let count = 0;
      for await (const one of failed.results('batch')) {
        assert.ok('error' in one);
        count += 1;
      }
      assert.equal(count, 40);

      const search = await cluster.submit(join(lab.folder, 'search.ts'));
      assert.deepEqual(await search.result(), { search: { password: 3 } });
      const found: unknown[] = [];
      for await (const one of search.results()) if (one.index === 1 || one.index === 3) found.push(one);
      assert.deepEqual(found, [
        { index: 1, error: { name: 'Error', message: '{"code":7}' } },
        { index: 3, value: { password: 3 } },
      ]);
      const odd = await cluster.submit(join(lab.folder, 'odd.ts'));
      const ends: unknown[] = [];
      for await (const one of odd.results()) ends.push('error' in one ? one.error.message : one.value);
      assert.deepEqual(ends, [
        0,
        'the result of the item is not JSON: TypeError: Do not know how to serialize a BigInt',
        2,
      ]);
      await assert.rejects(odd.result(), { code: 'PARTIAL', stateChanged: 'yes' });
    } finally {
      await cluster.close();
    }
  });
});
