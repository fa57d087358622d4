/**
 * Readings of the kernel: CPU time and memory of a process, traffic of a network namespace. Both sides are read in the
 * same way, so headers and acknowledgements count for both.
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

  /** A namespace whose loopback carries only this side. Needs root; otherwise both sides use that of the machine. */
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
      'membership: cannot create a network namespace, so traffic includes everything on the loopback of the machine',
    );
    return new NetworkNamespace(undefined);
  }

  /** A command line that runs a command in this namespace and ends it with the bench. */
  commandInside(command: readonly string[]): readonly [file: string, args: readonly string[]] {
    const bound = ['setpriv', '--pdeathsig', 'KILL', ...command];
    const pid = this.#holder?.pid;
    const [file, ...args] = pid === undefined ? bound : ['nsenter', `--net=/proc/${pid}/ns/net`, ...bound];
    return [file!, args];
  }

  /** Bytes and packets sent on the loopback so far, with all headers. */
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

/** User and system time of all threads of a process since its start. */
export function cpuMs(pid: number): number {
  ticksPerSecond ??= Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  return ((Number(fields[11]) + Number(fields[12])) / ticksPerSecond) * 1_000;
}

export function residentMib(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024;
}
