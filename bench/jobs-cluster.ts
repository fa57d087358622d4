/**
 * Our side of the jobs bench: a manager and workers, full agents in processes of their own on loopback with everything
 * as it is by default, and a session that submits. Whatever happens to the bench, its processes end with it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

import { type ClusterSession, connect } from '../src/client/index.ts';
import type { Job } from '../src/client/job.ts';
import type { PreparedJob, SubmitOptions } from '../src/client/submission.ts';
import { type WorkName, workFile } from './jobs-work.ts';

const host = '127.0.0.1';
const cluster = 'jobs-bench';
const secret = 'jobs-bench-4Jx9qV2mTz7c';
const readyMs = 60_000;
const lookEveryMs = 20;
const tailCharacters = 4_000;

const environment = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('REMUSTER_'))),
  REMUSTER_AUTH_SECRET: secret,
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(tmpdir(), 'node-compile-cache'),
};

type Node = { readonly child: ChildProcess; readonly address: string; readonly httpPort: number };

export class JobsCluster {
  readonly #folder: string;
  readonly #nodes = new Map<string, Node>();
  readonly #prepared = new Map<WorkName, PreparedJob>();
  #session: ClusterSession | undefined;
  #tail = '';

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true });
  }

  /** `stop` must be called in the end, whether this ended well or not. */
  async start(workers: readonly string[]): Promise<void> {
    const { address } = await this.#begin('m0', 'manager', undefined);
    await Promise.all(workers.map((name) => this.#begin(name, 'worker', address)));
    this.#session = await connect({ addr: [address], cluster, secret });
    for (const name of workers)
      await this.until(`${name} has warm runners`, async () => (await this.#idle(name)) === 0);
  }

  get session(): ClusterSession {
    if (this.#session === undefined) throw new Error('the cluster was not started');
    return this.#session;
  }

  async submit(name: WorkName, options: SubmitOptions = {}): Promise<Job> {
    return await this.session.submit(await this.#work(name), options);
  }

  /** To its end. */
  async run(name: WorkName): Promise<void> {
    const { jobId, status } = await this.session.run(await this.#work(name));
    if (status !== 'COMPLETED') throw new Error(`${jobId} ended as ${status}`);
  }

  /** Jobs that are not over, as the leader counts them. */
  async openJobs(): Promise<number> {
    const answer = await fetch(`http://${host}:${this.#node('m0').httpPort}/v1/node`);
    const { queues } = (await answer.json()) as { readonly queues: { readonly jobs: number } };
    return queues.jobs;
  }

  /** Its code is bundled once. */
  async #work(name: WorkName): Promise<PreparedJob> {
    const known = this.#prepared.get(name) ?? (await this.session.prepare(workFile(this.#folder, name)));
    this.#prepared.set(name, known);
    return known;
  }

  async begin(name: string): Promise<void> {
    await this.#begin(name, 'worker', this.#node('m0').address);
  }

  pidOf(name: string): number {
    return this.#node(name).child.pid!;
  }

  kill(name: string): void {
    this.#node(name).child.kill('SIGKILL');
    this.#nodes.delete(name);
  }

  /** Of the process, in bytes. */
  residentBytes(name: string): number {
    const status = readFileSync(`/proc/${this.#node(name).child.pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1_024;
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

  async until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    const lateMs = performance.now() + readyMs;
    while (!(await isSo())) {
      if (performance.now() > lateMs) throw new Error(`not in time: ${what}\n${this.#tail}`);
      await pause(lookEveryMs);
    }
  }

  /** Cores of that worker without a runner that waits. */
  async #idle(name: string): Promise<number> {
    const answer = await fetch(`http://${host}:${this.#node(name).httpPort}/v1/node`);
    const { cores, runners } = (await answer.json()) as { cores: { total: number } | null; runners: number };
    return (cores?.total ?? Infinity) - runners;
  }

  async #begin(name: string, role: string, seed: string | undefined): Promise<Node> {
    const words = [
      ...[...process.execArgv, resolve(import.meta.dirname, '../src/cli/main.ts'), 'agent', '--with-parent'],
      ...['--name', name, '--roles', role, '--cluster', cluster, '--data', join(this.#folder, name)],
      ...['--port', '0', '--http-port', '0', '--log-level', 'warn'],
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

  #node(name: string): Node {
    const node = this.#nodes.get(name);
    if (node === undefined) throw new Error(`there is no ${name}`);
    return node;
  }
}
