/**
 * Event log of a simulated world: virtual time, node, text. The same seed and commit give the same bytes. The last
 * lines are kept; a sink gets all lines. Details (messages, connections) are formatted only if the log is detailed.
 *
 *     1042.250 n3       power lost
 */
import { BoundedQueue } from '../../base/collections/bounded-queue.ts';

export type LogSink = (line: string) => void;

export type SimulationLogOptions = {
  readonly nowMs: () => number;
  readonly detailed: boolean;
  readonly keptMax?: number;
  readonly sink?: LogSink | undefined;
};

type Entry = { readonly atMs: number; readonly node: string; readonly text: string };

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

  add(node: string, text: string): void {
    const entry: Entry = { atMs: this.#options.nowMs(), node, text };
    this.#count += 1;
    if (this.#kept.length === this.#kept.max) this.#kept.shift();
    this.#kept.push(entry);
    this.#options.sink?.(lineOf(entry));
  }

  detail(node: string, format: () => string): void {
    if (this.#options.detailed) this.add(node, format());
  }

  last(count: number): string[] {
    return [...this.#kept].slice(-count).map(lineOf);
  }
}

function lineOf({ atMs, node, text }: Entry): string {
  return `${atMs.toFixed(3).padStart(12)} ${node.padEnd(8)} ${text}`;
}
