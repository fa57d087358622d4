/** setup.mjs in a project of its own, with a pretended npm: who installs, how often, and what reaches the entry. */
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

/** Installs what the lock says, notes that it did, and takes its time. */
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

/** The flag takes from Node what Node 20 does not have, so that setup.mjs stays as a parent. */
const likeNode20 = ['--import', 'data:text/javascript,delete process.execve'];

const heard = new WeakMap<ChildProcess, string>();

function listening(child: ChildProcess): ChildProcess {
  child.stdout?.on('data', (chunk: Buffer) => heard.set(child, (heard.get(child) ?? '') + chunk.toString()));
  return child;
}

function start(flags: readonly string[], ...args: string[]): ChildProcess {
  const env = {
    ...process.env,
    PATH: [join(root, 'bin'), dirname(process.execPath), process.env['PATH']].join(delimiter),
  };
  return listening(
    spawn(process.execPath, [...flags, join(root, 'scripts/setup.mjs'), ...args], { cwd: tmpdir(), env }),
  );
}

/** npm runs a script in a shell that waits for it; the entry is told the process id of that shell. */
function startLikeNpm(flags: readonly string[]): ChildProcess {
  const words = [
    process.execPath,
    ...flags.map((flag) => `'${flag}'`),
    join(root, 'scripts/setup.mjs'),
    'entry.mjs $$',
  ];
  const npm = `
    process.title = 'npm start';
    const env = { ...process.env, npm_lifecycle_event: 'start' };
    const { spawn } = await import('node:child_process');
    spawn('sh', ['-c', ${JSON.stringify(`${words.join(' ')}; true`)}], { stdio: 'inherit', env });`;
  return listening(
    spawn(process.execPath, ['--input-type=module', '--eval', npm], { stdio: ['ignore', 'pipe', 'inherit'] }),
  );
}

type End = { code: number | null; stdout: string; stderr: string };

function ended(child: ChildProcess): Promise<End> {
  return new Promise((done) => {
    const end: End = { code: null, stdout: '', stderr: '' };
    child.stdout?.on('data', (chunk: Buffer) => (end.stdout += chunk.toString()));
    child.stderr?.on('data', (chunk: Buffer) => (end.stderr += chunk.toString()));
    child.on('close', (code) => done({ ...end, code }));
  });
}

/** Waits until the child's output matches; what it said before counts, too. */
function said(child: ChildProcess, pattern: RegExp): Promise<RegExpExecArray> {
  return new Promise((found, missed) => {
    const look = (): void => {
      const match = pattern.exec(heard.get(child) ?? '');
      if (match !== null) found(match);
    };
    child.stdout?.on('data', look);
    child.stdout?.on('close', () => missed(new Error(`ended without saying ${String(pattern)}`)));
    look();
  });
}

describe('setup.mjs', () => {
  it('installs once for many that start together, and passes arguments and exit code on', async () => {
    const runs = [1, 2, 3].map((n) => ended(start([], 'entry.mjs', `argument ${n}`, '--flag')));
    for (const [index, end] of (await Promise.all(runs)).entries()) {
      assert.equal(end.code, 7, end.stderr);
      assert.deepEqual(JSON.parse(end.stdout), [`argument ${index + 1}`, '--flag']);
    }
    assert.equal(installs(), 1);
  });

  it('installs again after a change of the lock file, and only then', async () => {
    for (const version of ['1.0.0', '1.0.0', '2.0.0']) {
      writeLock(version);
      assert.equal((await ended(start([], 'entry.mjs'))).code, 7);
    }
    assert.equal(installs(), 2);
  });

  it('takes what somebody else has installed', async () => {
    assert.equal((await ended(start([], 'entry.mjs'))).code, 7);
    rmSync(join(root, 'node_modules/.remuster-setup'));
    assert.equal((await ended(start([], 'entry.mjs'))).code, 7);
    assert.equal(installs(), 1);
  });

  it('repeats what npm said when npm fails, and tries again the next time', async () => {
    writeNpm('echo "no such registry" >&2; exit 5');
    const failed = await ended(start([], 'entry.mjs'));
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /no such registry/);
    writeNpm();
    assert.equal((await ended(start([], 'entry.mjs'))).code, 7);
  });

  it('lets the next one install when the first is killed', async () => {
    writeNpm('exec sleep 1');
    const first = start([], 'entry.mjs');
    const firstEnd = ended(first);
    while (installs() === 0) await new Promise((turn) => setTimeout(turn, 20));
    writeNpm();
    first.kill('SIGKILL');
    await firstEnd;
    assert.equal((await ended(start([], 'entry.mjs'))).code, 7);
    assert.equal(installs(), 2);
  });

  for (const [name, flags] of [
    ['becoming the entry', []],
    ['staying as its parent', likeNode20],
  ] as const) {
    it(`hands each signal on once and waits for the entry, ${name}`, async () => {
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
        await said(child, /up/);
        child.kill(signal);
        assert.equal(await exited, code);
      }
    });
  }

  it('ends as the entry did when a signal killed it', async () => {
    writeFileSync(join(root, 'entry.mjs'), "process.kill(process.pid, 'SIGKILL'); setInterval(() => {}, 1000);");
    assert.equal((await ended(start(likeNode20, 'entry.mjs'))).code, 137);
  });

  for (const [victim, flags] of [
    ['npm', []],
    ['shell', []],
    ['npm', likeNode20],
    ['shell', likeNode20],
  ] as const) {
    it(`asks the entry to stop when its ${victim} is killed${flags.length > 0 ? ', under an old Node' : ''}`, async () => {
      assert.equal((await ended(start([], 'entry.mjs'))).code, 7);
      const entry = `
        process.on('SIGTERM', () => { console.log('asked to stop'); process.exit(0); });
        setInterval(() => {}, 1000);
        console.log('up ' + process.argv[2]);`;
      writeFileSync(join(root, 'entry.mjs'), entry);
      const child = startLikeNpm(flags);
      try {
        const [, shell] = await said(child, /up (\d+)/);
        process.kill(victim === 'npm' ? (child.pid as number) : Number(shell), 'SIGKILL');
        await said(child, /asked to stop/);
      } finally {
        child.kill('SIGKILL');
      }
    });
  }

  it('refuses to run nothing', async () => {
    assert.equal((await ended(start([]))).code, 2);
  });
});
