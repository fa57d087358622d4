/** Numbers the calls of one simulated client and tracks which are open. */
import type { CallId } from '../../../../src/base/ids.ts';

export class SimulatedSession {
  readonly name: string;
  readonly #open = new Set<number>();
  #counter = 0;

  constructor(name: string) {
    this.name = name;
  }

  begin(): CallId {
    this.#open.add(++this.#counter);
    return { session: this.name, generation: 1, counter: this.#counter };
  }

  close({ counter }: CallId): void {
    this.#open.delete(counter);
  }

  get lowestOpen(): number {
    return Math.min(this.#counter, ...this.#open);
  }
}
