/**
 * Numbers and start times of heartbeat rounds; the lease counts from the start of a round and not from the reply,
 * because a voter that names a round has heard the leader since it began. Frozen while leadership is transferred: voters
 * can then tell the rounds of the released lease from those after a failed transfer.
 */

const roundsKept = 256;

export class HeartbeatRounds {
  readonly #beganMs: number[] = [];
  #current = 0;
  /** Rounds up to this one no longer count. */
  #floor = 0;
  #frozen = false;

  get current(): number {
    return this.#current;
  }

  get frozen(): boolean {
    return this.#frozen;
  }

  begin(nowMs: number): void {
    if (this.#frozen) return;
    this.#current += 1;
    this.#beganMs[this.#current % roundsKept] = nowMs;
  }

  /** Undefined for a round that is too old, unknown or released. */
  beganMs(round: number): number | undefined {
    if (round <= this.#floor || round > this.#current || round <= this.#current - roundsKept) return undefined;
    return this.#beganMs[round % roundsKept];
  }

  freeze(): void {
    this.#frozen = true;
  }

  /** Released rounds never count again; only later ones do. */
  unfreeze(): void {
    this.#frozen = false;
    this.#floor = this.#current;
  }
}
