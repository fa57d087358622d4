/** Binary heap of timers by due time, then by order of scheduling. Owns no clock, fires nothing. */

export type SystemTimer = {
  readonly dueMs: number;
  readonly order: number;
  readonly run: () => void;
  /** Position in the heap, -1 outside of it. Only the heap writes it. */
  index: number;
};

export class SystemTimerHeap {
  readonly #items: SystemTimer[] = [];

  get size(): number {
    return this.#items.length;
  }

  peek(): SystemTimer | undefined {
    return this.#items[0];
  }

  push(timer: SystemTimer): void {
    this.#items.push(timer);
    this.#rise(timer, this.#items.length - 1);
  }

  /** Does nothing if the timer is not in the heap. */
  remove(timer: SystemTimer): void {
    const { index } = timer;
    if (index < 0) return;
    timer.index = -1;
    const last = this.#items.pop();
    if (last === undefined || last === timer) return;
    if (isBefore(last, timer)) this.#rise(last, index);
    else this.#sink(last, index);
  }

  #rise(timer: SystemTimer, start: number): void {
    let at = start;
    while (at > 0) {
      const parentAt = (at - 1) >> 1;
      const parent = this.#items[parentAt] as SystemTimer;
      if (!isBefore(timer, parent)) break;
      this.#place(parent, at);
      at = parentAt;
    }
    this.#place(timer, at);
  }

  #sink(timer: SystemTimer, start: number): void {
    const { length } = this.#items;
    let at = start;
    for (;;) {
      let childAt = 2 * at + 1;
      if (childAt >= length) break;
      const right = this.#items[childAt + 1];
      if (right !== undefined && isBefore(right, this.#items[childAt] as SystemTimer)) childAt += 1;
      const child = this.#items[childAt] as SystemTimer;
      if (!isBefore(child, timer)) break;
      this.#place(child, at);
      at = childAt;
    }
    this.#place(timer, at);
  }

  #place(timer: SystemTimer, index: number): void {
    this.#items[index] = timer;
    timer.index = index;
  }
}

function isBefore(a: SystemTimer, b: SystemTimer): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}
