/**
 * Owns one runner process: runs, stops, kills. An event affects only its own run; an event that violates the protocol
 * kills the process. Never decides which unit runs.
 */
import { CompactingMap } from '../../base/collections/compacting-map.ts';
import type { Program, Runners, RunningProgram } from '../../base/ports.ts';
import type { AttemptId } from '../../messages/jobs.ts';
import { type RunnerEvent, runnerEventCodec, runnerCommandCodec } from '../runner-protocol.ts';

/** Rights and limits that a process starts with. */
export type RunnerProfile = { readonly network: boolean; readonly memoryMb: number };

export type RunRequest = { readonly id: AttemptId; readonly spec: Uint8Array };

export type RunEvent = Exclude<RunnerEvent, { readonly kind: 'ready' }>;

export type RunEvents = {
  /** In order; `ended` is the last one. */
  event(event: RunEvent): void;
  /** The process exited before the run ended. */
  gone(reason: string): void;
};

export type RunnerHandleOptions = {
  readonly runners: Runners;
  readonly program: Program;
  readonly profile: RunnerProfile;
  /** The runner exits by itself when this node is paused for longer. */
  readonly parentStallMsMax: number;
};

export type RunnerHandleEvents = { ready(): void; gone(): void };

/** Longer than any unit; the worker itself enforces the timeouts of units. */
const lifetimeMsMax = 8 * 86_400_000;
const noData = new Uint8Array(0);
/** Prefetched runs wait in the runner for the current one; only a runner with short runs so far gets any. */
const prefetchMax = 40;
const refillBelow = 12;
const shortRunMs = 10;
/** Expected duration of the work that waits in a runner. */
const prefetchMs = 40;
const endedRunsMin = 3;

export class RunnerHandle {
  profile: RunnerProfile;
  /** The only bundle and submitter that it may run; undefined while it is fresh. */
  boundTo: { readonly bundle: string; readonly submitter: string } | undefined;
  readonly #events: RunnerHandleEvents;
  readonly #running: RunningProgram;
  /** Runs that have not ended, in order. */
  readonly #runs = new CompactingMap<number, RunEvents>();
  #lastRun = 0;
  #prefetchMax = 0;
  #endedRuns = 0;
  /** Moving average of the durations of its runs. */
  #averageMs = 0;
  #isReady = false;
  #isGone = false;
  #violation: string | undefined;
  #onceGone: (() => void) | undefined;

  constructor({ runners, program, profile, parentStallMsMax }: RunnerHandleOptions, events: RunnerHandleEvents) {
    this.profile = profile;
    this.#events = events;
    const { network, memoryMb } = profile;
    const limits = { memoryBytesMax: memoryMb * 2 ** 20, lifetimeMsMax, network, parentStallMsMax };
    this.#running = runners.start(
      { name: 'runner', program, data: noData, limits },
      { message: (body) => this.#onMessage(body), exited: (reason) => this.#onExit(reason) },
    );
  }

  get isReady(): boolean {
    return this.#isReady && !this.#isGone;
  }

  /** True once it has been ready, also after its exit. */
  get wasReady(): boolean {
    return this.#isReady;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** True if a fresh runner can give up its right to use the network. */
  get canDenyNetwork(): boolean {
    return this.#running.denyNetwork !== undefined;
  }

  denyNetwork(): void {
    this.#running.denyNetwork?.();
    this.profile = { ...this.profile, network: false };
  }

  /**
   * How many further runs a busy runner can take now: above 0 if it queues runs, its runs are short and few are left.
   */
  get prefetchCapacity(): number {
    const hasShortRuns = this.#endedRuns >= endedRunsMin && this.#averageMs <= shortRunMs;
    // Several at a time: each message wakes the process.
    if (!hasShortRuns || this.#runs.size === 0 || this.#runs.size > refillBelow) return 0;
    const max = Math.min(this.#prefetchMax, prefetchMax, Math.ceil(prefetchMs / Math.max(1, this.#averageMs)));
    return Math.max(0, max + 1 - this.#runs.size);
  }

  /** Pass `code` unless the runner has it. Returns the number of the run. */
  run({ id: { attempt, fence }, spec }: RunRequest, code: Uint8Array | undefined, events: RunEvents): number {
    this.#lastRun += 1;
    const runId = this.#lastRun;
    this.#runs.set(runId, events);
    this.#running.send(runnerCommandCodec.encode({ kind: 'run', runId, spec, code, attempt, fence }));
    return runId;
  }

  stop(runId: number, reason: string): void {
    if (!this.#isGone) this.#running.send(runnerCommandCodec.encode({ kind: 'stop', runId, reason }));
  }

  /** A run completed. */
  recordDuration(durationMs: number): void {
    this.#endedRuns += 1;
    this.#averageMs = this.#endedRuns === 1 ? durationMs : 0.8 * this.#averageMs + 0.2 * durationMs;
  }

  kill(): void {
    this.#running.kill();
  }

  /** Calls back when the process has exited. */
  onceGone(done: () => void): void {
    this.#onceGone = done;
  }

  #onMessage(body: Uint8Array): void {
    if (this.#isGone || this.#violation !== undefined) return;
    let event: RunnerEvent;
    try {
      event = runnerEventCodec.decode(body);
    } catch (error) {
      return this.#onViolation(
        `the runner sent an invalid message: ${error instanceof Error ? error.message : 'unreadable'}`,
      );
    }
    if (event.kind === 'ready') {
      if (this.#isReady) return this.#onViolation('the runner sent ready twice');
      this.#isReady = true;
      this.#prefetchMax = event.prefetch ?? 0;
      return this.#events.ready();
    }
    const { runId } = event;
    if (runId > this.#lastRun || runId === 0)
      return this.#onViolation(`the runner sent ${event.kind} for an unknown run`);
    const events = this.#runs.get(runId);
    // A late event of a run that has ended.
    if (events === undefined) return;
    if (event.kind === 'ended') this.#runs.delete(runId);
    else if (this.#runs.keys().next().value !== runId)
      return this.#onViolation(`the runner sent ${event.kind} for a run before its turn`);
    events.event(event);
  }

  #onViolation(violation: string): void {
    this.#violation = `protocol: ${violation}`;
    this.#running.kill();
  }

  #onExit(reason: string): void {
    this.#isGone = true;
    const cause = this.#violation ?? reason;
    const runs = [...this.#runs.values()];
    this.#runs.clear();
    this.#events.gone();
    for (const events of runs) events.gone(cause);
    this.#onceGone?.();
  }
}
