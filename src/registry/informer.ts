/**
 * Lists a key range, then watches it; lists again when history was compacted. A listener never sees a key older than it
 * saw before. Never gives up, never decides.
 *
 * Pages are read one after the other while the registry moves on, so changes are followed from the revision of the
 * first page, and those that a later page has already shown are left out: no listener ever sees a key as it was before.
 */
import type { Cancel, Clock } from '../base/ports.ts';
import type { KeyRange, RegistryChange, RegistryEntry, Registry } from '../base/registry.ts';

export type InformerEvents = {
  /** Everything, as it was at `revision` or later. What is not in it is gone. */
  loaded(entries: readonly RegistryEntry[], revision: number): void;
  changed(changes: readonly RegistryChange[], revision: number): void;
};

type Page = { readonly lastKey: string; readonly revision: number };

const pageEntries = 1_000;
const timeoutMs = 5_000;
const retryMs = 500;

export function startInformer(
  registry: Pick<Registry, 'range' | 'watch'>,
  clock: Clock,
  range: KeyRange,
  events: InformerEvents,
): Cancel {
  const follower = new Follower(registry, clock, range, events);
  follower.load();
  return () => follower.stop();
}

class Follower {
  readonly #registry: Pick<Registry, 'range' | 'watch'>;
  readonly #clock: Clock;
  readonly #range: KeyRange;
  readonly #events: InformerEvents;
  /** In the order of keys, until changes are newer than all of them. Ours are ASCII: comparing text compares bytes. */
  #pages: Page[] = [];
  #cancel: Cancel = () => {};
  #stopped = false;

  constructor(registry: Pick<Registry, 'range' | 'watch'>, clock: Clock, range: KeyRange, events: InformerEvents) {
    this.#registry = registry;
    this.#clock = clock;
    this.#range = range;
    this.#events = events;
  }

  load(): void {
    this.#pages = [];
    this.#page(this.#range.from, []);
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  #page(from: string, entries: RegistryEntry[]): void {
    if (this.#stopped) return;
    this.#registry.range({ from, to: this.#range.to }, { limit: pageEntries, timeoutMs }, (outcome) => {
      if (this.#stopped) return;
      if (!outcome.ok) {
        this.#cancel = this.#clock.schedule(retryMs, () => this.load());
        return;
      }
      const { more, revision } = outcome.value;
      const last = outcome.value.entries.at(-1);
      const isLast = !more || last === undefined;
      entries.push(...outcome.value.entries);
      this.#pages.push({ lastKey: isLast ? this.#range.to : last.key, revision });
      if (isLast) this.#follow(entries);
      else this.#page(`${last.key}\0`, entries);
    });
  }

  #follow(entries: readonly RegistryEntry[]): void {
    const since = this.#pages[0]?.revision ?? 0;
    this.#events.loaded(entries, since);
    if (this.#stopped) return;
    this.#cancel = this.#registry.watch(this.#range, since + 1, {
      changed: (changes, revision) => {
        if (!this.#stopped) this.#events.changed(this.#unseen(changes, revision), revision);
      },
      compacted: () => {
        if (!this.#stopped) this.load();
      },
    });
  }

  #unseen(changes: readonly RegistryChange[], revision: number): readonly RegistryChange[] {
    if (this.#pages.length === 0) return changes;
    if (this.#pages.every((page) => page.revision < revision)) {
      this.#pages = [];
      return changes;
    }
    return changes.filter((change) => {
      const key = change.kind === 'put' ? change.entry.key : change.key;
      const page = this.#pages.find(({ lastKey }) => key <= lastKey);
      return page === undefined || revision > page.revision;
    });
  }
}
