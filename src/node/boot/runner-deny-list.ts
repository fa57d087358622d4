/**
 * Addresses to which user code may never connect: all members, the HTTP port, etcd. Returns the same array until an
 * address changes.
 */
import type { Address, Clock } from '../../base/ports.ts';

const refreshMs = 1_000;

export class RunnerDenyList {
  readonly #clock: Clock;
  readonly #others: Address[] = [];
  #members: () => readonly Address[] = () => [];
  #list: readonly Address[] = [];
  #listText = '';
  #refreshedMs = -Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Called once the addresses are known. */
  setSources(members: () => readonly Address[], others: readonly Address[]): void {
    this.#members = members;
    this.#others.push(...others);
    this.#refreshedMs = -Infinity;
  }

  addresses(): readonly Address[] {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#refreshedMs < refreshMs) return this.#list;
    this.#refreshedMs = nowMs;
    const list = [...this.#members(), ...this.#others].map(({ host, port }) => ({ host, port }));
    const listText = list.map(({ host, port }) => `${host} ${port}`).join();
    if (listText === this.#listText) return this.#list;
    this.#listText = listText;
    this.#list = list;
    return list;
  }
}
