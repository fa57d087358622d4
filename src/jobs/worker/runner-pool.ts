/**
 * Owns the runner processes of a worker: warm, in use, idle. Reuses one only for the same code, submitter and limits.
 * Some are started in advance, so that a unit begins at once. Starts back off after failures.
 *
 *   refill -> starting -> fresh --take--> taken --park--> used --take (same use)--> taken
 *                            \                \--drop--> killed        \--idle too long, room needed--> killed
 *
 * New ones are started one after the other, a moment after the need came up, so that they do not take the processor
 * from the unit that begins; after a start that failed there is a pause, which grows. Everything here is bounded: there
 * are never more parked ones than `parkedMax`.
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

export type RunnerRequirements = { readonly shape: RunnerProfile; readonly bundle: string; readonly submitter: string };

export type RunnerPoolOptions = {
  /** How many fresh ones to hold ready. */
  readonly freshCount: number;
  /** Fresh and used ones that run nothing. */
  readonly parkedMax: number;
  /** The first ones are of this kind; later ones like the last that was needed. */
  readonly shape: RunnerProfile;
  readonly silenceMsMax: number;
};

const refillAfterMs = 30;
/** While there is another fresh one. */
const refillAtEaseAfterMs = 400;
/** A cluster that starts has more important things to do first. */
const firstRefillAfterMs = 1_000;
const betweenStartsMs = 100;
const startTimeoutMs = 30_000;
const usedIdleMsMax = 30_000;
const pauseMsMin = 200;
const pauseMsMax = 15_000;
const nothing: Cancel = () => undefined;

export class RunnerPool {
  readonly #ports: RunnerPoolPorts;
  readonly #options: RunnerPoolOptions;
  /** Those that live, whatever they do, with the end of the time in which they must be ready. */
  readonly #alive = new Map<RunnerHandle, Cancel>();
  readonly #fresh: RunnerHandle[] = [];
  /** The latest used one is the last one. */
  readonly #used: { readonly link: RunnerHandle; readonly unidle: Cancel }[] = [];
  /** What the last unit needed; the next one probably needs the same. */
  #shape: RunnerProfile;
  #refill: Cancel = nothing;
  #isRefilling = false;
  #canDenyNetwork = false;
  #failures = 0;
  #isOpen = true;
  #isWarm = false;
  #ended: (() => void) | undefined;

  constructor(ports: RunnerPoolPorts, options: RunnerPoolOptions) {
    this.#ports = ports;
    this.#options = options;
    this.#shape = options.shape;
  }

  /** There may be work from now on. */
  warmUp(): void {
    if (this.#isWarm) return;
    this.#isWarm = true;
    this.#refillAfter(firstRefillAfterMs);
  }

  get aliveCount(): number {
    return this.#alive.size;
  }

  /** One with this use already, else a fresh one, else one that has only now been started. */
  take({ shape, bundle, submitter }: RunnerRequirements): { readonly link: RunnerHandle; readonly hasCode: boolean } {
    this.#shape = shape;
    const at = this.#used.findLastIndex(({ link }) => isOf(link, bundle, submitter) && isShape(link.shape, shape));
    const [used] = at < 0 ? [] : this.#used.splice(at, 1);
    if (used !== undefined) {
      used.unidle();
      return { link: used.link, hasCode: true };
    }
    const link = this.#takeFresh(shape) ?? this.#start(shape);
    link.boundTo = { bundle, submitter };
    this.#refillAfter(this.#fresh.length === 0 ? refillAfterMs : refillAtEaseAfterMs);
    return { link, hasCode: false };
  }

  /** It ended its unit well and may have another one. */
  release(link: RunnerHandle): void {
    if (link.isGone || !this.#isOpen) return;
    const unidle = this.#ports.clock.schedule(usedIdleMsMax, () => this.discard(link));
    this.#used.push({ link, unidle });
    this.#makeRoom(0);
  }

  /** It is not to be used again. */
  discard(link: RunnerHandle): void {
    this.#forget(link);
    link.kill();
  }

  /** Ends all of them, and calls back when the last one is gone. */
  close(done: () => void): void {
    this.#isOpen = false;
    this.#refill();
    this.#ended = done;
    for (const link of this.#alive.keys()) link.kill();
    this.#tellEnd();
  }

  #takeFresh(shape: RunnerProfile): RunnerHandle | undefined {
    const fits = this.#fresh.filter((link) => canBecome(link, shape));
    const link = fits.find(({ isReady }) => isReady) ?? fits[0];
    if (link === undefined) return undefined;
    this.#fresh.splice(this.#fresh.indexOf(link), 1);
    if (link.shape.network !== shape.network) link.denyNetwork();
    return link;
  }

  #start(shape: RunnerProfile): RunnerHandle {
    const { runners, program, clock } = this.#ports;
    const { silenceMsMax } = this.#options;
    const events = { ready: () => this.#ready(link), gone: () => this.#gone(link) };
    const link: RunnerHandle = new RunnerHandle({ runners, program, shape, silenceMsMax }, events);
    this.#canDenyNetwork = link.canDenyNetwork;
    this.#alive.set(
      link,
      clock.schedule(startTimeoutMs, () => link.kill()),
    );
    return link;
  }

  #ready(link: RunnerHandle): void {
    this.#alive.get(link)?.();
    this.#failures = 0;
    this.#isRefilling = false;
    this.#refillAfter(this.#fresh.length === 0 ? 0 : betweenStartsMs);
  }

