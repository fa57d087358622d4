/** The starter module: it bundles, and its test passes. */
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

for (const [type, extension] of [
  ['module', '.ts'],
  ['commonjs', '.mts'],
] as const)
  test(
    `new module writes a module that can be bundled and a test that passes, in a folder of type ${type}`,
    { timeout: 120_000 },
    async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'remuster-new-'));
      writeFileSync(join(folder, 'package.json'), JSON.stringify({ type }));
      t.after(() => rmSync(folder, { recursive: true, force: true }));
      t.mock.method(process.stdout, 'write', () => true);
      t.mock.method(process.stderr, 'write', () => true);
      assert.equal(newModuleCommand('my-things.v2', folder), 0);
      t.mock.restoreAll();
      assert.ok((await bundleModule(join(folder, `my-things.v2${extension}`))).length > 0);
      // The imports of the package become paths of the source tree.
      for (const name of [`my-things.v2${extension}`, `my-things.v2.test${extension}`]) {
        const text = readFileSync(join(folder, name), 'utf8');
        const linked = text
          .replaceAll("'remuster/testing'", `'${source('simulation/testing.ts')}'`)
          .replaceAll("'remuster'", `'${source('containers/module.ts')}'`);
        writeFileSync(join(folder, name), linked);
      }
      const { NODE_TEST_CONTEXT: _, ...env } = process.env;
      const args = ['--test', '--test-reporter=tap', join(folder, `my-things.v2.test${extension}`)];
      const { stdout } = await promisify(execFile)(process.execPath, args, { env, timeout: 60_000 });
      assert.match(stdout, /^# pass 1$/m);
      assert.throws(() => newModuleCommand('my-things.v2', folder), { code: 'PRECONDITION' });
      assert.throws(() => newModuleCommand('../up', folder), { code: 'BAD_ARGUMENT' });
    },
  );
