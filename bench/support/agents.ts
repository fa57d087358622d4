/** Agents as processes on loopback, with default options. They end with the bench. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';

const host = '127.0.0.1';
const secret = 'bench-of-agents-4Jx9qV2mTz7c';
export const agentReadyMs = 60_000;
const replyMsMax = 5_000;
const pollMs = 20;
const tailCharacters = 4_000;

const environment = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('REMUSTER_'))),
  REMUSTER_AUTH_SECRET: secret,
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(tmpdir(), 'node-compile-cache'),
};

type Agent = { readonly child: ChildProcess; readonly address: string; readonly httpPort: number };
type Fields = Readonly<Record<string, unknown>>;

export class BenchAgents {
  readonly #cluster: string;
  readonly #folder: string;
  readonly #args: readonly string[];
  readonly #agents = new Map<string, Agent>();
  #tail = '';

  /** `args` are further arguments of each agent. */
  constructor(cluster: string, folder: string, args: readonly string[]) {
    this.#cluster = cluster;
    this.#folder = folder;
    this.#args = args;
    mkdirSync(folder, { recursive: true });
  }

  /** Options of a client that connects to these agents. */
  connectOptions(...names: readonly string[]): {
    readonly addr: string[];
    readonly cluster: string;
    readonly secret: string;
  } {
    return { addr: names.map((name) => this.#agent(name).address), cluster: this.#cluster, secret };
  }

  pid(name: string): number {
    return this.#agent(name).child.pid!;
  }

  /** The first agent has no `seed`. The caller must call `stop`, also after a failure. */
  async start(name: string, role: 'manager' | 'worker', seed?: string): Promise<void> {
    const child = this.#spawn([
      ...[...process.execArgv, resolve(import.meta.dirname, '../../src/cli/main.ts'), 'agent', '--with-parent'],
      ...['--name', name, '--roles', role, '--cluster', this.#cluster, '--data', join(this.#folder, name)],
      ...['--port', '0', '--http-port', '0', ...this.#args],
      ...(seed === undefined ? [] : ['--join', this.#agent(seed).address]),
    ]);
    const { promise: listening, resolve: onListening } = Promise.withResolvers<{ port: number; httpPort: number }>();
    createInterface(child.stdout!).once('line', (line) => onListening(JSON.parse(line)));
    const { port, httpPort } = await Promise.race([listening, this.#failedWith(child, name)]);
    this.#agents.set(name, { child, address: `${host}:${port}`, httpPort });
  }

  kill(name: string): void {
    this.#agent(name).child.kill('SIGKILL');
    this.#agents.delete(name);
  }

  async stop(): Promise<void> {
    await Promise.all(
      [...this.#agents.values()].map(async ({ child }) => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const closed = once(child, 'close');
        child.kill('SIGTERM');
        await closed;
      }),
    );
  }

  async get(name: string, path: string): Promise<Fields> {
    const url = `http://${host}:${this.#agent(name).httpPort}${path}`;
    const response = await fetch(url, { signal: AbortSignal.timeout(replyMsMax) });
    return (await response.json()) as Fields;
  }

  /** Returns the error, if the request was refused. */
  async post(name: string, path: string, body: object): Promise<string | undefined> {
    const response = await fetch(`http://${host}:${this.#agent(name).httpPort}${path}`, {
      ...{ method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } },
      signal: AbortSignal.timeout(agentReadyMs),
    });
    return response.ok ? undefined : await response.text();
  }

  async until(what: string, condition: () => Promise<boolean>): Promise<void> {
    const deadlineMs = performance.now() + agentReadyMs;
    while (!(await condition())) {
      if (performance.now() > deadlineMs) throw new Error(`not within ${agentReadyMs} ms: ${what}\n${this.#tail}`);
      await pause(pollMs);
    }
  }

  #spawn(args: readonly string[]): ChildProcess {
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', process.execPath, ...args], {
      ...{ env: environment, stdio: ['pipe', 'pipe', 'pipe'] },
    });
    child.stdin.on('error', () => undefined);
    child.on('error', (error) => (this.#tail += String(error)));
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#tail = (this.#tail + text).slice(-tailCharacters);
    });
    return child;
  }

  async #failedWith(child: ChildProcess, name: string): Promise<never> {
    await Promise.race([once(child, 'exit'), pause(agentReadyMs, undefined, { ref: false })]);
    throw new Error(`${name} does not listen\n${this.#tail}`);
  }

  #agent(name: string): Agent {
    const agent = this.#agents.get(name);
    if (agent === undefined) throw new Error(`there is no agent ${name}`);
    return agent;
  }
}
