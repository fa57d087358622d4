/**
 * Leader election by one key under a lease (registry kept in etcd). The holder stops at 0.8 of the lease, so two never
 * lead. The fence is the revision of the key.
 *
 *   look --key is there--> follow --key is gone--> campaign: grant a lease, create the key
 *     ^                                               |              |
 *     +---------------- somebody else was faster -----+              v
 *     +---------------- lost: lease gone, not renewed in time --- leading: renew at a third of the time
 *
 * The holder counts the time of its lease from *sending* the last renewal that was answered, and stops after 0.8 of it.
 * The registry counts from receiving it and ends the key after all of it. So the old leader has stopped before anybody
 * can lead next, whatever is lost or late in between, as long as no clock runs a fifth faster than the other.
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
} from '../base/registry.ts';

export type LeaseLeadershipOptions = {
  readonly registry: Registry;
  readonly clock: Clock;
  readonly key: string;
  readonly identity: NodeId;
  readonly ttlMs: number;
  /** False: only looks who leads, and never wants to. */
  readonly candidate?: boolean;
  /** After a call that failed. */
  readonly retryDelayMs?: number;
};

export type LeaseLeadership = Leadership & {
  /** Gives up leading, and lets others go first for the time of one lease. Ends when the key is gone, or may be so. */
  resign(done: Done<void>): void;
  /** The same for good: nothing is called or told any more. */
  stop(done: Done<void>): void;
};

/** Of the granted time: when the holder stops on its own, and when it renews. */
const safeRatio = 0.8;
const renewRatio = 1 / 3;
const listenersMax = 1_000;
const indexSpan = 2 ** 40;

type Held = { readonly lease: LeaseId; readonly ttlMs: number; safeUntilMs: number };

const nobody: LeadershipView = { leader: undefined, term: 0, fence: undefined };

export function createLeaseLeadership(options: LeaseLeadershipOptions): LeaseLeadership {
  const candidate = new Candidate(options);
  candidate.look();
  return candidate;
}

class Candidate implements LeaseLeadership {
  readonly #options: LeaseLeadershipOptions;
  readonly #retryMs: number;
  readonly #listeners = new Set<LeadershipEvents>();
  readonly #range;
  /** Raised by each change of plan; what was begun under an older one has no say any more. */
  #plan = 0;
  #held: Held | undefined;
  #view: LeadershipView = nobody;
  #isLeading = false;
  #isStopped = false;
  #campaignFromMs = 0;
  #endWatch: Cancel = () => undefined;
  #timers = new Set<Cancel>();

  constructor(options: LeaseLeadershipOptions) {
    this.#options = options;
    this.#retryMs = options.retryDelayMs ?? Math.min(1_000, options.ttlMs / 20);
    this.#range = onlyKey(options.key);
  }

  view(): LeadershipView {
    return this.#isLeading && !this.isLeading() ? { ...nobody, term: this.#view.term } : this.#view;
  }

  isLeading(): boolean {
    return this.#isLeading && this.#held !== undefined && this.#options.clock.nowMs() < this.#held.safeUntilMs;
  }

  watch(events: LeadershipEvents): Cancel {
    if (this.#listeners.size >= listenersMax) throw new RemusterError('CAPACITY', 'too many listeners for one group');
    // A copy, so that the same object can be given twice.
    const own = { ...events };
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  resign(done: Done<void>): void {
    this.#campaignFromMs = this.#options.clock.nowMs() + this.#options.ttlMs;
    const held = this.#letGo('resigned');
    if (!this.#isStopped) this.look();
    this.#release(held, done);
  }

  stop(done: Done<void>): void {
    const held = this.#letGo('stopped');
    this.#isStopped = true;
    this.#listeners.clear();
    this.#release(held, done);
  }

  /** Who leads now? */
  look(): void {
    const plan = this.#newPlan();
    this.#options.registry.range(this.#range, { limit: 1 }, (outcome: Outcome<RangeResult>) => {
      if (plan !== this.#plan) return;
      if (!outcome.ok) return this.#later(this.#retryMs, () => this.look());
      const { entries, revision } = outcome.value;
      this.#follow(entries[0], revision);
    });
  }

  /** Watches the key; when it is gone, campaigns, if it wants to lead at all. */
  #follow(entry: RegistryEntry | undefined, revision: number): void {
    this.#newPlan();
    this.#see(entry === undefined ? { ...nobody, term: this.#view.term } : viewOf(entry));
    if (entry === undefined && this.#options.candidate !== false) return this.#campaignWhenAllowed();
    this.#endWatch = this.#options.registry.watch(this.#range, revision + 1, {
      changed: (changes, at) => {
        const last = changes.at(-1);
        this.#follow(last?.kind === 'put' ? last.entry : undefined, at);
      },
      compacted: () => this.look(),
    });
  }

