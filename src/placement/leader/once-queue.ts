/**
 * First in, first out, each name at most once. A set alone would do, if taking its first member did not cost more the
 * more were taken before. Its bound is the number of names there are.
 */
const compactMin = 1_024;

export class UniqueQueue {
  readonly #members = new Set<string>();
  #order: string[] = [];
  #head = 0;

  get size(): number {
    return this.#members.size;
  }

  add(name: string): void {
    if (this.#members.has(name)) return;
    this.#members.add(name);
    this.#order.push(name);
    if (this.#order.length > 2 * this.#members.size + compactMin) this.#compact();
  }

  take(): string | undefined {
    while (this.#head < this.#order.length) {
      const name = this.#order[this.#head++] as string;
      if (!this.#members.delete(name)) continue;
      if (this.#head >= compactMin && this.#head * 2 >= this.#order.length) this.#compact();
      return name;
    }
    this.#order = [];
    this.#head = 0;
    return undefined;
  }

  delete(name: string): void {
    this.#members.delete(name);
  }

  clear(): void {
    this.#members.clear();
    this.#order = [];
    this.#head = 0;
  }

  /** The set keeps the order in which its members were added. */
  #compact(): void {
    this.#order = [...this.#members];
    this.#head = 0;
  }
}
