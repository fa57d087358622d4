/** The pages are true: the programs of the README run, and the commands and files that pages name exist. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

import { tierOf } from '../../scripts/testing/tiers.ts';
import { preparedJob } from '../../src/client/submission.ts';
import { openWorkflowFile } from '../../src/io/bundle/workflow-file.ts';
import { readmeOutput, readmeProgram, readmeWorkflow } from '../support/docs/readme-programs.ts';

const root = resolve(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'remuster-readme-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const run = promisify(execFile);

describe('README.md', () => {
  it('has programs of at most 21 lines', () => {
    for (const program of [readmeWorkflow(), readmeProgram()]) {
      const lines = program.trimEnd().split('\n');
      assert.ok(lines.length <= 21, `${lines.length} lines`);
    }
  });

  it('begins with the workflow of examples/primes.ts', async () => {
    const file = join(root, 'examples/primes.ts');
    assert.equal(readmeWorkflow(), readFileSync(file, 'utf8'));
    const entries = { remuster: pathToFileURL(join(root, 'src/index.ts')).href };
    const [facts] = preparedJob(await openWorkflowFile(file, entries, 1_000_000)).facts({});
    assert.deepEqual([facts?.name, facts?.batch?.items], ['primes', 20_000]);
  });

  it('has a program that prints the documented output when run from source', async () => {
    const source = pathToFileURL(join(root, 'src/index.ts')).href;
    const program = readmeProgram().replaceAll("'remuster'", JSON.stringify(source));
    const file = join(folder, 'program.ts');
    writeFileSync(file, program);
    const { stdout } = await run(process.execPath, [file], { cwd: folder, timeout: 60_000 });
    assert.match(stdout, readmeOutput);
  });
});

describe('npm scripts', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };

  it('that a page names exist', (context) => {
    const pages = globSync(['*.md', 'docs/*.md', 'docs/decisions/*.md'], { cwd: root });
    const named = pages.flatMap((page) =>
      [...readFileSync(join(root, page), 'utf8').matchAll(/\bnpm (?:run ([\w-]+)|(start|test)\b)/g)].map(
        (match) => (match[1] ?? match[2]) as string,
      ),
    );
    assert.ok(named.length > 0, 'looked at no page');
    context.diagnostic(`looked at ${named.length} commands on ${pages.length} pages`);
    assert.deepEqual(
      named.filter((name) => !(name in scripts)),
      [],
    );
  });

  it('run files that exist', () => {
    const entries = Object.values(scripts).flatMap((script) => /setup\.mjs (\S+)/.exec(script)?.[1] ?? []);
    assert.ok(entries.length > 0);
    assert.deepEqual(
      entries.filter((entry) => globSync(entry, { cwd: root }).length === 0),
      [],
    );
  });
});

describe('the tiers of tests', () => {
  it('are listed in CONTRIBUTING.md for every file that starts processes', (context) => {
    const table = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8');
    const files = globSync('test/{processes,browser,package,long}/*.test.ts', { cwd: root });
    assert.ok(files.length > 0, 'looked at no test file');
    context.diagnostic(`looked at ${files.length} test files`);
    const rows = table.split('\n').filter((line) => line.startsWith('|'));
    const isListed = (file: string): boolean =>
      rows.some((row) => row.includes(`\`${file}\``) && row.includes(`| ${tierOf(file)} `));
    assert.equal(isListed('test/long/planted.test.ts'), false, 'the planted violation');
    assert.deepEqual(
      files.map((file) => file.replaceAll('\\', '/')).filter((file) => !isListed(file)),
      [],
    );
  });
});
