/**
 * The first step of every npm script: installs the locked dependencies once, then becomes the entry under the pinned
 * Node. Plain JavaScript, because an old Node must be able to run it.
 *
 *   node scripts/setup.mjs ENTRY.ts [ARGUMENTS]
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

/** The PATH without the folders that npm has added: an installation deletes the programs in them. */
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

/** Runs under the lock: processes that waited for it find the installation done. */
async function install() {
  if (isStamped()) return;
  if (!isInstalled()) {
    const startedMs = Date.now();
    console.error('Installing the dependencies of package-lock.json (once per change of that file) ...');
    const code = await runNpm(['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']);
    if (code !== 0 || !isInstalled()) {
      const reason = code === 0 ? 'installed other versions than package-lock.json' : `failed with exit code ${code}`;
      console.error(`npm ci ${reason}. Check the network and the npm registry, then run the command again.`);
      process.exit(1);
    }
    console.error(`Installed in ${Math.round((Date.now() - startedMs) / 1000)} s.`);
  }
  linkOwnCommand();
  writeFileSync(stampFile, lockHash);
}

/** Makes `npx remuster` run the sources. Otherwise npm would pack the project and install it into a cache. */
function linkOwnCommand() {
  const link = join(modules, '.bin', 'remuster');
  if (windows || lstatSync(link, { throwIfNoEntry: false }) !== undefined) return;
  mkdirSync(dirname(link), { recursive: true });
  symlinkSync('../../bin/remuster.js', link);
}

/** True if exactly the locked versions are installed, for example by `npm install`. */
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

/** Prints the output of npm only if it fails. */
function runNpm(args) {
  return new Promise((done) => {
    const env = { ...process.env, PATH: machinePath };
    const npm = spawn('npm', args, { cwd: root, env, shell: windows, stdio: ['ignore', 'pipe', 'pipe'] });
    const output = [];
    npm.stdout.on('data', (chunk) => output.push(chunk));
    npm.stderr.on('data', (chunk) => output.push(chunk));
    npm.on('error', (error) => output.push(Buffer.from(`npm cannot be started: ${error.message}\n`)));
    npm.on('close', (code) => {
      if (code !== 0) process.stderr.write(Buffer.concat(output));
      done(code ?? 1);
    });
  });
}

/**
 * The lock is a listening local socket: the operating system gives it to one process and releases it when that process
 * ends, however it ends. A waiting process connects to it; the connection ends with the holder.
 */
async function withLock(work) {
  const waiters = new Set();
  const server = createServer((socket) => {
    waiters.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => waiters.delete(socket));
  });
  for (let isWaiting = false; !(await listen(server)); isWaiting = true) {
    if (!isWaiting) console.error('Waiting for another process that installs the dependencies ...');
    await untilReleased();
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
  return new Promise((resolveListen, reject) => {
    const onError = (error) => (error.code === 'EADDRINUSE' ? resolveListen(false) : reject(error));
    server.once('error', onError);
    server.listen(lockAddress(), () => {
      server.off('error', onError);
      resolveListen(true);
    });
  });
}

function untilReleased() {
  return new Promise((released) => {
    const socket = connect(lockAddress());
    socket.on('error', (error) => {
      // Except on Linux and Windows the socket is a file, which a killed holder leaves behind.
      if (error.code === 'ECONNREFUSED' && existsSync(lockAddress())) unlinkSync(lockAddress());
    });
    socket.on('close', released);
    socket.resume();
  });
}

/**
 * Replaces this process by the entry where Node supports it: process id, signals and exit code are those of the entry.
 * An old Node (the first run of a fresh clone) stays as the parent, in the same process group, and forwards signals.
 */
function becomeEntry(file, args) {
  const path = [join(modules, '.bin'), machinePath].join(delimiter);
  const env = { ...process.env, PATH: path };
  const fromNpm = process.env['npm_lifecycle_event'] !== undefined;
  const watch = new URL('npm-parent-watch.mjs', import.meta.url).href;
  const nodeArgs = [...(fromNpm ? ['--import', watch] : []), file, ...args];
  if (typeof process.execve === 'function' && !windows) process.execve(pinnedNode, [pinnedNode, ...nodeArgs], env);

  const child = spawn(pinnedNode, nodeArgs, { env, stdio: 'inherit' });
  const onTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']) {
    // A terminal signals the whole process group. A forwarded second SIGINT would make the entry stop at once.
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
