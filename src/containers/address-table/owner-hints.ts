/**
 * Owners learned from replies before the registry has reported them. Used only to route: never logged, and in no
 * version or hash. A bounded LRU.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';

export type OwnerHint = { readonly owner: NodeId | undefined; readonly version: number };

const hintsMax = 10_000;

export class OwnerHints {
  #byContainer = new BoundedLru<string, OwnerHint>(hintsMax);

  get size(): number {
    return this.#byContainer.size;
  }

  get(major: number, container: number): OwnerHint | undefined {
    return this.#byContainer.size === 0 ? undefined : this.#byContainer.peek(keyOf(major, container));
  }

  set(major: number, container: number, hint: OwnerHint): void {
    this.#byContainer.set(keyOf(major, container), hint);
  }

  /** The registry has reported that version: an older hint is dropped. */
  supersededBy(major: number, container: number, version: number): void {
    const hint = this.get(major, container);
    if (hint !== undefined && hint.version <= version) this.#byContainer.delete(keyOf(major, container));
  }

  clear(): void {
    this.#byContainer = new BoundedLru(hintsMax);
  }
}

function keyOf(major: number, container: number): string {
  return `${major}/${container}`;
}
