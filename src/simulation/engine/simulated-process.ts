/**
 * One simulated process or thread. Every callback passes run(), which defers it while the process is paused and drops
 * it after the exit. A restart is a new process. Knows no clock, network or disk.
 */
import type { Cancel } from '../../base/ports.ts';
import { LinkedList } from './linked-list.ts';
import type { Timeline } from './timeline.ts';

export type SimulatedProcessEvents = {
  /** Code of this process threw; a real process would have crashed. */
  readonly threw: (error: unknown) => void;
};

export class SimulatedProcess {
  readonly #timeline: Timeline;
  readonly #events: SimulatedProcessEvents;
  readonly #children = new Set<SimulatedProcess>();
  readonly #onExit: (() => void)[] = [];
  readonly #timers = new LinkedList<Cancel>();
  #deferred: (() => void)[] = [];
  #pausedUntilMs = 0;
  #pausedMs = 0;
  #alive = true;

  constructor(timeline: Timeline, events: SimulatedProcessEvents) {
    this.#timeline = timeline;
    this.#events = events;
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Callbacks that wait for the end of a pause. */
  get deferredCount(): number {
    return this.#deferred.length;
  }

  get isPaused(): boolean {
    return this.#deferred.length > 0 || this.#timeline.nowMs < this.#pausedUntilMs;
  }

  /** Sum of all pauses. */
  get pausedMs(): number {
    return this.#pausedMs;
  }

  /** End of the last pause; 0 if there was none. */
  get pausedUntilMs(): number {
    return this.#pausedUntilMs;
  }

  run(run: () => void): void {
    if (!this.#alive) return;
    if (this.isPaused) this.#deferred.push(run);
    else this.guard(run);
  }

  /** Runs after `delayMs` of world time, unless the process has exited by then. */
  after(delayMs: number, run: () => void): Cancel {
    let cancelled = false;
    const event = this.#timeline.schedule(this.#timeline.nowMs + Math.max(0, delayMs), () => {
      this.#timers.remove(node);
      if (this.#alive && !this.isPaused) this.guard(run);
      else
        this.run(() => {
          if (!cancelled) run();
        });
    });
    const cancel = (): void => {
      cancelled = true;
      this.#timers.remove(node);
      this.#timeline.remove(event);
    };
    const node = this.#timers.add(cancel);
    return cancel;
  }

  /** Defers every callback for `durationMs`; then they run in order. */
  pause(durationMs: number): void {
    this.#pausedMs += durationMs;
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, this.#timeline.nowMs + durationMs);
    for (const child of this.#children) child.pause(durationMs);
    this.#timeline.at(this.#pausedUntilMs, () => this.#wake());
  }

  /** Ends a pause early. */
  resume(): void {
    this.#pausedUntilMs = Math.min(this.#pausedUntilMs, this.#timeline.nowMs);
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
    if (this.#alive) this.#onExit.push(run);
    else run();
  }

  exit(): void {
    if (!this.#alive) return;
    this.#alive = false;
    this.#deferred = [];
    for (const child of [...this.#children]) child.exit();
    for (const cancel of this.#timers.all()) cancel();
    for (const run of this.#onExit.splice(0)) run();
  }

  #wake(): void {
    if (this.#timeline.nowMs < this.#pausedUntilMs) return;
    for (const run of this.#deferred) if (this.#alive) this.guard(run);
    this.#deferred = [];
  }

  /** Runs code of this process for a port that must survive an exception. False if it threw. */
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
