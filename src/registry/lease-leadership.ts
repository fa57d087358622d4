/**
 * Leader election by one key under a lease, for a registry that is kept in etcd. Two nodes never lead at once: the
 * leader counts its lease from *sending* the last acknowledged renewal and stops after 0.8 of it, while the registry
 * counts from receiving it and deletes the key after all of it. This holds while no clock runs a fifth faster than the
 * other.
 *
 *   read --key exists--> watch --key deleted--> campaign: grant a lease, create the key
 *     ^                                            |              |
 *     +------------- another node created it ------+              v
 *     +------------- lost: lease expired, not renewed in time --- leading: renew at a third of the time
 *
 * The fence is the revision that created the key. A later creation has a higher revision, so fences strictly increase.
 */
import { type Done, type Outcome, RemusterError, success } from '../base/errors.ts';
import { type Fence, fenceOf } from '../base/fence.ts';
import type { NodeId } from '../base/ids.ts';
import type { Cancel, Clock } from '../base/ports.ts';
import {
  type Leadership,
  type LeadershipEvents,
  type LeadershipView,
  type LeaseId,
  type RangeResult,
  type Registry,
  type RegistryEntry,
  type TransactionResult,
  onlyKey,
  type RegistryEpoch,
} from '../base/registry.ts';

export type LeaseLeadershipOptions = {
  readonly registry: Registry;
  readonly clock: Clock;
  readonly key: string;
  readonly identity: NodeId;
  readonly ttlMs: number;
  /** False: only observes the leader, never campaigns. */
  readonly candidate?: boolean;
  /** After a failed request. */
  readonly retryDelayMs?: number;
};

export type LeaseLeadership = Leadership & {
  /** Stops leading, and does not campaign for one TTL. Calls back when the lease was revoked, or the attempt failed. */
  resign(done: Done<void>): void;
  /** Stops for good: no request and no event follows. */
  stop(done: Done<void>): void;
};

/** Of the granted TTL: when the leader stops by itself, and when it renews. */
const safeRatio = 0.8;
const renewRatio = 1 / 3;
const listenersMax = 1_000;
const indexSpan = 2 ** 40;

type HeldLease = { readonly lease: LeaseId; readonly ttlMs: number; safeUntilMs: number };

const noLeader: LeadershipView = { leader: undefined, term: 0, fence: undefined };

export function createLeaseLeadership(options: LeaseLeadershipOptions): LeaseLeadership {
  const candidate = new Candidate(options);
  candidate.readLeader();
  return candidate;
}

class Candidate implements LeaseLeadership {
  readonly #options: LeaseLeadershipOptions;
  readonly #retryDelayMs: number;
  readonly #listeners = new Set<LeadershipEvents>();
  readonly #range;
  /** Of the revisions that this node has read. */
  #epoch: RegistryEpoch | undefined;
  /** Number of the current attempt; replies to requests of an earlier one are ignored. */
  #attempt = 0;
  #held: HeldLease | undefined;
  #view: LeadershipView = noLeader;
  #isLeading = false;
  #isStopped = false;
  #campaignFromMs = 0;
  #endWatch: Cancel = () => undefined;
  #timers = new Set<Cancel>();

  constructor(options: LeaseLeadershipOptions) {
    this.#options = options;
    this.#retryDelayMs = options.retryDelayMs ?? Math.min(1_000, options.ttlMs / 20);
    this.#range = onlyKey(options.key);
  }

  view(): LeadershipView {
    return this.#isLeading && !this.isLeading() ? { ...noLeader, term: this.#view.term } : this.#view;
  }

  isLeading(): boolean {
    return this.#isLeading && this.#held !== undefined && this.#options.clock.nowMs() < this.#held.safeUntilMs;
  }

