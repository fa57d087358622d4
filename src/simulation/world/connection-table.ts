/**
 * All simulated connections of a world: dials them, and closes them for both sides after a long cut or a power loss.
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
  readonly rare: Failpoints;
  readonly hostAt: (address: string) => SimulatedHost | undefined;
};

const helloBytes = 100;
const hostsMax = 2 ** 16;

export class ConnectionTable {
  readonly timeline: Timeline;
  readonly network: SimulatedNetwork;
  readonly log: SimulationLog;
  readonly limits: ConnectionLimits;
  readonly rare: Failpoints;
  readonly hostAt: (address: string) => SimulatedHost | undefined;
  /** Lines by the directed pair of hosts that they connect. */
  readonly #lines = new Map<number, Set<SimulatedConnection>>();

  constructor(options: ConnectionTableOptions) {
    ({ timeline: this.timeline, network: this.network, log: this.log } = options);
    ({ limits: this.limits, rare: this.rare, hostAt: this.hostAt } = options);
    this.network.watchCuts((from, to) => this.#cut(from, to));
  }

  add(line: SimulatedConnection, from: number, to: number): void {
    const key = from * hostsMax + to;
    const known = this.#lines.get(key);
    if (known === undefined) this.#lines.set(key, new Set([line]));
    else known.add(line);
  }

  remove(line: SimulatedConnection, from: number, to: number): void {
    this.#lines.get(from * hostsMax + to)?.delete(line);
  }

  /** The line opens, is refused, or closes when its time is over. */
  dial(line: SimulatedConnection): void {
    const { remoteHost, self, address } = line;
    const patience = this.timeline.after(this.limits.connectTimeoutMs, () => {
      if (line.state === 'dialing') line.close('no answer');
    });
    line.onClose(patience);
    if (remoteHost === undefined) return;
    this.#travel(self.host, remoteHost, () => {
      if (!remoteHost.powered || line.state !== 'dialing') return;
      const listener = remoteHost.listeners.get(address.port);
      if (listener?.accept === undefined) this.#travel(remoteHost, self.host, () => line.close('refused'));
      else if (listener.cluster !== self.cluster)
        this.#travel(remoteHost, self.host, () => line.close('unauthenticated'));
      else listener.process.run(() => listener.accept?.(line));
    });
  }

  /** The process behind these lines is gone. A host with power resets them, the others have to notice. */
  processDied(lines: readonly SimulatedConnection[], powered: boolean): void {
    for (const line of lines) {
      if (powered) line.closeGracefully('reset');
      else this.#noticeSilence(line);
    }
  }

  #noticeSilence(line: SimulatedConnection): void {
    const { peer } = line;
    line.close('power lost');
    if (peer !== undefined) this.timeline.after(this.limits.silenceMs, () => peer.close('silent'));
  }

  #travel(from: SimulatedHost, to: SimulatedHost, arrive: () => void): void {
    this.timeline.after(this.network.segmentMs(from.index, to.index, helloBytes), () => {
      if (!this.network.isCut(from.index, to.index)) arrive();
      else this.network.onceMended(from.index, to.index, arrive);
    });
  }

  #cut(from: number, to: number): void {
    this.timeline.after(this.limits.silenceMs, () => {
      if (this.timeline.nowMs - this.network.cutSinceMs(from, to) < this.limits.silenceMs) return;
      for (const line of [...this.#between(from, to), ...this.#between(to, from)]) {
        if (line.state === 'open') line.close('silent');
      }
    });
  }

  #between(from: number, to: number): Iterable<SimulatedConnection> {
    return this.#lines.get(from * hostsMax + to) ?? [];
  }
}
