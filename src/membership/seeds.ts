/**
 * The addresses where a cluster may be found: given by the operator, or remembered from the last life. Each is asked
 * until it answers, with growing and scattered pauses so that a cluster that starts at once does not knock at once,
 * and looked at again now and then for ever, because a long partition can make both sides forget each other.
 */
import type { Address } from '../base/ports.ts';
import type { Random } from '../base/random.ts';

type Seed = { readonly address: Address; failures: number };

export type SeedPauses = { readonly firstMs: number; readonly maxMs: number };

export class Seeds {
  readonly #random: Random;
  readonly #pauses: SeedPauses;
  readonly #seeds = new Map<string, Seed>();

  constructor(own: Address, addresses: readonly Address[], pauses: SeedPauses, random: Random) {
    this.#random = random;
    this.#pauses = pauses;
    for (const address of addresses) this.#seeds.set(keyOf(address), { address, failures: 0 });
    this.#seeds.delete(keyOf(own));
  }

  get addresses(): readonly Address[] {
    return [...this.#seeds.values()].map((seed) => seed.address);
  }

  has(address: Address): boolean {
    return this.#seeds.has(keyOf(address));
  }

  /** It turned out to be this node itself, under another name. */
  drop(address: Address): void {
    this.#seeds.delete(keyOf(address));
  }

  /** The pause after an answer, before looking whether that seed is still among the living. */
  answered(address: Address): number {
    const seed = this.#seeds.get(keyOf(address));
    if (seed !== undefined) seed.failures = 0;
    return this.#scattered(this.#pauses.maxMs);
  }

  /** The pause before asking again: it doubles from `firstMs` up to `maxMs`, less up to half of it by chance. */
  failed(address: Address): number {
    const seed = this.#seeds.get(keyOf(address));
    const doublings = Math.min(seed?.failures ?? 0, 20);
    if (seed !== undefined) seed.failures += 1;
    return this.#scattered(Math.min(this.#pauses.maxMs, this.#pauses.firstMs * 2 ** doublings));
  }

  #scattered(pauseMs: number): number {
    return this.#random.between(pauseMs / 2, pauseMs);
  }
}

function keyOf({ host, port }: Address): string {
  return `${host} ${port}`;
}
