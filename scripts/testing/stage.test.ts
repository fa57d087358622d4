/** A stage passes only if its tool exits with 0 and has checked at least one file. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { checks } from './checks.ts';
import { stageReportOf, runTool } from './stage.ts';

describe('a stage', () => {
  it('passes when the tool exits with 0 and has checked files', () => {
    assert.deepEqual(stageReportOf('lint', { code: 0, output: '' }, 3, 'files'), {
      checked: '3 files',
      passed: 1,
      failures: [],
    });
  });

  it('fails with the output of the tool when that exits with 1', () => {
    const [failure] = stageReportOf('lint', { code: 1, output: 'a.ts: wrong' }, 3, 'files').failures;
    assert.match(failure?.text ?? '', /a\.ts: wrong/);
  });

  it('fails when the tool has checked no file, although it exits with 0', () => {
    const [failure] = stageReportOf('lint', { code: 0, output: 'all fine' }, 0, 'files').failures;
    assert.match(failure?.text ?? '', /checked no files/);
  });

  it('fails when the tool cannot be started or takes too long', async () => {
    assert.notEqual((await runTool('no-such-tool', [])).code, 0);
    const slow = await runTool(process.execPath, ['--eval', 'setInterval(() => {}, 1000)'], 200);
    assert.notEqual(slow.code, 0);
    assert.match(slow.output, /timeout of 200 ms/);
  });

  it('is one of six checks before the tests', () => {
    assert.deepEqual(
      checks.map((check) => check.name),
      ['docs', 'format', 'lint', 'types', 'types of the console', 'dead code'],
    );
  });
});
