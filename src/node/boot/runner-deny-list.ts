/**
 * Addresses that user code may never connect to: all members, HTTP port, etcd. Returns the same array while nothing has
 * changed.
 */
import type { Address, Clock } from '../../base/ports.ts';

const lookEveryMs = 1_000;

export class RunnerDenyList {
  readonly #clock: Clock;
  readonly #others: Address[] = [];
  #members: () => readonly Address[] = () => [];
  #list: readonly Address[] = [];
  #spelled = '';
  #lookedMs = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** As soon as they are known. */
  setSources(members: () => readonly Address[], others: readonly Address[]): void {
    this.#members = members;
    this.#others.push(...others);
    this.#lookedMs = -Infinity;
  }

  addresses(): readonly Address[] {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#lookedMs < lookEveryMs) return this.#list;
    this.#lookedMs = nowMs;
    const list = [...this.#members(), ...this.#others].map(({ host, port }) => ({ host, port }));
    const spelled = list.map(({ host, port }) => `${host} ${port}`).join();
    if (spelled === this.#spelled) return this.#list;
    this.#spelled = spelled;
    this.#list = list;
    return list;
  }
}
