/** Real etcd servers for a test, on free ports, ended with it. Installs the Debian package or fails with the reason. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { installDebianPackage } from '../../../scripts/debian-packages.ts';

const readyMs = 30_000;
const startsMax = 3;
const command = 'etcd';
export const etcdPackage = { packageName: 'etcd-server', command, check: ['--version'] };

export type EtcdServerOptions = {
  /** Faster; for tests that kill no server. */
  readonly withoutFsync?: boolean;
  readonly members?: number;
  /** Additional command-line arguments of each server. */
  readonly args?: readonly string[];
  readonly scheme?: 'http' | 'https';
};

/** A test or suite: its end stops the servers. */
type TestOwner = { after(run: () => Promise<void>): unknown };

/** Fails the test with the reason why etcd cannot be installed. */
function requireEtcd(): void {
  const fault = installDebianPackage(etcdPackage, (text) => process.stderr.write(`${text}\n`));
  if (fault !== undefined) throw new Error(fault);
}

/** Starts a cluster of etcd servers, and resolves when it has a leader. */
export async function startEtcd(owner: TestOwner, options: EtcdServerOptions = {}): Promise<readonly EtcdServer[]> {
  requireEtcd();
  const folder = mkdtempSync(join(tmpdir(), 'remuster-etcd-'));
  const running: EtcdServer[] = [];
  owner.after(async () => {
    await Promise.all(running.map((server) => server.kill('SIGKILL')));
    rmSync(folder, { recursive: true, force: true });
  });
  for (let attempt = 1; ; attempt++) {
    const servers = await plan(join(folder, String(attempt)), options);
    running.push(...servers);
    try {
      await Promise.all(servers.map((server) => server.start()));
      return servers;
    } catch (error) {
      // Another process may have taken a port since it was found free.
      if (attempt === startsMax) throw error;
      await Promise.all(servers.map((server) => server.kill('SIGKILL')));
    }
  }
}

async function plan(folder: string, options: EtcdServerOptions): Promise<readonly EtcdServer[]> {
  const { members = 1, withoutFsync = false, scheme = 'http', args = [] } = options;
  const ports = await freePorts(2 * members);
  const peers = ports.slice(members).map((port) => `http://127.0.0.1:${port}`);
  const cluster = peers.map((url, i) => `m${i}=${url}`).join(',');
  return peers.map((peer, i) => {
    const endpoint = `${scheme}://127.0.0.1:${ports[i]}`;
    return new EtcdServer(endpoint, [
      ...['--name', `m${i}`, '--data-dir', join(folder, `m${i}`), '--log-level', 'warn'],
      ...['--listen-client-urls', endpoint, '--advertise-client-urls', endpoint],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer, '--initial-cluster', cluster],
      // A lease lasts at least one and a half times as long as an election may take.
      ...['--heartbeat-interval', '50', '--election-timeout', '600'],
      ...(withoutFsync ? ['--unsafe-no-fsync'] : []),
      ...args,
    ]);
  });
}

export class EtcdServer {
  readonly endpoint: string;
  readonly #args: readonly string[];
  #child: ChildProcess | undefined;
  #output = '';

  constructor(endpoint: string, args: readonly string[]) {
    this.endpoint = endpoint;
    this.#args = args;
  }

  /** Starts or restarts the server on its data. */
  async start(): Promise<void> {
    const child = spawn(command, this.#args, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child = child;
    this.#output = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#output = (this.#output + text).slice(-10_000);
    });
    const deadlineMs = performance.now() + readyMs;
    while (!(await this.#isReady())) {
      if (child.exitCode !== null) throw new Error(`etcd ended with code ${child.exitCode}:\n${this.#output}`);
      if (performance.now() > deadlineMs) throw new Error(`etcd is not ready after ${readyMs} ms:\n${this.#output}`);
      await pause(25);
    }
  }

  /** Pauses the server, and resolves when all of its threads have stopped: until then it may still reply. */
  async stop(): Promise<void> {
    const pid = this.#child?.pid ?? 0;
    this.#child?.kill('SIGSTOP');
    const deadlineMs = performance.now() + readyMs;
    while (!isStopped(pid)) {
      assert.ok(performance.now() < deadlineMs, `etcd ${pid} does not stop`);
      await pause(5);
    }
  }

  resume(): void {
    this.#child?.kill('SIGCONT');
  }

  async kill(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((done) => child.once('exit', done));
    child.kill(signal);
    await ended;
  }

  /** Sends a request to the gateway directly, without the code under test. */
  async post(path: string, body: unknown): Promise<Readonly<Record<string, unknown>>> {
    const reply = await fetch(new URL(path, this.endpoint), { method: 'POST', body: JSON.stringify(body) });
    const text = await reply.text();
    assert.equal(reply.status, 200, text);
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  }

  async revision(): Promise<number> {
    const { header } = await this.post('/v3/maintenance/status', {});
    return Number((header as { revision: string }).revision);
  }

  /** Compacts all history before the current revision. */
  async compact(): Promise<void> {
    await this.post('/v3/kv/compaction', { revision: String(await this.revision()), physical: true });
  }

  async isLeader(): Promise<boolean> {
    const { header, leader } = await this.post('/v3/maintenance/status', {});
    return leader === (header as { member_id: string }).member_id;
  }

  /** True if a plain endpoint is healthy (has a leader), or if the port of a TLS endpoint is open. */
  async #isReady(): Promise<boolean> {
    try {
      if (this.endpoint.startsWith('https:')) return await isListening(this.endpoint);
      const reply = await fetch(new URL('/health', this.endpoint), { signal: AbortSignal.timeout(2_000) });
      return ((await reply.json()) as { health?: string }).health === 'true';
    } catch {
      return false;
    }
  }
}

function isStopped(pid: number): boolean {
  const states = readdirSync(`/proc/${pid}/task`).map((task) => {
    const stat = readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3);
  });
  return states.every((state) => state === 'T');
}

function isListening(endpoint: string): Promise<boolean> {
  const { hostname, port } = new URL(endpoint);
  return new Promise((done) => {
    const socket = connect(Number(port), hostname);
    socket.once('connect', () => done(true)).once('error', () => done(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** Opens all ports at once, so that they differ. */
async function freePorts(count: number): Promise<readonly number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return ports;
}
