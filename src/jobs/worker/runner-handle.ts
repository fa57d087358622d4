/**
 * Wraps one runner process: run, stop, kill. Validates every event; a protocol violation kills the process. An event
 * can only affect its own run.
 */
import { CompactingMap } from '../../base/collections/compacting-map.ts';
import type { Program, Runners, RunningProgram } from '../../base/ports.ts';
import type { AttemptId } from '../../messages/jobs.ts';
import { type RunnerEvent, runnerEventCodec, runnerCommandCodec } from '../runner-protocol.ts';

/** What a process was started with and cannot change later. */
export type RunnerProfile = { readonly network: boolean; readonly memoryMb: number };

export type RunRequest = { readonly name: AttemptId; readonly spec: Uint8Array };

export type RunEvents = {
  /** In order: started, progress, said; `ended` is the last one. */
  word(word: Exclude<RunnerEvent, { readonly kind: 'ready' }>): void;
  /** The process is gone before the run had ended. */
  gone(reason: string): void;
};

export type RunnerHandleOptions = {
  readonly runners: Runners;
  readonly program: Program;
  readonly shape: RunnerProfile;
  /** It ends by itself when this node stands still for so long. */
  readonly silenceMsMax: number;
};

export type RunnerHandleEvents = { ready(): void; gone(): void };

/** Longer than any unit: the worker itself watches over those. */
const lifetimeMsMax = 8 * 86_400_000;
const nothing = new Uint8Array(0);
/** Runs that are given ahead wait for one that should be over in a moment; a runner that was quick so far is trusted. */
const aheadMax = 40;
const refillBelow = 12;
const quickMs = 10;
/** Of work that waits in a runner, as far as one can tell. */
const aheadMs = 40;
const endedMin = 3;

export class RunnerHandle {
  shape: RunnerProfile;
  /** Whose code is in there; undefined as long as it is fresh. */
  boundTo: { readonly bundle: string; readonly submitter: string } | undefined;
  readonly #events: RunnerHandleEvents;
  readonly #running: RunningProgram;
  /** What was given and has not ended, in order. */
  readonly #runs = new CompactingMap<number, RunEvents>();
  #lastRun = 0;
  #aheadMax = 0;
  /** How many runs it has ended, and how long they took of late. */
  #ended = 0;
  #paceMs = 0;
  #isReady = false;
  #isGone = false;
  #mistake: string | undefined;
  #whenGone: (() => void) | undefined;

  constructor({ runners, program, shape, silenceMsMax }: RunnerHandleOptions, events: RunnerHandleEvents) {
    this.shape = shape;
    this.#events = events;
    const { network, memoryMb } = shape;
    const limits = { memoryBytesMax: memoryMb * 2 ** 20, lifetimeMsMax, network, parentStallMsMax: silenceMsMax };
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

  /** How many further runs can be given to it while it is busy: it keeps some, its runs are short, and it has few left. */
  get prefetchCapacity(): number {
    const isQuick = this.#ended >= endedMin && this.#paceMs <= quickMs;
    // Not one by one: each message wakes the process.
    if (!isQuick || this.#runs.size === 0 || this.#runs.size > refillBelow) return 0;
    const most = Math.min(this.#aheadMax, aheadMax, Math.ceil(aheadMs / Math.max(1, this.#paceMs)));
    return Math.max(0, most + 1 - this.#runs.size);
  }

  /** The code goes along unless the runner has it. Gives the number of the run. */
  run({ name: { attempt, fence }, spec }: RunRequest, code: Uint8Array | undefined, events: RunEvents): number {
    this.#lastRun += 1;
    const run = this.#lastRun;
    this.#runs.set(run, events);
    this.#running.send(runnerCommandCodec.encode({ kind: 'run', run, spec, code, attempt, fence }));
    return run;
  }

  stop(run: number, why: string): void {
    if (!this.#isGone) this.#running.send(runnerCommandCodec.encode({ kind: 'stop', run, why }));
  }

  /** A run of it ended well after so long. */
  recordDuration(durationMs: number): void {
    this.#ended += 1;
    this.#paceMs = this.#ended === 1 ? durationMs : 0.8 * this.#paceMs + 0.2 * durationMs;
  }

  kill(): void {
    this.#running.kill();
  }

  /** For the one who waits for its end after the end of the run. */
  onceGone(done: () => void): void {
    this.#whenGone = done;
  }

  #heard(body: Uint8Array): void {
    if (this.#isGone || this.#mistake !== undefined) return;
    let word: RunnerEvent;
    try {
      word = runnerEventCodec.decode(body);
    } catch (error) {
      return this.#broke(`it sent what is no word: ${error instanceof Error ? error.message : 'unreadable'}`);
    }
    if (word.kind === 'ready') {
      if (this.#isReady) return this.#broke('it said twice that it is ready');
      this.#isReady = true;
      this.#aheadMax = word.prefetch ?? 0;
      return this.#events.ready();
    }
    if (word.run > this.#lastRun || word.run === 0) return this.#broke('it spoke of a run that does not exist');
    const events = this.#runs.get(word.run);
    // Late words of an earlier run tell nothing any more.
    if (events === undefined) return;
    if (word.kind === 'ended') this.#runs.delete(word.run);
    else if (this.#runs.keys().next().value !== word.run) return this.#broke('it spoke of a run before its turn');
    events.word(word);
  }

  #broke(mistake: string): void {
    this.#mistake = `protocol: ${mistake}`;
    this.#running.kill();
  }

  #exited(reason: string): void {
    this.#isGone = true;
    const why = this.#mistake ?? reason;
    const runs = [...this.#runs.values()];
    this.#runs.clear();
    this.#events.gone();
    for (const events of runs) events.gone(why);
    this.#whenGone?.();
  }
}
