/**
 * Watches the beats of the main thread: measures its lag, and reports `stuck` when beats stop. Time in which the
 * membership thread itself did not run does not count.
 */
import type { MembershipContext } from '../state/context.ts';

const beatMsMax = 3_000;

/**
 * The interval of the beats. Each beat wakes two threads, so a short interval costs more than the rest of membership.
 */
export function mainLoopBeatMs(stuckAfterMs: number): number {
  return Math.min(beatMsMax, stuckAfterMs / 4);
}

const laggedMs = 250;
const laggedBadlyMs = 1_000;
/** The longest time between two checks for missing beats. */
const checkMsMax = 4_000;

export class MainLoopMonitor {
  readonly #context: MembershipContext;
  readonly #beatMs: number;
  #lastBeatMs = 0;
  #watching = false;

  constructor(context: MembershipContext) {
    this.#context = context;
    this.#beatMs = mainLoopBeatMs(context.options.stuckAfterMs);
  }

  start(): void {
    this.#watching = true;
    this.#lastBeatMs = this.#context.outbox.nowMs;
    this.#scheduleCheck();
  }

  /** Returns how long the beat was overdue: in that time no message arrived through the main loop. */
  beat(): number {
    const { outbox, self } = this.#context;
    const lateMs = outbox.nowMs - this.#lastBeatMs - this.#beatMs;
    const silentMs = this.#isOverdue ? lateMs : 0;
    this.#recordLag(lateMs);
    this.#lastBeatMs = outbox.nowMs;
    if (self.stuck) this.#setStuck(false);
    return silentMs;
  }

  /** A beat is overdue. */
  get #isOverdue(): boolean {
    return this.#watching && this.#context.outbox.nowMs - this.#lastBeatMs > 1.2 * this.#beatMs;
  }

  /** The main loop ran after that time, so it has forwarded all messages that had arrived until then. */
  hasRunSince(atMs: number): boolean {
    return !this.#watching || this.#lastBeatMs >= atMs;
  }

  /** This thread did not run for this long, so it could not receive a beat. */
  discountPause(pauseMs: number): void {
    this.#lastBeatMs += pauseMs;
  }

  tick(): void {
    const { outbox, options, self } = this.#context;
    const silentMs = outbox.nowMs - this.#lastBeatMs;
    if (silentMs >= this.#beatMs + laggedMs) this.#recordLag(silentMs - this.#beatMs);
    if (!self.stuck && silentMs >= options.stuckAfterMs) this.#setStuck(true);
    this.#scheduleCheck();
  }

  #recordLag(lagMs: number): void {
    const { self, health } = this.#context;
    const before = self.lagMs;
    self.lagMs = Math.max(0, Math.round(lagMs));
    if (self.lagMs >= laggedMs) health.record(self.lagMs >= laggedBadlyMs ? 'laggedBadly' : 'lagged');
    else if (before >= laggedMs) health.record('recovered');
  }

  #setStuck(stuck: boolean): void {
    const { self } = this.#context;
    self.stuck = stuck;
    self.emitEvent(
      this.#context.outbox,
      stuck ? 'member.stuck' : 'member.unstuck',
      stuck ? 'the main loop of this node is blocked' : 'the main loop of this node runs again',
    );
  }

  #scheduleCheck(): void {
    const { options, outbox } = this.#context;
    outbox.schedule(Math.min(checkMsMax, options.stuckAfterMs / 4), { kind: 'mainLoop' });
  }
}
