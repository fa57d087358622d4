/**
 * Client side of the push detector, on a member without datagrams: pings one manager and fails over to the next.
 * Decides nothing about other members: an unreachable manager gets a vote.
 *
 * It raises its incarnation with every change of manager, so that the claims of the new manager supersede those of the
 * old one, and when it learns that it was declared dead. It pings again right after the first ack of a manager, because
 * only that ping shows the manager that both directions work.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Log, Peer } from '../../base/ports.ts';
import type { HeartbeatTiming } from './heartbeat-timing.ts';
import { PullMonitor } from './pull-monitor.ts';
import type { PushAck, PushPing } from './push-server.ts';

export type PushClientPorts = {
  /** The members that accept pings, in a stable order, without this node. */
  readonly managers: () => readonly Peer[];
  /** The report of this node; it depends on `to`, which may have the embedded state already. */
  readonly pingContent: (to: NodeId) => Omit<PushPing, 'kind' | 'seq' | 'hearsYou'>;
  /** Sends a ping. The caller reports its end with `onAck`, `onNoAck` or `onRefused`. */
  readonly send: (to: Peer, ping: PushPing) => void;
  /** Raises the incarnation of this node above this one and above its current one. */
  readonly raiseAbove: (incarnation: number) => void;
  /** The vote of this node about a manager that does not reply. */
  readonly accuse: (manager: Peer, why: string) => void;
  /** A higher generation of this node was seen: this process must end. */
  readonly superseded: () => void;
  readonly log: Log;
};

export class PushClient {
  readonly #timing: HeartbeatTiming;
  readonly #ports: PushClientPorts;
  readonly #monitor: PullMonitor;
  #manager: Peer | undefined;
  /** Without a manager to ping: when to try the next one. */
  #retryMs: number | undefined;
  #nowMs = 0;

  constructor(timing: HeartbeatTiming, ports: PushClientPorts) {
    this.#timing = timing;
    this.#ports = ports;
    this.#monitor = new PullMonitor(
      { intervalMs: timing.pingIntervalMs, missesMax: timing.missesMax },
      { sendProbe: (seq) => this.#sendPing(seq), onDead: () => this.#onManagerDead(), log: ports.log },
    );
  }

  start(nowMs: number): void {
    this.#nowMs = nowMs;
    if (this.#manager === undefined) this.#connect();
    else this.#ports.log('warn', 'the push client is already running');
  }

  stop(): void {
    this.#monitor.stop();
    this.#manager = undefined;
    this.#retryMs = undefined;
  }

  onAck(nowMs: number, ack: PushAck): void {
    this.#nowMs = nowMs;
    const isFirst = this.#monitor.timeSinceLastReplyMs(nowMs) < 0;
    if (!this.#monitor.onReply(nowMs, ack.seq)) return;
    if (ack.verdict === 'superseded') {
      this.stop();
      this.#ports.superseded();
      return;
    }
    if (ack.verdict === 'accused') this.#ports.raiseAbove(ack.known);
    if (isFirst || ack.verdict === 'accused') this.#monitor.probeNow(nowMs);
  }

  onNoAck(nowMs: number, seq: number): void {
    this.#nowMs = nowMs;
    this.#monitor.onFailure(seq);
  }

  /** The manager is alive and refuses heartbeats: tries the next one a little later, and accuses no member. */
  onRefused(nowMs: number, seq: number): void {
    if (!this.#monitor.running || seq !== this.#monitor.seq) return;
    this.#nowMs = nowMs;
    this.#monitor.stop();
    this.#ports.raiseAbove(0);
    this.#retryMs = nowMs + this.#timing.pingIntervalMs / 4;
  }

  /** Pings now instead of at the end of the interval, because the report of this node has changed. */
  pingNow(nowMs: number): void {
    this.#nowMs = nowMs;
    this.#monitor.probeNow(nowMs);
  }

  /** The view has changed: there may be a manager now. */
  retryConnect(nowMs: number): void {
    this.#nowMs = nowMs;
    if (this.#manager === undefined && this.#retryMs !== undefined) this.#connect();
  }

  /** When `expire` should be called next; any call may move it. */
  get nextMs(): number | undefined {
    return this.#monitor.nextMs ?? this.#retryMs;
  }

  expire(nowMs: number): void {
    this.#nowMs = nowMs;
    if (this.#monitor.running) this.#monitor.expire(nowMs);
    else if (this.#retryMs !== undefined && nowMs >= this.#retryMs) this.#connect();
  }

  /** The current manager has acknowledged a ping. */
  get isConnected(): boolean {
    return this.#monitor.running && this.#monitor.timeSinceLastReplyMs(this.#nowMs) >= 0;
  }

  get manager(): Peer | undefined {
    return this.#manager;
  }

  #sendPing(seq: number): void {
    const to = this.#manager;
    if (to === undefined) return;
    const hearsYou = this.#monitor.misses === 0 && this.#monitor.timeSinceLastReplyMs(this.#nowMs) >= 0;
    this.#ports.send(to, { ...this.#ports.pingContent(to.id), kind: 'pushPing', seq, hearsYou });
  }

  #onManagerDead(): void {
    const lost = this.#manager;
    if (lost === undefined) return;
    this.#ports.accuse(lost, `${this.#timing.missesMax} heartbeats were not acknowledged`);
    this.#ports.raiseAbove(0);
    this.#connect();
  }

  /** Changes to the manager after the current one, in their order. */
  #connect(): void {
    const managers = this.#ports.managers();
    const last = managers.findIndex(({ id }) => id === this.#manager?.id);
    this.#manager = managers[(last + 1) % Math.max(1, managers.length)];
    this.#retryMs = this.#manager === undefined ? this.#nowMs + this.#timing.pingIntervalMs : undefined;
    if (this.#manager !== undefined) this.#monitor.start(this.#nowMs);
  }
}
