/**
 * All pretend connections of a world: it dials, and it notices for both sides what keepalives would notice: a link that
 * stays cut, a host that lost its power.
 */
import type { Failpoints } from '../base/failpoints.ts';
import type { EventLog } from './event-log.ts';
import type { Host } from './host.ts';
import type { Line } from './line.ts';
import type { Network } from './network.ts';
import type { Timeline } from './timeline.ts';

export type ConnectionLimits = {
  readonly queueBytesMax: number;
  readonly creditBytes: number;
  readonly connectTimeoutMs: number;
  readonly silenceMs: number;
};

export const defaultLimits: ConnectionLimits = {
  queueBytesMax: 4 * 2 ** 20,
  creditBytes: 256 * 1024,
  connectTimeoutMs: 3_000,
  silenceMs: 10_000,
};

export type SwitchboardOptions = {
  readonly timeline: Timeline;
  readonly network: Network;
  readonly log: EventLog;
  readonly limits: ConnectionLimits;
  readonly rare: Failpoints;
  readonly hostAt: (address: string) => Host | undefined;
};

const helloBytes = 100;
const hostsMax = 2 ** 16;

export class Switchboard {
  readonly timeline: Timeline;
  readonly network: Network;
  readonly log: EventLog;
  readonly limits: ConnectionLimits;
  readonly rare: Failpoints;
  readonly hostAt: (address: string) => Host | undefined;
  /** Lines by the directed pair of hosts that they connect. */
  readonly #lines = new Map<number, Set<Line>>();

  constructor(options: SwitchboardOptions) {
    ({ timeline: this.timeline, network: this.network, log: this.log } = options);
    ({ limits: this.limits, rare: this.rare, hostAt: this.hostAt } = options);
    this.network.onCut((from, to) => this.#cut(from, to));
  }

  enter(line: Line, from: number, to: number): void {
    const key = from * hostsMax + to;
    const known = this.#lines.get(key);
    if (known === undefined) this.#lines.set(key, new Set([line]));
    else known.add(line);
  }

  leave(line: Line, from: number, to: number): void {
    this.#lines.get(from * hostsMax + to)?.delete(line);
  }

  /** The line opens, is refused, or closes when its time is over. */
  dial(line: Line): void {
    const { far, self, address } = line;
    const patience = this.timeline.after(this.limits.connectTimeoutMs, () => {
      if (line.state === 'dialing') line.close('no answer');
    });
    line.atClose(patience);
    if (far === undefined) return;
    this.#travel(self.host, far, () => {
      if (!far.powered || line.state !== 'dialing') return;
      const listener = far.listeners.get(address.port);
      if (listener?.accept === undefined) this.#travel(far, self.host, () => line.close('refused'));
      else if (listener.cluster !== self.cluster) this.#travel(far, self.host, () => line.close('unauthenticated'));
      else listener.life.enter(() => listener.accept?.(line));
    });
  }

  /** The process behind these lines is gone. A host with power resets them, the others have to notice. */
  died(lines: readonly Line[], powered: boolean): void {
    for (const line of lines) {
      if (powered) line.hangUp('reset');
      else this.#noticeSilence(line);
    }
  }

  #noticeSilence(line: Line): void {
    const { peer } = line;
    line.close('power lost');
    if (peer !== undefined) this.timeline.after(this.limits.silenceMs, () => peer.close('silent'));
  }

  #travel(from: Host, to: Host, arrive: () => void): void {
    this.timeline.after(this.network.segmentMs(from.index, to.index, helloBytes), () => {
      if (!this.network.isCut(from.index, to.index)) arrive();
      else this.network.whenMended(from.index, to.index, arrive);
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

  #between(from: number, to: number): Iterable<Line> {
    return this.#lines.get(from * hostsMax + to) ?? [];
  }
}
