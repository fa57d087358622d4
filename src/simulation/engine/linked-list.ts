/** Doubly linked list with O(1) add and remove, for timers that come and go with each step. Unbounded. */
export type ListNode<T> = {
  readonly value: T;
  previous: ListNode<T> | undefined;
  next: ListNode<T> | undefined;
  isIn: boolean;
};

export class LinkedList<T> {
  #first: ListNode<T> | undefined;
  #last: ListNode<T> | undefined;

  add(value: T): ListNode<T> {
    const node: ListNode<T> = { value, previous: this.#last, next: undefined, isIn: true };
    if (this.#last === undefined) this.#first = node;
    else this.#last.next = node;
    this.#last = node;
    return node;
  }

  /** Does nothing if the node was removed before. */
  remove(node: ListNode<T>): void {
    if (!node.isIn) return;
    const { previous, next } = node;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    node.isIn = false;
    node.previous = undefined;
    node.next = undefined;
  }

  /** A copy, so that the caller can add and remove while it iterates. */
  all(): readonly T[] {
    const all: T[] = [];
    for (let node = this.#first; node !== undefined; node = node.next) all.push(node.value);
    return all;
  }
}
