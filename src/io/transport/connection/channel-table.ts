/**
 * Channels by address, found without building a string for each message. Bounded: when it is full, a channel that
 * nobody uses makes room.
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

  /** Undefined when there are too many, all in use. */
  get(address: Address): PeerChannel | undefined {
    const { host, port } = address;
    const last = this.#last;
    if (last !== undefined && last.address.port === port && last.address.host === host) return last;
    this.#last = this.#byHost.get(host)?.get(port) ?? this.#make(address);
    return this.#last;
  }

  #make({ host, port }: Address): PeerChannel | undefined {
    if (this.#count >= this.#limits.peersMax && !this.#evictOne()) return undefined;
    // A copy: what was handed in may be a part of something larger.
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
        if (!channel.unused) continue;
        byPort.delete(port);
        if (byPort.size === 0) this.#byHost.delete(host);
        this.#count -= 1;
        return true;
      }
    }
    return false;
  }
}
