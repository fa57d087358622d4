/**
 * Owners learned from replies before the registry reported them. Used to route only: never logged, in no version or
 * hash. Bounded LRU.
 */
import { BoundedLru } from '../../base/collections/bounded-lru.ts';
import type { NodeId } from '../../base/ids.ts';

export type OwnerHint = { readonly owner: NodeId | undefined; readonly version: number };

const correctionsMax = 10_000;

export class OwnerHints {
  #byContainer = new BoundedLru<string, OwnerHint>(correctionsMax);

  get size(): number {
    return this.#byContainer.size;
  }

  get(major: number, container: number): OwnerHint | undefined {
    return this.#byContainer.size === 0 ? undefined : this.#byContainer.peek(keyOf(major, container));
  }

  set(major: number, container: number, correction: OwnerHint): void {
    this.#byContainer.set(keyOf(major, container), correction);
  }

  /** The registry has spoken. */
  supersededBy(major: number, container: number, version: number): void {
    const correction = this.get(major, container);
    if (correction !== undefined && correction.version <= version) this.#byContainer.delete(keyOf(major, container));
  }

  clear(): void {
    this.#byContainer = new BoundedLru(correctionsMax);
  }
}

function keyOf(major: number, container: number): string {
  return `${major}/${container}`;
}
