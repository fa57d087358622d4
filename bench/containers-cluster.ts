/**
 * Our side of the containers bench: a manager and three workers, full agents in processes of their own on loopback with
 * everything as it is by default, and pools of the bench's module on them. Calls are made from inside of a worker, by a
 * method that calls other containers. Whatever happens to the bench, its processes end with it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

import { type ClusterSession, connect } from '../src/client/index.ts';
import type { Load } from './containers-load.ts';
import { benched, type Drive } from './containers-module.ts';

const host = '127.0.0.1';
const cluster = 'containers-bench';
const secret = 'containers-bench-4Jx9qV2mTz7c';
const readyMs = 60_000;
const lookEveryMs = 50;
const tailCharacters = 4_000;
export const workers = ['w0', 'w1', 'w2'] as const;
export type WorkerName = (typeof workers)[number];

const environment = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('REMUSTER_'))),
  REMUSTER_AUTH_SECRET: secret,
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(tmpdir(), 'node-compile-cache'),
};

type Node = { readonly child: ChildProcess; readonly address: string; readonly httpPort: number };
type PoolWish = { readonly containers: number; readonly copies: number; readonly durability: 'memory' | 'copies' };
type ContainerRow = { readonly id: number; readonly owner: string | null; readonly phase: string };

export class ContainersCluster {
  readonly #folder: string;
  readonly #nodes = new Map<string, Node>();
  #session: ClusterSession | undefined;
  #drivers = '';
  #tail = '';

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true });
  }

  /** `stop` must be called in the end, whether this ended well or not. */
  async start(): Promise<void> {
    const first = await this.#begin('m0', 'manager', undefined);
    await Promise.all(workers.map((name) => this.#begin(name, 'worker', first.address)));
    await this.#until('all are active members', async () => {
      const { items } = (await get(first.httpPort, '/v1/members')) as { items: readonly { registration: string }[] };
      return items.filter(({ registration }) => registration === 'active').length === workers.length + 1;
    });
    await this.#createDrivers();
    const addr = workers.map((name) => this.#node(name).address);
    this.#session = await connect({ addr, cluster, secret });
  }

  async ownedBy(pool: string, worker: WorkerName): Promise<readonly number[]> {
    return (await this.#containers(pool)).filter(({ owner }) => owner === worker).map(({ id }) => id);
  }

  async drive(worker: WorkerName, plan: Drive): Promise<Load> {
    const pool = this.#session?.pool(benched, this.#drivers).with({ timeoutMs: plan.durationMs + readyMs });
    if (pool === undefined) throw new Error('the cluster was not started');
    return await pool.node(worker).drive(plan);
  }

  pid(name: 'm0' | WorkerName): number {
    return this.#node(name).child.pid!;
  }

  async stop(): Promise<void> {
    await this.#session?.close();
    await Promise.all(
      [...this.#nodes.values()].map(async ({ child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const closed = once(child, 'close');
        child.kill('SIGTERM');
        await closed;
      }),
    );
  }

  async #begin(name: string, role: string, seed: string | undefined): Promise<Node> {
    const words = [
      ...[...process.execArgv, resolve(import.meta.dirname, '../src/cli/main.ts'), 'agent', '--with-parent'],
      ...['--name', name, '--roles', role, '--cluster', cluster, '--data', join(this.#folder, name)],
      ...['--port', '0', '--http-port', '0', '--modules', join(import.meta.dirname, 'containers-module.ts')],
      ...(seed === undefined ? [] : ['--join', seed]),
    ];
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', process.execPath, ...words], {
      ...{ env: environment, stdio: ['pipe', 'pipe', 'pipe'] },
    });
    child.stdin.on('error', () => undefined);
    child.on('error', (error) => (this.#tail += String(error)));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#tail = (this.#tail + text).slice(-tailCharacters);
    });
    const { promise: listening, resolve: heard } = Promise.withResolvers<{ port: number; httpPort: number }>();
    createInterface(child.stdout).once('line', (line) => heard(JSON.parse(line)));
    const { port, httpPort } = await Promise.race([listening, this.#failedWith(child, name)]);
    const node = { child, address: `${host}:${port}`, httpPort };
    this.#nodes.set(name, node);
    return node;
  }

  async #failedWith(child: ChildProcess, name: string): Promise<never> {
    await Promise.race([once(child, 'exit'), pause(readyMs, undefined, { ref: false })]);
    throw new Error(`${name} does not listen\n${this.#tail}`);
  }

  /** A worker that may serve only since a moment ago gets nothing: then the next pool is better. */
  async #createDrivers(): Promise<void> {
    await this.#until('all workers may serve', async () => {
      this.#drivers = `drivers-${performance.now().toFixed(0)}`;
      await this.createPool(this.#drivers, { containers: 2 * workers.length, copies: 1, durability: 'memory' });
      const rows = await this.#containers(this.#drivers);
      return workers.every((name) => rows.some(({ owner }) => owner === name));
    });
  }

  async createPool(name: string, wish: PoolWish): Promise<void> {
    const fault = await this.#post('/v1/pools', { name, module: benched.name, ...wish });
    if (fault !== undefined) throw new Error(`the pool ${name} was not created: ${fault}`);
    await this.#until(`the containers of ${name} serve`, async () => await this.#serves(name));
  }

  async #containers(pool: string): Promise<readonly ContainerRow[]> {
    const shown = await get(this.#node('m0').httpPort, `/v1/pools/${pool}`);
    return shown['containers'] as readonly ContainerRow[];
  }

  async #serves(pool: string): Promise<boolean> {
    return (await this.#containers(pool)).every(({ phase }) => phase === 'serving');
  }

  /** Why it was refused, if it was. */
  async #post(path: string, body: object): Promise<string | undefined> {
    const answer = await fetch(`http://${host}:${this.#node('m0').httpPort}${path}`, {
      ...{ method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } },
    });
    return answer.ok ? undefined : await answer.text();
  }

  #node(name: string): Node {
    const node = this.#nodes.get(name);
    if (node === undefined) throw new Error(`there is no ${name}`);
    return node;
  }

  async #until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    const lateMs = performance.now() + readyMs;
    for (;;) {
      if (await isSo()) return;
      if (performance.now() > lateMs) throw new Error(`not in time: ${what}\n${this.#tail}`);
      await pause(lookEveryMs);
    }
  }
}

async function get(port: number, path: string): Promise<Readonly<Record<string, unknown>>> {
  const answer = await fetch(`http://${host}:${port}${path}`, { signal: AbortSignal.timeout(5_000) });
  return (await answer.json()) as Record<string, unknown>;
}
