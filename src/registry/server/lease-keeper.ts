/**
 * The leader's leases: renewals are not logged, ends are. A new leader first catches up, then gives every lease its
 * full time, so no lease ends unheard.
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
  /** Leases whose end is under way, with the renewals that wait for it. */
  readonly #ending = new Map<LeaseId, Set<() => void>>();
  readonly #stop: readonly Cancel[];
  /** Counts the times in which this node led; 0 while it does not. */
  #reign = 0;
  #reigns = 0;
  #settled = false;

  constructor(parts: LeaseKeeperParts) {
    this.#parts = parts;
    this.#leases = new LeaseClock(parts.clock, (lease) => this.#expire(lease));
    const { leadership } = parts.group;
    this.#stop = [
      leadership.watch({ elected: () => this.#begin(), lost: () => this.#abdicate() }),
      parts.replica.observe({
        changed: () => {},
        granted: (lease, ttlMs) => {
          if (this.#settled) this.#leases.start(lease, ttlMs);
        },
        ended: (lease) => this.#ended(lease),
        replaced: () => {
          if (this.#settled) this.#restartAll();
        },
      }),
    ];
    if (leadership.isLeading()) this.#begin();
  }

  /** Leases that are counted down here. */
  get size(): number {
    return this.#leases.size;
  }

  keepAlive(lease: LeaseId, timeoutMs: number, done: Done<{ readonly ttlMs: number }>): void {
    if (this.#settled && this.#parts.group.leadership.isLeading()) return this.#renew(lease, timeoutMs, done);
    this.#parts.group.readBarrier(timeoutMs, (outcome) => {
      if (!outcome.ok) return done(outcome);
      if (this.#reign === 0) return done(failure('NOT_LEADER', undefined, 'no'));
      this.#settle();
      this.#renew(lease, timeoutMs, done);
    });
  }

  close(): void {
    for (const stop of this.#stop) stop();
    this.#abdicate();
  }

  #begin(): void {
    if (this.#reign !== 0) this.#abdicate();
    this.#reigns += 1;
    this.#reign = this.#reigns;
    this.#learn(this.#reign);
  }

  /** What was agreed before may still be on its way into this replica; nobody may be counted down before that. */
  #learn(reign: number): void {
    this.#parts.group.readBarrier(barrierTimeoutMs, (outcome) => {
      if (reign !== this.#reign) return;
      if (outcome.ok) this.#settle();
      else this.#parts.clock.schedule(retryMs, () => reign === this.#reign && !this.#settled && this.#learn(reign));
    });
  }

  #settle(): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#restartAll();
  }

  #restartAll(): void {
    this.#leases.clear();
    for (const { lease, ttlMs } of this.#parts.replica.keyspace.leases()) this.#leases.start(lease, ttlMs);
    // A lease that is being ended may be gone with what was replaced.
    for (const lease of [...this.#ending.keys()]) if (!this.#leases.has(lease)) this.#ended(lease);
  }

  #abdicate(): void {
    this.#reign = 0;
    this.#settled = false;
    this.#leases.clear();
    const ending = [...this.#ending.values()];
    this.#ending.clear();
    for (const waiting of ending) for (const proceed of waiting) proceed();
  }

  #renew(lease: LeaseId, timeoutMs: number, done: Done<{ readonly ttlMs: number }>): void {
    if (this.#reign === 0) return done(failure('NOT_LEADER', undefined, 'no'));
    const waiting = this.#ending.get(lease);
    if (waiting !== undefined) return this.#wait(waiting, lease, timeoutMs, done);
    const ttlMs = this.#leases.renew(lease);
    if (ttlMs !== undefined) return done(success({ ttlMs }));
    done(failure('LEASE_EXPIRED', `there is no lease ${lease}`, 'no'));
  }

  #wait(waiting: Set<() => void>, lease: LeaseId, timeoutMs: number, done: Done<{ readonly ttlMs: number }>): void {
    const untilMs = this.#parts.clock.nowMs() + timeoutMs;
    const proceed = (): void => {
      cancel();
      waiting.delete(proceed);
      this.#renew(lease, Math.max(0, untilMs - this.#parts.clock.nowMs()), done);
    };
    const cancel = this.#parts.clock.schedule(timeoutMs, () => {
      if (waiting.delete(proceed)) done(failure('DEADLINE', `it is not decided whether lease ${lease} has ended`));
    });
    waiting.add(proceed);
  }

  #expire(lease: LeaseId): void {
    if (!this.#ending.has(lease)) this.#ending.set(lease, new Set());
    const reign = this.#reign;
    const command = registryCommandCodec.encode({ kind: 'registryExpireLease', lease });
    this.#parts.group.propose(command, expiryTimeoutMs, (outcome) => {
      // When it was agreed, the replica has told of it already.
      if (outcome.ok || reign !== this.#reign || !this.#leases.has(lease)) return;
      if (outcome.error.stateChanged === 'no') this.#notEnded(lease);
      this.#parts.clock.schedule(retryMs, () => {
        if (reign === this.#reign && this.#leases.isDue(lease)) this.#expire(lease);
      });
    });
  }

  #ended(lease: LeaseId): void {
    this.#leases.drop(lease);
    this.#notEnded(lease);
  }

  /** Whoever waited looks again. */
  #notEnded(lease: LeaseId): void {
    const waiting = this.#ending.get(lease);
    this.#ending.delete(lease);
    for (const proceed of waiting ?? []) proceed();
  }
}
