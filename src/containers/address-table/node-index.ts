/**
 * Node ids as small integers: an index for memory and the registry's number for the WAL. Forgets none; bounded by the
 * registry.
 */
import type { NodeId } from '../../base/ids.ts';
import { hashText } from './entry-hash.ts';
import { noNodeNumber } from './wal-record.ts';

/** The index of nobody. */
export const noOwner = 0;

export class NodeIndex {
  readonly #ids: (NodeId | undefined)[] = [undefined];
  readonly #indexes = new Map<NodeId, number>();
  /** By index; `noNodeNumber` while the registry has not said. */
  readonly #numbers: number[] = [noNodeNumber];
  readonly #byNumber = new Map<number, number>();
  /** By index, for hashes that are the same on all nodes. */
  readonly #words: number[] = [0];

  /** The index, also of one that was never heard of before. */
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

  /** `nobody` for a number that nobody has. */
  indexOfNumber(number: number): number {
    return this.#byNumber.get(number) ?? noOwner;
  }

  /** Whether that was new, known, or contradicts what was known. */
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
