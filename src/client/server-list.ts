/**
 * Which nodes a client asks, in which order. Stays with one node while it answers; never drops an address for good.
 * Only chooses; sends nothing.
 */
import { assert } from '../base/assert.ts';
import type { Address } from '../base/ports.ts';
import type { Random } from '../base/random.ts';

/** Of a large cluster some are enough; which ones is drawn anew each time the members are learned. */
const knownMax = 64;

export class ServerList {
  readonly #given: readonly Address[];
  readonly #random: Random;
  /** Whom to ask, in this order. Never empty. */
  #order: Address[];

  constructor(given: readonly Address[], random: Random) {
    assert(given.length > 0, 'a client needs an address');
    this.#given = given;
    this.#random = random;
    this.#order = unique(given);
  }

  get current(): Address {
    return this.#order[0] as Address;
  }

  get count(): number {
    return this.#order.length;
  }

  /** The first that was not tried yet. */
  nextUntried(tried: ReadonlySet<string>): Address | undefined {
    return this.#order.find((address) => !tried.has(addressKey(address)));
  }

  /** Others are asked before it from now on. */
  demote(address: Address): void {
    const at = this.#order.findIndex((known) => addressKey(known) === addressKey(address));
    if (at === -1) return;
    const [known] = this.#order.splice(at, 1);
    this.#order.push(known as Address);
  }

  /** Those that were given stay, behind the others: the cluster may be reached through them after all of it was replaced. */
  update(alive: readonly Address[]): void {
    const { current } = this;
    const isAlive = [...alive, ...this.#given].some((address) => addressKey(address) === addressKey(current));
    const some = this.#random.shuffled(alive).slice(0, knownMax);
    this.#order = unique([...(isAlive ? [current] : []), ...some, ...this.#given]);
  }
}

export function addressKey({ host, port }: Address): string {
  return `${host}:${port}`;
}

function unique(addresses: readonly Address[]): Address[] {
  return [...new Map(addresses.map((address) => [addressKey(address), address])).values()];
}
