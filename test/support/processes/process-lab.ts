/** Real processes for a test; they end, and their data is removed, with it. Every wait has a deadline. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { getJson, readEvents } from '../../../src/cli/command/http-client.ts';

const entry = resolve(import.meta.dirname, '../../../src/cli/main.ts');
export const processTestSecret = 'process-tests-4Jx9qV2mTz7c';
const deadlineMs = 30_000;
const gracefulMs = 20_000;

export type ProgramExit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };
export type NodeEvent = {
  readonly seq: number;
  readonly type: string;
  readonly member?: string;
  readonly [field: string]: unknown;
};
export type ListedMember = {
  readonly name: string;
  readonly id: string;
  readonly state: string;
  readonly generation: number;
  readonly incarnation: number;
  readonly stuck: boolean;
  readonly registration: string | null;
};

/** One process with its output. */
export class ChildProgram {
  readonly child: ChildProcess;
  readonly ended: Promise<ProgramExit>;
  stdout = '';
  stderr = '';
  readonly #listeners = new Set<() => void>();

  constructor(args: readonly string[], options: { cwd: string; env: NodeJS.ProcessEnv; command?: string }) {
    const { command = process.execPath, cwd, env } = options;
    this.child = spawn(command, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#onOutput('stdout', text));
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => this.#onOutput('stderr', text));
    this.child.stdin?.on('error', () => undefined);
    this.ended = new Promise((done) => {
      this.child.once('close', (code, signal) => {
        done({ code, signal });
        for (const listener of this.#listeners) listener();
      });
    });
  }

  get pid(): number {
    return this.child.pid ?? 0;
  }

  get isUp(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  async waitForExit(): Promise<ProgramExit> {
    return await within(this.ended, `the end of process ${this.pid}`, () => this.stderr);
  }

  /** Waits for the first match in past and future output of the process. */
  async waitForOutput(stream: 'stdout' | 'stderr', pattern: RegExp, timeoutMs = deadlineMs): Promise<RegExpExecArray> {
    const found = new Promise<RegExpExecArray>((done, failed) => {
      const check = (): void => {
        const match = pattern.exec(this[stream]);
        if (match === null && this.isUp) return;
        this.#listeners.delete(check);
        if (match === null) failed(new Error(`exited without the output ${pattern}\n${this.stderr}`));
        else done(match);
      };
      this.#listeners.add(check);
      check();
    });
    return await within(found, `${pattern} on ${stream}`, () => `${this.stdout}\n${this.stderr}`, timeoutMs);
  }

  #onOutput(stream: 'stdout' | 'stderr', text: string): void {
    this[stream] = (this[stream] + text).slice(-1_000_000);
    for (const listener of this.#listeners) listener();
  }
}

export type Agent = ChildProgram & {
  readonly name: string;
  readonly id: string;
  readonly port: number;
  readonly httpPort: number;
  readonly addr: string;
};

/** The processes of one test and their folder; both are gone when the test ends. */
export class ProcessLab {
  readonly folder = mkdtempSync(join(tmpdir(), 'remuster-processes-'));
  readonly env: NodeJS.ProcessEnv;
  readonly #programs: ChildProgram[] = [];

  constructor(context: { after(end: () => Promise<void>): void }) {
    const own = Object.entries(process.env).filter(
      ([name]) => !name.startsWith('REMUSTER_') && !name.startsWith('NODE_'),
    );
    this.env = {
      ...Object.fromEntries(own),
      XDG_RUNTIME_DIR: this.folder,
      XDG_CONFIG_HOME: this.folder,
      TMPDIR: this.folder,
      REMUSTER_AUTH_SECRET: processTestSecret,
      NO_COLOR: '1',
      // Most tests run no jobs, and warm runners cost them time.
      REMUSTER_WARM_RUNNERS_MAX: '0',
      // All processes share the compile cache, so that each start is fast and leaves no file in the folder.
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? join(tmpdir(), 'node-compile-cache'),
    };
    context.after(() => this.#clear());
  }

  /** `inside`: the command that executes the program in another environment, such as a network namespace. */
  program(args: readonly string[], env: NodeJS.ProcessEnv = {}, inside: readonly string[] = []): ChildProgram {
    const [command = '', ...all] = [...inside, process.execPath, entry, ...args];
    const started = new ChildProgram(all, { command, cwd: this.folder, env: { ...this.env, ...env } });
    this.#programs.push(started);
    return started;
  }

  /** Starts an agent and does not wait until it is ready. */
  agentProgram(name: string, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): ChildProgram {
    const ports = ['--port', '0', '--http-port', '0', '--profile', 'local', '--data', join(this.folder, name)];
    return this.program(['agent', '--with-parent', '--name', name, ...ports, ...args], env);
  }

  async agent(name: string, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Promise<Agent> {
    const started = this.agentProgram(name, args, env);
    const [line] = await started.waitForOutput('stdout', /^\{"ready":true.*\}$/m);
    const { id, port, httpPort } = JSON.parse(line) as { id: string; port: number; httpPort: number };
    return Object.assign(started, { name, id, port, httpPort, addr: `http://127.0.0.1:${httpPort}` });
  }

  /** Runs a command until it exits. */
  async run(
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
  ): Promise<ProgramExit & { stdout: string; stderr: string }> {
    const started = this.program(args, env);
    const { code, signal } = await started.waitForExit();
    return { code, signal, stdout: started.stdout, stderr: started.stderr };
  }

  /** Processes of this test that have exited, except the given ones: a kill must not end other processes. */
  unexpectedExits(...expected: ChildProgram[]): string[] {
    const down = this.#programs.filter((other) => !expected.includes(other) && !other.isUp);
    return down.map((other) => `pid ${other.pid}: ${other.stderr.slice(-2_000)}`);
  }

  async #clear(): Promise<void> {
    const up = this.#programs.filter((started) => started.isUp);
    const all = Promise.all(up.map((started) => started.ended));
    // Gracefully, so that a dev cluster can end its nodes; by force after a time limit.
    for (const started of up) started.kill('SIGTERM');
    if ((await Promise.race([all, pause(gracefulMs, 'late', { ref: false })])) === 'late') {
      for (const started of up) started.kill('SIGKILL');
    }
    await within(all, 'the end of all processes');
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

/** Waits for the first past or future event of a node that fits. */
export async function awaitEvent(addr: string, fits: (event: NodeEvent) => boolean, what: string): Promise<NodeEvent> {
  const seen: string[] = [];
  const search = async (): Promise<NodeEvent> => {
    for await (const next of readEvents({ addr, token: undefined }, '/v1/events?since=0')) {
      const found = next as NodeEvent;
      seen.push(JSON.stringify(found));
      if (fits(found)) return found;
    }
    throw new Error(`the events ended without ${what}`);
  };
  return await within(search(), what, () => seen.join('\n'));
}

export async function fetchMembers(addr: string): Promise<ListedMember[]> {
  const { items } = (await getJson({ addr, token: undefined }, '/v1/members')) as { items: ListedMember[] };
  return items;
}

export async function awaitAlive(addr: string, name: string): Promise<NodeEvent> {
  return await awaitEvent(addr, (found) => found.type === 'member.alive' && found.member === name, `${name} alive`);
}

/**
 * Resolves when the port can be bound again over both UDP and TCP. A killed process releases its sockets only with its
 * last thread, shortly after its exit, so this retries until the deadline.
 */
export async function awaitBindable(port: number): Promise<void> {
  const late = Date.now() + deadlineMs;
  for (;;) {
    try {
      await bindOnce(port);
      return;
    } catch (error) {
      if (Date.now() > late) throw error;
      await pause(20);
    }
  }
}

async function bindOnce(port: number): Promise<void> {
  await new Promise<void>((done, failed) => {
    const server = createServer().once('error', failed);
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => done()));
  });
  await new Promise<void>((done, failed) => {
    const socket = createSocket('udp4').once('error', (error) => {
      socket.close();
      failed(error);
    });
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => socket.close(() => done()));
  });
}

/** Polls for a state that nothing reports, such as the exit of a process that is not a child of the test. */
export async function eventually(what: string, check: () => boolean): Promise<void> {
  const late = Date.now() + deadlineMs;
  while (!check()) {
    assert.ok(Date.now() < late, `not within ${deadlineMs} ms: ${what}`);
    await pause(20);
  }
}

/** False for a zombie too: a process that has exited but was not reaped by its parent. */
export function processIsUp(pid: number): boolean {
  try {
    process.kill(pid, 0);
    if (!existsSync('/proc/self/stat')) return true;
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

export function filesIn(folder: string): string[] {
  return readdirSync(folder).toSorted();
}

async function within<T>(
  work: Promise<T>,
  what: string,
  details: () => string = () => '',
  timeoutMs = deadlineMs,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, failed) => {
    timer = setTimeout(() => failed(new Error(`not within ${timeoutMs} ms: ${what}\n${details()}`)), timeoutMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
