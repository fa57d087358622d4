/**
 * Runs asynchronous tasks: in order per key, different keys concurrently, with bounds on running and waiting tasks.
 * Does not know what a task does.
 */
import { RemusterError } from '../../base/errors.ts';

export class KeyedTaskQueue {
  readonly #runningMax: number;
  readonly #waitingMax: number;
  /** The end of the last task of each key that has unfinished tasks. */
  readonly #tails = new Map<string, Promise<void>>();
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #count = 0;

  constructor(bounds: { readonly runningMax: number; readonly waitingMax: number }) {
    this.#runningMax = bounds.runningMax;
    this.#waitingMax = bounds.waitingMax;
  }

  run<T>(key: string, task: () => Promise<T>): Promise<T> {
    if (this.#count >= this.#waitingMax) {
      return Promise.reject(new RemusterError('CAPACITY', `more than ${this.#waitingMax} file operations wait`));
    }
    this.#count += 1;
    const previous = this.#tails.get(key) ?? Promise.resolve();
    const result = previous.then(() => this.#runWithSlot(task));
    const tail: Promise<void> = result.then(
      () => this.#onEnd(key, tail),
      () => this.#onEnd(key, tail),
    );
    this.#tails.set(key, tail);
    return result;
  }

  /** Resolves when every task that was queued before has ended. */
  async idle(): Promise<void> {
    await Promise.all(this.#tails.values());
  }

  #onEnd(key: string, tail: Promise<void>): void {
    this.#count -= 1;
    if (this.#tails.get(key) === tail) this.#tails.delete(key);
  }

  async #runWithSlot<T>(task: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#runningMax) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }
}