  #gone(link: RunnerHandle): void {
    this.#alive.get(link)?.();
    this.#alive.delete(link);
    this.#forget(link);
    this.#isRefilling = this.#fresh.some(({ isReady }) => !isReady);
    if (link.wasReady) this.#refillAfter(refillAfterMs);
    else {
      this.#failures += 1;
      const pauseMs = Math.min(pauseMsMax, pauseMsMin * 2 ** Math.min(10, this.#failures));
      this.#refillAfter(pauseMs * this.#ports.random.between(0.5, 1));
    }
    this.#tellEnd();
  }

  #forget(link: RunnerHandle): void {
    const fresh = this.#fresh.indexOf(link);
    if (fresh >= 0) this.#fresh.splice(fresh, 1);
    const used = this.#used.findIndex((parked) => parked.link === link);
    if (used >= 0) for (const { unidle } of this.#used.splice(used, 1)) unidle();
  }

  #refillAfter(delayMs: number): void {
    if (!this.#isOpen || this.#isRefilling) return;
    this.#refill();
    this.#refill = this.#ports.clock.schedule(delayMs, () => this.#refillOne());
  }

  #refillOne(): void {
    const fits = this.#fresh.filter((link) => canBecome(link, this.#shape)).length;
    if (fits >= this.#options.freshCount) return;
    // Whoever is parked used is worth more than a second fresh one, but one fresh one there must be.
    if (fits > 0 && this.#used.length + this.#fresh.length >= this.#options.parkedMax) return;
    this.#makeRoom(1);
    this.#isRefilling = true;
    // Who has a right can lose it later; the other way round there is none.
    const network = this.#shape.network || this.#canDenyNetwork;
    this.#fresh.push(this.#start({ ...this.#shape, network }));
  }

  /** Fresh ones that nobody needs go first, then the longest unused. */
  #makeRoom(more: number): void {
    while (this.#used.length + this.#fresh.length + more > this.#options.parkedMax) {
      const unfit = this.#fresh.find((link) => !canBecome(link, this.#shape));
      const victim = unfit ?? (this.#fresh.length > 1 ? this.#fresh[0] : (this.#used[0]?.link ?? this.#fresh[0]));
      if (victim === undefined) return;
      this.discard(victim);
    }
  }

  #tellEnd(): void {
    if (this.#ended === undefined || this.#alive.size > 0) return;
    const done = this.#ended;
    this.#ended = undefined;
    done();
  }
}

function isOf({ boundTo }: RunnerHandle, bundle: string, submitter: string): boolean {
  return boundTo !== undefined && boundTo.bundle === bundle && boundTo.submitter === submitter;
}

/** A fresh one can be used with these limits. */
function canBecome({ shape, canDenyNetwork }: RunnerHandle, wanted: RunnerProfile): boolean {
  return isShape(shape, wanted) || (canDenyNetwork && isShape(shape, { ...wanted, network: true }));
}

function isShape(a: RunnerProfile, b: RunnerProfile): boolean {
  return a.network === b.network && a.memoryMb === b.memoryMb;
}