  #campaignWhenAllowed(): void {
    const waitMs = this.#campaignFromMs - this.#options.clock.nowMs();
    // Somebody else may lead meanwhile, so look again after the wait.
    if (waitMs > 0) this.#later(waitMs, () => this.look());
    else this.#campaign();
  }

  #campaign(): void {
    const plan = this.#newPlan();
    const { registry, clock, ttlMs } = this.#options;
    const sentMs = clock.nowMs();
    registry.grant(ttlMs, {}, (outcome) => {
      const held = outcome.ok ? { ...outcome.value, safeUntilMs: sentMs + outcome.value.ttlMs * safeRatio } : undefined;
      if (plan !== this.#plan) return this.#release(held);
      if (held === undefined) return this.#later(this.#retryMs, () => this.look());
      this.#claim(plan, held);
    });
  }

  #claim(plan: number, held: Held): void {
    const { registry, key, identity, clock } = this.#options;
    const value = new TextEncoder().encode(identity);
    const claim = {
      compare: [{ key, target: 'createRevision', is: 'equal', than: 0 }],
      then: [{ kind: 'put', key, value, lease: held.lease }],
      otherwise: [{ kind: 'read', range: this.#range, limit: 1 }],
    } as const;
    const timeoutMs = Math.max(1, held.safeUntilMs - clock.nowMs());
    registry.transact(claim, { timeoutMs }, (outcome: Outcome<TransactionResult>) => {
      const isCurrent = plan === this.#plan;
      if (isCurrent && outcome.ok && outcome.value.succeeded && clock.nowMs() < held.safeUntilMs)
        return this.#lead(held, outcome.value.revision);
      // Also when the outcome is unknown: with its lease the key goes as well, if it was created.
      this.#release(held);
      if (!isCurrent) return;
      const [read] = outcome.ok ? outcome.value.results : [];
      const entry = read?.kind === 'read' ? read.entries[0] : undefined;
      if (outcome.ok && entry !== undefined) this.#follow(entry, outcome.value.revision);
      else this.#later(this.#retryMs, () => this.look());
    });
  }

  #lead(held: Held, revision: number): void {
    this.#newPlan();
    const fence = fenceOfRevision(revision);
    this.#held = held;
    this.#isLeading = true;
    this.#view = { leader: this.#options.identity, term: revision, fence };
    this.#endWatch = this.#options.registry.watch(this.#range, revision + 1, {
      changed: () => this.#lose('the key was taken away'),
      compacted: () => this.#lose('the registry forgot what happened to the key'),
    });
    this.#guard(held);
    this.#renewAt(held, held.safeUntilMs - held.ttlMs * (safeRatio - renewRatio));
    this.#tell((events) => events.elected?.(fence));
    this.#tell((events) => events.changed?.(this.#view));
  }

  /** Stops on its own when no renewal has moved the end. */
  #guard(held: Held): void {
    this.#later(held.safeUntilMs - this.#options.clock.nowMs(), () => {
      if (this.#held !== held) return;
      if (this.#options.clock.nowMs() >= held.safeUntilMs) this.#lose('the lease was not renewed in time');
      else this.#guard(held);
    });
  }

  #renewAt(held: Held, atMs: number): void {
    this.#later(Math.max(0, atMs - this.#options.clock.nowMs()), () => {
      if (this.#held === held) this.#renew(held);
    });
  }

  #renew(held: Held): void {
    const { registry, clock } = this.#options;
    const sentMs = clock.nowMs();
    const timeoutMs = Math.max(1, Math.min(held.ttlMs * renewRatio, held.safeUntilMs - sentMs));
    registry.keepAlive(held.lease, { timeoutMs }, (outcome) => {
      if (this.#held !== held) return;
      // Too late, even if it went well: we have said meanwhile that we do not lead.
      if (clock.nowMs() >= held.safeUntilMs) return this.#lose('the lease was not renewed in time');
      if (outcome.ok) {
        held.safeUntilMs = Math.max(held.safeUntilMs, sentMs + outcome.value.ttlMs * safeRatio);
        this.#renewAt(held, sentMs + outcome.value.ttlMs * renewRatio);
      } else if (outcome.error.code === 'LEASE_EXPIRED') this.#lose('the lease is gone');
      else this.#renewAt(held, clock.nowMs() + this.#retryMs);
    });
  }

  #lose(reason: string): void {
    const held = this.#letGo(reason);
    this.#release(held);
    if (!this.#isStopped) this.look();
  }

  /** From here on we do not lead and do not campaign; the lease is returned, to be given back. */
  #letGo(reason: string): Held | undefined {
    const wasLeading = this.#isLeading;
    const held = this.#held;
    this.#newPlan();
    this.#isLeading = false;
    this.#held = undefined;
    if (!wasLeading) return held;
    this.#view = { ...nobody, term: this.#view.term };
    this.#tell((events) => events.lost?.(reason));
    this.#tell((events) => events.changed?.(this.#view));
    return held;
  }

  /** As far as the registry can be reached; otherwise the lease ends by itself. */
  #release(held: Held | undefined, done: Done<void> = () => undefined): void {
    if (held !== undefined) this.#options.registry.revoke(held.lease, { timeoutMs: held.ttlMs }, done);
    else this.#options.clock.schedule(0, () => done(success(undefined)));
  }

  #see(view: LeadershipView): void {
    const isNews = view.fence !== this.#view.fence;
    this.#view = view;
    if (isNews) this.#tell((events) => events.changed?.(view));
  }

  #tell(tell: (events: LeadershipEvents) => void): void {
    for (const events of [...this.#listeners]) if (this.#listeners.has(events)) tell(events);
  }

  #newPlan(): number {
    this.#endWatch();
    this.#endWatch = () => undefined;
    for (const cancel of this.#timers) cancel();
    this.#timers.clear();
    this.#plan += 1;
    return this.#plan;
  }

  /** Unless the plan changes before. */
  #later(delayMs: number, run: () => void): void {
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

/** The revision itself, in the two parts that a fence has. */
function fenceOfRevision(revision: number): Fence {
  return fenceOf(Math.floor(revision / indexSpan), revision % indexSpan);
}
