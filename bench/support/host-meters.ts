/**
 * Readings of the kernel: CPU and memory of a process, traffic of a network namespace. The same reading for both sides,
 * so that what it includes (headers, acknowledgements) it includes for both.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';

import { printProgress } from './harness.ts';

export class NetworkNamespace {
  readonly #holder: ChildProcess | undefined;

  private constructor(holder: ChildProcess | undefined) {
    this.#holder = holder;
  }

  /** Its loopback carries nothing but this side. Needs root; without it, both sides use the loopback of the machine. */
  static async open(): Promise<NetworkNamespace> {
    const holder = spawn('unshare', ['--net', 'sh', '-c', 'ip link set lo up && echo up && exec cat'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    holder.on('error', () => undefined);
    const up = await Promise.race([
      once(holder.stdout, 'data').then(() => true),
      once(holder, 'close').then(() => false),
    ]);
    if (up) return new NetworkNamespace(holder);
    printProgress(
      'membership: no network of its own for each side; traffic is what the loopback of the machine carries',
    );
    return new NetworkNamespace(undefined);
  }

  /** Runs a command in this network, and ends it with us: an agent must not outlive the bench. */
  commandInside(command: readonly string[]): readonly [file: string, words: readonly string[]] {
    const bound = ['setpriv', '--pdeathsig', 'KILL', ...command];
    const pid = this.#holder?.pid;
    const [file, ...words] = pid === undefined ? bound : ['nsenter', `--net=/proc/${pid}/ns/net`, ...bound];
    return [file!, words];
  }

  /** What was sent on the loopback so far, with all headers. */
  traffic(): { readonly bytes: number; readonly packets: number } {
    const table = readFileSync(`/proc/${this.#holder?.pid ?? 'self'}/net/dev`, 'utf8');
    const numbers = /^\s*lo:\s*(.*)$/m.exec(table)![1]!.split(/\s+/).map(Number);
    return { bytes: numbers[8]!, packets: numbers[9]! };
  }

  async close(): Promise<void> {
    if (this.#holder === undefined) return;
    const closed = once(this.#holder, 'close');
    this.#holder.stdin?.end();
    await closed;
  }
}

let ticksPerSecond: number | undefined;

/** User and system time of a process, all threads, since its start. */
export function cpuMs(pid: number): number {
  ticksPerSecond ??= Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return ((Number(fields[11]) + Number(fields[12])) / ticksPerSecond) * 1_000;
}

export function residentMib(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024;
}
