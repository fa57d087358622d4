/** `job result` and `job failures` as a shell runs them, against fake managers. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { JobCli, jobReport } from '../../../test/support/jobs/job-cli.ts';

const cli = new JobCli();
before(() => cli.start());
after(() => cli.close());
beforeEach(() => cli.reset());

/** A batch of which the odd items failed. */
function partialBatch(): void {
  const bad = (index: number) => ({
    index,
    error: { name: 'TypeError', message: `item ${index} is bad`, at: 'b.ts:3:4' },
  });
  const items = Array.from({ length: 100 }, (_, at) => bad(2 * at + 1));
  const messages = [{ message: 'TypeError: bad', at: 'b.ts:3:4', count: 90 }];
  const failures = [{ workflow: 'w', count: 2_000, messages, other: 1_910, items }];
  cli.replies = {
    report: () => ({ ...jobReport('PARTIAL', 0), failures }),
    result: () => ({ results: { w: [0, ...items.slice(0, 10)] } }),
    failures: () => ({ jobId: 'j1', failures }),
  };
}

/** Makes the program take its stdout for a terminal. */
const onTerminal = { NODE_OPTIONS: '--import=data:text/javascript,process.stdout.isTTY=true' };

test('job result prints 50 lines on a terminal and all elsewhere, and exits with the code of the job', async () => {
  partialBatch();
  const people = await cli.run(['job', 'result', 'j1'], undefined, onTerminal);
  assert.equal(people.exitCode, 4, people.err);
  assert.equal(people.out.trimEnd().split('\n').length, 50);
  assert.match(people.out, /^\{\n {2}"w": \[\n {4}0,\n {4}\{\n {6}"index": 1,/);
  assert.match(people.err, /35 more lines: remuster job result j1 --out FILE/);
  assert.match(
    people.err,
    /the job is PARTIAL\nw: 2,000 failed items\n {2}90 x {2}TypeError: bad \(b\.ts:3:4\)\n {2}1,910 x/,
  );
  const piped = await cli.run(['job', 'result', 'j1']);
  assert.equal((JSON.parse(piped.out) as { w: unknown[] }).w.length, 11);
  assert.equal(piped.out.split('\n').length, 86, 'pretty, whole, with a newline at the end');
  assert.doesNotMatch(piped.err, /more lines/);
  const out = join(cli.folder, 'result.json');
  await cli.run(['job', 'result', 'j1', '--out', out]);
  assert.match(readFileSync(out, 'utf8'), /\}\n$/);
  const whole = await cli.run(['job', 'result', 'j1', '-o', 'json']);
  assert.equal((JSON.parse(whole.out) as { w: unknown[] }).w.length, 11);
  assert.equal(whole.exitCode, 4);
});

test('job failures lists failed items as a table or as JSON lines, and prints how many there are', async () => {
  partialBatch();
  const table = await cli.run(['job', 'failures', 'j1']);
  assert.match(table.out, /^WORKFLOW {2}INDEX {2}ERROR +AT\nw +1 +TypeError: item 1 is bad +b\.ts:3:4\n/);
  assert.match(table.err, /100 of 2,000 failed items are listed/);
  const lines = (await cli.run(['job', 'failures', 'j1', '-o', 'jsonl'])).out.trim().split('\n');
  assert.equal(lines.length, 100);
  assert.deepEqual(JSON.parse(lines[1] ?? ''), {
    ...{ workflow: 'w', index: 3 },
    error: { name: 'TypeError', message: 'item 3 is bad', at: 'b.ts:3:4' },
  });
  cli.replies['failures'] = () => ({ jobId: 'j1', failures: [] });
  const none = await cli.run(['job', 'failures', 'j1']);
  assert.deepEqual([none.exitCode, none.out, none.err], [0, 'WORKFLOW  INDEX  ERROR  AT\n', 'no item failed\n']);
});

test('job result prints the failed thresholds and the number of failed items', async () => {
  partialBatch();
  const { report = () => ({}) } = cli.replies;
  const thresholds = [
    { workflow: 'w', metric: 'failed', expr: 'failed: rate<10%', ok: false, value: 0.5 },
    { workflow: 'w', metric: 'failed', expr: 'failed: count<9999', ok: true, value: 2_000 },
  ];
  cli.replies['report'] = (request) => ({ ...report(request), status: 'COMPLETED', thresholds });
  const ran = await cli.run(['job', 'result', 'j1']);
  assert.equal(ran.exitCode, 99, ran.err);
  assert.match(ran.err, /1 threshold failed:\n {2}failed: rate<10% {2}\(0\.5\)\nw: 2,000 failed items\n/);
});

test('a count of one is printed in the singular', async () => {
  partialBatch();
  const one = [{ workflow: 'w', count: 1, messages: [], other: 1, items: [] }];
  const attempt = { worker: 'w1', cores: 1, fence: '1', unit: 0, attempt: 1, outcome: 'completed', workflow: 'w' };
  cli.replies = {
    report: () => ({ ...jobReport('PARTIAL', 0), failures: one, attempts: [attempt] }),
    result: () => ({ results: { w: Array.from({ length: 47 }, () => 1) } }),
  };
  const people = await cli.run(['job', 'result', 'j1'], undefined, onTerminal);
  assert.match(people.err, /^1 more line: /);
  assert.match(people.err, /w: 1 failed item\n/);
  assert.match((await cli.run(['job', 'report', 'j1'])).out, /; {2}1 attempt\n/);
});
