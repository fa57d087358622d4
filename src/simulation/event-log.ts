/**
 * What happened in a world, one line per event: virtual milliseconds, the node, the words.
 *
 *     1042.250 n3       power lost
 *
 * The same seed and commit give the same bytes. The last lines are kept, all lines go to a sink if there is one.
 * Details (each message, each connection) are only worded when asked for, because most runs are never read.
 */
import { BoundedQueue } from '../base/bounded-queue.ts';

export type LogSink = (line: string) => void;

export type EventLogOptions = {
  readonly nowMs: () => number;
  readonly detailed: boolean;
  readonly keptMax?: number;
  readonly sink?: LogSink | undefined;
};

export class EventLog {
  readonly #options: EventLogOptions;
  readonly #kept: BoundedQueue<string>;
  #count = 0;

  constructor(options: EventLogOptions) {
    this.#options = options;
    this.#kept = new BoundedQueue(options.keptMax ?? 200);
  }

  get count(): number {
    return this.#count;
  }

  add(node: string, what: string): void {
    const line = `${this.#options.nowMs().toFixed(3).padStart(12)} ${node.padEnd(8)} ${what}`;
    this.#count += 1;
    if (this.#kept.length === this.#kept.max) this.#kept.shift();
    this.#kept.push(line);
    this.#options.sink?.(line);
  }

  detail(node: string, word: () => string): void {
    if (this.#options.detailed) this.add(node, word());
  }

  last(count: number): string[] {
    return [...this.#kept].slice(-count);
  }
}
