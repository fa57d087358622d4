/**
 * The parent's side of one runner process: messages, limits of memory, lifetime and output, kill of the process group.
 * Reports the exit once, with the first reason.
 */
import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import type { Duplex, Readable } from 'node:stream';
import type { ProgramEvents, RunnerLimits } from '../../base/ports.ts';
import { type PipeFrame, PipeFrameReader, PipeFrameWriter } from './pipe-frames.ts';
import { keepAliveFd, runnerFrameKind, pipeFd } from './runner-protocol.ts';

const checkIntervalMs = 50;
/** Input per check interval; the rest is read in the next one, so that a flood slows down the runner, not the node. */
const outputBytesPerCheck = 64 * 2 ** 10;
const messagesPerCheck = 2_000;
const messageBytesPerCheck = 32 * 2 ** 20;
const outputTailCharacters = 4_000;
const queuedBytesMax = 64 * 2 ** 20;
const keepAliveByte = new Uint8Array(1);
const checksPerKeepAlive = 8;
/** How long the pipes of a dead process may take to end. */
const drainMsMax = 1_000;
const decoder = new TextDecoder();

export class RunnerProcess {
  readonly #child: ChildProcess;
  readonly #pipe: Duplex;
  readonly #keepAlive: Duplex;
  readonly #onCheck: () => void;
  readonly #events: ProgramEvents;
  readonly #limits: RunnerLimits;
  readonly #reader = new PipeFrameReader();
  /** Frames of the current event loop turn, sent in one write. */
  readonly #outbox = new PipeFrameWriter();
  readonly #checks: NodeJS.Timeout;
  readonly #lifetime: NodeJS.Timeout;
  #drain: NodeJS.Timeout | undefined;
  #reason: string | undefined;
  #outputBytes = 0;
  #messages = 0;
  #messageBytes = 0;
  #checkCount = 0;
  /** The end of its stderr, where Node writes why it aborted. */
  #outputTail = '';
  #exitText = 'exit: it ended';
  #hasExited = false;
  /** The exit is reported and all streams are closed. */
  #isClosed = false;

