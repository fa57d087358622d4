/**
 * One runner process seen from outside: memory, lifetime and output limits, messages, kill of the process group.
 * Reports its end once, with the first reason.
 */
import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import type { Duplex, Readable } from 'node:stream';
import type { ProgramEvents, RunnerLimits } from '../../base/ports.ts';
import { type PipeFrame, PipeFrameReader, PipeFrameWriter } from './pipe-frames.ts';
import { keepAliveFd, runnerFrameKind, pipeFd } from './runner-protocol.ts';

const lookEveryMs = 50;
const outputBytesPerLook = 64 * 2 ** 10;
const outputKeptCharacters = 4_000;
const queuedBytesMax = 64 * 2 ** 20;
/** Of what it says, per look: more is read at the next one. */
const wordsPerLook = 2_000;
const wordBytesPerLook = 32 * 2 ** 20;
const beat = new Uint8Array(1);
const looksPerBeat = 8;
/** How long the pipes of a dead process may take to run dry. */
const drainMsMax = 1_000;
const decoder = new TextDecoder();

export class RunnerProcess {
  readonly #child: ChildProcess;
  readonly #line: Duplex;
  readonly #beats: Duplex;
  readonly #looked: () => void;
  readonly #events: ProgramEvents;
  readonly #limits: RunnerLimits;
  readonly #reader = new PipeFrameReader();
  /** What is sent in one turn goes out in one piece. */
  readonly #unsent = new PipeFrameWriter();
  readonly #look: NodeJS.Timeout;
  readonly #lifetime: NodeJS.Timeout;
  #drain: NodeJS.Timeout | undefined;
  #reason: string | undefined;
  #outputBytes = 0;
  #words = 0;
  #wordBytes = 0;
  #looks = 0;
  /** The end of what it wrote to stderr: Node says there why it gave up. */
  #lastOutput = '';
  #exitText = 'exit: it ended';
  #hasExited = false;
  #isOver = false;

  /** `looked`: called with each look at the process. */
  constructor(child: ChildProcess, limits: RunnerLimits, events: ProgramEvents, looked: () => void) {
    this.#child = child;
    this.#looked = looked;
    this.#limits = limits;
    this.#events = events;
    this.#line = child.stdio[pipeFd] as Duplex;
    this.#beats = child.stdio[keepAliveFd] as Duplex;
    this.#look = setInterval(() => this.#watch(), lookEveryMs);
    const lifetimeMs = Math.min(limits.lifetimeMsMax, 2 ** 31 - 1);
    this.#lifetime = setTimeout(() => this.kill(`lifetime: still running after ${lifetimeMs} ms`), lifetimeMs);
    this.#line.on('data', (chunk: Uint8Array) => this.#received(chunk));
    // A broken pipe is followed by the exit, which says more.
    this.#line.on('error', () => undefined);
    this.#beats.on('error', () => undefined);
    // It is read, or the end of the process would not be seen.
    this.#beats.resume();
    for (const output of [child.stdout, child.stderr])
      output?.on('data', (chunk: Buffer) => this.#printed(output, chunk));
    child.once('error', (error) => {
      this.#reason ??= `cannot start: ${error.message}`;
      if (child.pid === undefined) this.#over();
    });
    child.once('exit', (code, signal) => this.#exited(code, signal));
    child.once('close', () => this.#over());
  }

  send(kind: number, body: Uint8Array): void {
    if (this.#hasExited || this.#line.destroyed) return;
    if (this.#unsent.count === 0) process.nextTick(this.#flush);
    this.#unsent.add(kind, body);
  }

  readonly #flush = (): void => {
    if (this.#hasExited || this.#line.destroyed) return;
    for (const part of this.#unsent.take()) this.#line.write(part);
    if (this.#line.writableLength > queuedBytesMax) this.kill('inbox: it does not read what it is sent');
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
      // The group is empty: everything in it is dead already.
    }
  }

  #received(chunk: Uint8Array): void {
    this.#wordBytes += chunk.length;
    for (const { kind, body } of this.#framesIn(chunk)) {
      if (this.#isOver) return;
      this.#words += 1;
      if (kind === runnerFrameKind.message) this.#events.message(body);
      else if (kind === runnerFrameKind.failed) this.#reason ??= `error: ${decoder.decode(body.subarray(0, 4_000))}`;
      else this.kill(`protocol: it sent a frame of kind ${kind}`);
    }
    if (this.#words > wordsPerLook || this.#wordBytes > wordBytesPerLook) this.#line.pause();
  }

  #framesIn(chunk: Uint8Array): readonly PipeFrame[] {
    try {
      return this.#reader.read(chunk);
    } catch (error) {
      this.kill(`protocol: ${error instanceof Error ? error.message : 'unreadable'}`);
      this.#line.destroy();
      return [];
    }
  }

  /** Reads no more than so much per look: who floods its output is slowed down, not we. */
  #printed(output: Readable, chunk: Buffer): void {
    if (output === this.#child.stderr) {
      this.#lastOutput = (this.#lastOutput + chunk.toString('latin1')).slice(-outputKeptCharacters);
    }
    this.#outputBytes += chunk.length;
    if (this.#outputBytes > outputBytesPerLook) output.pause();
  }

  #watch(): void {
    this.#outputBytes = 0;
    this.#words = 0;
    this.#wordBytes = 0;
    this.#line.resume();
    this.#looks += 1;
    if (this.#looks % looksPerBeat === 0 && this.#beats.writableLength === 0) this.#beats.write(beat);
    this.#looked();
    this.#child.stdout?.resume();
    this.#child.stderr?.resume();
    const used = this.#hasExited ? 0 : usedBytes(this.#child.pid);
    const { memoryBytesMax } = this.#limits;
    if (used > memoryBytesMax) this.kill(`memory: it uses ${megabytes(used)} of ${megabytes(memoryBytesMax)}`);
  }

  #exited(code: number | null, signal: NodeJS.Signals | null): void {
    this.#hasExited = true;
    this.#killGroup();
    clearTimeout(this.#lifetime);
    if (this.#lastOutput.includes('JavaScript heap out of memory')) {
      this.#reason ??= `memory: the heap is full, with ${megabytes(this.#limits.memoryBytesMax)} allowed in all`;
    }
    this.#drain = setTimeout(() => this.#over(), drainMsMax);
    this.#exitText = signal === null ? `exit: it ended itself with code ${code}` : `signal: it died of ${signal}`;
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearInterval(this.#look);
    clearTimeout(this.#lifetime);
    clearTimeout(this.#drain);
    for (const stream of this.#child.stdio) stream?.destroy();
    this.#events.exited(this.#reason ?? this.#exitText + outputTail(this.#lastOutput));
  }
}

/** The end of what it printed, on one line of plain characters. */
function outputTail(output: string): string {
  const plain = output.replaceAll(/[^\x21-\x7e]+/g, ' ').trim();
  return plain === '' ? '' : `; it last wrote: ${plain.slice(-300)}`;
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 2 ** 20)} MiB`;
}

/**
 * What it has taken for itself, without the program files that all share. Zero where the system does not tell. The heap has
 * its own limit; this one sees buffers outside it, too.
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

/** When the machine runs out of memory, a runner dies before a node does. */
export function preferForOomKill(pid: number | undefined): void {
  if (process.platform !== 'linux' || pid === undefined) return;
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, '1000');
  } catch {
    // Not allowed here, or already gone: it was only a preference.
  }
}
