/** Callbacks of calls that wait for another owner of a container. Bounded: CAPACITY beyond 100,000. */
import { RemusterError } from '../../base/errors.ts';
import type { Cancel } from '../../base/ports.ts';

const watchersMax = 100_000;

export class OwnerWatchers {
  readonly #byContainer = new Map<string, Set<() => void>>();
  #count = 0;

  get size(): number {
    return this.#count;
  }

  /** Throws CAPACITY when there are too many. */
  add(major: number, container: number, changed: () => void): Cancel {
    if (this.#count >= watchersMax)
      throw new RemusterError('CAPACITY', `${watchersMax} calls watch the address table, its maximum`);
    const key = `${major}/${container}`;
    const watchers = this.#byContainer.get(key) ?? new Set<() => void>();
    const watcher = (): void => changed();
    watchers.add(watcher);
    this.#byContainer.set(key, watchers);
    this.#count += 1;
    return () => {
      if (!watchers.delete(watcher)) return;
      this.#count -= 1;
      if (watchers.size === 0) this.#byContainer.delete(key);
    };
  }

  notify(major: number, container: number): void {
    if (this.#count === 0) return;
    const watchers = this.#byContainer.get(`${major}/${container}`);
    if (watchers !== undefined) for (const watcher of [...watchers]) watcher();
  }
}
