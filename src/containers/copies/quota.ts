/**
 * How large the state of a container is, and whether some more fits. It knows the size of each entry on the disk; what is
 * on its way there is counted as if it came on top, and so never too low.
 */
import type { StoreWrite } from '../../base/ports.ts';
import type { StateEntry } from '../contract.ts';

export class Quota {
  readonly #bytesMax: number;
  readonly #sizes = new Map<string, number>();
  #bytes = 0;
  #waitingBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  start(entries: readonly StateEntry[]): void {
    for (const { key, value } of entries) this.#set(key, key.length + value.length);
  }

  /** By how much the state would grow if everything that waits were not there. */
  growthOf(writes: readonly StoreWrite[]): number {
    let growth = 0;
    for (const { key, value } of writes) {
      growth += (value === null ? 0 : key.length + value.length) - (this.#sizes.get(key) ?? 0);
    }
    return growth;
  }

  /** What makes the state no larger always fits, so that a full container can be emptied. */
  takes(growth: number): boolean {
    return growth <= 0 || this.#bytes + this.#waitingBytes + growth <= this.#bytesMax;
  }

  wait(growth: number): void {
    this.#waitingBytes += Math.max(0, growth);
  }

  stored(writes: readonly StoreWrite[], growth: number): void {
    this.#waitingBytes -= Math.max(0, growth);
    for (const { key, value } of writes) this.#set(key, value === null ? 0 : key.length + value.length);
  }

  /** Nothing is on its way any more. */
  takeBack(): void {
    this.#waitingBytes = 0;
  }

  #set(key: string, bytes: number): void {
    const known = this.#sizes.get(key) ?? 0;
    if (bytes === known) return;
    this.#bytes += bytes - known;
    if (bytes === 0) this.#sizes.delete(key);
    else this.#sizes.set(key, bytes);
  }
}
