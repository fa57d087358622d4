/**
 * Member side without datagrams: pings one manager, fails over to the next, raises the incarnation with each change.
 * Decides nothing about others.
 *
 * With every change of manager it raises its incarnation, so that what the new manager says of it beats what the old
 * one will say. It does the same when it hears that it was given up. The first answer of a manager is followed by a
 * ping at once: only that tells the manager that both directions work. The link decides nothing about others: that a
 * manager does not answer is a vote.
 */
import type { NodeId } from '../../base/ids.ts';
import type { Log, Peer } from '../../base/ports.ts';
import type { HeartbeatTiming } from './heartbeat-timing.ts';
import { PullMonitor } from './pull-monitor.ts';
import type { PushAck, PushPing } from './push-server.ts';

export type PushClientPorts = {
  /** Who can be pinged, in a stable order. Never ourselves. */
  readonly managers: () => readonly Peer[];
  /** What we say of ourselves; `to` tells which embedded state it may already have. */
  readonly pingContent: (to: NodeId) => Omit<PushPing, 'kind' | 'seq' | 'hearsYou'>;
  /** Sends a request. Its ending comes back as `answered` or `unanswered`. */
  readonly send: (to: Peer, ping: PushPing) => void;
  /** Raises our incarnation above this and above what it was, durably before anything is sent that follows. */
  readonly raiseAbove: (incarnation: number) => void;
  /** Our vote on a manager that does not answer. */
  readonly accuse: (manager: Peer, why: string) => void;
  /** A later life of this node was seen: this one must end. */
  readonly superseded: () => void;
  readonly log: Log;
};

export class PushClient {
  readonly #timing: HeartbeatTiming;
  readonly #ports: PushClientPorts;
  readonly #monitor: PullMonitor;
  #manager: Peer | undefined;
  /** While there is no manager to ping: when to look again. */
  #lookMs: number | undefined;
  #nowMs = 0;

  constructor(timing: HeartbeatTiming, ports: PushClientPorts) {
    this.#timing = timing;
    this.#ports = ports;
    this.#monitor = new PullMonitor(
      { intervalMs: timing.pingIntervalMs, missesMax: timing.missesMax },
      { sendProbe: (seq) => this.#ask(seq), onDead: () => this.#lost(), log: ports.log },
    );
  }

  start(nowMs: number): void {
    this.#nowMs = nowMs;
    if (this.#manager === undefined) this.#connect();
    else this.#ports.log('warn', 'the push link is already running');
  }

  stop(): void {
    this.#monitor.stop();
    this.#manager = undefined;
    this.#lookMs = undefined;
  }

  onAck(nowMs: number, ack: PushAck): void {
    this.#nowMs = nowMs;
    const isFirst = this.#monitor.timeSinceLastAnswerMs(nowMs) < 0;
    if (!this.#monitor.answered(nowMs, ack.seq)) return;
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
    this.#monitor.failed(seq);
  }

  /** The manager lives and does not want our heartbeats: the next one is asked a little later, and nobody is accused. */
  onRefused(nowMs: number, seq: number): void {
    if (!this.#monitor.running || seq !== this.#monitor.seq) return;
    this.#nowMs = nowMs;
    this.#monitor.stop();
    this.#ports.raiseAbove(0);
    this.#lookMs = nowMs + this.#timing.pingIntervalMs / 4;
  }

  /** Asks now instead of at the end of the interval: we have something to say. */
  pingNow(nowMs: number): void {
    this.#nowMs = nowMs;
    this.#monitor.probeNow(nowMs);
  }

  /** There may be a manager now. */
  retryConnect(nowMs: number): void {
    this.#nowMs = nowMs;
    if (this.#manager === undefined && this.#lookMs !== undefined) this.#connect();
  }

  /** When `expire` should be called next; it may move with every call. */
  get nextMs(): number | undefined {
    return this.#monitor.nextMs ?? this.#lookMs;
  }

  expire(nowMs: number): void {
    this.#nowMs = nowMs;
    if (this.#monitor.running) this.#monitor.expire(nowMs);
    else if (this.#lookMs !== undefined && nowMs >= this.#lookMs) this.#connect();
  }

  /** The present manager has answered. */
  get isConnected(): boolean {
    return this.#monitor.running && this.#monitor.timeSinceLastAnswerMs(this.#nowMs) >= 0;
  }

  get manager(): Peer | undefined {
    return this.#manager;
  }

  #ask(seq: number): void {
    const to = this.#manager;
    if (to === undefined) return;
    const hearsYou = this.#monitor.misses === 0 && this.#monitor.timeSinceLastAnswerMs(this.#nowMs) >= 0;
    this.#ports.send(to, { ...this.#ports.pingContent(to.id), kind: 'pushPing', seq, hearsYou });
  }

  #lost(): void {
    const lost = this.#manager;
    if (lost === undefined) return;
    this.#ports.accuse(lost, `${this.#timing.missesMax} heartbeats were not answered`);
    this.#ports.raiseAbove(0);
    this.#connect();
  }

  /** Takes the manager after the last one, in their order. */
  #connect(): void {
    const managers = this.#ports.managers();
    const last = managers.findIndex(({ id }) => id === this.#manager?.id);
    this.#manager = managers[(last + 1) % Math.max(1, managers.length)];
    this.#lookMs = this.#manager === undefined ? this.#nowMs + this.#timing.pingIntervalMs : undefined;
    if (this.#manager !== undefined) this.#monitor.start(this.#nowMs);
  }
}
