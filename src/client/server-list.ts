/**
 * The nodes that a client tries, in order. Stays with one node while it replies; never drops a configured address.
 * Sends nothing.
 */
import { assert } from '../base/assert.ts';
import type { Address } from '../base/ports.ts';
import type { Random } from '../base/random.ts';

/** A random sample of a large cluster is enough; each update draws a new one. */
const knownMax = 64;

export class ServerList {
  readonly #configured: readonly Address[];
  readonly #random: Random;
  /** Addresses in the order of attempts. Never empty. */
  #order: Address[];

  constructor(configured: readonly Address[], random: Random) {
    assert(configured.length > 0, 'a client needs an address');
    this.#configured = configured;
    this.#random = random;
    this.#order = unique(configured);
  }

  get current(): Address {
    return this.#order[0] as Address;
  }

  get count(): number {
    return this.#order.length;
  }

  /** The first address that was not tried. */
  nextUntried(tried: ReadonlySet<string>): Address | undefined {
    return this.#order.find((address) => !tried.has(addressKey(address)));
  }

  /** Moves the address to the end. */
  demote(address: Address): void {
    const at = this.#order.findIndex((known) => addressKey(known) === addressKey(address));
    if (at === -1) return;
    const [known] = this.#order.splice(at, 1);
    this.#order.push(known as Address);
  }

  /** Replaces the members; configured addresses stay at the end, as the way in after all members were replaced. */
  update(alive: readonly Address[]): void {
    const { current } = this;
    const isAlive = [...alive, ...this.#configured].some((address) => addressKey(address) === addressKey(current));
    const sample = this.#random.shuffled(alive).slice(0, knownMax);
    this.#order = unique([...(isAlive ? [current] : []), ...sample, ...this.#configured]);
  }
}

export function addressKey({ host, port }: Address): string {
  return `${host}:${port}`;
}

function unique(addresses: readonly Address[]): Address[] {
  return [...new Map(addresses.map((address) => [addressKey(address), address])).values()];
}
