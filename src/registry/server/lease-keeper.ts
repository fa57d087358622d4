/**
 * The leases on the leader. Renewals are not logged, ends are. A new leader first catches up and then gives every lease
 * its full time, so no lease ends because its renewals went to the former leader.
 */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import type { LeaseId } from '../../base/registry.ts';
import type { GroupHandle } from '../../consensus/state/state-machine.ts';
import { registryCommandCodec } from '../../messages/registry-log.ts';
import { LeaseClock } from '../keyspace/lease-clock.ts';
import type { RegistryReplica } from '../replica/registry-replica.ts';
import type { RegistryWriteResult } from '../registry-messages.ts';

export type LeaseKeeperParts = {
  readonly clock: Clock;
  readonly group: Pick<GroupHandle<RegistryWriteResult>, 'leadership' | 'propose' | 'readBarrier'>;
  readonly replica: RegistryReplica;
};

const expiryTimeoutMs = 5_000;
const retryMs = 500;
const barrierTimeoutMs = 5_000;

export class LeaseKeeper {
  readonly #parts: LeaseKeeperParts;
  readonly #leases: LeaseClock;
  /** Leases whose end is proposed, with the renewals that wait for the outcome. */
  readonly #ending = new Map<LeaseId, Set<() => void>>();
  readonly #stop: readonly Cancel[];
  /** Number of the current leadership of this node; 0 while it does not lead. */
  #leadershipEpoch = 0;
  #leaderships = 0;
  #hasCaughtUp = false;

  constructor(parts: LeaseKeeperParts) {
    this.#parts = parts;
    this.#leases = new LeaseClock(parts.clock, (lease) => this.#expire(lease));
    const { leadership } = parts.group;
    this.#stop = [
      leadership.watch({ elected: () => this.#onElected(), lost: () => this.#stepDown() }),
      parts.replica.observe({
        changed: () => {},
        granted: (lease, ttlMs) => {
          if (this.#hasCaughtUp) this.#leases.start(lease, ttlMs);
        },
        ended: (lease) => this.#onEnded(lease),
        replaced: () => {
          if (this.#hasCaughtUp) this.#restartAll();
        },
      }),
    ];
    if (leadership.isLeading()) this.#onElected();
  }

  /** Leases that expire by the clock of this node. */
  get size(): number {
    return this.#leases.size;
  }

  keepAlive(lease: LeaseId, timeoutMs: number, done: Done<{ readonly ttlMs: number }>): void {
    if (this.#hasCaughtUp && this.#parts.group.leadership.isLeading()) return this.#renew(lease, timeoutMs, done);
    this.#parts.group.readBarrier(timeoutMs, (outcome) => {
      if (!outcome.ok) return done(outcome);
      if (this.#leadershipEpoch === 0) return done(failure('NOT_LEADER', undefined, 'no'));
      this.#onCaughtUp();
      this.#renew(lease, timeoutMs, done);
    });
  }

  close(): void {
    for (const stop of this.#stop) stop();
    this.#stepDown();
  }

  #onElected(): void {
    if (this.#leadershipEpoch !== 0) this.#stepDown();
    this.#leaderships += 1;
    this.#leadershipEpoch = this.#leaderships;
    this.#catchUp(this.#leadershipEpoch);
  }

  /** Entries committed before the election may not be applied here yet: no lease may expire before that. */
  #catchUp(epoch: number): void {
    this.#parts.group.readBarrier(barrierTimeoutMs, (outcome) => {
      if (epoch !== this.#leadershipEpoch) return;
      if (outcome.ok) this.#onCaughtUp();
      else
        this.#parts.clock.schedule(
          retryMs,
          () => epoch === this.#leadershipEpoch && !this.#hasCaughtUp && this.#catchUp(epoch),
        );
    });
  }

  #onCaughtUp(): void {
    if (this.#hasCaughtUp) return;
    this.#hasCaughtUp = true;
    this.#restartAll();
  }

  #restartAll(): void {
    this.#leases.clear();
    for (const { lease, ttlMs } of this.#parts.replica.keyspace.leases()) this.#leases.start(lease, ttlMs);
    // The new state may lack a lease whose end is proposed.
    for (const lease of [...this.#ending.keys()]) if (!this.#leases.has(lease)) this.#onEnded(lease);
  }

  #stepDown(): void {
    this.#leadershipEpoch = 0;
    this.#hasCaughtUp = false;
    this.#leases.clear();
    const ending = [...this.#ending.values()];
    this.#ending.clear();
    for (const waiting of ending) for (const proceed of waiting) proceed();
  }

  #renew(lease: LeaseId, timeoutMs: number, done: Done<{ readonly ttlMs: number }>): void {
    if (this.#leadershipEpoch === 0) return done(failure('NOT_LEADER', undefined, 'no'));
    const waiting = this.#ending.get(lease);
    if (waiting !== undefined) return this.#waitForEnd(waiting, lease, timeoutMs, done);
    const ttlMs = this.#leases.renew(lease);
    if (ttlMs !== undefined) return done(success({ ttlMs }));
    done(failure('LEASE_EXPIRED', `there is no lease ${lease}`, 'no'));
  }

  #waitForEnd(
    waiting: Set<() => void>,
    lease: LeaseId,
    timeoutMs: number,
    done: Done<{ readonly ttlMs: number }>,
  ): void {
    const untilMs = this.#parts.clock.nowMs() + timeoutMs;
    const proceed = (): void => {
      cancel();
      waiting.delete(proceed);
      this.#renew(lease, Math.max(0, untilMs - this.#parts.clock.nowMs()), done);
    };
    const cancel = this.#parts.clock.schedule(timeoutMs, () => {
      if (waiting.delete(proceed))
        done(failure('DEADLINE', `it is not committed yet whether lease ${lease} has ended`));
    });
    waiting.add(proceed);
  }

  #expire(lease: LeaseId): void {
    if (!this.#ending.has(lease)) this.#ending.set(lease, new Set());
    const epoch = this.#leadershipEpoch;
    const command = registryCommandCodec.encode({ kind: 'registryExpireLease', lease });
    this.#parts.group.propose(command, expiryTimeoutMs, (outcome) => {
      // If it was committed, the replica has already notified this observer.
      if (outcome.ok || epoch !== this.#leadershipEpoch || !this.#leases.has(lease)) return;
      if (outcome.error.stateChanged === 'no') this.#resumeWaiting(lease);
      this.#parts.clock.schedule(retryMs, () => {
        if (epoch === this.#leadershipEpoch && this.#leases.isDue(lease)) this.#expire(lease);
      });
    });
  }

  #onEnded(lease: LeaseId): void {
    this.#leases.drop(lease);
    this.#resumeWaiting(lease);
  }

  /** Retries the renewals that waited for the end of this lease. */
  #resumeWaiting(lease: LeaseId): void {
    const waiting = this.#ending.get(lease);
    this.#ending.delete(lease);
    for (const proceed of waiting ?? []) proceed();
  }
}
