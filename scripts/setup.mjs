/**
 * What every npm script runs first: installs the locked dependencies once, then becomes the entry under the pinned
 * Node. Plain JavaScript, so that Node 20 can read it. `node scripts/setup.mjs ENTRY.ts [ARGUMENTS]`.
 *
 * Plain JavaScript on purpose: it is the one file that an old Node must be able to read.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, readFileSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { constants, tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const modules = join(root, 'node_modules');
const windows = process.platform === 'win32';
const pinnedNode = join(modules, 'node', 'bin', windows ? 'node.exe' : 'node');
const stampFile = join(modules, '.remuster-setup');
const lockHash = createHash('sha256')
  .update(readFileSync(join(root, 'package-lock.json')))
  .digest('hex');

/** The PATH without what npm put in front of it: those programs vanish while they are installed anew. */
const machinePath = (process.env['PATH'] ?? '')
  .split(delimiter)
  .filter((folder) => !/node_modules[\\/]\.bin$/.test(folder))
  .join(delimiter);

const [entry, ...entryArguments] = process.argv.slice(2);
if (entry === undefined) {
  console.error('usage: node scripts/setup.mjs ENTRY.ts [ARGUMENTS]');
  process.exit(2);
}

if (!isStamped()) await withLock(install);
becomeEntry(resolve(root, entry), entryArguments);

function isStamped() {
  return existsSync(stampFile) && existsSync(pinnedNode) && readFileSync(stampFile, 'utf8') === lockHash;
}

/** Only one process of this folder installs; the others wait and then find the work done. */
async function install() {
  if (isStamped()) return;
  if (!isInstalled()) {
    const startedMs = Date.now();
    console.error('Installing dependencies (only after a change of package-lock.json) ...');
    const code = await runNpm(['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']);
    if (code !== 0 || !isInstalled()) {
      console.error(`npm ci ended with code ${code} and left no usable installation.`);
      process.exit(1);
    }
    console.error(`Installed in ${Math.round((Date.now() - startedMs) / 1000)} s.`);
  }
  linkOwnCommand();
  writeFileSync(stampFile, lockHash);
}

/** So that `npx remuster` runs from source at once; npm would pack and install the project into a cache of its own. */
function linkOwnCommand() {
  const link = join(modules, '.bin', 'remuster');
  if (windows || lstatSync(link, { throwIfNoEntry: false }) !== undefined) return;
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync('../../bin/remuster.js', link);
}

/** True when somebody (npm install, say) already installed exactly what the lock file names. */
function isInstalled() {
  const hiddenLockFile = join(modules, '.package-lock.json');
  if (!existsSync(hiddenLockFile) || !existsSync(pinnedNode)) return false;
  const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages;
  const present = JSON.parse(readFileSync(hiddenLockFile, 'utf8')).packages;
  for (const [path, { version, optional }] of Object.entries(wanted)) {
    if (path === '' || (optional === true && present[path] === undefined)) continue;
    if (present[path]?.version !== version) return false;
  }
  const probe = spawnSync(pinnedNode, ['--version'], { encoding: 'utf8' });
  return probe.stdout?.trim() === `v${wanted['node_modules/node'].version}`;
}

/** Quiet unless it fails: then everything npm said. */
function runNpm(args) {
  return new Promise((done) => {
    const env = { ...process.env, PATH: machinePath };
    const npm = spawn('npm', args, { cwd: root, env, shell: windows, stdio: ['ignore', 'pipe', 'pipe'] });
    const said = [];
    npm.stdout.on('data', (chunk) => said.push(chunk));
    npm.stderr.on('data', (chunk) => said.push(chunk));
    npm.on('error', (error) => said.push(Buffer.from(`npm cannot be started: ${error.message}\n`)));
    npm.on('close', (code) => {
      if (code !== 0) process.stderr.write(Buffer.concat(said));
      done(code ?? 1);
    });
  });
}

/**
 * A listening local socket is the lock: the operating system lets exactly one process have it and takes it back when
 * that process dies, however it dies. Waiting is a connection that ends when the holder does.
 */
async function withLock(work) {
  const waiters = new Set();
  const server = createServer((socket) => {
    waiters.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => waiters.delete(socket));
  });
  for (let told = false; !(await listen(server)); told = true) {
    if (!told) console.error('Another process installs the dependencies; waiting for it ...');
    await holderGone();
  }
  await work();
  server.close();
  for (const socket of waiters) socket.destroy();
}

function lockAddress() {
  const name = `remuster-setup-${createHash('sha256').update(root).digest('hex').slice(0, 16)}`;
  if (process.platform === 'linux') return `\0${name}`;
  return windows ? `\\\\?\\pipe\\${name}` : join(tmpdir(), `${name}.socket`);
}

function listen(server) {
  return new Promise((settle, fail) => {
    const refused = (error) => (error.code === 'EADDRINUSE' ? settle(false) : fail(error));
    server.once('error', refused);
    server.listen(lockAddress(), () => {
      server.off('error', refused);
      settle(true);
    });
  });
}

function holderGone() {
  return new Promise((gone) => {
    const line = connect(lockAddress());
    line.on('error', (error) => {
      // Outside Linux and Windows the socket is a file, which a holder that was killed leaves behind.
      if (error.code === 'ECONNREFUSED' && existsSync(lockAddress())) unlinkSync(lockAddress());
    });
    line.on('close', gone);
    line.resume();
  });
}

/**
 * Where Node can replace itself, there is no wrapper at all: process id, signals and exit code are those of the entry.
 * An old Node (the first run of a fresh clone) stays as a parent in the same process group and passes on what it gets.
 */
function becomeEntry(file, args) {
  const path = [join(modules, '.bin'), machinePath].join(delimiter);
  const env = { ...process.env, PATH: path };
  const fromNpm = process.env['npm_lifecycle_event'] !== undefined;
  const watch = new URL('npm-parent-watch.mjs', import.meta.url).href;
  const words = [...(fromNpm ? ['--import', watch] : []), file, ...args];
  if (typeof process.execve === 'function' && !windows) process.execve(pinnedNode, [pinnedNode, ...words], env);

  const child = spawn(pinnedNode, words, { env, stdio: 'inherit' });
  const onTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']) {
    // A terminal signals the whole group by itself; a second Ctrl-C from us would mean "at once" to the entry.
    process.on(signal, () => {
      if (!onTerminal || signal === 'SIGTERM') child.kill(signal);
    });
  }
  child.on('error', (error) => {
    console.error(`${pinnedNode} cannot be started: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
