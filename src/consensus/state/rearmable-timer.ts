/** A deadline that is moved often, with one timer under way. Stale timers are ignored, never cancelled. */
import type { ConsensusOutbox, ConsensusTimer } from './effects.ts';

export class RearmableTimer {
  readonly #outbox: ConsensusOutbox;
  readonly #kind: ConsensusTimer['kind'];
  #dueMs: number | undefined;
  #number = 0;
  #scheduledMs: number | undefined;
  /** How late the last expiry was: this node was paused for so long. */
  lateMs = 0;

  constructor(outbox: ConsensusOutbox, kind: ConsensusTimer['kind']) {
    this.#outbox = outbox;
    this.#kind = kind;
  }

  get dueMs(): number | undefined {
    return this.#dueMs;
  }

  set(dueMs: number): void {
    this.#dueMs = dueMs;
    if (this.#scheduledMs === undefined || dueMs < this.#scheduledMs) this.#schedule(dueMs);
  }

  clear(): void {
    this.#dueMs = undefined;
  }

  /** True if the deadline has passed; it is cleared then. */
  onExpired({ number }: ConsensusTimer): boolean {
    if (number !== this.#number) return false;
    this.#scheduledMs = undefined;
    if (this.#dueMs === undefined) return false;
    if (this.#outbox.nowMs < this.#dueMs) {
      this.#schedule(this.#dueMs);
      return false;
    }
    this.lateMs = this.#outbox.nowMs - this.#dueMs;
    this.#dueMs = undefined;
    return true;
  }

  #schedule(atMs: number): void {
    this.#scheduledMs = atMs;
    this.#number += 1;
    this.#outbox.schedule(atMs, { kind: this.#kind, number: this.#number });
  }
}
