/**
 * Runs asynchronous tasks: in order per key, keys side by side, with bounds on running and waiting. Does not know what
 * a task does.
 */
import { RemusterError } from '../../base/errors.ts';

export class KeyedTaskQueue {
  readonly #runningMax: number;
  readonly #waitingMax: number;
  /** The end of the last work of each lane that has any. */
  readonly #tails = new Map<string, Promise<void>>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #count = 0;

  constructor(bounds: { readonly runningMax: number; readonly waitingMax: number }) {
    this.#runningMax = bounds.runningMax;
    this.#waitingMax = bounds.waitingMax;
  }

  run<T>(lane: string, work: () => Promise<T>): Promise<T> {
    if (this.#count >= this.#waitingMax) {
      return Promise.reject(new RemusterError('CAPACITY', `more than ${this.#waitingMax} file operations wait`));
    }
    this.#count += 1;
    const previous = this.#tails.get(lane) ?? Promise.resolve();
    const result = previous.then(() => this.#turn(work));
    const tail: Promise<void> = result.then(
      () => this.#ended(lane, tail),
      () => this.#ended(lane, tail),
    );
    this.#tails.set(lane, tail);
    return result;
  }

  /** When everything that was given so far has ended. */
  async idle(): Promise<void> {
    await Promise.all(this.#tails.values());
  }

  #ended(lane: string, tail: Promise<void>): void {
    this.#count -= 1;
    if (this.#tails.get(lane) === tail) this.#tails.delete(lane);
  }

  async #turn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#runningMax) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}
