/** The servers of the peers: redis, postgresql, restate. */
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
  const args = ['--port', port, '--bind', host, '--dir', folder, '--save', '', '--appendonly', 'yes'];
  return await startServer('redis-server', [...args, '--appendfsync', appendfsync], port);
}

/** PostgreSQL refuses to run as root, so root starts it as the user postgres. */
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
  const args = ['-D', folder, '-p', String(port), '-h', host, '-k', folder];
  return await startServer('setpriv', [...as, join(bin, 'postgres'), ...args], port);
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
  const server = await startServer(binary, ['--no-logo'], port, env);
  await untilListening(admin);
  return { ...server, admin };
}

async function startServer(
  command: string,
  args: readonly (string | number)[],
  port: number,
  env: Readonly<Record<string, string>> = {},
): Promise<QueueServer> {
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', command, ...args.map(String)], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...env },
    cwd: '/',
  });
  let output = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-2_000)));
  const exited = once(child, 'exit').then(() => {
    throw new Error(`${command} does not start: ${output}`);
  });
  // An exit after the start is expected.
  exited.catch(() => undefined);
  await Promise.race([untilListening(port), exited]);
  return { port, stop: () => stopProcess(child) };
}

async function untilListening(port: number): Promise<void> {
  const deadlineMs = performance.now() + readyMs;
  for (;;) {
    const socket = connect(port, host);
    try {
      await once(socket, 'connect');
      return;
    } catch (error) {
      if (performance.now() > deadlineMs) throw error;
      await pause(50);
    } finally {
      socket.destroy();
    }
  }
}

async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 5_000);
  await exited;
  clearTimeout(timer);
}
