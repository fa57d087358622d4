/**
 * Spreads acknowledgements: at most 256 commits per loop turn, so that the next writes of the first callers reach disk
 * and replicas while the other callers are acknowledged. Knows nothing of commits.
 */
import type { Clock } from '../../base/ports.ts';

/** Enough to be worth the cost of a turn: one disk write, and one message to each replica. */
const acksPerTurn = 256;

export class AckPacer<Waiting> {
  readonly #clock: Pick<Clock, 'schedule'>;
  readonly #next: (waiting: Waiting) => void;
  /** In order of arrival, each once. Bounded by the number of containers. */
  readonly #waiting = new Set<Waiting>();
  #left = acksPerTurn;
  #isScheduled = false;

  /** Calls `next` in a later turn for each waiting container. */
  constructor(clock: Pick<Clock, 'schedule'>, next: (waiting: Waiting) => void) {
    this.#clock = clock;
    this.#next = next;
  }

  /** True: acknowledge one commit now. False: this turn is used up, and `next` is called in the next one. */
  tryAck(waiting: Waiting): boolean {
    this.#scheduleTurn();
    if (this.#left === 0) this.#waiting.add(waiting);
    else this.#left -= 1;
    return !this.#waiting.has(waiting);
  }

  /** The container has ended: it is not called any more. */
  remove(waiting: Waiting): void {
    this.#waiting.delete(waiting);
  }

  #scheduleTurn(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.schedule(0, () => {
      this.#isScheduled = false;
      this.#left = acksPerTurn;
      const waiting = [...this.#waiting];
      this.#waiting.clear();
      for (const container of waiting) this.#next(container);
    });
  }
}
