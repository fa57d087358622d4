/**
 * Ordered keys and encoded values in memory. Every read decodes, so a caller cannot change it. Small values are
 * overwritten in place unless pinned.
 *
 * Small values lie in memory that nobody else has, and one of the same size is written over the former: to allocate
 * anew would be the dearest part of a small write. Whoever wants to look at values for longer borrows them.
 */
import { utf8SortKey, utf8Length } from '../../../base/registry-validation.ts';
import { OrderedMap } from '../../../base/collections/ordered-map.ts';
import type { StateRange } from '../../module.ts';

/** What one call wrote; null: deleted. */
export type StateChangeMap = OrderedMap<Uint8Array | null>;

/** Behind every key, and behind every key that begins like this: no well-formed text has a lone half of a pair. */
const beyond = '\udfff';

/** Larger values are not copied for our own use if nothing else lies in their memory, and never written over. */
const smallBytesMax = 4_096;

export class ContainerState {
  readonly #rows = new OrderedMap<Uint8Array>();
  #bytes = 0;
  /** How many look at values that must stay as they are. */
  #borrowers = 0;

  get size(): number {
    return this.#rows.size;
  }

  /** Of all keys and values. */
  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): Uint8Array | undefined {
    return this.#rows.get(key);
  }

  /** Small values are copied. */
  set(key: string, value: Uint8Array): void {
    const old = this.#rows.get(key);
    if (old !== undefined && old.length === value.length && this.#isOurs(old)) return old.set(value);
    this.#rows.set(key, ownOf(value));
    this.#bytes += value.length - (old === undefined ? -keyBytesOf(key) : old.length);
  }

  delete(key: string): void {
    const old = this.#rows.get(key);
    if (old === undefined) return;
    this.#bytes -= keyBytesOf(key) + old.length;
    this.#rows.delete(key);
  }

  /** What is there now stays as it is, even if it is replaced, until the borrower gives it back with what this returns. */
  pin(): () => void {
    let isBorrowed = true;
    this.#borrowers += 1;
    return () => {
      if (isBorrowed) this.#borrowers -= 1;
      isBorrowed = false;
    };
  }

  /** In order, or backwards, until the visitor returns false. */
  visit(range: StateRange, visitor: (value: Uint8Array, key: string) => boolean): void {
    visitIn(this.#rows, range, visitor);
  }

  #isOurs({ length }: Uint8Array): boolean {
    return length <= smallBytesMax && this.#borrowers === 0;
  }
}

function ownOf(value: Uint8Array): Uint8Array {
  const isAlone = value.length > smallBytesMax && value.length === value.buffer.byteLength;
  return isAlone ? value : new Uint8Array(value);
}

/** In the row of a key there is one more letter. */
export function keyBytesOf(key: string): number {
  return utf8Length(key) + 1;
}

/** Everything that one call wrote, over everything that was there. */
export function visitMerged(
  state: ContainerState,
  changes: StateChangeMap,
  range: StateRange,
  visitor: (value: Uint8Array, key: string) => boolean,
): void {
  const ours: { readonly key: string; readonly order: string; readonly value: Uint8Array | null }[] = [];
  visitIn(changes, range, (value, key) => ours.push({ key, order: utf8SortKey(key), value }) > 0);
  const isReverse = range.reverse === true;
  let next = 0;
  let isOver = false;
  const visit = (value: Uint8Array | null, key: string): boolean => {
    if (value !== null && !isOver) isOver = !visitor(value, key);
    return !isOver;
  };
  state.visit(range, (value, key) => {
    const order = utf8SortKey(key);
    for (let our = ours[next]; our !== undefined; our = ours[next]) {
      if (our.key === key || our.order < order === isReverse) break;
      next += 1;
      if (!visit(our.value, our.key)) return false;
    }
    const our = ours[next];
    if (our?.key !== key) return visit(value, key);
    next += 1;
    return visit(our.value, key);
  });
  for (const { value, key } of ours.slice(next)) if (!visit(value, key)) return;
}

function visitIn<V>(map: OrderedMap<V>, range: StateRange, visitor: (value: V, key: string) => boolean): void {
  const { prefix = '', from = prefix, to } = range;
  const end = `${prefix}${beyond}`;
  const first = utf8SortKey(from) > utf8SortKey(prefix) ? from : prefix;
  const last = to !== undefined && utf8SortKey(to) < utf8SortKey(end) ? to : end;
  if (range.reverse === true) map.visitBack(first, last, visitor);
  else map.visit(first, last, visitor);
}
