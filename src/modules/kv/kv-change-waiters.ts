/**
 * Lets watchers sleep until a key of their container changes. A woken watcher reads the state again, so spurious
 * wake-ups are harmless. Bounded.
 */
import { type Context, methodError } from '../../containers/module.ts';

export const kvWaitersMax = 1_000;

export class KvChangeWaiters {
  readonly #byContainer = new Map<string, Set<() => void>>();

  wake(ctx: Context): void {
    const waiting = this.#byContainer.get(containerKey(ctx));
    if (waiting === undefined) return;
    this.#byContainer.delete(containerKey(ctx));
    for (const wake of waiting) wake();
  }

  /** Ends with the next change, or when the caller is gone. Throws CAPACITY when too many wait. */
  async next(ctx: Context): Promise<void> {
    const { signal } = ctx;
    if (signal.aborted) return;
    const name = containerKey(ctx);
    const waiting = this.#byContainer.get(name) ?? new Set();
    if (waiting.size >= kvWaitersMax)
      throw methodError('CAPACITY', `${kvWaitersMax} watchers wait for container ${ctx.container} of ${ctx.pool.name}`);
    this.#byContainer.set(name, waiting);
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        signal.removeEventListener('abort', wake);
        waiting.delete(wake);
        if (waiting.size === 0 && this.#byContainer.get(name) === waiting) this.#byContainer.delete(name);
        resolve();
      };
      waiting.add(wake);
      signal.addEventListener('abort', wake, { once: true });
    });
  }

  /** Containers with waiting watchers. */
  get size(): number {
    return this.#byContainer.size;
  }
}

/** Nodes in one process share the key: at worst they wake each other needlessly. */
function containerKey({ pool, container }: Context): string {
  return `${pool.name}/${container}`;
}
