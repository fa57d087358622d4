import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';

import { type ErrorCode, isRemusterError, toPromise } from '../../base/errors.ts';
import { bundleModule } from './bundler.ts';
import { type ExportedModule, type DeployedBundles, openDeployedBundles } from './deployed-bundles.ts';

function folderWith(t: TestContext, files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'remuster-bundles-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

async function rejection(code: ErrorCode, work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    assert.ok(isRemusterError(error, code), String(error));
    return error.message;
  }
  return assert.fail(`no ${code} was thrown`);
}

const counterFile = `import { module, type Context } from 'remuster';
import { step } from './lib/step.ts';

export const counter = module('counter', {
  methods: {
    add: (ctx: Context, by: number) => by * step,
    fail: () => {
      throw new Error('deliberate');
    },
  },
});
`;

const source = {
  'counter.ts': counterFile,
  'lib/step.ts': 'export const step: number = 2;\n',
  'syntax.ts': "import './lib/step.ts';\nexport const a = ;\n",
  'missing.ts': "\nimport { x } from 'no-such-package';\nexport const a = x;\n",
  'nowhere.ts': "import './none.ts';\n",
};

describe('bundleModule', { timeout: 60_000 }, () => {
  test('bundles all imports but the package and built-ins into one file, with the same bytes each time', async (t) => {
    const folder = folderWith(t, source);
    const code = new TextDecoder().decode(await bundleModule(join(folder, 'counter.ts')));
    assert.match(code, /from "remuster"/);
    assert.doesNotMatch(code, /lib\/step\.ts"/);
    assert.match(code, /sourceMappingURL=data:/);
    const elsewhere = folderWith(t, source);
    assert.deepEqual(new TextDecoder().decode(await bundleModule(join(elsewhere, 'counter.ts'))), code);
  });

  test('names the file and line of each error', async (t) => {
    const folder = folderWith(t, source);
    const errorOf = (file: string): Promise<string> => rejection('BUNDLE_INVALID', bundleModule(join(folder, file)));
    assert.match(await errorOf('syntax.ts'), /^syntax\.ts:2:18: /);
    assert.match(await errorOf('missing.ts'), /^missing\.ts:2:19: Could not resolve 'no-such-package'/);
    assert.match(await errorOf('nowhere.ts'), /^nowhere\.ts:1:8: /);
    assert.match(await errorOf('not-there.ts'), /not-there\.ts/);
  });
});

const packageEntry = pathToFileURL(resolve(import.meta.dirname, '../../containers/module.ts')).href;

function open(t: TestContext, root: string, timeoutMs?: number): DeployedBundles {
  const bundles = openDeployedBundles(root, { remuster: packageEntry }, timeoutMs);
  t.after(() => bundles.close());
  return bundles;
}

describe('a deployed bundle', { timeout: 60_000 }, () => {
  const check = (bundles: DeployedBundles, path: string): Promise<readonly ExportedModule[]> =>
    toPromise((done) => bundles.check(path, done));

  test("is imported with the node's copy of the package, and its errors name the author's lines", async (t) => {
    const folder = folderWith(t, source);
    const code = await bundleModule(join(folder, 'counter.ts'));
    mkdirSync(join(folder, 'modules'));
    writeFileSync(join(folder, 'modules/a.mjs'), code);
    const bundles = open(t, folder);
    assert.deepEqual(await check(bundles, 'modules/a.mjs'), [{ name: 'counter', methods: ['add', 'fail'] }]);
    const [counter] = await toPromise<readonly unknown[]>((done) => bundles.load('modules/a.mjs', done));
    const { methods } = counter as { methods: { add(ctx: unknown, by: number): number; fail(): void } };
    assert.equal(methods.add({}, 3), 6);
    assert.throws(
      () => methods.fail(),
      (error: Error) => /deployed:counter\.ts:8:/.test(error.stack ?? ''),
    );
    assert.equal(bundles.sha256(new Uint8Array()).slice(0, 8), 'e3b0c442');
  });

  test('that cannot be imported is refused, and the process survives', async (t) => {
    const boom = "import { module } from 'remuster';\n\nthrow new Error('no database');\nexport const a = module;\n";
    const files = {
      ...{ 'boom.ts': boom, 'modules/exits.mjs': 'process.exit(7);', 'modules/loops.mjs': 'for (;;) {}' },
      'modules/eats.mjs': 'const all = []; for (;;) all.push(new Array(4_000_000).fill(1.5));',
      'modules/waits.mjs': 'await new Promise(() => setTimeout(() => {}, 100_000));',
      'modules/nothing.mjs': 'export const a = 1;',
      'modules/odd.mjs': 'export const a = { name: "a", methods: { b: 1 } };',
      'modules/named.mjs': 'export const a = { name: "A b", methods: { b() {} } };',
    };
    const folder = folderWith(t, files);
    const [bundles, impatient] = [open(t, folder, 60_000), open(t, folder, 500)];
    const errorOf = (name: string, by = bundles): Promise<string> =>
      rejection('BUNDLE_INVALID', check(by, `modules/${name}.mjs`));
    writeFileSync(join(folder, 'modules/boom.mjs'), await bundleModule(join(folder, 'boom.ts')));
    assert.match(await errorOf('boom'), /^boom\.ts:3:7: Error: no database$/);
    assert.match(await errorOf('exits'), /ended its process with exit code 7/);
    assert.match(await errorOf('loops', impatient), /not imported within 500 ms/);
    assert.match(await errorOf('eats'), /memory/);
    assert.match(await errorOf('waits', impatient), /not imported within 500 ms/);
    assert.match(await errorOf('odd'), /the method b of the module a is not a function/);
    assert.match(await errorOf('named'), /cannot be the name of a module/);
    assert.deepEqual(await check(bundles, 'modules/nothing.mjs'), []);
  });
});
