/**
 * Watches one node by asking it; the third miss in a row is a death, reported once. Only the reply to the current probe
 * counts. A worker watches its manager this way; a manager with many workers uses the push detector.
 *
 *   ask --> answered in time --> no miss, ask again an interval later
 *       \-> no answer until the next question, or the request failed --> a miss; the third in a row is death, told once
 *
 * Only the answer to the present question counts: one that comes late belongs to a question that was already missed.
 * The monitor only votes. It stops with its verdict and may be started again, for the same target or the next one. Time
 * enters by argument; whoever slept through several questions has missed one.
 */
import type { Log } from '../../base/ports.ts';
import type { HeartbeatTiming } from './heartbeat-timing.ts';

export type PullMonitorPorts = {
  /** Sends the question. Its ending comes back as `answered` or `failed`, or never. */
  readonly sendProbe: (seq: number) => void;
  /** The verdict. It may throw, and may start the monitor again. */
  readonly onDead: () => void;
  readonly log: Log;
};

export class PullMonitor {
  readonly #intervalMs: number;
  readonly #missesMax: number;
  readonly #ports: PullMonitorPorts;
  #running = false;
  /** Goes on over stops and starts, so that an answer from an earlier watch never fits. */
  #seq = 0;
  #isAnswerDue = false;
  #misses = 0;
  #answeredMs: number | undefined;
  #nextMs = 0;
  #callbackErrors = 0;

  constructor(timing: Pick<HeartbeatTiming, 'intervalMs' | 'missesMax'>, ports: PullMonitorPorts) {
    this.#intervalMs = timing.intervalMs;
    this.#missesMax = timing.missesMax;
    this.#ports = ports;
  }

  /** Asks at once, then every interval. False, and a warning, when it runs already. */
  start(nowMs: number): boolean {
    if (this.#running) {
      this.#ports.log('warn', 'the pull monitor is already running');
      return false;
    }
    this.#running = true;
    this.#misses = 0;
    this.#answeredMs = undefined;
    this.#ask(nowMs);
    return true;
  }

  stop(): void {
    this.#running = false;
    this.#isAnswerDue = false;
  }

  /** True when it is the answer to the present question. */
  answered(nowMs: number, seq: number): boolean {
    if (!this.#isCurrent(seq)) return false;
    this.#isAnswerDue = false;
    this.#misses = 0;
    this.#answeredMs = nowMs;
    return true;
  }

  /** The request ended without an answer: refused, reset or too late. */
  failed(seq: number): void {
    if (!this.#isCurrent(seq)) return;
    this.#isAnswerDue = false;
    this.#miss();
  }

  /** Asks now instead of at the end of the interval, unless an answer is due. */
  probeNow(nowMs: number): void {
    if (this.#running && !this.#isAnswerDue) this.#ask(nowMs);
  }

  /** When `expire` should be called next. */
  get nextMs(): number | undefined {
    return this.#running ? this.#nextMs : undefined;
  }

  expire(nowMs: number): void {
    if (!this.#running || nowMs < this.#nextMs) return;
    const { seq } = this;
    if (this.#isAnswerDue) this.#miss();
    // A verdict that started the next watch has asked already.
    if (this.#running && this.#seq === seq) this.#ask(nowMs);
  }

  get running(): boolean {
    return this.#running;
  }

  /** Of the latest question. */
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

  /** -1 when nothing was answered in this watch. */
  timeSinceLastAnswerMs(nowMs: number): number {
    return this.#answeredMs === undefined ? -1 : nowMs - this.#answeredMs;
  }

  #isCurrent(seq: number): boolean {
    return this.#running && this.#isAnswerDue && seq === this.#seq;
  }

  #ask(nowMs: number): void {
    this.#seq += 1;
    this.#isAnswerDue = true;
    this.#nextMs = nowMs + this.#intervalMs;
    this.#ports.sendProbe(this.#seq);
  }

  #miss(): void {
    this.#misses += 1;
    this.#ports.log('debug', 'no answer', { misses: this.#misses });
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
