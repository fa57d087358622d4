/**
 * One node as a child process: start, readiness, signals, exit. Signals by handle, so never a foreign process that got
 * the same number.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, statSync, truncateSync } from 'node:fs';
import { errorTable } from '../../base/error-table.ts';
import { RemusterError, parseErrorCode } from '../../base/errors.ts';

export type ReadyLine = { readonly id: string; readonly port: number; readonly httpPort: number };

export type NodeProcessSpec = {
  readonly name: string;
  readonly entry: string;
  readonly words: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly logFile: string;
};

const readyLineMax = 65_536;
const logBytesMax = 16 * 1_048_576;
const logTailLines = 8;

export class NodeProcess {
  readonly name: string;
  /** Rejects when the process ends before it is ready. */
  readonly ready: Promise<ReadyLine>;
  /** How it ended: never rejects. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #logFile: string;
  /** What stands before it in the file is of former lives. */
  readonly #logFrom: number;
  #paused = false;

  constructor(spec: NodeProcessSpec) {
    this.name = spec.name;
    this.#logFile = spec.logFile;
    const log = openSync(spec.logFile, 'a', 0o600);
    this.#logFrom = statSync(spec.logFile).size;
    this.#child = spawn(process.execPath, [spec.entry, ...spec.words], {
      cwd: spec.folder,
      env: { ...spec.environment },
      // The log goes straight into a file: a pipe would break when this process is killed, in the middle of a goodbye.
      stdio: ['pipe', 'pipe', log],
    });
    closeSync(log);
    this.ended = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => resolve(signal === null ? `exit code ${code}` : `signal ${signal}`));
      this.#child.once('error', (error) => resolve(`cannot start: ${error.message}`));
    });
    this.ready = this.#readReady();
    this.ready.catch(() => undefined);
    this.#child.stdin?.on('error', () => undefined);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get isUp(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null && this.#child.pid !== undefined;
  }

  get isPaused(): boolean {
    return this.#paused;
  }

  /** Asks for an end in good order. A stopped process cannot hear, so it is woken first. */
  leave(): void {
    this.resume();
    this.#child.kill('SIGTERM');
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  pause(): void {
    this.#paused = this.#child.kill('SIGSTOP');
  }

  resume(): void {
    if (this.#paused) this.#child.kill('SIGCONT');
    this.#paused = false;
  }

  logTail(): string {
    try {
      const own = readFileSync(this.#logFile).subarray(this.#logFrom).toString('utf8');
      return own.trimEnd().split('\n').slice(-logTailLines).join('\n');
    } catch {
      return '';
    }
  }

  /** The node appends, so cutting the file down to nothing is safe while it writes. */
  truncateLog(): void {
    try {
      if (statSync(this.#logFile).size > logBytesMax) truncateSync(this.#logFile, 0);
    } catch {
      // The file is gone, and so is the problem.
    }
  }

  async #readReady(): Promise<ReadyLine> {
    const found = new Promise<ReadyLine>((resolve, reject) => {
      let text = '';
      this.#child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
        text = (text + chunk).slice(0, readyLineMax);
        const line = /^\{"ready":true.*\}$/m.exec(text)?.[0];
        if (line === undefined) return;
        const read = JSON.parse(line) as Partial<ReadyLine>;
        if (read.id === undefined || !read.port || !read.httpPort)
          reject(new RemusterError('INTERNAL', `node ${this.name} said ${line}`));
        else resolve({ id: read.id, port: read.port, httpPort: read.httpPort });
      });
    });
    const early = this.ended.then((how) => {
      throw startError(this.name, how, this.logTail());
    });
    return await Promise.race([found, early]);
  }
}

/** The node's own coded error, which its command printed last; INTERNAL only if it ended without one. */
function startError(name: string, how: string, tail: string): RemusterError {
  const [, code, message] = /^error ([A-Z_]+): (.*)$/m.exec(tail) ?? [];
  if (code !== undefined && message !== undefined && code in errorTable)
    return new RemusterError(parseErrorCode(code), `node ${name} does not start: ${message}`, 'no');
  return new RemusterError('INTERNAL', `node ${name} ended before it was ready (${how})\n${tail}`);
}
