/** The starter workflow: it can be submitted. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { preparedJob } from '../../client/submission.ts';
import { openWorkflowFile } from '../../io/bundle/workflow-file.ts';
import { newWorkflowCommand } from './new-workflow.ts';

test(
  'new workflow writes a job that can be submitted, and never overwrites a file',
  { timeout: 120_000 },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'remuster-new-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    t.mock.method(process.stdout, 'write', () => true);
    t.mock.method(process.stderr, 'write', () => true);
    assert.equal(newWorkflowCommand('checkout', folder), 0);
    t.mock.restoreAll();
    const entries = { remuster: new URL('../../index.ts', import.meta.url).href };
    const facts = preparedJob(await openWorkflowFile(join(folder, 'checkout.ts'), entries, 1_000_000)).facts({});
    assert.deepEqual(
      facts.map(({ name, style, after }) => [name, style, after]),
      [
        ['checkout', 'load', []],
        ['checkout-squares', 'batch', ['checkout']],
      ],
    );
    assert.throws(() => newWorkflowCommand('checkout', folder), { code: 'PRECONDITION' });
    assert.throws(() => newWorkflowCommand('../up', folder), { code: 'BAD_ARGUMENT' });
  },
);
