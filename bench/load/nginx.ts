/** nginx on a core of its own, with a small reply from memory. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import type { DebianPackage } from '../../scripts/debian-packages.ts';

export const nginxProgram: DebianPackage = { packageName: 'nginx-light', command: 'nginx', check: ['-v'] };

const host = '127.0.0.1';
const readyMs = 30_000;
const pollMs = 20;
const body = 'About a hundred bytes, which is the size of many replies of a service, and they come from memory\\n';

export class NginxServer {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #folder: string;

  private constructor(url: string, child: ChildProcess, folder: string) {
    this.url = url;
    this.#child = child;
    this.#folder = folder;
  }

  static async start(core: number): Promise<NginxServer> {
    const port = await freePort();
    const folder = mkdtempSync(join(tmpdir(), 'remuster-bench-load-'));
    const file = join(folder, 'nginx.conf');
    writeFileSync(file, configuration(folder, port));
    // It ends with the bench, also if that is killed.
    const args = ['--pdeathsig', 'KILL', 'taskset', '-c', String(core), nginxProgram.command, '-c', file];
    const child = spawn('setpriv', args, { stdio: ['ignore', 'ignore', 'inherit'] });
    const nginx = new NginxServer(`http://${host}:${port}`, child, folder);
    await nginx.#ready(port);
    return nginx;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const exited = once(this.#child, 'exit');
      this.#child.kill('SIGKILL');
      await exited;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #ready(port: number): Promise<void> {
    const deadlineMs = performance.now() + readyMs;
    while (!(await canConnect(port))) {
      if (performance.now() > deadlineMs || this.#child.exitCode !== null) throw new Error('nginx does not start');
      await pause(pollMs);
    }
  }
}

function configuration(folder: string, port: number): string {
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const paths = folders.map((name) => `${name}_temp_path ${join(folder, name)};`).join(' ');
  return `
    daemon off; master_process off; pid ${join(folder, 'pid')}; error_log stderr crit;
    events { worker_connections 4096; }
    http {
      ${paths}
      access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;
      server { listen ${host}:${port}; location / { default_type text/plain; return 200 "${body}"; } }
    }`;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function canConnect(port: number): Promise<boolean> {
  const socket = connect({ host, port });
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
