/**
 * A simulated machine: power, disk, bound ports, a clock with drift. Runs one node process at a time. Monotonic clocks
 * start elsewhere at each boot, to expose code that compares times of two lives.
 */
import { assert } from '../../base/assert.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import { LinkedList } from '../engine/linked-list.ts';
import type { SimulatedDisk } from '../engine/simulated-disk.ts';
import type { BoundPort } from './bound-port.ts';
import { SimulatedProcess } from '../engine/simulated-process.ts';
import { alignToGrid, type Timeline } from '../engine/timeline.ts';

/** Where wall clocks stand when the world begins: a fixed instant, so that logs do not depend on the day. */
export const worldStartWallMs = Date.UTC(2030, 0, 1);

const bootClockMsMax = 1_000_000;

export type SimulatedHostOptions = {
  /** Place in the network's table of links. */
  readonly index: number;
  readonly name: string;
  /** What others write into `Address.host`. */
  readonly address: string;
  readonly timeline: Timeline;
  readonly random: Random;
  readonly disk: SimulatedDisk;
};

export class SimulatedHost {
  readonly index: number;
  readonly name: string;
  readonly address: string;
  readonly timeline: Timeline;
  readonly disk: SimulatedDisk;
  readonly listeners = new Map<number, BoundPort>();
  readonly #random: Random;
  /** For each life here: what aims its running timers at the world's time. */
  readonly #timers = new Map<SimulatedProcess, LinkedList<() => void>>();
  #life: SimulatedProcess | undefined;
  #powered = true;
  #rate = 1;
  #anchorWorldMs = 0;
  #anchorLocalMs = 0;
  #wallOffsetMs = 0;

  constructor(spec: SimulatedHostOptions) {
    this.index = spec.index;
    this.name = spec.name;
    this.address = spec.address;
    this.timeline = spec.timeline;
    this.disk = spec.disk;
    this.#random = spec.random;
  }

  get process(): SimulatedProcess | undefined {
    return this.#life;
  }

  /** False after a power loss: then nobody even refuses a connection. */
  get powered(): boolean {
    return this.#powered;
  }

  boot(threw: (error: unknown) => void): SimulatedProcess {
    assert(this.#life === undefined, `${this.name} is already running`);
    this.#powered = true;
    this.#anchorWorldMs = this.timeline.nowMs;
    this.#anchorLocalMs = this.#random.below(bootClockMsMax);
    this.#life = new SimulatedProcess(this.timeline, { threw });
    return this.#life;
  }

  /** The process is gone at once. With the power goes what the disk had not synced. */
  stop(power: 'kept' | 'lost'): void {
    this.disk.crash(power);
    this.#powered = power === 'kept';
    const life = this.#life;
    this.#life = undefined;
    this.listeners.clear();
    life?.exit();
  }

  nowMs(): number {
    const passedMs = (this.timeline.nowMs - this.#anchorWorldMs) * this.#rate;
    return this.#rate === 1 ? this.#anchorLocalMs + passedMs : this.#anchorLocalMs + Math.floor(passedMs * 1024) / 1024;
  }

  /** 1.01 is a clock that gains one percent. Timers that run already go by the new speed. */
  setRate(rate: number): void {
    assert(rate > 0, 'a clock never runs backwards');
    if (rate === this.#rate) return;
    this.#anchorLocalMs = this.nowMs();
    this.#anchorWorldMs = this.timeline.nowMs;
    this.#rate = rate;
    for (const timers of this.#timers.values()) for (const aim of timers.all()) aim();
  }

  /** Sets the clock on the wall, as an operator would. Nothing but logs may notice. */
  setWallOffset(offsetMs: number): void {
    this.#wallOffsetMs = offsetMs;
  }

  clock(life: SimulatedProcess): Clock {
    const timers = new LinkedList<() => void>();
    this.#timers.set(life, timers);
    life.onExit(() => this.#timers.delete(life));
    return {
      nowMs: () => this.nowMs(),
      wallMs: () => worldStartWallMs + this.timeline.nowMs + this.#wallOffsetMs,
      schedule: (delayMs, run) => this.#schedule(life, timers, delayMs, run),
    };
  }

  /** A drifting clock may be a grain short when the world's time has come: then it aims again. */
  #schedule(life: SimulatedProcess, timers: LinkedList<() => void>, delayMs: number, run: () => void): () => void {
    const dueMs = this.nowMs() + alignToGrid(Math.max(0, delayMs));
    let stop: Cancel | undefined;
    const forget = (): void => {
      stop?.();
      timers.remove(link);
    };
    const aim = (): void => {
      stop?.();
      stop = life.after((dueMs - this.nowMs()) / this.#rate, () => {
        if (this.nowMs() < dueMs) return aim();
        forget();
        run();
      });
    };
    const link = timers.add(aim);
    aim();
    return forget;
  }
}
