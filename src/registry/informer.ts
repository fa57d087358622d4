/**
 * Lists a key range page by page, then watches it; lists again after compaction. Never gives up. The watch starts at
 * the revision of the first page and leaves out the changes that a later page already contains, so a listener never
 * sees a key at an older revision than before.
 */
import { assert } from '../base/assert.ts';
import type { Cancel, Clock } from '../base/ports.ts';
import type { KeyRange, RegistryChange, RegistryEntry, RegistryEpoch, Registry } from '../base/registry.ts';

export type InformerEvents = {
  /** All entries at `revision` of that epoch, or later. A key that is not among them does not exist. */
  loaded(entries: readonly RegistryEntry[], revision: number, epoch: RegistryEpoch): void;
  changed(changes: readonly RegistryChange[], revision: number): void;
};

type Page = { readonly lastKey: string; readonly epoch: RegistryEpoch; readonly revision: number };

const pageEntries = 1_000;
const timeoutMs = 5_000;
const retryDelayMs = 500;

export function startInformer(
  registry: Pick<Registry, 'range' | 'watch'>,
  clock: Clock,
  range: KeyRange,
  events: InformerEvents,
): Cancel {
  const informer = new Informer(registry, clock, range, events);
  informer.load();
  return () => informer.stop();
}

class Informer {
  readonly #registry: Pick<Registry, 'range' | 'watch'>;
  readonly #clock: Clock;
  readonly #range: KeyRange;
  readonly #events: InformerEvents;
  /** In key order; empty once changes are newer than all pages. Cluster keys are ASCII, so text order is byte order. */
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
    this.#loadPage(this.#range.from, []);
  }

  stop(): void {
    this.#stopped = true;
    this.#cancel();
  }

  #loadPage(from: string, entries: RegistryEntry[]): void {
    if (this.#stopped) return;
    this.#registry.range({ from, to: this.#range.to }, { limit: pageEntries, timeoutMs }, (outcome) => {
      if (this.#stopped) return;
      if (!outcome.ok) {
        this.#cancel = this.#clock.schedule(retryDelayMs, () => this.load());
        return;
      }
      const { epoch, more, revision } = outcome.value;
      // A restore between two pages: what was listed before it is gone.
      if (epoch !== (this.#pages[0]?.epoch ?? epoch)) return this.load();
      const last = outcome.value.entries.at(-1);
      const isLast = !more || last === undefined;
      entries.push(...outcome.value.entries);
      this.#pages.push({ lastKey: isLast ? this.#range.to : last.key, epoch, revision });
      if (isLast) this.#watch(entries);
      else this.#loadPage(`${last.key}\0`, entries);
    });
  }

  #watch(entries: readonly RegistryEntry[]): void {
    const [first] = this.#pages;
    assert(first !== undefined, 'a load has at least one page');
    const { revision: since, epoch } = first;
    this.#events.loaded(entries, since, epoch);
    if (this.#stopped) return;
    this.#cancel = this.#registry.watch(
      this.#range,
      { revision: since + 1, epoch },
      {
        changed: (changes, revision) => {
          if (!this.#stopped) this.#events.changed(this.#unseen(changes, revision), revision);
        },
        compacted: () => {
          if (!this.#stopped) this.load();
        },
      },
    );
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
