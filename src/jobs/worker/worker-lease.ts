/**
 * Renews the worker's lease by heartbeats to the leader. Expires at 0.7 of the lease, kills the rest by 0.8; the leader
 * reassigns at 1.1.
 *
 *   report --heard--> holds; the next report after L/4
 *          --nothing, an error--> the next report soon, with jitter, and later with each failure
 *          --FENCED: a later life of this node is known--> holds no longer, at once
 */
import type { Done, Outcome } from '../../base/errors.ts';
import type { Address, Cancel, Clock, Peer } from '../../base/ports.ts';
import type { Random } from '../../base/random.ts';
import type { AttemptId, JobMessage, JobMessageOf } from '../../messages/jobs.ts';

export type WorkerLeasePorts = {
  readonly clock: Clock;
  readonly random: Random;
  leader(): Peer | undefined;
  request(to: Address, message: JobMessage, timeoutMs: number, done: Done<JobMessage>): void;
  /** What is true at this moment. */
  heartbeat(): JobMessageOf<'workerHeartbeat'>;
  /** The leader says that these are superseded. */
  stop(names: readonly AttemptId[]): void;
  /** The leader knows this worker, and may give it something. */
  granted(): void;
  /** The lease is over: everything must end within that time. */
  expired(withinMs: number): void;
};

/** Parts of the lease. Several tries fit before the stop; stop and grace together are 0.8, the leader waits for 1.1. */
const leaseShares = {
  stop: 0.7,
  interval: 0.25,
  timeout: 0.2,
  retryMin: 0.01,
  jitter: 0.01,
  grace: 0.1,
} as const;
const nothing: Cancel = () => undefined;

export class WorkerLease {
  readonly #ports: WorkerLeasePorts;
  #leaseMs: number;
  #term = 0;
  #untilMs = -Infinity;
  #asked = 0;
  #failures = 0;
  #unreport: Cancel = nothing;
  #unexpire: Cancel = nothing;
  #isOpen = true;

  constructor(ports: WorkerLeasePorts, leaseMs: number) {
    this.#ports = ports;
    this.#leaseMs = leaseMs;
    this.#reportAfter(0);
  }

  /** The highest of a leader that was heard. */
  get term(): number {
    return this.#term;
  }

  get holds(): boolean {
    return this.#ports.clock.nowMs() < this.#untilMs;
  }

  /** Somebody acts as leader of that term: false when a later one is known. */
  acceptsTerm(term: number): boolean {
    if (term < this.#term) return false;
    this.#term = term;
    return true;
  }

  /** With jitter: all workers hear of a new leader at the same moment. */
  leaderChanged(): void {
    this.#failures = 0;
    this.#reportAfter(this.#leaseMs * leaseShares.jitter * this.#ports.random.fraction());
  }

  /** Something in the report has changed that the leader should know. */
  renewNow(): void {
    this.#reportAfter(0);
  }

  close(): void {
    this.#isOpen = false;
    this.#unreport();
    this.#unexpire();
  }

  #reportAfter(delayMs: number): void {
    this.#unreport();
    if (this.#isOpen) this.#unreport = this.#ports.clock.schedule(delayMs, () => this.#report());
  }

  #report(): void {
    const { clock } = this.#ports;
    const leader = this.#ports.leader();
    const sentMs = clock.nowMs();
    this.#asked += 1;
    const asked = this.#asked;
    if (leader === undefined) return this.#failed();
    // Also if no answer should ever come.
    this.#reportAfter(this.#leaseMs * leaseShares.interval);
    this.#ports.request(leader, this.#ports.heartbeat(), this.#leaseMs * leaseShares.timeout, (outcome) => {
      if (this.#isOpen) this.#answered(asked, sentMs, outcome);
    });
  }

  #answered(asked: number, sentMs: number, outcome: Outcome<JobMessage>): void {
    const answer = outcome.ok && outcome.value.kind === 'workerHeartbeatReply' ? outcome.value : undefined;
    if (answer !== undefined && this.acceptsTerm(answer.term)) return this.#granted(sentMs, answer);
    if (!outcome.ok && outcome.error.code === 'FENCED') this.#expire();
    // A later question is under way, or has been answered.
    if (asked === this.#asked) this.#failed();
  }

  #granted(sentMs: number, { leaseMs, stop }: JobMessageOf<'workerHeartbeatReply'>): void {
    const { clock } = this.#ports;
    this.#leaseMs = leaseMs;
    this.#failures = 0;
    this.#untilMs = Math.max(this.#untilMs, sentMs + leaseMs * leaseShares.stop);
    this.#unexpire();
    this.#unexpire = clock.schedule(Math.max(0, this.#untilMs - clock.nowMs()), () => this.#expire());
    if (stop.length > 0) this.#ports.stop(stop);
    this.#ports.granted();
  }

  #failed(): void {
    const share = Math.min(leaseShares.interval, leaseShares.retryMin * 2 ** Math.min(10, this.#failures));
    this.#failures += 1;
    this.#reportAfter(this.#leaseMs * share * this.#ports.random.between(0.5, 1));
  }

  /** Who stood still hears of it late, and has less time to end, or none: others may have begun. */
  #expire(): void {
    const graceMs = this.#leaseMs * leaseShares.grace;
    const leftMs = this.#untilMs + graceMs - this.#ports.clock.nowMs();
    this.#untilMs = -Infinity;
    this.#unexpire();
    this.#ports.expired(Math.min(graceMs, Math.max(0, leftMs)));
  }
}
