/**
 * Event log of a simulated world: virtual time, node, text. Same seed and commit give the same bytes. Details are
 * formatted only on demand.
 *
 *     1042.250 n3       power lost
 *
 * The same seed and commit give the same bytes. The last lines are kept, all lines go to a sink if there is one.
 * Details (each message, each connection) are only worded when asked for, because most runs are never read.
 */
import { BoundedQueue } from '../../base/collections/bounded-queue.ts';

export type LogSink = (line: string) => void;

export type SimulationLogOptions = {
  readonly nowMs: () => number;
  readonly detailed: boolean;
  readonly keptMax?: number;
  readonly sink?: LogSink | undefined;
};

type Entry = { readonly atMs: number; readonly node: string; readonly what: string };

export class SimulationLog {
  readonly #options: SimulationLogOptions;
  readonly #kept: BoundedQueue<Entry>;
  #count = 0;

  constructor(options: SimulationLogOptions) {
    this.#options = options;
    this.#kept = new BoundedQueue(options.keptMax ?? 200);
  }

  get count(): number {
    return this.#count;
  }

  add(node: string, what: string): void {
    const entry: Entry = { atMs: this.#options.nowMs(), node, what };
    this.#count += 1;
    if (this.#kept.length === this.#kept.max) this.#kept.shift();
    this.#kept.push(entry);
    this.#options.sink?.(lineOf(entry));
  }

  detail(node: string, word: () => string): void {
    if (this.#options.detailed) this.add(node, word());
  }

  last(count: number): string[] {
    return [...this.#kept].slice(-count).map(lineOf);
  }
}

function lineOf({ atMs, node, what }: Entry): string {
  return `${atMs.toFixed(3).padStart(12)} ${node.padEnd(8)} ${what}`;
}
