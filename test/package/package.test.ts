/**
 * The packed package, installed by npm in an empty folder and used from JavaScript, TypeScript and the command line. A
 * file that `npm pack` leaves out is missing here too.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';

import { readmeOutput, readmeProgram, readmeWorkflow } from '../support/docs/readme-programs.ts';

const root = resolve(import.meta.dirname, '../..');
const binaries = join(root, 'node_modules/.bin');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
const entries = ['remuster', 'remuster/client', 'remuster/testing'];

const folder = mkdtempSync(join(tmpdir(), 'remuster-package-'));
const consumer = join(folder, 'consumer');

async function run(cwd: string, command: string, ...args: string[]): Promise<string> {
  const env = { ...process.env, PATH: [binaries, process.env['PATH']].join(delimiter) };
  try {
    return (await promisify(execFile)(command, args, { cwd, env, timeout: 110_000, maxBuffer: 1 << 24 })).stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(' ')}\n${stdout ?? ''}${stderr ?? ''}${String(error)}`, { cause: error });
  }
}

before(async () => {
  mkdirSync(consumer);
  await run(root, 'npm', 'pack', '--pack-destination', folder);
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  assert.ok(tarball !== undefined, 'npm pack created no tarball');
  await run(consumer, 'npm', 'init', '-y');
  await run(consumer, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', join(folder, tarball));
});
after(() => rmSync(folder, { recursive: true, force: true }));

describe('the packed package', () => {
  it('contains the build and neither sources nor tests', () => {
    const files = readdirSync(join(consumer, 'node_modules/remuster'), { recursive: true }) as string[];
    assert.ok(files.includes('dist/index.js') && files.includes('dist/index.d.ts') && files.includes('README.md'));
    assert.deepEqual(
      files.filter((file) => /^(?:src|test|scripts)\b|\.test\./.test(file)),
      [],
    );
  });

  it('installs only its three dependencies and those of the bundler', () => {
    const names = readdirSync(join(consumer, 'node_modules')).filter((name) => !name.startsWith('.'));
    assert.deepEqual(names.toSorted(), ['@oxc-project', '@rolldown', 'commander', 'remuster', 'rolldown', 'yaml']);
  });

  it('runs on the command line', async () => {
    assert.match(await run(consumer, 'npx', '--no-install', 'remuster', '--version'), new RegExp(version));
    assert.match(await run(consumer, 'npx', '--no-install', 'remuster', '--help'), /members/);
  });

  for (const entry of entries) {
    it(`offers ${entry} to JavaScript`, async () => {
      const program = `console.log(Object.keys(await import('${entry}')).length)`;
      assert.ok(Number(await run(consumer, 'node', '--input-type=module', '--eval', program)) > 0);
    });
  }

  it('does not export internal files', async () => {
    const program = "await import('remuster/dist/base/loop.js').catch((error) => console.log(error.code))";
    const stdout = await run(consumer, 'node', '--input-type=module', '--eval', program);
    assert.equal(stdout.trim(), 'ERR_PACKAGE_PATH_NOT_EXPORTED');
  });

  it('runs the program of the README, with its threads started from built files', async () => {
    writeFileSync(join(consumer, 'counter.mts'), readmeProgram());
    assert.match(await run(consumer, 'node', 'counter.mts'), readmeOutput);
  });

  it('has types: the program of the README compiles, and one with a wrong option does not', async () => {
    const wrong = "import { nodeOptions } from 'remuster';\nnodeOptions({ probeIntervalMs: 'soon' });\n";
    writeFileSync(join(consumer, 'typed.mts'), readmeProgram());
    writeFileSync(join(consumer, 'primes.ts'), readmeWorkflow());
    writeFileSync(join(consumer, 'entries.ts'), entries.map((entry) => `import '${entry}';`).join('\n'));
    const flags = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--types', 'node'];
    const roots = ['--typeRoots', join(root, 'node_modules/@types')];
    await run(consumer, 'tsc', ...flags, ...roots, 'typed.mts', 'primes.ts', 'entries.ts');
    writeFileSync(join(consumer, 'wrong.ts'), wrong);
    await assert.rejects(run(consumer, 'tsc', ...flags, ...roots, 'wrong.ts'), /TS2322/);
  });
});
