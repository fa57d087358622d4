/**
 * One node as a child process: start, readiness, signals, exit. Signals go through the child handle, never to a process
 * id that another process may have got since.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, statSync, truncateSync } from 'node:fs';
import { errorTable } from '../../base/error-table.ts';
import { RemusterError, parseErrorCode } from '../../base/errors.ts';

export type ReadyLine = { readonly id: string; readonly port: number; readonly httpPort: number };

export type NodeProcessSpec = {
  readonly name: string;
  readonly entry: string;
  readonly args: readonly string[];
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
  /** Resolves with the exit code or signal; never rejects. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #logFile: string;
  /** Where the log of this process begins in the file; former processes of the node wrote what is before it. */
  readonly #logFrom: number;
  #paused = false;

  constructor(spec: NodeProcessSpec) {
    this.name = spec.name;
    this.#logFile = spec.logFile;
    const log = openSync(spec.logFile, 'a', 0o600);
    this.#logFrom = statSync(spec.logFile).size;
    this.#child = spawn(process.execPath, [spec.entry, ...spec.args], {
      cwd: spec.folder,
      env: { ...spec.environment },
      // The log goes straight into a file: a pipe would break when the parent is killed, while the node still stops.
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

  /** Requests an orderly stop. A paused process cannot handle the signal, so it is resumed first. */
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

  /** Empties a log that has grown too large; safe while the node writes, because it appends. */
  truncateLog(): void {
    try {
      if (statSync(this.#logFile).size > logBytesMax) truncateSync(this.#logFile, 0);
    } catch {
      // The file was removed.
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
          reject(new RemusterError('INTERNAL', `node ${this.name} printed an invalid ready line: ${line}`));
        else resolve({ id: read.id, port: read.port, httpPort: read.httpPort });
      });
    });
    const early = this.ended.then((how) => {
      throw startError(this.name, how, this.logTail());
    });
    return await Promise.race([found, early]);
  }
}

/** The coded error that the node printed last, or INTERNAL if it printed none. */
function startError(name: string, how: string, tail: string): RemusterError {
  const [, code, message] = /^error ([A-Z_]+): (.*)$/m.exec(tail) ?? [];
  if (code !== undefined && message !== undefined && code in errorTable)
    return new RemusterError(parseErrorCode(code), `node ${name} cannot start: ${message}`, 'no');
  return new RemusterError('INTERNAL', `node ${name} ended before it was ready (${how})\n${tail}`);
}
