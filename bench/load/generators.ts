/**
 * Load generators pinned to one core; each round returns requests and CPU time. A Node generator is one process for all
 * rounds, so that its start is not measured.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

import type { DebianPackage } from '../../scripts/debian-packages.ts';
import { printProgress } from '../support/harness.ts';
import { cpuMs } from '../support/host-meters.ts';

export type GeneratorRound = { readonly requests: number; readonly perSecond: number; readonly cpuSeconds: number };

export type LoadGenerator = {
  readonly name: string;
  round(seconds: number): Promise<GeneratorRound>;
  stop(): Promise<void>;
};

export const wrkProgram: DebianPackage = { packageName: 'wrk', command: 'wrk', check: undefined };

export function wrkGenerator(url: string, connections: number, core: number): LoadGenerator {
  return {
    name: 'wrk',
    round: async (seconds) => {
      // The stat file of the shell has the CPU time of its ended children.
      const script = 'wrk -t1 -c"$0" -d"$1"s "$2" && cat /proc/$$/stat';
      const args = ['-c', String(core), 'sh', '-c', script, String(connections), String(seconds), url];
      const { stdout } = await promisify(execFile)('taskset', args);
      const requests = Number(/(\d+) requests in/.exec(stdout)?.[1]);
      const fields = stdout.slice(stdout.lastIndexOf(') ')).split(' ');
      const ticks = Number(fields[14]) + Number(fields[15]);
      const perSecond = Number(/Requests\/sec: +([\d.]+)/.exec(stdout)?.[1]);
      return { requests, perSecond, cpuSeconds: ticks / ticksPerSecond() };
    },
    stop: () => Promise.resolve(),
  };
}

/** A line of a generator process: `{"ready":true}`, then the counts of each round. */
type GeneratorLine = {
  readonly ready?: boolean;
  readonly requests?: number;
  readonly failed?: number;
  readonly elapsedMs?: number;
};

/** A program that reads a line with the seconds of a round, and writes a line with its counts. */
export class NodeGenerator implements LoadGenerator {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  private constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  }

  static async start(name: string, file: string, args: readonly string[], core: number): Promise<NodeGenerator> {
    const program = [process.execPath, join(import.meta.dirname, file), ...args];
    const pinned = ['--pdeathsig', 'KILL', 'taskset', '-c', String(core), ...program];
    const child = spawn('setpriv', pinned, { stdio: ['pipe', 'pipe', 'inherit'] });
    const generator = new NodeGenerator(name, child);
    await generator.#readLine();
    return generator;
  }

  async round(seconds: number): Promise<GeneratorRound> {
    const beforeMs = this.#cpuMs();
    this.#child.stdin!.write(`${seconds}\n`);
    const { requests = 0, failed = 0, elapsedMs = 0 } = await this.#readLine();
    const cpuSeconds = (this.#cpuMs() - beforeMs) / 1_000;
    if (failed > 0) throw new Error(`${this.name}: ${failed} requests failed`);
    return { requests, perSecond: requests / (elapsedMs / 1_000), cpuSeconds };
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }

  async #readLine(): Promise<GeneratorLine> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error(`the process of ${this.name} has exited`);
    return JSON.parse(value) as GeneratorLine;
  }

  /** CPU time of the process that generates the load: with Remuster that is the runner, a child of this process. */
  #cpuMs(): number {
    const pid = this.#child.pid!;
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
    const generators = children.length === 0 ? [pid] : children.map(Number);
    return generators.reduce((sum, generator) => sum + cpuMs(generator), 0);
  }
}

/** Peers from npm. They are not dependencies, so they are installed in .cache. */
const npmPeers = ['autocannon@8.0.0', 'undici@8.12.4'];
export const npmFolder = resolve(import.meta.dirname, '../../.cache/bench-load');

/** Returns the reason if they cannot be installed. */
export function installNpmPeers(): string | undefined {
  const isInstalled = (spec: string): boolean => {
    const [name, version] = spec.split('@') as [string, string];
    const file = join(npmFolder, 'node_modules', name, 'package.json');
    return existsSync(file) && (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version === version;
  };
  if (npmPeers.every(isInstalled)) return undefined;
  printProgress(`load: installing ${npmPeers.join(' and ')} in .cache`);
  mkdirSync(npmFolder, { recursive: true });
  const args = ['install', '--prefix', npmFolder, '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'];
  try {
    execFileSync('npm', [...args, '--loglevel=error', ...npmPeers], { stdio: 'pipe', timeout: 180_000 });
    return undefined;
  } catch (error) {
    const reason = String((error as { stderr?: unknown }).stderr ?? error);
    return `npm could not install ${npmPeers.join(' and ')}: ${reason}`;
  }
}

function ticksPerSecond(): number {
  return Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
}
