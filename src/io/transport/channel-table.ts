/**
 * Channels by address, found without building a string for each message. Bounded: when it is full, a channel that
 * nobody uses makes room.
 */
import type { Address } from '../../base/ports.ts';
import { Channel } from './channel.ts';
import type { TransportLimits } from './limits.ts';

export class ChannelTable {
  readonly #limits: TransportLimits;
  readonly #byHost = new Map<string, Map<number, Channel>>();
  #count = 0;
  #last: Channel | undefined;

  constructor(limits: TransportLimits) {
    this.#limits = limits;
  }

  *[Symbol.iterator](): Generator<Channel> {
    for (const byPort of this.#byHost.values()) yield* byPort.values();
  }

  /** Undefined when there are too many, all in use. */
  get(address: Address): Channel | undefined {
    const { host, port } = address;
    const last = this.#last;
    if (last !== undefined && last.address.port === port && last.address.host === host) return last;
    this.#last = this.#byHost.get(host)?.get(port) ?? this.#make(address);
    return this.#last;
  }

  #make({ host, port }: Address): Channel | undefined {
    if (this.#count >= this.#limits.peersMax && !this.#forgetOne()) return undefined;
    // A copy: what was handed in may be a part of something larger.
    const channel = new Channel({ host, port }, this.#limits.waitingMax, this.#limits.waitingBytesMax);
    const byPort = this.#byHost.get(host) ?? new Map<number, Channel>();
    byPort.set(port, channel);
    this.#byHost.set(host, byPort);
    this.#count += 1;
    return channel;
  }

  #forgetOne(): boolean {
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
