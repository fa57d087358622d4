/** How many moves of an hour may begin that nobody asked for. It remembers no more of them than are allowed. */
const hourMs = 3_600_000;

export class HourlyMoveBudget {
  readonly #perHourMax: number;
  #begunMs: number[] = [];

  constructor(perHourMax: number) {
    this.#perHourMax = perHourMax;
  }

  /** From when on one may begin. */
  nextFreeMs(nowMs: number): number {
    this.#begunMs = this.#begunMs.filter((atMs) => nowMs - atMs < hourMs);
    if (this.#perHourMax === 0) return Infinity;
    return this.#begunMs.length < this.#perHourMax ? nowMs : (this.#begunMs[0] ?? nowMs) + hourMs;
  }

  /** One begins. */
  take(nowMs: number): void {
    this.#begunMs.push(nowMs);
  }
}
