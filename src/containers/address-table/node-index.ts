/**
 * Node ids as small integers: an index for memory, and the number of the registry for the WAL. Never forgets a node;
 * the registry bounds their number.
 */
import type { NodeId } from '../../base/ids.ts';
import { hashText } from './entry-hash.ts';
import { noNodeNumber } from './wal-record.ts';

/** The index of a container without an owner. */
export const noOwner = 0;

export class NodeIndex {
  readonly #ids: (NodeId | undefined)[] = [undefined];
  readonly #indexes = new Map<NodeId, number>();
  /** By index; `noNodeNumber` until the registry has assigned one. */
  readonly #numbers: number[] = [noNodeNumber];
  readonly #byNumber = new Map<number, number>();
  /** Hashes of the ids, by index. */
  readonly #words: number[] = [0];

  /** Returns the index, and assigns one to a new id. */
  indexOf(id: NodeId | undefined): number {
    if (id === undefined) return noOwner;
    const known = this.#indexes.get(id);
    if (known !== undefined) return known;
    const index = this.#ids.length;
    this.#ids.push(id);
    this.#numbers.push(noNodeNumber);
    this.#words.push(hashText(id));
    this.#indexes.set(id, index);
    return index;
  }

  idAt(index: number): NodeId | undefined {
    return this.#ids[index];
  }

  hashAt(index: number): number {
    return this.#words[index] as number;
  }

  numberAt(index: number): number {
    return this.#numbers[index] as number;
  }

  /** `noOwner` for an unknown number. */
  indexOfNumber(number: number): number {
    return this.#byNumber.get(number) ?? noOwner;
  }

  /** Reports whether the number is new, known, or contradicts the known one. */
  setNumber(id: NodeId, number: number): 'new' | 'same' | 'changed' {
    const index = this.indexOf(id);
    const before = this.#numbers[index] as number;
    if (before === number) return 'same';
    this.#byNumber.delete(before);
    this.#numbers[index] = number;
    this.#byNumber.set(number, index);
    return before === noNodeNumber ? 'new' : 'changed';
  }

  numbered(): readonly (readonly [NodeId, number])[] {
    return this.#ids.flatMap((id, index) => {
      const number = this.#numbers[index] as number;
      return id === undefined || number === noNodeNumber ? [] : [[id, number] as const];
    });
  }
}
