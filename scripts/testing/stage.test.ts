/** A stage is green only if its tool ended well and says that it looked at something. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { checks } from './checks.ts';
import { stageReportOf, runTool } from './stage.ts';

describe('a stage', () => {
  it('passes when the tool is content and looked at something', () => {
    assert.deepEqual(stageReportOf('lint', { code: 0, output: '' }, 3, 'files'), {
      looked: '3 files',
      passed: 1,
      failures: [],
    });
  });

  it('fails with the words of the tool when the tool is not content', () => {
    const [failure] = stageReportOf('lint', { code: 1, output: 'a.ts: wrong' }, 3, 'files').failures;
    assert.match(failure?.text ?? '', /a\.ts: wrong/);
  });

  it('fails when the tool looked at nothing, however content it is', () => {
    const [failure] = stageReportOf('lint', { code: 0, output: 'all fine' }, 0, 'files').failures;
    assert.match(failure?.text ?? '', /looked at no files/);
  });

  it('fails when the tool cannot be started or takes too long', async () => {
    assert.notEqual((await runTool('no-such-tool', [])).code, 0);
    const slow = await runTool(process.execPath, ['--eval', 'setInterval(() => {}, 1000)'], 200);
    assert.notEqual(slow.code, 0);
    assert.match(slow.output, /may take 200 ms/);
  });

  it('is one of six, each with a name', () => {
    assert.deepEqual(
      checks.map((check) => check.name),
      ['docs', 'format', 'lint', 'types', 'types of the console', 'dead code'],
    );
  });
});
