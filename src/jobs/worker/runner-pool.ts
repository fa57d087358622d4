/**
 * Owns the runner processes of a worker. Reuses a runner only for the same code, submitter and limits; never holds more
 * than `idleMax` idle ones.
 *
 *   refill -> starting -> fresh --take--> taken --release--> used --take (same code)--> taken
 *                            \                \--discard--> killed   \--idle too long, capacity needed--> killed
 *
 * Fresh runners are started in advance, so that a unit starts at once: one at a time and after a short delay, so that
 * a start does not compete with the unit that starts. Failed starts are retried with backoff.
 */
import type { Cancel, Clock, Program, Runners } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import { RunnerHandle, type RunnerProfile } from './runner-handle.ts';

export type RunnerPoolPorts = {
  readonly clock: Clock;
  readonly random: Random;
  readonly runners: Runners;
  readonly program: Program;
};

export type RunnerRequirements = {
  readonly profile: RunnerProfile;
  readonly bundle: string;
  readonly submitter: string;
};

export type RunnerPoolOptions = {
  /** Number of fresh runners to keep ready. */
  readonly freshCount: number;
  /** Fresh and used runners that run nothing. */
  readonly idleMax: number;
  /** Profile of the first runners; later ones get the profile that was needed last. */
  readonly profile: RunnerProfile;
  readonly parentStallMsMax: number;
};

const refillDelayMs = 30;
/** While another fresh runner is ready. */
const slowRefillDelayMs = 400;
/** A cluster that starts up needs the processor for other work. */
const firstRefillDelayMs = 1_000;
const betweenStartsMs = 100;
const startTimeoutMs = 30_000;
const usedIdleMsMax = 30_000;
const backoffMsMin = 200;
const backoffMsMax = 15_000;
const nothing: Cancel = () => undefined;

export class RunnerPool {
  readonly #ports: RunnerPoolPorts;
  readonly #options: RunnerPoolOptions;
  /** All runners whose process has not exited, with the timer by which each must be ready. */
  readonly #alive = new Map<RunnerHandle, Cancel>();
  readonly #fresh: RunnerHandle[] = [];
  /** The most recently used is the last. */
  readonly #used: { readonly runner: RunnerHandle; readonly cancelIdleTimer: Cancel }[] = [];
  /** Profile of the last unit; the next one probably needs the same. */
  #profile: RunnerProfile;
  #cancelRefill: Cancel = nothing;
  #isRefilling = false;
  #canDenyNetwork = false;
  #failures = 0;
  #isOpen = true;
  #isWarm = false;
  #onClosed: (() => void) | undefined;

  constructor(ports: RunnerPoolPorts, options: RunnerPoolOptions) {
    this.#ports = ports;
    this.#options = options;
    this.#profile = options.profile;
  }

  /** Starts the first runners: this worker may get units. */
  warmUp(): void {
    if (this.#isWarm) return;
    this.#isWarm = true;
    this.#refillAfter(firstRefillDelayMs);
  }

  get aliveCount(): number {
    return this.#alive.size;
  }

  /** A runner that has the code, else a fresh one, else one that is started now. */
  take({ profile, bundle, submitter }: RunnerRequirements): {
    readonly runner: RunnerHandle;
    readonly hasCode: boolean;
  } {
    this.#profile = profile;
    const at = this.#used.findLastIndex(
      ({ runner }) => isBoundTo(runner, bundle, submitter) && isProfile(runner.profile, profile),
    );
    const [used] = at < 0 ? [] : this.#used.splice(at, 1);
    if (used !== undefined) {
      used.cancelIdleTimer();
      return { runner: used.runner, hasCode: true };
    }
    const runner = this.#takeFresh(profile) ?? this.#start(profile);
    runner.boundTo = { bundle, submitter };
    this.#refillAfter(this.#fresh.length === 0 ? refillDelayMs : slowRefillDelayMs);
    return { runner, hasCode: false };
  }

