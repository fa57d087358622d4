/** Workflow files: one bundle with a hash, imported once, with errors that name the author's lines. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type ErrorCode, isRemusterError } from '../../base/errors.ts';
import { openWorkflowFile } from './workflow-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'remuster-workflow-file-'));
after(() => rmSync(folder, { recursive: true }));
const entries = { remuster: new URL('../../index.ts', import.meta.url).href };

function writeSource(name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

async function assertRejected(file: string, code: ErrorCode, pattern: RegExp, bytesMax = 1_000_000): Promise<void> {
  await assert.rejects(openWorkflowFile(file, entries, bytesMax), (error) => {
    assert.ok(isRemusterError(error, code), String(error));
    assert.match(error.message, pattern);
    return true;
  });
}

test('a file and its imports become one bundle that uses the running copy of the package', async () => {
  writeSource('helper.ts', 'export const vus: number = 3;');
  const file = writeSource(
    'load.ts',
    `import { workflow } from 'remuster';
     import { vus } from './helper.ts';
     export default workflow('load', { vus, duration: '1s', steps: { go: () => vus } });`,
  );
  const first = await openWorkflowFile(file, entries, 1_000_000);
  const second = await openWorkflowFile(file, entries, 1_000_000);
  assert.equal(first.sha256, createHash('sha256').update(first.code).digest('hex'));
  assert.equal(second.sha256, first.sha256);
  assert.equal((first.exports as { default: { name: string } }).default.name, 'load');
  assert.match(new TextDecoder().decode(first.code), /from "remuster"[\s\S]*sourceMappingURL=data:/);
});

test('the same code is imported once, also by concurrent opens; changed code is imported again', async () => {
  const count = 'importsOfOnce';
  const text = `globalThis.${count} = (globalThis.${count} ?? 0) + 1; export const one = 1;`;
  const file = writeSource('once.ts', text);
  const open = async (): Promise<object> => (await openWorkflowFile(file, entries, 1_000_000)).exports;
  const [first, second] = await Promise.all([open(), open()]);
  assert.equal(first, second);
  assert.equal(await open(), first);
  assert.equal(Reflect.get(globalThis, count), 1);
  writeSource('once.ts', `${text} export const two = 2;`);
  assert.deepEqual(Object.keys(await open()), ['one', 'two']);
  assert.equal(Reflect.get(globalThis, count), 2);
});

test('a failed import is retried by the next open', async () => {
  const file = writeSource('flaky.ts', `if (globalThis.isFailing) throw new Error('not now'); export const one = 1;`);
  Reflect.set(globalThis, 'isFailing', true);
  await assertRejected(file, 'BUNDLE_INVALID', /not now/);
  Reflect.set(globalThis, 'isFailing', false);
  assert.deepEqual(Object.keys((await openWorkflowFile(file, entries, 1_000_000)).exports), ['one']);
});

test('an error names the line of the author, and no temporary folder is left', async () => {
  const left = (): readonly string[] => readdirSync(tmpdir()).filter((name) => name.startsWith('remuster-workflow-'));
  const before = left();
  await assertRejected(join(folder, 'none.ts'), 'BAD_ARGUMENT', /no file/);
  await assertRejected(writeSource('syntax.ts', 'export const a = ;'), 'BUNDLE_INVALID', /syntax\.ts:1/);
  await assertRejected(writeSource('missing.ts', `import './nowhere.ts';`), 'BUNDLE_INVALID', /nowhere/);
  await assertRejected(
    writeSource('throws.ts', `\n\nthrow new TypeError('not today');`),
    'BUNDLE_INVALID',
    /throws\.ts:3.*not today/,
  );
  await assertRejected(
    writeSource('large.ts', `export const a = '${'x'.repeat(2_000)}';`),
    'TOO_LARGE',
    /at most 2000/,
    2_000,
  );
  assert.deepEqual(
    left().filter((name) => !before.includes(name) && !name.includes('-file-')),
    [],
  );
});
