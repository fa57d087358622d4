/**
 * Deadlines of leases on one monotonic clock. A renewal moves the deadline without a new timer. Reports a lease that is
 * due, and never removes it itself.
 */
import type { Cancel, Clock } from '../../base/ports.ts';
import type { LeaseId } from '../../base/registry.ts';

type Running = { readonly ttlMs: number; dueMs: number; cancel: Cancel };

export class LeaseClock {
  readonly #clock: Clock;
  readonly #onDue: (lease: LeaseId) => void;
  readonly #running = new Map<LeaseId, Running>();

  constructor(clock: Clock, onDue: (lease: LeaseId) => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  get size(): number {
    return this.#running.size;
  }

  has(lease: LeaseId): boolean {
    return this.#running.has(lease);
  }

  /** Starts the full time of a new or known lease. */
  start(lease: LeaseId, ttlMs: number): void {
    this.#running.get(lease)?.cancel();
    const running: Running = { ttlMs, dueMs: this.#clock.nowMs() + ttlMs, cancel: () => {} };
    this.#running.set(lease, running);
    this.#schedule(lease, running);
  }

  /** Restarts the full time and returns it; undefined if there is no such lease. */
  renew(lease: LeaseId): number | undefined {
    const running = this.#running.get(lease);
    if (running === undefined) return undefined;
    // A lease that is due has no timer any more.
    if (this.isDue(lease)) this.start(lease, running.ttlMs);
    else running.dueMs = this.#clock.nowMs() + running.ttlMs;
    return running.ttlMs;
  }

  isDue(lease: LeaseId): boolean {
    const running = this.#running.get(lease);
    return running !== undefined && running.dueMs <= this.#clock.nowMs();
  }

  drop(lease: LeaseId): void {
    this.#running.get(lease)?.cancel();
    this.#running.delete(lease);
  }

  clear(): void {
    for (const { cancel } of this.#running.values()) cancel();
    this.#running.clear();
  }

  #schedule(lease: LeaseId, running: Running): void {
    running.cancel = this.#clock.schedule(Math.max(0, running.dueMs - this.#clock.nowMs()), () => {
      if (this.#running.get(lease) !== running) return;
      if (this.isDue(lease)) this.#onDue(lease);
      else this.#schedule(lease, running);
    });
  }
}