  watch(events: LeadershipEvents): Cancel {
    if (this.#listeners.size >= listenersMax)
      throw new RemusterError('CAPACITY', `the leadership has ${listenersMax} listeners, its maximum`);
    // A copy, so that the same object can be registered twice.
    const own = { ...events };
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  resign(done: Done<void>): void {
    this.#campaignFromMs = this.#options.clock.nowMs() + this.#options.ttlMs;
    const held = this.#stopLeading('resigned');
    if (!this.#isStopped) this.readLeader();
    this.#revoke(held, done);
  }

  stop(done: Done<void>): void {
    const held = this.#stopLeading('stopped');
    this.#isStopped = true;
    this.#listeners.clear();
    this.#revoke(held, done);
  }

  /** Reads the leader key, then watches it or campaigns. */
  readLeader(): void {
    const attempt = this.#startAttempt();
    this.#options.registry.range(this.#range, { limit: 1 }, (outcome: Outcome<RangeResult>) => {
      if (attempt !== this.#attempt) return;
      if (!outcome.ok) return this.#schedule(this.#retryDelayMs, () => this.readLeader());
      const { entries, epoch, revision } = outcome.value;
      this.#epoch = epoch;
      this.#onLeaderKey(entries[0], revision);
    });
  }

  /** Watches the key, or campaigns if it does not exist and this node is a candidate. */
  #onLeaderKey(entry: RegistryEntry | undefined, revision: number): void {
    this.#startAttempt();
    this.#updateView(entry === undefined ? { ...noLeader, term: this.#view.term } : viewOf(entry));
    if (entry === undefined && this.#options.candidate !== false) return this.#campaignWhenAllowed();
    this.#endWatch = this.#options.registry.watch(
      this.#range,
      { revision: revision + 1, epoch: this.#epoch },
      {
        changed: (changes, at) => {
          const last = changes.at(-1);
          this.#onLeaderKey(last?.kind === 'put' ? last.entry : undefined, at);
        },
        compacted: () => this.readLeader(),
      },
    );
  }

  #campaignWhenAllowed(): void {
    const waitMs = this.#campaignFromMs - this.#options.clock.nowMs();
    // Another node may lead by then, so the key is read again.
    if (waitMs > 0) this.#schedule(waitMs, () => this.readLeader());
    else this.#campaign();
  }

  #campaign(): void {
    const attempt = this.#startAttempt();
    const { registry, clock, ttlMs } = this.#options;
    const sentMs = clock.nowMs();
    registry.grant(ttlMs, {}, (outcome) => {
      const held = outcome.ok ? { ...outcome.value, safeUntilMs: sentMs + outcome.value.ttlMs * safeRatio } : undefined;
      if (attempt !== this.#attempt) return this.#revoke(held);
      if (held === undefined) return this.#schedule(this.#retryDelayMs, () => this.readLeader());
      this.#claim(attempt, held);
    });
  }

  #claim(attempt: number, held: HeldLease): void {
    const { registry, key, identity, clock } = this.#options;
    const value = new TextEncoder().encode(identity);
    const claim = {
      compare: [{ key, target: 'createRevision', is: 'equal', than: 0 }],
      then: [{ kind: 'put', key, value, lease: held.lease }],
      otherwise: [{ kind: 'read', range: this.#range, limit: 1 }],
    } as const;
    const timeoutMs = Math.max(1, held.safeUntilMs - clock.nowMs());
    registry.transact(claim, { timeoutMs }, (outcome: Outcome<TransactionResult>) => {
      const isCurrent = attempt === this.#attempt;
      if (isCurrent && outcome.ok && outcome.value.succeeded && clock.nowMs() < held.safeUntilMs)
        return this.#lead(held, outcome.value.revision);
      // Also if the outcome is unknown: revoking the lease deletes the key if it was created.
      this.#revoke(held);
      if (!isCurrent) return;
      const [read] = outcome.ok ? outcome.value.results : [];
      const entry = read?.kind === 'read' ? read.entries[0] : undefined;
      if (outcome.ok && entry !== undefined) this.#onLeaderKey(entry, outcome.value.revision);
      else this.#schedule(this.#retryDelayMs, () => this.readLeader());
    });
  }

  #lead(held: HeldLease, revision: number): void {
    this.#startAttempt();
    const fence = fenceOfRevision(revision);
    this.#held = held;
    this.#isLeading = true;
    this.#view = { leader: this.#options.identity, term: revision, fence };
    this.#endWatch = this.#options.registry.watch(
      this.#range,
      { revision: revision + 1, epoch: this.#epoch },
      {
        changed: () => this.#lose('the key was taken away'),
        compacted: () => this.#lose('the history of the key was compacted'),
      },
    );
    this.#scheduleSafeEnd(held);
    this.#renewAt(held, held.safeUntilMs - held.ttlMs * (safeRatio - renewRatio));
    this.#notify((events) => events.elected?.(fence));
    this.#notify((events) => events.changed?.(this.#view));
  }

  /** Stops leading at the safe end of the lease unless a renewal has moved it. */
  #scheduleSafeEnd(held: HeldLease): void {
    this.#schedule(held.safeUntilMs - this.#options.clock.nowMs(), () => {
      if (this.#held !== held) return;
      if (this.#options.clock.nowMs() >= held.safeUntilMs) this.#lose('the lease was not renewed in time');
      else this.#scheduleSafeEnd(held);
    });
  }

