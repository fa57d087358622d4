/**
 * Ordered keys and encoded values in memory. Every read decodes, so a caller cannot change the state. A small value is
 * private memory, and a new value of the same size overwrites it, because allocation would be the most expensive part
 * of a small write. A reader that keeps values for longer pins them.
 */
import { utf8SortKey, utf8Length } from '../../../base/registry-validation.ts';
import { OrderedMap } from '../../../base/collections/ordered-map.ts';
import type { StateRange } from '../../module.ts';

/** The writes of one call; null: deleted. */
export type StateChangeMap = OrderedMap<Uint8Array | null>;

/** Sorts after every key, also after a common prefix: well-formed text has no lone surrogate. */
const highestKey = '\udfff';

/** Larger values are not copied if their buffer holds nothing else, and never overwritten in place. */
const smallBytesMax = 4_096;

export class ContainerState {
  readonly #rows = new OrderedMap<Uint8Array>();
  #bytes = 0;
  /** The number of readers that have pinned the values. */
  #pins = 0;

  get size(): number {
    return this.#rows.size;
  }

  /** Bytes of all keys and values. */
  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): Uint8Array | undefined {
    return this.#rows.get(key);
  }

  /** Small values are copied. */
  set(key: string, value: Uint8Array): void {
    const old = this.#rows.get(key);
    if (old !== undefined && old.length === value.length && this.#canOverwrite(old)) return old.set(value);
    this.#rows.set(key, privateCopyOf(value));
    this.#bytes += value.length - (old === undefined ? -keyBytesOf(key) : old.length);
  }

  delete(key: string): void {
    const old = this.#rows.get(key);
    if (old === undefined) return;
    this.#bytes -= keyBytesOf(key) + old.length;
    this.#rows.delete(key);
  }

  /** Keeps the current values unchanged, even if they are replaced, until the returned function is called. */
  pin(): () => void {
    let isPinned = true;
    this.#pins += 1;
    return () => {
      if (isPinned) this.#pins -= 1;
      isPinned = false;
    };
  }

  /** In key order, or backwards, until the visitor returns false. */
  visit(range: StateRange, visitor: (value: Uint8Array, key: string) => boolean): void {
    visitIn(this.#rows, range, visitor);
  }

  #canOverwrite({ length }: Uint8Array): boolean {
    return length <= smallBytesMax && this.#pins === 0;
  }
}

function privateCopyOf(value: Uint8Array): Uint8Array {
  const isUnshared = value.length > smallBytesMax && value.length === value.buffer.byteLength;
  return isUnshared ? value : new Uint8Array(value);
}

/** The row of a key has one more character. */
export function keyBytesOf(key: string): number {
  return utf8Length(key) + 1;
}

/** Visits the state with the writes of one call applied. */
export function visitMerged(
  state: ContainerState,
  changes: StateChangeMap,
  range: StateRange,
  visitor: (value: Uint8Array, key: string) => boolean,
): void {
  const written: { readonly key: string; readonly order: string; readonly value: Uint8Array | null }[] = [];
  visitIn(changes, range, (value, key) => written.push({ key, order: utf8SortKey(key), value }) > 0);
  const isReverse = range.reverse === true;
  let next = 0;
  let isDone = false;
  const visit = (value: Uint8Array | null, key: string): boolean => {
    if (value !== null && !isDone) isDone = !visitor(value, key);
    return !isDone;
  };
  state.visit(range, (value, key) => {
    const order = utf8SortKey(key);
    for (let change = written[next]; change !== undefined; change = written[next]) {
      if (change.key === key || change.order < order === isReverse) break;
      next += 1;
      if (!visit(change.value, change.key)) return false;
    }
    const change = written[next];
    if (change?.key !== key) return visit(value, key);
    next += 1;
    return visit(change.value, key);
  });
  for (const { value, key } of written.slice(next)) if (!visit(value, key)) return;
}

function visitIn<V>(map: OrderedMap<V>, range: StateRange, visitor: (value: V, key: string) => boolean): void {
  const { prefix = '', from = prefix, to } = range;
  const end = `${prefix}${highestKey}`;
  const first = utf8SortKey(from) > utf8SortKey(prefix) ? from : prefix;
  const last = to !== undefined && utf8SortKey(to) < utf8SortKey(end) ? to : end;
  if (range.reverse === true) map.visitBack(first, last, visitor);
  else map.visit(first, last, visitor);
}
