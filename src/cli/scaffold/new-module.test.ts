import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

import { bundleModule } from '../../io/bundle/bundler.ts';
import { newModuleCommand } from './new-module.ts';

const source = (file: string): string => pathToFileURL(resolve(import.meta.dirname, '../..', file)).href;

test(
  'a new module can be bundled, its test passes, and nothing is ever written over',
  { timeout: 120_000 },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'remuster-new-'));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    t.mock.method(process.stdout, 'write', () => true);
    t.mock.method(process.stderr, 'write', () => true);
    assert.equal(newModuleCommand('my-things.v2', folder), 0);
    t.mock.restoreAll();
    assert.ok((await bundleModule(join(folder, 'my-things.v2.ts'))).length > 0);
    // As if the package were installed there.
    for (const name of ['my-things.v2.ts', 'my-things.v2.test.ts']) {
      const text = readFileSync(join(folder, name), 'utf8');
      const inPlace = text
        .replaceAll("'remuster/testing'", `'${source('simulation/testing.ts')}'`)
        .replaceAll("'remuster'", `'${source('containers/module.ts')}'`);
      writeFileSync(join(folder, name), inPlace);
    }
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const words = ['--test', '--test-reporter=tap', join(folder, 'my-things.v2.test.ts')];
    const { stdout } = await promisify(execFile)(process.execPath, words, { env, timeout: 60_000 });
    assert.match(stdout, /^# pass 1$/m);
    assert.throws(() => newModuleCommand('my-things.v2', folder), { code: 'PRECONDITION' });
    assert.throws(() => newModuleCommand('../up', folder), { code: 'BAD_ARGUMENT' });
  },
);
