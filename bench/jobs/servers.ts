/** Servers behind the peers: redis, postgresql, restate. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, globSync, mkdirSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

export type QueueServer = { readonly port: number; stop(): Promise<void> };

const host = '127.0.0.1';
const readyMs = 60_000;

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

export async function startRedis(folder: string, appendfsync: 'always' | 'everysec'): Promise<QueueServer> {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const words = ['--port', port, '--bind', host, '--dir', folder, '--save', '', '--appendonly', 'yes'];
  return await started('redis-server', [...words, '--appendfsync', appendfsync], port);
}

/** PostgreSQL refuses to be root, so it runs as its own user where we are. */
export async function startPostgres(folder: string): Promise<QueueServer> {
  mkdirSync(folder, { recursive: true });
  const [bin] = globSync('/usr/lib/postgresql/*/bin').toSorted().toReversed();
  if (bin === undefined) throw new Error('postgresql is not installed');
  const as = process.getuid?.() === 0 ? ['--reuid', 'postgres', '--regid', 'postgres', '--clear-groups'] : [];
  if (as.length > 0) {
    const [uid, gid] = ['-u', '-g'].map((flag) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' })));
    chownSync(folder, uid ?? 0, gid ?? 0);
    for (let path = folder; path !== '/tmp' && path !== '/'; path = join(path, '..')) chmodSync(path, 0o755);
    chmodSync(folder, 0o700);
  }
  const initdb = [...as, join(bin, 'initdb'), '-D', folder, '-U', 'bench', '-A', 'trust', '--no-sync'];
  execFileSync('setpriv', initdb, { stdio: 'ignore', cwd: '/' });
  const port = await freePort();
  const words = ['-D', folder, '-p', String(port), '-h', host, '-k', folder];
  return await started('setpriv', [...as, join(bin, 'postgres'), ...words], port);
}

export async function startRestate(folder: string, binary: string): Promise<QueueServer & { readonly admin: number }> {
  mkdirSync(folder, { recursive: true });
  const [port, admin, node] = [await freePort(), await freePort(), await freePort()];
  const env = {
    RESTATE_INGRESS__BIND_ADDRESS: `${host}:${port}`,
    RESTATE_ADMIN__BIND_ADDRESS: `${host}:${admin}`,
    RESTATE_BIND_ADDRESS: `${host}:${node}`,
    RESTATE_ADVERTISED_ADDRESS: `http://${host}:${node}/`,
    RESTATE_BASE_DIR: folder,
    RESTATE_NODE_NAME: 'bench',
    DO_NOT_TRACK: '1',
  };
  const server = await started(binary, ['--no-logo'], port, env);
  await listening(admin);
  return { ...server, admin };
}

async function started(
  command: string,
  words: readonly (string | number)[],
  port: number,
  env: Readonly<Record<string, string>> = {},
): Promise<QueueServer> {
  const all = ['--pdeathsig', 'KILL', command, ...words.map(String)];
  const child = spawn('setpriv', all, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...env },
    cwd: '/',
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-2_000)));
  const died = once(child, 'exit').then(() => {
    throw new Error(`${command} does not start: ${said}`);
  });
  // Afterwards its end is expected.
  died.catch(() => undefined);
  await Promise.race([listening(port), died]);
  return { port, stop: () => stopped(child) };
}

async function listening(port: number): Promise<void> {
  const lateMs = performance.now() + readyMs;
  for (;;) {
    const socket = connect(port, host);
    try {
      await once(socket, 'connect');
      return;
    } catch (error) {
      if (performance.now() > lateMs) throw error;
      await pause(50);
    } finally {
      socket.destroy();
    }
  }
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const late = setTimeout(() => child.kill('SIGKILL'), 5_000);
  await gone;
  clearTimeout(late);
}
