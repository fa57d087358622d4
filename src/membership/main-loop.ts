/**
 * Watches the main loop of our own process from where no user code runs. The main loop beats; how late its beats come is
 * its lag, and when it has not beaten for long the node is stuck: alive, but doing nothing. Both are told to others with
 * every ack. Time in which we ourselves slept is not held against it.
 */
import type { Group } from './group.ts';

const beatMsMax = 3_000;

/** How often the main loop should beat. Each beat wakes two threads: more of them would cost more than all else. */
export function beatMsOf(stuckAfterMs: number): number {
  return Math.min(beatMsMax, stuckAfterMs / 4);
}

const laggedMs = 250;
const laggedBadlyMs = 1_000;
/** Between two looks for beats that do not come; those that come are judged at once. */
const lookMsMax = 4_000;

export class MainLoop {
  readonly #group: Group;
  readonly #beatMs: number;
  #lastBeatMs = 0;
  #watching = false;

  constructor(group: Group) {
    this.#group = group;
    this.#beatMs = beatMsOf(group.options.stuckAfterMs);
  }

  start(): void {
    this.#watching = true;
    this.#lastBeatMs = this.#group.out.nowMs;
    this.#again();
  }

  /** Answers with how long it had been silent: what comes to us by the main loop could not be heard meanwhile. */
  beat(): number {
    const { out, self } = this.#group;
    const lateMs = out.nowMs - this.#lastBeatMs - this.#beatMs;
    const silentMs = this.#isSilent ? lateMs : 0;
    this.#judge(lateMs);
    this.#lastBeatMs = out.nowMs;
    if (self.stuck) this.#say(false);
    return silentMs;
  }

  /** A beat is overdue. */
  get #isSilent(): boolean {
    return this.#watching && this.#group.out.nowMs - this.#lastBeatMs > 1.2 * this.#beatMs;
  }

  /** The main loop ran after that moment, so it has passed on what had arrived until then. */
  hasRunSince(atMs: number): boolean {
    return !this.#watching || this.#lastBeatMs >= atMs;
  }

  /** We did not run for this long, so we could not have heard a beat. */
  excuse(pauseMs: number): void {
    this.#lastBeatMs += pauseMs;
  }

  tick(): void {
    const { out, options, self } = this.#group;
    const silentMs = out.nowMs - this.#lastBeatMs;
    if (silentMs >= this.#beatMs + laggedMs) this.#judge(silentMs - this.#beatMs);
    if (!self.stuck && silentMs >= options.stuckAfterMs) this.#say(true);
    this.#again();
  }

  #judge(lagMs: number): void {
    const { self, health } = this.#group;
    const before = self.lagMs;
    self.lagMs = Math.max(0, Math.round(lagMs));
    if (self.lagMs >= laggedMs) health.note(self.lagMs >= laggedBadlyMs ? 'laggedBadly' : 'lagged');
    else if (before >= laggedMs) health.note('recovered');
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
    out.after(Math.min(lookMsMax, options.stuckAfterMs / 4), { kind: 'mainLoop' });
  }
}
