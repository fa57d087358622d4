/** setup.mjs in a project of its own with a fake npm: installations, locking, arguments and signals. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'remuster-setup-'));
  mkdirSync(join(root, 'scripts'));
  mkdirSync(join(root, 'bin'));
  for (const file of ['setup.mjs', 'npm-parent-watch.mjs'])
    cpSync(join(import.meta.dirname, file), join(root, 'scripts', file));
  writeLock('1.0.0');
  writeNpm();
  writeFileSync(join(root, 'entry.mjs'), 'console.log(JSON.stringify(process.argv.slice(2))); process.exit(7);');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function writeLock(version: string): void {
  const packages = { 'node_modules/node': { version: process.version.slice(1) }, 'node_modules/a': { version } };
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify({ packages }));
}

/** A fake npm that installs the locked versions after `before`, and counts the installations. */
function writeNpm(before = 'sleep 0.3'): void {
  const npm = join(root, 'bin/npm');
  const lines = [
    '#!/bin/sh',
    'echo "npm $1" >> installs.txt',
    before,
    'rm -rf node_modules && mkdir -p node_modules/node/bin',
    `ln -s ${process.execPath} node_modules/node/bin/node`,
    'cp package-lock.json node_modules/.package-lock.json',
  ];
  writeFileSync(npm, `${lines.join('\n')}\n`);
  chmodSync(npm, 0o755);
}

function installs(): number {
  const file = join(root, 'installs.txt');
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').length : 0;
}

/** Removes from Node what Node 20 does not have, so that setup.mjs stays as the parent. */
const likeNode20 = ['--import', 'data:text/javascript,delete process.execve'];

const outputs = new WeakMap<ChildProcess, string>();

function withOutput(child: ChildProcess): ChildProcess {
  child.stdout?.on('data', (chunk: Buffer) => outputs.set(child, (outputs.get(child) ?? '') + chunk.toString()));
  return child;
}

function start(flags: readonly string[], ...args: string[]): ChildProcess {
  const env = {
    ...process.env,
    PATH: [join(root, 'bin'), dirname(process.execPath), process.env['PATH']].join(delimiter),
  };
  return withOutput(
    spawn(process.execPath, [...flags, join(root, 'scripts/setup.mjs'), ...args], { cwd: tmpdir(), env }),
  );
}

/** npm runs a script in a shell that waits for it; the entry gets the process id of that shell. */
function startLikeNpm(flags: readonly string[]): ChildProcess {
  const command = [
    process.execPath,
    ...flags.map((flag) => `'${flag}'`),
    join(root, 'scripts/setup.mjs'),
    'entry.mjs $$',
  ];
  const npm = `
    process.title = 'npm start';
    const env = { ...process.env, npm_lifecycle_event: 'start' };
    const { spawn } = await import('node:child_process');
    spawn('sh', ['-c', ${JSON.stringify(`${command.join(' ')}; true`)}], { stdio: 'inherit', env });`;
  return withOutput(
    spawn(process.execPath, ['--input-type=module', '--eval', npm], { stdio: ['ignore', 'pipe', 'inherit'] }),
  );
}

type ProcessResult = { code: number | null; stdout: string; stderr: string };

function resultOf(child: ChildProcess): Promise<ProcessResult> {
  return new Promise((done) => {
    const result: ProcessResult = { code: null, stdout: '', stderr: '' };
    child.stdout?.on('data', (chunk: Buffer) => (result.stdout += chunk.toString()));
    child.stderr?.on('data', (chunk: Buffer) => (result.stderr += chunk.toString()));
    child.on('close', (code) => done({ ...result, code }));
  });
}

/** Waits until the output of the child matches, earlier output included. */
function untilOutput(child: ChildProcess, pattern: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    const check = (): void => {
      const match = pattern.exec(outputs.get(child) ?? '');
      if (match !== null) resolve(match);
    };
    child.stdout?.on('data', check);
    child.stdout?.on('close', () => reject(new Error(`no output matches ${String(pattern)}`)));
    check();
  });
}

