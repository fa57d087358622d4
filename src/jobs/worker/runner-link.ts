/**
 * One runner as a worker sees it: a process that says when it is ready, is given one run at a time, and is gone once.
 * What it says is checked; a runner that says what it must not is killed. It may lie about its own run, and about no
 * other: every run has its own number.
 */
import type { Program, Runners, RunningProgram } from '../../base/ports.ts';
import type { AttemptName } from '../../messages/jobs.ts';
import { type FromRunner, fromRunnerCodec, toRunnerCodec } from '../runner-words.ts';

/** What a process was started with and cannot change later. */
export type RunnerShape = { readonly network: boolean; readonly memoryMb: number };

export type RunOrder = { readonly name: AttemptName; readonly order: Uint8Array };

export type RunEvents = {
  /** In order: started, progress, said; `ended` is the last one. */
  word(word: Exclude<FromRunner, { readonly kind: 'ready' }>): void;
  /** The process is gone before the run had ended. */
  gone(reason: string): void;
};

export type LinkParts = {
  readonly runners: Runners;
  readonly program: Program;
  readonly shape: RunnerShape;
  /** It ends by itself when this node stands still for so long. */
  readonly silenceMsMax: number;
};

export type LinkEvents = { ready(): void; gone(): void };

/** Longer than any unit: the worker itself watches over those. */
const lifetimeMsMax = 8 * 86_400_000;
const nothing = new Uint8Array(0);

export class RunnerLink {
  shape: RunnerShape;
  /** Whose code is in there; undefined as long as it is fresh. */
  use: { readonly bundle: string; readonly submitter: string } | undefined;
  readonly #events: LinkEvents;
  readonly #running: RunningProgram;
  #run = 0;
  #runEvents: RunEvents | undefined;
  #isReady = false;
  #isGone = false;
  #mistake: string | undefined;
  #whenGone: (() => void) | undefined;

  constructor({ runners, program, shape, silenceMsMax }: LinkParts, events: LinkEvents) {
    this.shape = shape;
    this.#events = events;
    const { network, memoryMb } = shape;
    const limits = { memoryBytesMax: memoryMb * 2 ** 20, lifetimeMsMax, network, silenceMsMax };
    this.#running = runners.start(
      { name: 'runner', program, data: nothing, limits },
      { message: (body) => this.#heard(body), exited: (reason) => this.#exited(reason) },
    );
  }

  get isReady(): boolean {
    return this.#isReady && !this.#isGone;
  }

  /** It got as far as running somebody's code, whatever became of it then. */
  get wasReady(): boolean {
    return this.#isReady;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Whether a fresh one that may use the network can be made one that may not. */
  get canDenyNetwork(): boolean {
    return this.#running.denyNetwork !== undefined;
  }

  denyNetwork(): void {
    this.#running.denyNetwork?.();
    this.shape = { ...this.shape, network: false };
  }

  /** Only when no other run is under way. The code goes along unless the runner has it. */
  run({ name: { attempt, fence }, order }: RunOrder, code: Uint8Array | undefined, events: RunEvents): void {
    this.#run += 1;
    this.#runEvents = events;
    this.#running.send(toRunnerCodec.encode({ kind: 'run', run: this.#run, order, code, attempt, fence }));
  }

  stop(why: string): void {
    if (!this.#isGone) this.#running.send(toRunnerCodec.encode({ kind: 'stop', run: this.#run, why }));
  }

  kill(): void {
    this.#running.kill();
  }

  /** For the one who waits for its end after the end of the run. */
  whenGone(done: () => void): void {
    this.#whenGone = done;
  }

  #heard(body: Uint8Array): void {
    if (this.#isGone || this.#mistake !== undefined) return;
    let word: FromRunner;
    try {
      word = fromRunnerCodec.decode(body);
    } catch (error) {
      return this.#broke(`it sent what is no word: ${error instanceof Error ? error.message : 'unreadable'}`);
    }
    if (word.kind === 'ready') {
      if (this.#isReady) return this.#broke('it said twice that it is ready');
      this.#isReady = true;
      return this.#events.ready();
    }
    if (word.run > this.#run || word.run === 0) return this.#broke('it spoke of a run that does not exist');
    // Late words of an earlier run tell nothing any more.
    if (word.run < this.#run || this.#runEvents === undefined) return;
    const events = this.#runEvents;
    if (word.kind === 'ended') this.#runEvents = undefined;
    events.word(word);
  }

  #broke(mistake: string): void {
    this.#mistake = `protocol: ${mistake}`;
    this.#running.kill();
  }

  #exited(reason: string): void {
    this.#isGone = true;
    const why = this.#mistake ?? reason;
    const events = this.#runEvents;
    this.#runEvents = undefined;
    this.#events.gone();
    events?.gone(why);
    this.#whenGone?.();
  }
}