  /** Its unit completed: the runner may run another one. */
  release(runner: RunnerHandle): void {
    if (runner.isGone || !this.#isOpen) return;
    const cancelIdleTimer = this.#ports.clock.schedule(usedIdleMsMax, () => this.discard(runner));
    this.#used.push({ runner, cancelIdleTimer });
    this.#trimIdle(0);
  }

  /** Kills the runner; it is never used again. */
  discard(runner: RunnerHandle): void {
    this.#forget(runner);
    runner.kill();
  }

  /** Kills all runners and calls back when the last has exited. */
  close(done: () => void): void {
    this.#isOpen = false;
    this.#cancelRefill();
    this.#onClosed = done;
    for (const runner of this.#alive.keys()) runner.kill();
    this.#notifyClosed();
  }

  #takeFresh(profile: RunnerProfile): RunnerHandle | undefined {
    const fits = this.#fresh.filter((runner) => canBecome(runner, profile));
    const runner = fits.find(({ isReady }) => isReady) ?? fits[0];
    if (runner === undefined) return undefined;
    this.#fresh.splice(this.#fresh.indexOf(runner), 1);
    if (runner.profile.network !== profile.network) runner.denyNetwork();
    return runner;
  }

  #start(profile: RunnerProfile): RunnerHandle {
    const { runners, program, clock } = this.#ports;
    const { parentStallMsMax } = this.#options;
    const events = { ready: () => this.#onReady(runner), gone: () => this.#onGone(runner) };
    const runner: RunnerHandle = new RunnerHandle({ runners, program, profile, parentStallMsMax }, events);
    this.#canDenyNetwork = runner.canDenyNetwork;
    this.#alive.set(
      runner,
      clock.schedule(startTimeoutMs, () => runner.kill()),
    );
    return runner;
  }

  #onReady(runner: RunnerHandle): void {
    this.#alive.get(runner)?.();
    this.#failures = 0;
    this.#isRefilling = false;
    this.#refillAfter(this.#fresh.length === 0 ? 0 : betweenStartsMs);
  }

  #onGone(runner: RunnerHandle): void {
    this.#alive.get(runner)?.();
    this.#alive.delete(runner);
    this.#forget(runner);
    this.#isRefilling = this.#fresh.some(({ isReady }) => !isReady);
    if (runner.wasReady) this.#refillAfter(refillDelayMs);
    else {
      this.#failures += 1;
      const backoffMs = Math.min(backoffMsMax, backoffMsMin * 2 ** Math.min(10, this.#failures));
      this.#refillAfter(backoffMs * this.#ports.random.between(0.5, 1));
    }
    this.#notifyClosed();
  }

  #forget(runner: RunnerHandle): void {
    const fresh = this.#fresh.indexOf(runner);
    if (fresh >= 0) this.#fresh.splice(fresh, 1);
    const used = this.#used.findIndex((idle) => idle.runner === runner);
    if (used >= 0) for (const { cancelIdleTimer } of this.#used.splice(used, 1)) cancelIdleTimer();
  }

  #refillAfter(delayMs: number): void {
    if (!this.#isOpen || this.#isRefilling) return;
    this.#cancelRefill();
    this.#cancelRefill = this.#ports.clock.schedule(delayMs, () => this.#refillOne());
  }

  #refillOne(): void {
    const fits = this.#fresh.filter((runner) => canBecome(runner, this.#profile)).length;
    if (fits >= this.#options.freshCount) return;
    // A used runner is worth more than a second fresh one; one fresh runner must exist.
    if (fits > 0 && this.#used.length + this.#fresh.length >= this.#options.idleMax) return;
    this.#trimIdle(1);
    this.#isRefilling = true;
    // A runner can give up the right to use the network later, and never gain it.
    const network = this.#profile.network || this.#canDenyNetwork;
    this.#fresh.push(this.#start({ ...this.#profile, network }));
  }

  /** Kills idle runners beyond `idleMax`: fresh ones of another profile first, then the least recently used. */
  #trimIdle(more: number): void {
    while (this.#used.length + this.#fresh.length + more > this.#options.idleMax) {
      const unfit = this.#fresh.find((runner) => !canBecome(runner, this.#profile));
      const victim = unfit ?? (this.#fresh.length > 1 ? this.#fresh[0] : (this.#used[0]?.runner ?? this.#fresh[0]));
      if (victim === undefined) return;
      this.discard(victim);
    }
  }

  #notifyClosed(): void {
    if (this.#onClosed === undefined || this.#alive.size > 0) return;
    const done = this.#onClosed;
    this.#onClosed = undefined;
    done();
  }
}

function isBoundTo({ boundTo }: RunnerHandle, bundle: string, submitter: string): boolean {
  return boundTo !== undefined && boundTo.bundle === bundle && boundTo.submitter === submitter;
}

/** True if a fresh runner can serve the requested profile. */
function canBecome({ profile, canDenyNetwork }: RunnerHandle, requested: RunnerProfile): boolean {
  return isProfile(profile, requested) || (canDenyNetwork && isProfile(profile, { ...requested, network: true }));
}

function isProfile(a: RunnerProfile, b: RunnerProfile): boolean {
  return a.network === b.network && a.memoryMb === b.memoryMb;
}