  /** `onCheck` is called at each check interval. */
  constructor(child: ChildProcess, limits: RunnerLimits, events: ProgramEvents, onCheck: () => void) {
    this.#child = child;
    this.#onCheck = onCheck;
    this.#limits = limits;
    this.#events = events;
    this.#pipe = child.stdio[pipeFd] as Duplex;
    this.#keepAlive = child.stdio[keepAliveFd] as Duplex;
    this.#checks = setInterval(() => this.#check(), checkIntervalMs);
    const lifetimeMs = Math.min(limits.lifetimeMsMax, 2 ** 31 - 1);
    this.#lifetime = setTimeout(() => this.kill(`lifetime: still running after ${lifetimeMs} ms`), lifetimeMs);
    this.#pipe.on('data', (chunk: Uint8Array) => this.#onChunk(chunk));
    // A broken pipe is followed by the exit, which has a better reason.
    this.#pipe.on('error', () => undefined);
    this.#keepAlive.on('error', () => undefined);
    // Must be read, or `close` is never emitted.
    this.#keepAlive.resume();
    for (const output of [child.stdout, child.stderr])
      output?.on('data', (chunk: Buffer) => this.#onOutput(output, chunk));
    child.once('error', (error) => {
      this.#reason ??= `cannot start: ${error.message}`;
      if (child.pid === undefined) this.#close();
    });
    child.once('exit', (code, signal) => this.#onExit(code, signal));
    child.once('close', () => this.#close());
  }

  send(kind: number, body: Uint8Array): void {
    if (this.#hasExited || this.#pipe.destroyed) return;
    if (this.#outbox.count === 0) process.nextTick(this.#flush);
    this.#outbox.add(kind, body);
  }

  readonly #flush = (): void => {
    if (this.#hasExited || this.#pipe.destroyed) return;
    for (const part of this.#outbox.take()) this.#pipe.write(part);
    if (this.#pipe.writableLength > queuedBytesMax)
      this.kill(`inbox: it does not read its messages, and more than ${megabytes(queuedBytesMax)} wait`);
  };

  kill(reason: string): void {
    if (this.#hasExited) return;
    this.#reason ??= reason;
    this.#killGroup();
  }

  #killGroup(): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      // The group is empty: all of its processes have ended.
    }
  }

  #onChunk(chunk: Uint8Array): void {
    this.#messageBytes += chunk.length;
    for (const { kind, body } of this.#framesIn(chunk)) {
      if (this.#isClosed) return;
      this.#messages += 1;
      if (kind === runnerFrameKind.message) this.#events.message(body);
      else if (kind === runnerFrameKind.failed) this.#reason ??= `error: ${decoder.decode(body.subarray(0, 4_000))}`;
      else this.kill(`protocol: it sent a frame of unknown kind ${kind}`);
    }
    if (this.#messages > messagesPerCheck || this.#messageBytes > messageBytesPerCheck) this.#pipe.pause();
  }

  #framesIn(chunk: Uint8Array): readonly PipeFrame[] {
    try {
      return this.#reader.read(chunk);
    } catch (error) {
      this.kill(`protocol: ${error instanceof Error ? error.message : 'unreadable'}`);
      this.#pipe.destroy();
      return [];
    }
  }

  #onOutput(output: Readable, chunk: Buffer): void {
    if (output === this.#child.stderr) {
      this.#outputTail = (this.#outputTail + chunk.toString('latin1')).slice(-outputTailCharacters);
    }
    this.#outputBytes += chunk.length;
    if (this.#outputBytes > outputBytesPerCheck) output.pause();
  }

  #check(): void {
    this.#outputBytes = 0;
    this.#messages = 0;
    this.#messageBytes = 0;
    this.#pipe.resume();
    this.#checkCount += 1;
    if (this.#checkCount % checksPerKeepAlive === 0 && this.#keepAlive.writableLength === 0) {
      this.#keepAlive.write(keepAliveByte);
    }
    this.#onCheck();
    this.#child.stdout?.resume();
    this.#child.stderr?.resume();
    const used = this.#hasExited ? 0 : usedBytes(this.#child.pid);
    const { memoryBytesMax } = this.#limits;
    if (used > memoryBytesMax) this.kill(`memory: it uses ${megabytes(used)} of ${megabytes(memoryBytesMax)}`);
  }

  #onExit(code: number | null, signal: NodeJS.Signals | null): void {
    this.#hasExited = true;
    this.#killGroup();
    clearTimeout(this.#lifetime);
    if (this.#outputTail.includes('JavaScript heap out of memory')) {
      this.#reason ??= `memory: the heap is full; the process may use ${megabytes(this.#limits.memoryBytesMax)} in all`;
    }
    this.#drain = setTimeout(() => this.#close(), drainMsMax);
    this.#exitText = signal === null ? `exit: it exited with exit code ${code}` : `signal: ${signal} ended it`;
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#checks);
    clearTimeout(this.#lifetime);
    clearTimeout(this.#drain);
    for (const stream of this.#child.stdio) stream?.destroy();
    this.#events.exited(this.#reason ?? this.#exitText + tailText(this.#outputTail));
  }
}

/** The end of its output, on one line of printable ASCII. */
function tailText(output: string): string {
  const plain = output.replaceAll(/[^\x21-\x7e]+/g, ' ').trim();
  return plain === '' ? '' : `; its last output: ${plain.slice(-300)}`;
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 2 ** 20)} MiB`;
}

/**
 * Private and shared memory of the process, without mapped files. Zero where the system does not report it. The heap
 * has a limit of its own; this one includes buffers outside the heap.
 */
function usedBytes(pid: number | undefined): number {
  if (process.platform !== 'linux' || pid === undefined) return 0;
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    return (kilobytesOf(status, 'RssAnon') + kilobytesOf(status, 'RssShmem')) * 1024;
  } catch {
    return 0;
  }
}

function kilobytesOf(status: string, name: string): number {
  const start = status.indexOf(`${name}:`);
  return start < 0 ? 0 : Number.parseInt(status.slice(start + name.length + 1, start + name.length + 24), 10);
}

/** When the machine runs out of memory, the kernel then kills a runner before a node. */
export function preferForOomKill(pid: number | undefined): void {
  if (process.platform !== 'linux' || pid === undefined) return;
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, '1000');
  } catch {
    // Not allowed here, or the process has ended: it is only a preference.
  }
}
