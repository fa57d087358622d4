/**
 * Peer channels by address. Bounded: a full table evicts an unused channel. A lookup builds no string, since there is
 * one for each message.
 */
import type { Address } from '../../../base/ports.ts';
import { PeerChannel } from './peer-channel.ts';
import type { TransportLimits } from '../shared/transport-limits.ts';

export class PeerChannelTable {
  readonly #limits: TransportLimits;
  readonly #byHost = new Map<string, Map<number, PeerChannel>>();
  #count = 0;
  #last: PeerChannel | undefined;

  constructor(limits: TransportLimits) {
    this.#limits = limits;
  }

  *[Symbol.iterator](): Generator<PeerChannel> {
    for (const byPort of this.#byHost.values()) yield* byPort.values();
  }

  /** Undefined if the table is full of channels in use. */
  get(address: Address): PeerChannel | undefined {
    const { host, port } = address;
    const last = this.#last;
    if (last !== undefined && last.address.port === port && last.address.host === host) return last;
    this.#last = this.#byHost.get(host)?.get(port) ?? this.#create(address);
    return this.#last;
  }

  #create({ host, port }: Address): PeerChannel | undefined {
    if (this.#count >= this.#limits.peersMax && !this.#evictOne()) return undefined;
    // Copies the address, which may be part of a larger object.
    const channel = new PeerChannel({ host, port }, this.#limits.waitingMax, this.#limits.waitingBytesMax);
    const byPort = this.#byHost.get(host) ?? new Map<number, PeerChannel>();
    byPort.set(port, channel);
    this.#byHost.set(host, byPort);
    this.#count += 1;
    return channel;
  }

  #evictOne(): boolean {
    for (const [host, byPort] of this.#byHost) {
      for (const [port, channel] of byPort) {
        if (!channel.isUnused) continue;
        byPort.delete(port);
        if (byPort.size === 0) this.#byHost.delete(host);
        this.#count -= 1;
        return true;
      }
    }
    return false;
  }
}
