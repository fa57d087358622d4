/**
 * One simulated process or thread. All callbacks pass run(), which defers them while paused and drops them after exit.
 * A restart is a new process.
 *
 * It owns no clock of its own (see simulated-host.ts) and knows nothing of networks or disks.
 */
import type { Cancel } from '../../base/ports.ts';
import { LinkedList } from './linked-list.ts';
import type { Timeline } from './timeline.ts';

export type SimulatedProcessEvents = {
  /** Code of this life threw: in the real world the process would be gone. */
  readonly threw: (error: unknown) => void;
};

export class SimulatedProcess {
  readonly #timeline: Timeline;
  readonly #events: SimulatedProcessEvents;
  readonly #children = new Set<SimulatedProcess>();
  readonly #atEnd: (() => void)[] = [];
  readonly #timers = new LinkedList<Cancel>();
  #postponed: (() => void)[] = [];
  #stalledUntilMs = 0;
  #stalledMs = 0;
  #alive = true;

  constructor(timeline: Timeline, events: SimulatedProcessEvents) {
    this.#timeline = timeline;
    this.#events = events;
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** How much waits for the end of a stall. */
  get deferredCount(): number {
    return this.#postponed.length;
  }

  get isStalled(): boolean {
    return this.#postponed.length > 0 || this.#timeline.nowMs < this.#stalledUntilMs;
  }

  /** How long this life has been made to stand still, all stalls together. */
  get pausedMs(): number {
    return this.#stalledMs;
  }

  /** When its last stall was over, or will be; 0 if it never stood still. */
  get stalledUntilMs(): number {
    return this.#stalledUntilMs;
  }

  run(run: () => void): void {
    if (!this.#alive) return;
    if (this.isStalled) this.#postponed.push(run);
    else this.guard(run);
  }

  /** Enters after `delayMs` of world time, unless the life is over by then. */
  after(delayMs: number, run: () => void): Cancel {
    let cancelled = false;
    const event = this.#timeline.schedule(this.#timeline.nowMs + Math.max(0, delayMs), () => {
      this.#timers.remove(link);
      if (this.#alive && !this.isStalled) this.guard(run);
      else
        this.run(() => {
          if (!cancelled) run();
        });
    });
    const cancel = (): void => {
      cancelled = true;
      this.#timers.remove(link);
      this.#timeline.remove(event);
    };
    const link = this.#timers.add(cancel);
    return cancel;
  }

  /** Nothing runs until `durationMs` have passed; then everything runs that should have, in its order. */
  pause(durationMs: number): void {
    this.#stalledMs += durationMs;
    this.#stalledUntilMs = Math.max(this.#stalledUntilMs, this.#timeline.nowMs + durationMs);
    for (const child of this.#children) child.pause(durationMs);
    this.#timeline.at(this.#stalledUntilMs, () => this.#wake());
  }

  /** Ends a stall early. */
  resume(): void {
    this.#stalledUntilMs = Math.min(this.#stalledUntilMs, this.#timeline.nowMs);
    for (const child of this.#children) child.resume();
    this.#timeline.after(0, () => this.#wake());
  }

  spawn(events: SimulatedProcessEvents): SimulatedProcess {
    const child = new SimulatedProcess(this.#timeline, events);
    this.#children.add(child);
    child.onExit(() => this.#children.delete(child));
    return child;
  }

  onExit(run: () => void): void {
    if (this.#alive) this.#atEnd.push(run);
    else run();
  }

  exit(): void {
    if (!this.#alive) return;
    this.#alive = false;
    this.#postponed = [];
    for (const child of [...this.#children]) child.exit();
    for (const cancel of this.#timers.all()) cancel();
    for (const run of this.#atEnd.splice(0)) run();
  }

  #wake(): void {
    if (this.#timeline.nowMs < this.#stalledUntilMs) return;
    for (const run of this.#postponed) if (this.#alive) this.guard(run);
    this.#postponed = [];
  }

  /** Runs code of this life on behalf of a port that must go on whatever it does. False: it threw. */
  guard(run: () => void): boolean {
    try {
      run();
      return true;
    } catch (error) {
      this.#events.threw(error);
      return false;
    }
  }
}
