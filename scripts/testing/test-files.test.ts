/** The test runner, with test files that fail in every possible way. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';

import { type TestFileReport, runTestFiles } from './test-files.ts';

const folder = mkdtempSync(join(tmpdir(), 'remuster-runner-'));
after(() => rmSync(folder, { recursive: true, force: true }));

async function reportOn(source: string): Promise<TestFileReport> {
  const file = join(folder, 'sample.test.ts');
  writeFileSync(file, source);
  const reports: TestFileReport[] = [];
  const limits = { concurrency: 1, fileTimeoutMs: 2_000, testTimeoutMs: 600 };
  await runTestFiles([file], { ...limits, onReport: (report) => void reports.push(report) });
  assert.equal(reports.length, 1);
  return reports[0] as TestFileReport;
}

const start = "import { test, describe, it } from 'node:test';\n";

describe('a test file', () => {
  it('passes with a count of its tests, without suites', async () => {
    const report = await reportOn(`${start}describe('s', () => { it('a', () => {}); it.skip('b', () => {}); });`);
    assert.deepEqual([report.passed, report.skipped, report.failures], [1, 1, []]);
  });

  it('fails once with the full name and the error of a failing test', async () => {
    const report = await reportOn(`${start}describe('s', () => { it('a', () => { throw new Error('boom'); }); });`);
    assert.equal(report.failures.length, 1);
    assert.match(report.failures[0]?.title ?? '', /sample\.test\.ts: s > a$/);
    assert.match(report.failures[0]?.text ?? '', /boom/);
  });

  it('fails with the output of the file', async () => {
    const report = await reportOn(`${start}test('a', () => { console.log('a clue'); throw new Error('boom'); });`);
    assert.match(report.failures[0]?.text ?? '', /a clue/);
  });

  it('fails without a test', async () => {
    assert.match((await reportOn('export {};')).failures[0]?.text ?? '', /has no test/);
  });

  it('fails when it cannot be read', async () => {
    assert.match((await reportOn('const = 1;')).failures[0]?.text ?? '', /SyntaxError/);
  });

  it('fails with the name of a test that hangs', async () => {
    const report = await reportOn(`${start}test('waits', () => new Promise(() => { setInterval(() => {}, 50); }));`);
    assert.match(report.failures[0]?.title ?? '', /waits/);
  });

  it('is killed when it blocks and ignores SIGTERM', async () => {
    const report = await reportOn(`${start}process.on('SIGTERM', () => {}); test('a', () => { for (;;); });`);
    assert.match(report.failures[0]?.text ?? '', /did not exit within 2000 ms/);
  });

  it('fails when it leaves a handle open, although its tests passed', async () => {
    const report = await reportOn(`${start}test('a', () => { setInterval(() => {}, 50); });`);
    assert.equal(report.passed, 1);
    assert.match(report.failures[0]?.text ?? '', /something is left open/);
  });

  it('fails when it leaves a process behind', async () => {
    const spawning = "import { spawn } from 'node:child_process';";
    const body = "spawn('sleep', ['60'], { stdio: 'ignore' }).unref();";
    const report = await reportOn(`${start}${spawning} test('a', () => { ${body} });`);
    assert.match(report.failures[0]?.text ?? '', /left a process behind/);
  });
});
