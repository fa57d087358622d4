/**
 * A simulated disk: operation queue, unsynced tails, atomic batches. It alone decides what a crash keeps, and calls a
 * process only to end an operation of that process.
 *
 *   power kept   a random prefix of the operations in flight takes effect; stored data stays
 *   power lost   the same, and of appended but unsynced bytes a random, possibly torn prefix stays
 */
import { type Done, failure, type Outcome, success } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { FileContent } from './file-content.ts';
import type { SimulatedProcess } from './simulated-process.ts';
import { StoreContent } from './store-content.ts';
import type { Timeline } from './timeline.ts';

export type DiskConditions = {
  readonly operationMs: number;
  readonly jitterMs: number;
  readonly bytesPerSecond: number;
  /** Operations that need more space fail with STORE_FULL. */
  readonly full: boolean;
};

const fastDisk: DiskConditions = {
  operationMs: 0.1,
  jitterMs: 0.2,
  bytesPerSecond: 200_000_000,
  full: false,
};

type Operation = { readonly apply: () => void };

export class SimulatedDisk {
  readonly files = new Map<string, FileContent>();
  readonly stores = new Map<string, StoreContent>();
  readonly #timeline: Timeline;
  readonly #random: Random;
  readonly #inFlight = new Set<Operation>();
  #conditions = fastDisk;
  #busyUntilMs = 0;

  constructor(timeline: Timeline, random: Random) {
    this.#timeline = timeline;
    this.#random = random;
  }

  get full(): boolean {
    return this.#conditions.full;
  }

  change(patch: Partial<DiskConditions>): void {
    this.#conditions = { ...this.#conditions, ...patch };
  }

  heal(): void {
    this.#conditions = fastDisk;
  }

  store(name: string): StoreContent {
    const known = this.stores.get(name);
    if (known !== undefined) return known;
    const created = new StoreContent();
    this.stores.set(name, created);
    return created;
  }

  /** Queues an operation. It takes effect and calls back at the same instant, unless a crash comes first. */
  write<T>(
    process: SimulatedProcess,
    sizeBytes: number,
    needsSpace: boolean,
    effect: () => Outcome<T>,
    done: Done<T>,
  ): void {
    let outcome: Outcome<T> | undefined;
    const operation: Operation = {
      apply: () => {
        outcome = needsSpace && this.full ? failure('STORE_FULL') : effect();
      },
    };
    this.#inFlight.add(operation);
    this.#timeline.at(this.#nextFreeMs(sizeBytes), () => {
      if (!this.#inFlight.delete(operation)) return;
      operation.apply();
      process.run(() => done(outcome as Outcome<T>));
    });
  }

  /** Queues behind the other operations and changes nothing. */
  read<T>(process: SimulatedProcess, read: () => Outcome<T>, done: Done<T>): void {
    this.write(process, 0, false, read, done);
  }

  crash(power: 'kept' | 'lost'): void {
    const operations = [...this.#inFlight];
    this.#inFlight.clear();
    this.#busyUntilMs = 0;
    for (const operation of operations) {
      if (this.#random.chance(0.5)) break;
      operation.apply();
    }
    if (power === 'kept') return;
    for (const [path, file] of this.files) if (!file.loseUnsynced(this.#random)) this.files.delete(path);
  }

  /** Flips one bit of a file or a store entry; returns which. */
  flipRandomBit(): string {
    const files = [...this.files].filter(([, file]) => file.sizeBytes > 0);
    const stores = [...this.stores].filter(([, store]) => store.size > 0);
    if (files.length + stores.length === 0) return 'nothing';
    const at = this.#random.below(files.length + stores.length);
    const file = files[at];
    if (file !== undefined) {
      file[1].flipBit(this.#random);
      return `file ${file[0]}`;
    }
    const [name, store] = stores[at - files.length] as [string, StoreContent];
    return `${name} ${store.flipBit(this.#random)}`;
  }

  #nextFreeMs(sizeBytes: number): number {
    const { operationMs, jitterMs, bytesPerSecond } = this.#conditions;
    const takesMs = operationMs + this.#random.fraction() * jitterMs + (sizeBytes * 1000) / bytesPerSecond;
    this.#busyUntilMs = Math.max(this.#busyUntilMs, this.#timeline.nowMs) + takesMs;
    return this.#busyUntilMs;
  }
}

export const voidSuccess = success(undefined);
