/**
 * At most 256 commits are acknowledged per loop turn, so callers' next writes leave while others are acknowledged;
 * otherwise disks and replicas would wait meanwhile. Knows nothing of commits.
 */
import type { Clock } from '../../base/ports.ts';

/** Enough that a turn is worth what each turn costs: a write to the disk, and a message to each copy. */
const acksPerTurn = 256;

export class AckPacer<Waiting> {
  readonly #clock: Pick<Clock, 'schedule'>;
  readonly #next: (waiting: Waiting) => void;
  /** In order; each once. Bounded by the number of containers. */
  readonly #waiting = new Set<Waiting>();
  #left = acksPerTurn;
  #isScheduled = false;

  /** `next` is called in a later turn for everybody who waits. */
  constructor(clock: Pick<Clock, 'schedule'>, next: (waiting: Waiting) => void) {
    this.#clock = clock;
    this.#next = next;
  }

  /** May one more be answered in this turn? If not, whoever asks is called in the next one. */
  tryAck(waiting: Waiting): boolean {
    this.#turnSoon();
    if (this.#left === 0) this.#waiting.add(waiting);
    else this.#left -= 1;
    return !this.#waiting.has(waiting);
  }

  /** It is over, and not to be called any more. */
  remove(waiting: Waiting): void {
    this.#waiting.delete(waiting);
  }

  #turnSoon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.schedule(0, () => {
      this.#isScheduled = false;
      this.#left = acksPerTurn;
      const waiting = [...this.#waiting];
      this.#waiting.clear();
      for (const one of waiting) this.#next(one);
    });
  }
}
