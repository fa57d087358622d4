/**
 * Owns the lease of this worker, renewed by heartbeats to the leader. Units stop at 0.7 of the lease and are killed by
 * 0.8; the leader reassigns them at 1.1, so that a unit never runs twice at a time.
 *
 *   heartbeat --reply--> holds the lease; next heartbeat after L/4
 *             --error, no reply--> next heartbeat after a backoff with jitter
 *             --FENCED: a later generation of this node is known--> lost at once
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
  /** The heartbeat to send now. */
  heartbeat(): JobMessageOf<'workerHeartbeat'>;
  /** The leader reports these attempts as superseded. */
  stop(ids: readonly AttemptId[]): void;
  /** The leader granted the lease and may assign units. */
  granted(): void;
  /** The lease expired: every unit must end within that time. */
  expired(withinMs: number): void;
};

/** Shares of the lease. Several heartbeats fit before `stop`; `stop + grace` is 0.8, and the leader waits for 1.1. */
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
  #lastRequest = 0;
  #failures = 0;
  #cancelHeartbeat: Cancel = nothing;
  #cancelExpiry: Cancel = nothing;
  #isOpen = true;

  constructor(ports: WorkerLeasePorts, leaseMs: number) {
    this.#ports = ports;
    this.#leaseMs = leaseMs;
    this.#heartbeatAfter(0);
  }

  /** Highest term of a leader so far. */
  get term(): number {
    return this.#term;
  }

  get holds(): boolean {
    return this.#ports.clock.nowMs() < this.#untilMs;
  }

  /** False if a later term is known: the sender leads no longer. */
  acceptsTerm(term: number): boolean {
    if (term < this.#term) return false;
    this.#term = term;
    return true;
  }

  /** With jitter, because all workers learn of a new leader at the same time. */
  leaderChanged(): void {
    this.#failures = 0;
    this.#heartbeatAfter(this.#leaseMs * leaseShares.jitter * this.#ports.random.fraction());
  }

  /** Sends a heartbeat now, because its content has changed. */
  renewNow(): void {
    this.#heartbeatAfter(0);
  }

  close(): void {
    this.#isOpen = false;
    this.#cancelHeartbeat();
    this.#cancelExpiry();
  }

  #heartbeatAfter(delayMs: number): void {
    this.#cancelHeartbeat();
    if (this.#isOpen) this.#cancelHeartbeat = this.#ports.clock.schedule(delayMs, () => this.#sendHeartbeat());
  }

  #sendHeartbeat(): void {
    const { clock } = this.#ports;
    const leader = this.#ports.leader();
    const sentMs = clock.nowMs();
    this.#lastRequest += 1;
    const request = this.#lastRequest;
    if (leader === undefined) return this.#retry();
    // Scheduled before the reply, which may never come.
    this.#heartbeatAfter(this.#leaseMs * leaseShares.interval);
    this.#ports.request(leader, this.#ports.heartbeat(), this.#leaseMs * leaseShares.timeout, (outcome) => {
      if (this.#isOpen) this.#onReply(request, sentMs, outcome);
    });
  }

  #onReply(request: number, sentMs: number, outcome: Outcome<JobMessage>): void {
    const reply = outcome.ok && outcome.value.kind === 'workerHeartbeatReply' ? outcome.value : undefined;
    if (reply !== undefined && this.acceptsTerm(reply.term)) return this.#onGranted(sentMs, reply);
    if (!outcome.ok && outcome.error.code === 'FENCED') this.#expire();
    // Otherwise a later heartbeat is in flight or was answered.
    if (request === this.#lastRequest) this.#retry();
  }

  #onGranted(sentMs: number, { leaseMs, stop }: JobMessageOf<'workerHeartbeatReply'>): void {
    const { clock } = this.#ports;
    this.#leaseMs = leaseMs;
    this.#failures = 0;
    this.#untilMs = Math.max(this.#untilMs, sentMs + leaseMs * leaseShares.stop);
    this.#cancelExpiry();
    this.#cancelExpiry = clock.schedule(Math.max(0, this.#untilMs - clock.nowMs()), () => this.#expire());
    if (stop.length > 0) this.#ports.stop(stop);
    this.#ports.granted();
  }

  #retry(): void {
    const share = Math.min(leaseShares.interval, leaseShares.retryMin * 2 ** Math.min(10, this.#failures));
    this.#failures += 1;
    this.#heartbeatAfter(this.#leaseMs * share * this.#ports.random.between(0.5, 1));
  }

  /** After a pause of this node less of the grace is left, or none: another worker may have started the units. */
  #expire(): void {
    const graceMs = this.#leaseMs * leaseShares.grace;
    const leftMs = this.#untilMs + graceMs - this.#ports.clock.nowMs();
    this.#untilMs = -Infinity;
    this.#cancelExpiry();
    this.#ports.expired(Math.min(graceMs, Math.max(0, leftMs)));
  }
}
