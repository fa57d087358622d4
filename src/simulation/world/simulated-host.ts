/**
 * A simulated machine: power, disk, bound ports, a clock with drift. Runs one node process at a time. The monotonic
 * clock starts at a random value at each boot, to expose code that compares times of two processes.
 */
import { assert } from '../../base/assert.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import { LinkedList } from '../engine/linked-list.ts';
import type { SimulatedDisk } from '../engine/simulated-disk.ts';
import type { BoundPort } from './bound-port.ts';
import { SimulatedProcess } from '../engine/simulated-process.ts';
import { alignToGrid, type Timeline } from '../engine/timeline.ts';

/** The wall clock at the start of the world: fixed, so that logs do not depend on the day. */
export const worldStartWallMs = Date.UTC(2030, 0, 1);

const bootClockMsMax = 1_000_000;

export type SimulatedHostOptions = {
  /** Index in the link table of the network. */
  readonly index: number;
  readonly name: string;
  /** The `host` of its addresses. */
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
  /** Per process: functions that reschedule its running timers after a change of the rate. */
  readonly #timers = new Map<SimulatedProcess, LinkedList<() => void>>();
  #process: SimulatedProcess | undefined;
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
    return this.#process;
  }

  /** False after a power loss: the host does not even refuse connections. */
  get powered(): boolean {
    return this.#powered;
  }

  boot(threw: (error: unknown) => void): SimulatedProcess {
    assert(this.#process === undefined, `${this.name} is already running`);
    this.#powered = true;
    this.#anchorWorldMs = this.timeline.nowMs;
    this.#anchorLocalMs = this.#random.below(bootClockMsMax);
    this.#process = new SimulatedProcess(this.timeline, { threw });
    return this.#process;
  }

  /** Ends the process. A power loss also takes unsynced data. */
  stop(power: 'kept' | 'lost'): void {
    this.disk.crash(power);
    this.#powered = power === 'kept';
    const process = this.#process;
    this.#process = undefined;
    this.listeners.clear();
    process?.exit();
  }

  nowMs(): number {
    const passedMs = (this.timeline.nowMs - this.#anchorWorldMs) * this.#rate;
    return this.#rate === 1 ? this.#anchorLocalMs + passedMs : this.#anchorLocalMs + Math.floor(passedMs * 1024) / 1024;
  }

  /** 1.01 is a clock that gains one percent; running timers follow the new rate. */
  setRate(rate: number): void {
    assert(rate > 0, 'a clock never runs backwards');
    if (rate === this.#rate) return;
    this.#anchorLocalMs = this.nowMs();
    this.#anchorWorldMs = this.timeline.nowMs;
    this.#rate = rate;
    for (const timers of this.#timers.values()) for (const reschedule of timers.all()) reschedule();
  }

  /** Sets the wall clock, as an operator would. Only logs may depend on it. */
  setWallOffset(offsetMs: number): void {
    this.#wallOffsetMs = offsetMs;
  }

  clock(process: SimulatedProcess): Clock {
    const timers = new LinkedList<() => void>();
    this.#timers.set(process, timers);
    process.onExit(() => this.#timers.delete(process));
    return {
      nowMs: () => this.nowMs(),
      wallMs: () => worldStartWallMs + this.timeline.nowMs + this.#wallOffsetMs,
      schedule: (delayMs, run) => this.#schedule(process, timers, delayMs, run),
    };
  }

  /** With drift the local time may be short by a rounding when the timer fires: then it is scheduled again. */
  #schedule(process: SimulatedProcess, timers: LinkedList<() => void>, delayMs: number, run: () => void): () => void {
    const dueMs = this.nowMs() + alignToGrid(Math.max(0, delayMs));
    let stop: Cancel | undefined;
    const cancel = (): void => {
      stop?.();
      timers.remove(node);
    };
    const reschedule = (): void => {
      stop?.();
      stop = process.after((dueMs - this.nowMs()) / this.#rate, () => {
        if (this.nowMs() < dueMs) return reschedule();
        cancel();
        run();
      });
    };
    const node = timers.add(reschedule);
    reschedule();
    return cancel;
  }
}