describe('setup.mjs', () => {
  it('installs once for concurrent starts, and forwards arguments and exit code', async () => {
    const runs = [1, 2, 3].map((n) => resultOf(start([], 'entry.mjs', `argument ${n}`, '--flag')));
    for (const [index, end] of (await Promise.all(runs)).entries()) {
      assert.equal(end.code, 7, end.stderr);
      assert.deepEqual(JSON.parse(end.stdout), [`argument ${index + 1}`, '--flag']);
    }
    assert.equal(installs(), 1);
  });

  it('installs again after a change of the lock file, and only then', async () => {
    for (const version of ['1.0.0', '1.0.0', '2.0.0']) {
      writeLock(version);
      assert.equal((await resultOf(start([], 'entry.mjs'))).code, 7);
    }
    assert.equal(installs(), 2);
  });

  it('uses an installation with the locked versions', async () => {
    assert.equal((await resultOf(start([], 'entry.mjs'))).code, 7);
    rmSync(join(root, 'node_modules/.remuster-setup'));
    assert.equal((await resultOf(start([], 'entry.mjs'))).code, 7);
    assert.equal(installs(), 1);
  });

  it('prints the output of npm when npm fails, and retries at the next start', async () => {
    writeNpm('echo "no such registry" >&2; exit 5');
    const failed = await resultOf(start([], 'entry.mjs'));
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /no such registry/);
    writeNpm();
    assert.equal((await resultOf(start([], 'entry.mjs'))).code, 7);
  });

  it('releases the lock when its holder is killed', async () => {
    writeNpm('exec sleep 1');
    const first = start([], 'entry.mjs');
    const firstResult = resultOf(first);
    while (installs() === 0) await new Promise((turn) => setTimeout(turn, 20));
    writeNpm();
    first.kill('SIGKILL');
    await firstResult;
    assert.equal((await resultOf(start([], 'entry.mjs'))).code, 7);
    assert.equal(installs(), 2);
  });

  for (const [name, flags] of [
    ['when it becomes the entry', []],
    ['when it stays as the parent', likeNode20],
  ] as const) {
    it(`delivers each signal once and waits for the entry ${name}`, async () => {
      const waiting = `
        let count = 0;
        process.on('SIGINT', () => { count += 1; setTimeout(() => process.exit(10 + count), 200); });
        process.on('SIGTERM', () => process.exit(20));
        setInterval(() => {}, 1000);
        console.log('up');`;
      writeFileSync(join(root, 'entry.mjs'), waiting);
      for (const [signal, code] of [
        ['SIGINT', 11],
        ['SIGTERM', 20],
      ] as const) {
        const child = start(flags, 'entry.mjs');
        const exited = new Promise((done) => child.on('exit', done));
        await untilOutput(child, /up/);
        child.kill(signal);
        assert.equal(await exited, code);
      }
    });
  }

  it('exits with 128 plus the signal that killed the entry', async () => {
    writeFileSync(join(root, 'entry.mjs'), "process.kill(process.pid, 'SIGKILL'); setInterval(() => {}, 1000);");
    assert.equal((await resultOf(start(likeNode20, 'entry.mjs'))).code, 137);
  });

  for (const [victim, flags] of [
    ['npm', []],
    ['shell', []],
    ['npm', likeNode20],
    ['shell', likeNode20],
  ] as const) {
    const node = flags.length > 0 ? 'under an old Node' : 'under a new Node';
    it(`sends SIGTERM to the entry when its ${victim} is killed, ${node}`, async () => {
      assert.equal((await resultOf(start([], 'entry.mjs'))).code, 7);
      const entry = `
        process.on('SIGTERM', () => { console.log('SIGTERM'); process.exit(0); });
        setInterval(() => {}, 1000);
        console.log('up ' + process.argv[2]);`;
      writeFileSync(join(root, 'entry.mjs'), entry);
      const child = startLikeNpm(flags);
      try {
        const [, shell] = await untilOutput(child, /up (\d+)/);
        process.kill(victim === 'npm' ? (child.pid as number) : Number(shell), 'SIGKILL');
        await untilOutput(child, /SIGTERM/);
      } finally {
        child.kill('SIGKILL');
      }
    });
  }

  it('exits with 2 without an entry', async () => {
    assert.equal((await resultOf(start([]))).code, 2);
  });
});
