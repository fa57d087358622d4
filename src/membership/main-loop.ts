/**
 * Watches the main loop of our own process from where no user code runs. The main loop beats; how late its beats come is
 * its lag, and when it has not beaten for long the node is stuck: alive, but doing nothing. Both are told to others with
 * every ack. Time in which we ourselves slept is not held against it.
 */
import type { Group } from './group.ts';

/** How often the main loop is expected to beat. Each beat wakes two threads: more of them would cost more than all else. */
export const beatIntervalMs = 500;

const laggedMs = 250;
const laggedBadlyMs = 1_000;

export class MainLoop {
  readonly #group: Group;
  #lastBeatMs = 0;
  #watching = false;
  #lagMs = 0;

  constructor(group: Group) {
    this.#group = group;
  }

  start(): void {
    this.#watching = true;
    this.#lastBeatMs = this.#group.out.nowMs;
    this.#again();
  }

  /** Answers with how long it had been silent: what comes to us by the main loop could not be heard meanwhile. */
  beat(): number {
    const { out, self } = this.#group;
    const lateMs = out.nowMs - this.#lastBeatMs - beatIntervalMs;
    const silentMs = this.isSilent ? lateMs : 0;
    this.#lagMs = Math.max(this.#lagMs, lateMs);
    this.#lastBeatMs = out.nowMs;
    if (self.stuck) this.#say(false);
    return silentMs;
  }

  /** A beat is overdue. */
  get isSilent(): boolean {
    return this.#watching && this.#group.out.nowMs - this.#lastBeatMs > 1.2 * beatIntervalMs;
  }

  /** We did not run for this long, so we could not have heard a beat. */
  excuse(pauseMs: number): void {
    this.#lastBeatMs += pauseMs;
  }

  tick(): void {
    const { out, options, self, health } = this.#group;
    const silentMs = out.nowMs - this.#lastBeatMs;
    const lagMs = Math.max(this.#lagMs, silentMs - beatIntervalMs, 0);
    const before = self.lagMs;
    self.lagMs = Math.round(lagMs);
    this.#lagMs = 0;
    if (lagMs >= laggedMs) health.note(lagMs >= laggedBadlyMs ? 'laggedBadly' : 'lagged');
    else if (before >= laggedMs) health.note('recovered');
    if (!self.stuck && silentMs >= Math.max(options.stuckAfterMs, 2 * beatIntervalMs)) this.#say(true);
    this.#again();
  }

  #say(stuck: boolean): void {
    const { self } = this.#group;
    self.stuck = stuck;
    self.tell(
      this.#group.out,
      stuck ? 'member.stuck' : 'member.unstuck',
      stuck ? 'our main loop does not move' : 'our main loop moves again',
    );
  }

  #again(): void {
    const { options, out } = this.#group;
    out.after(Math.min(1_000, options.stuckAfterMs / 4), { kind: 'mainLoop' });
  }
}
