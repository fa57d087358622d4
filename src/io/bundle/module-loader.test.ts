import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';

import { isRemusterError } from '../../base/errors.ts';
import { loadModules } from './module-loader.ts';

function folderWith(t: TestContext, files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-modules-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

async function loadError(...[paths, from, timeoutMs]: Parameters<typeof loadModules>): Promise<string> {
  try {
    await loadModules(paths, from, timeoutMs);
  } catch (error) {
    assert.ok(isRemusterError(error, 'BAD_ARGUMENT'), String(error));
    return error.message;
  }
  return assert.fail('the modules were loaded');
}

describe('loadModules', () => {
  test('returns every export of JavaScript and TypeScript files once', async (t) => {
    const folder = folderWith(t, {
      'one.mjs': 'export const a = { name: "a" }; export default a; export const b = 2;',
      'sub/two.ts': 'type Name = { name: string }; export const c: Name = { name: "c" };',
    });
    assert.deepEqual(await loadModules(['./one.mjs', 'sub/two.ts'], folder), [{ name: 'a' }, 2, { name: 'c' }]);
    assert.deepEqual(await loadModules([join(folder, 'sub/two.ts')]), [{ name: 'c' }]);
    assert.deepEqual(await loadModules([]), []);
  });

  test('finds packages that are installed beside the configuration', async (t) => {
    const folder = folderWith(t, {
      'node_modules/counters/package.json':
        '{ "name": "counters", "type": "module", "exports": { ".": { "import": "./main.js" }, "./more": "./more.js" } }',
      'node_modules/counters/main.js': 'export const counter = "from a package";',
      'node_modules/counters/more.js': 'export { counter as more } from "counters";',
    });
    assert.deepEqual(await loadModules(['counters'], folder), ['from a package']);
    assert.deepEqual(await loadModules(['counters/more'], folder), ['from a package']);
  });

  test('fails with the path and the reason', async (t) => {
    const folder = folderWith(t, {
      'throws.mjs': 'throw new Error("no database\\n  here")',
      'wrong.ts': 'export const a = ;',
      'empty.mjs': '',
      'waits.mjs': 'await new Promise(() => setTimeout(() => {}, 1000)); export const a = 1;',
    });
    assert.match(
      await loadError(['./throws.mjs'], folder),
      /^the module ".\/throws.mjs" cannot be loaded: no database here$/,
    );
    assert.match(await loadError(['wrong.ts'], folder), /"wrong.ts" cannot be loaded: ./);
    assert.match(await loadError(['empty.mjs'], folder), /"empty.mjs" cannot be loaded: it exports nothing/);
    assert.match(await loadError(['./nowhere.ts'], folder), /"\.\/nowhere\.ts" cannot be loaded: Cannot find/);
    assert.match(await loadError(['no-such-package'], folder), /"no-such-package" cannot be loaded: Cannot find/);
    assert.match(
      await loadError(['waits.mjs'], folder, 50),
      /"waits.mjs" cannot be loaded: it did not load within 50 ms/,
    );
  });
});