  #renewAt(held: HeldLease, atMs: number): void {
    this.#schedule(Math.max(0, atMs - this.#options.clock.nowMs()), () => {
      if (this.#held === held) this.#renew(held);
    });
  }

  #renew(held: HeldLease): void {
    const { registry, clock } = this.#options;
    const sentMs = clock.nowMs();
    const timeoutMs = Math.max(1, Math.min(held.ttlMs * renewRatio, held.safeUntilMs - sentMs));
    registry.keepAlive(held.lease, { timeoutMs }, (outcome) => {
      if (this.#held !== held) return;
      // Too late even if it succeeded: this node has reported meanwhile that it does not lead.
      if (clock.nowMs() >= held.safeUntilMs) return this.#lose('the lease was not renewed in time');
      if (outcome.ok) {
        held.safeUntilMs = Math.max(held.safeUntilMs, sentMs + outcome.value.ttlMs * safeRatio);
        this.#renewAt(held, sentMs + outcome.value.ttlMs * renewRatio);
      } else if (outcome.error.code === 'LEASE_EXPIRED') this.#lose('the lease has expired');
      else this.#renewAt(held, clock.nowMs() + this.#retryDelayMs);
    });
  }

  #lose(reason: string): void {
    const held = this.#stopLeading(reason);
    this.#revoke(held);
    if (!this.#isStopped) this.readLeader();
  }

  /** Stops leading and campaigning. Returns the held lease, which the caller revokes. */
  #stopLeading(reason: string): HeldLease | undefined {
    const wasLeading = this.#isLeading;
    const held = this.#held;
    this.#startAttempt();
    this.#isLeading = false;
    this.#held = undefined;
    if (!wasLeading) return held;
    this.#view = { ...noLeader, term: this.#view.term };
    this.#notify((events) => events.lost?.(reason));
    this.#notify((events) => events.changed?.(this.#view));
    return held;
  }

  /** Revokes the lease if the registry can be reached; otherwise it expires by itself. */
  #revoke(held: HeldLease | undefined, done: Done<void> = () => undefined): void {
    if (held !== undefined) this.#options.registry.revoke(held.lease, { timeoutMs: held.ttlMs }, done);
    else this.#options.clock.schedule(0, () => done(success(undefined)));
  }

  #updateView(view: LeadershipView): void {
    const hasChanged = view.fence !== this.#view.fence;
    this.#view = view;
    if (hasChanged) this.#notify((events) => events.changed?.(view));
  }

  #notify(notify: (events: LeadershipEvents) => void): void {
    for (const events of [...this.#listeners]) if (this.#listeners.has(events)) notify(events);
  }

  #startAttempt(): number {
    this.#endWatch();
    this.#endWatch = () => undefined;
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    this.#attempt += 1;
    return this.#attempt;
  }

  /** Runs unless another attempt starts before. */
  #schedule(delayMs: number, run: () => void): void {
    const cancel = this.#options.clock.schedule(Math.max(0, delayMs), () => {
      this.#timers.delete(cancel);
      if (!this.#isStopped) run();
    });
    this.#timers.add(cancel);
  }
}

function viewOf({ value, createRevision }: RegistryEntry): LeadershipView {
  const leader = new TextDecoder().decode(value) as NodeId;
  return { leader, term: createRevision, fence: fenceOfRevision(createRevision) };
}

/** The revision, split into the two parts of a fence. */
function fenceOfRevision(revision: number): Fence {
  return fenceOf(Math.floor(revision / indexSpan), revision % indexSpan);
}
