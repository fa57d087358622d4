/**
 * Watches the beats of the main thread: its lag, and `stuck` when beats stop. Time in which the membership thread slept
 * does not count.
 */
import type { MembershipContext } from '../state/context.ts';

const beatMsMax = 3_000;

/** How often the main loop should beat. Each beat wakes two threads: more of them would cost more than all else. */
export function mainLoopBeatMs(stuckAfterMs: number): number {
  return Math.min(beatMsMax, stuckAfterMs / 4);
}

const laggedMs = 250;
const laggedBadlyMs = 1_000;
/** Between two looks for beats that do not come; those that come are judged at once. */
const lookMsMax = 4_000;

export class MainLoopMonitor {
  readonly #group: MembershipContext;
  readonly #beatMs: number;
  #lastBeatMs = 0;
  #watching = false;

  constructor(group: MembershipContext) {
    this.#group = group;
    this.#beatMs = mainLoopBeatMs(group.options.stuckAfterMs);
  }

  start(): void {
    this.#watching = true;
    this.#lastBeatMs = this.#group.outbox.nowMs;
    this.#again();
  }

  /** Answers with how long it had been silent: what comes to us by the main loop could not be heard meanwhile. */
  beat(): number {
    const { outbox, self } = this.#group;
    const lateMs = outbox.nowMs - this.#lastBeatMs - this.#beatMs;
    const silentMs = this.#isOverdue ? lateMs : 0;
    this.#judge(lateMs);
    this.#lastBeatMs = outbox.nowMs;
    if (self.stuck) this.#setStuck(false);
    return silentMs;
  }

  /** A beat is overdue. */
  get #isOverdue(): boolean {
    return this.#watching && this.#group.outbox.nowMs - this.#lastBeatMs > 1.2 * this.#beatMs;
  }

  /** The main loop ran after that moment, so it has passed on what had arrived until then. */
  hasRunSince(atMs: number): boolean {
    return !this.#watching || this.#lastBeatMs >= atMs;
  }

  /** We did not run for this long, so we could not have heard a beat. */
  discountPause(pauseMs: number): void {
    this.#lastBeatMs += pauseMs;
  }

  tick(): void {
    const { outbox, options, self } = this.#group;
    const silentMs = outbox.nowMs - this.#lastBeatMs;
    if (silentMs >= this.#beatMs + laggedMs) this.#judge(silentMs - this.#beatMs);
    if (!self.stuck && silentMs >= options.stuckAfterMs) this.#setStuck(true);
    this.#again();
  }

  #judge(lagMs: number): void {
    const { self, health } = this.#group;
    const before = self.lagMs;
    self.lagMs = Math.max(0, Math.round(lagMs));
    if (self.lagMs >= laggedMs) health.record(self.lagMs >= laggedBadlyMs ? 'laggedBadly' : 'lagged');
    else if (before >= laggedMs) health.record('recovered');
  }

  #setStuck(stuck: boolean): void {
    const { self } = this.#group;
    self.stuck = stuck;
    self.emitEvent(
      this.#group.outbox,
      stuck ? 'member.stuck' : 'member.unstuck',
      stuck ? 'our main loop does not move' : 'our main loop moves again',
    );
  }

  #again(): void {
    const { options, outbox } = this.#group;
    outbox.after(Math.min(lookMsMax, options.stuckAfterMs / 4), { kind: 'mainLoop' });
  }
}
