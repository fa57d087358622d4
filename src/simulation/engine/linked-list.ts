/** Doubly linked list with O(1) add and remove, for timers that come and go each step. Bounds nothing itself. */
export type ListNode<T> = {
  readonly of: T;
  previous: ListNode<T> | undefined;
  next: ListNode<T> | undefined;
  isIn: boolean;
};

export class LinkedList<T> {
  #first: ListNode<T> | undefined;
  #last: ListNode<T> | undefined;

  add(of: T): ListNode<T> {
    const link: ListNode<T> = { of, previous: this.#last, next: undefined, isIn: true };
    if (this.#last === undefined) this.#first = link;
    else this.#last.next = link;
    this.#last = link;
    return link;
  }

  /** Does nothing when it has left already. */
  remove(link: ListNode<T>): void {
    if (!link.isIn) return;
    const { previous, next } = link;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    link.isIn = false;
    link.previous = undefined;
    link.next = undefined;
  }

  /** A copy, so that whoever goes through it may add and remove. */
  all(): readonly T[] {
    const all: T[] = [];
    for (let link = this.#first; link !== undefined; link = link.next) all.push(link.of);
    return all;
  }
}
