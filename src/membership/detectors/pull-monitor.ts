/**
 * Watches one node by probing it; the third miss in a row is a death, reported once. A worker watches its manager this
 * way; a manager with many workers uses the push detector.
 *
 *   probe --> reply in time --> no miss, next probe an interval later
 *         \-> no reply until the next probe, or the request failed --> a miss; the third in a row is a death
 *
 * Only the reply to the current probe counts: a late reply belongs to a probe that was already missed. A pause over
 * several intervals counts as one miss. The monitor stops when it reports the death, and may be started again, for the
 * same target or another. It decides nothing: its verdict is a vote. Owns no clock.
 */
import type { Log } from '../../base/ports.ts';
import type { HeartbeatTiming } from './heartbeat-timing.ts';

export type PullMonitorPorts = {
  /** Sends a probe. The caller reports its end with `onReply` or `onFailure`, or never. */
  readonly sendProbe: (seq: number) => void;
  /** The target is dead. The callback may throw, and may start the monitor again. */
  readonly onDead: () => void;
  readonly log: Log;
};

export class PullMonitor {
  readonly #intervalMs: number;
  readonly #missesMax: number;
  readonly #ports: PullMonitorPorts;
  #running = false;
  /** Continues over stops and starts, so that a reply to an earlier run never matches. */
  #seq = 0;
  #isReplyDue = false;
  #misses = 0;
  #repliedMs: number | undefined;
  #nextMs = 0;
  #callbackErrors = 0;

  constructor(timing: Pick<HeartbeatTiming, 'intervalMs' | 'missesMax'>, ports: PullMonitorPorts) {
    this.#intervalMs = timing.intervalMs;
    this.#missesMax = timing.missesMax;
    this.#ports = ports;
  }

  /** Probes at once, then every interval. False, with a warning, if it is running. */
  start(nowMs: number): boolean {
    if (this.#running) {
      this.#ports.log('warn', 'the pull monitor is already running');
      return false;
    }
    this.#running = true;
    this.#misses = 0;
    this.#repliedMs = undefined;
    this.#probe(nowMs);
    return true;
  }

  stop(): void {
    this.#running = false;
    this.#isReplyDue = false;
  }

  /** True if it is the reply to the current probe. */
  onReply(nowMs: number, seq: number): boolean {
    if (!this.#isCurrent(seq)) return false;
    this.#isReplyDue = false;
    this.#misses = 0;
    this.#repliedMs = nowMs;
    return true;
  }

  /** The probe ended without a reply: refused, reset or timed out. */
  onFailure(seq: number): void {
    if (!this.#isCurrent(seq)) return;
    this.#isReplyDue = false;
    this.#miss();
  }

  /** Probes now instead of at the end of the interval, unless a reply is due. */
  probeNow(nowMs: number): void {
    if (this.#running && !this.#isReplyDue) this.#probe(nowMs);
  }

  /** When `expire` should be called next. */
  get nextMs(): number | undefined {
    return this.#running ? this.#nextMs : undefined;
  }

  expire(nowMs: number): void {
    if (!this.#running || nowMs < this.#nextMs) return;
    const { seq } = this;
    if (this.#isReplyDue) this.#miss();
    // If the callback has started the monitor again, the new run has sent its first probe already.
    if (this.#running && this.#seq === seq) this.#probe(nowMs);
  }

  get running(): boolean {
    return this.#running;
  }

  /** Of the latest probe. */
  get seq(): number {
    return this.#seq;
  }

  /** In a row. */
  get misses(): number {
    return this.#misses;
  }

  get callbackErrors(): number {
    return this.#callbackErrors;
  }

  /** -1 before the first reply since the start. */
  timeSinceLastReplyMs(nowMs: number): number {
    return this.#repliedMs === undefined ? -1 : nowMs - this.#repliedMs;
  }

  #isCurrent(seq: number): boolean {
    return this.#running && this.#isReplyDue && seq === this.#seq;
  }

  #probe(nowMs: number): void {
    this.#seq += 1;
    this.#isReplyDue = true;
    this.#nextMs = nowMs + this.#intervalMs;
    this.#ports.sendProbe(this.#seq);
  }

  #miss(): void {
    this.#misses += 1;
    this.#ports.log('debug', 'no reply to a probe', { misses: this.#misses });
    if (this.#misses < this.#missesMax) return;
    this.stop();
    try {
      this.#ports.onDead();
    } catch (error) {
      this.#callbackErrors += 1;
      this.#ports.log('error', 'the callback of the pull monitor threw', { error: String(error) });
    }
  }
}
