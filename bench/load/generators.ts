/**
 * Load generators pinned to one core; requests and CPU time per round. Node programs are processes that live through
 * all rounds, so that no start is measured.
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
const pinning = 'taskset';
const endsWithUs = 'setpriv';

export function wrkGenerator(url: string, connections: number, core: number): LoadGenerator {
  return {
    name: 'wrk',
    round: async (seconds) => {
      // The shell knows what its children took, once they have ended.
      const script = 'wrk -t1 -c"$0" -d"$1"s "$2" && cat /proc/$$/stat';
      const words = ['-c', String(core), 'sh', '-c', script, String(connections), String(seconds), url];
      const { stdout } = await promisify(execFile)(pinning, words);
      const requests = Number(/(\d+) requests in/.exec(stdout)?.[1]);
      const fields = stdout.slice(stdout.lastIndexOf(') ')).split(' ');
      const ticks = Number(fields[14]) + Number(fields[15]);
      const perSecond = Number(/Requests\/sec: +([\d.]+)/.exec(stdout)?.[1]);
      return { requests, perSecond, cpuSeconds: ticks / ticksPerSecond() };
    },
    stop: () => Promise.resolve(),
  };
}

/** What a process says: `{"ready":true}`, and what it counted in each round. */
type Said = {
  readonly ready?: boolean;
  readonly requests?: number;
  readonly failed?: number;
  readonly tookMs?: number;
};

/** A program that makes a round of so many seconds for each line it reads, and says in one line what came of it. */
export class NodeGenerator implements LoadGenerator {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  private constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  }

  static async start(name: string, file: string, words: readonly string[], core: number): Promise<NodeGenerator> {
    const program = [process.execPath, join(import.meta.dirname, file), ...words];
    const pinned = ['--pdeathsig', 'KILL', pinning, '-c', String(core), ...program];
    const child = spawn(endsWithUs, pinned, { stdio: ['pipe', 'pipe', 'inherit'] });
    const side = new NodeGenerator(name, child);
    await side.#said();
    return side;
  }

  async round(seconds: number): Promise<GeneratorRound> {
    const beforeMs = this.#cpuMs();
    this.#child.stdin!.write(`${seconds}\n`);
    const { requests = 0, failed = 0, tookMs = 0 } = await this.#said();
    const cpuSeconds = (this.#cpuMs() - beforeMs) / 1_000;
    if (failed > 0) throw new Error(`${this.name}: ${failed} requests failed`);
    return { requests, perSecond: requests / (tookMs / 1_000), cpuSeconds };
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exited;
  }

  async #said(): Promise<Said> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error(`${this.name} has ended`);
    return JSON.parse(value) as Said;
  }

  /** Of whoever makes the load: with ours that is the process of the runner, a child of the one that stands for a worker. */
  #cpuMs(): number {
    const pid = this.#child.pid!;
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
    return (children.length === 0 ? [pid] : children.map(Number)).reduce((sum, one) => sum + cpuMs(one), 0);
  }
}

/** The peers that come from npm; not dependencies, so they live beside the others, in .cache. */
const npmPeers = ['autocannon@8.0.0', 'undici@8.12.4'];
export const npmFolder = resolve(import.meta.dirname, '../../.cache/bench-load');

/** Undefined when they are there now, otherwise why they are not. */
export function installNpmPeers(): string | undefined {
  const isThere = (spec: string): boolean => {
    const [name, version] = spec.split('@') as [string, string];
    const file = join(npmFolder, 'node_modules', name, 'package.json');
    return existsSync(file) && (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version === version;
  };
  if (npmPeers.every(isThere)) return undefined;
  printProgress(`load: installing ${npmPeers.join(' and ')} in .cache`);
  mkdirSync(npmFolder, { recursive: true });
  const words = ['install', '--prefix', npmFolder, '--no-save', '--ignore-scripts', '--no-audit', '--no-fund'];
  try {
    execFileSync('npm', [...words, '--loglevel=error', ...npmPeers], { stdio: 'pipe', timeout: 180_000 });
    return undefined;
  } catch (error) {
    return `npm could not install ${npmPeers.join(' and ')}: ${String((error as { stderr?: unknown }).stderr ?? error)}`;
  }
}

function ticksPerSecond(): number {
  return Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
}
