/** A deadline that is moved often, with one timer under way. Stale timers are ignored, never cancelled. */
import type { ConsensusOutbox, ConsensusTimer } from './effects.ts';

export class RearmableTimer {
  readonly #out: ConsensusOutbox;
  readonly #kind: ConsensusTimer['kind'];
  #dueMs: number | undefined;
  #number = 0;
  #scheduledMs: number | undefined;
  /** How late the last one came: by so much we ourselves were asleep. */
  lateMs = 0;

  constructor(out: ConsensusOutbox, kind: ConsensusTimer['kind']) {
    this.#out = out;
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

  /** True when the moment has come; it is over then. */
  onExpired({ number }: ConsensusTimer): boolean {
    if (number !== this.#number) return false;
    this.#scheduledMs = undefined;
    if (this.#dueMs === undefined) return false;
    if (this.#out.nowMs < this.#dueMs) {
      this.#schedule(this.#dueMs);
      return false;
    }
    this.lateMs = this.#out.nowMs - this.#dueMs;
    this.#dueMs = undefined;
    return true;
  }

  #schedule(atMs: number): void {
    this.#scheduledMs = atMs;
    this.#number += 1;
    this.#out.schedule(atMs, { kind: this.#kind, number: this.#number });
  }
}
