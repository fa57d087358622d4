/**
 * Owns all simulated connections of a world: dials them, and closes both sides after a long cut or a power loss. Knows
 * nothing of what they carry.
 */
import type { Failpoints } from '../../base/failpoints.ts';
import type { SimulationLog } from '../engine/simulation-log.ts';
import type { SimulatedHost } from './simulated-host.ts';
import type { SimulatedConnection } from './simulated-connection.ts';
import type { SimulatedNetwork } from '../engine/simulated-network.ts';
import type { Timeline } from '../engine/timeline.ts';

export type ConnectionLimits = {
  readonly queueBytesMax: number;
  readonly creditBytes: number;
  readonly connectTimeoutMs: number;
  readonly silenceMs: number;
};

export const defaultConnectionLimits: ConnectionLimits = {
  queueBytesMax: 4 * 2 ** 20,
  creditBytes: 256 * 1024,
  connectTimeoutMs: 3_000,
  silenceMs: 10_000,
};

export type ConnectionTableOptions = {
  readonly timeline: Timeline;
  readonly network: SimulatedNetwork;
  readonly log: SimulationLog;
  readonly limits: ConnectionLimits;
  readonly failpoints: Failpoints;
  readonly hostAt: (address: string) => SimulatedHost | undefined;
};

const helloBytes = 100;
const hostsMax = 2 ** 16;

export class ConnectionTable {
  readonly timeline: Timeline;
  readonly network: SimulatedNetwork;
  readonly log: SimulationLog;
  readonly limits: ConnectionLimits;
  readonly failpoints: Failpoints;
  readonly hostAt: (address: string) => SimulatedHost | undefined;
  /** Connections by directed pair of hosts. */
  readonly #connections = new Map<number, Set<SimulatedConnection>>();

  constructor(options: ConnectionTableOptions) {
    ({ timeline: this.timeline, network: this.network, log: this.log } = options);
    ({ limits: this.limits, failpoints: this.failpoints, hostAt: this.hostAt } = options);
    this.network.watchCuts((from, to) => this.#onCut(from, to));
  }

  add(connection: SimulatedConnection, from: number, to: number): void {
    const key = from * hostsMax + to;
    const known = this.#connections.get(key);
    if (known === undefined) this.#connections.set(key, new Set([connection]));
    else known.add(connection);
  }

  remove(connection: SimulatedConnection, from: number, to: number): void {
    this.#connections.get(from * hostsMax + to)?.delete(connection);
  }

  /** The connection opens, is refused, or closes after the connect timeout. */
  dial(connection: SimulatedConnection): void {
    const { remoteHost, self, address } = connection;
    const cancelTimeout = this.timeline.after(this.limits.connectTimeoutMs, () => {
      if (connection.state === 'dialing') connection.close('no reply');
    });
    connection.onClose(cancelTimeout);
    if (remoteHost === undefined) return;
    this.#afterTravel(self.host, remoteHost, () => {
      if (!remoteHost.powered || connection.state !== 'dialing') return;
      const listener = remoteHost.listeners.get(address.port);
      if (listener?.accept === undefined) this.#afterTravel(remoteHost, self.host, () => connection.close('refused'));
      else if (listener.cluster !== self.cluster)
        this.#afterTravel(remoteHost, self.host, () => connection.close('unauthenticated'));
      else listener.process.run(() => listener.accept?.(connection));
    });
  }

  /** The process of these connections exited. A host with power resets them; without power the peers time out. */
  processDied(connections: readonly SimulatedConnection[], powered: boolean): void {
    for (const connection of connections) {
      if (powered) connection.closeGracefully('reset');
      else this.#closeSilently(connection);
    }
  }

  #closeSilently(connection: SimulatedConnection): void {
    const { peer } = connection;
    connection.close('power lost');
    if (peer !== undefined) this.timeline.after(this.limits.silenceMs, () => peer.close('silent'));
  }

  #afterTravel(from: SimulatedHost, to: SimulatedHost, arrive: () => void): void {
    this.timeline.after(this.network.segmentMs(from.index, to.index, helloBytes), () => {
      if (!this.network.isCut(from.index, to.index)) arrive();
      else this.network.onceMended(from.index, to.index, arrive);
    });
  }

  #onCut(from: number, to: number): void {
    this.timeline.after(this.limits.silenceMs, () => {
      if (this.timeline.nowMs - this.network.cutSinceMs(from, to) < this.limits.silenceMs) return;
      for (const connection of [...this.#between(from, to), ...this.#between(to, from)]) {
        if (connection.state === 'open') connection.close('silent');
      }
    });
  }

  #between(from: number, to: number): Iterable<SimulatedConnection> {
    return this.#connections.get(from * hostsMax + to) ?? [];
  }
}
