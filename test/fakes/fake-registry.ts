/**
 * Fake `Registry` in one process on a real key space, without consensus. Each connection can be interrupted and resumed
 * as by a network; leases go on meanwhile. For tests only.
 */
import { type Done, type ErrorCode, type Outcome, failure, success } from '../../src/base/errors.ts';
import type { Cancel, Clock } from '../../src/base/ports.ts';
import {
  type KeyRange,
  type LeaseId,
  type RangeOptions,
  type Registry,
  type RegistryOp,
  type RegistryTransaction,
  type WatchEvents,
  type WriteOptions,
  registryLimits,
} from '../../src/base/registry.ts';
import {
  validateLease,
  validateLimit,
  validateRange,
  validateWatchRevision,
} from '../../src/base/registry-validation.ts';
import { Keyspace, type KeyspaceLimits } from '../../src/registry/keyspace/keyspace.ts';
import { LeaseClock } from '../../src/registry/keyspace/lease-clock.ts';

const defaultTimeoutMs = 5_000;
const callsHeldMax = 10_000;

export type FakeRegistry = Registry & {
  readonly keyspace: Keyspace;
  /**
   * From now on calls of this side end with that code: those that mean "too late" after their timeout, others at once.
   * Without a code they wait for `resume`, and end with DEADLINE if it does not come in time. With `happens` they are
   * executed all the same, and only the answer is lost. Watches are silent until `resume` and then catch up.
   */
  interrupt(code?: ErrorCode, options?: { readonly happens?: boolean }): void;
  resume(): void;
  /** Another side of the same key space, with interruptions of its own. */
  connect(): FakeRegistry;
  /** No lease ends and no watch tells anything from now on. */
  close(): void;
};

type Interruption = { readonly code: ErrorCode | undefined; readonly happens: boolean };
type Watcher = { readonly range: KeyRange; next: number; readonly events: WatchEvents };

export function fakeRegistry(options: {
  readonly clock: Clock;
  readonly limits?: Partial<KeyspaceLimits>;
}): FakeRegistry {
  return new FakeConnection(new SharedKeyspace(options.clock, new Keyspace(options.limits)));
}

/** The caller may write to its bytes again. What is no bytes is left for the key space to refuse. */
function ownOp(op: RegistryOp): RegistryOp {
  return op.kind === 'put' && op.value instanceof Uint8Array ? { ...op, value: new Uint8Array(op.value) } : op;
}

/** What all sides share. */
class SharedKeyspace {
  readonly clock: Clock;
  readonly keyspace: Keyspace;
  readonly leases: LeaseClock;
  readonly #changed = new Set<() => void>();

  constructor(clock: Clock, keyspace: Keyspace) {
    this.clock = clock;
    this.keyspace = keyspace;
    this.leases = new LeaseClock(clock, (lease) => this.revoke(lease));
  }

  /** Calls after each change until it is told to stop. */
  onChange(run: () => void): void {
    this.#changed.add(run);
  }

  changed(): void {
    for (const run of this.#changed) run();
  }

  revoke(lease: LeaseId): void {
    this.leases.drop(lease);
    if (this.keyspace.revoke(lease)) this.changed();
  }

  close(): void {
    this.leases.clear();
    this.#changed.clear();
  }
}

class FakeConnection implements FakeRegistry {
  readonly keyspace: Keyspace;
  readonly #center: SharedKeyspace;
  readonly #watchers = new Set<Watcher>();
  /** What was called while calls are held. */
  readonly #held = new Set<() => void>();
  #interruption: Interruption | undefined;
  #telling = false;

  constructor(center: SharedKeyspace) {
    this.#center = center;
    this.keyspace = center.keyspace;
    center.onChange(() => this.#tellSoon());
  }

  connect(): FakeRegistry {
    return new FakeConnection(this.#center);
  }

  close(): void {
    this.#center.close();
  }

  interrupt(code?: ErrorCode, options: { readonly happens?: boolean } = {}): void {
    this.#interruption = { code, happens: options.happens ?? false };
  }

  resume(): void {
    this.#interruption = undefined;
    const held = [...this.#held];
    this.#held.clear();
    for (const run of held) run();
    this.#tellSoon();
  }

  range(range: KeyRange, options: RangeOptions, done: Parameters<Registry['range']>[2]): void {
    const limit = options.limit ?? registryLimits.rangeLimitMax;
    const fault = validateRange(range) ?? validateLimit(limit);
    if (fault !== undefined) return this.#end(done, { ok: false, error: fault });
    this.#call(options, done, () => success(this.keyspace.range(range, limit)));
  }

  transact(transaction: RegistryTransaction, options: WriteOptions, done: Parameters<Registry['transact']>[2]): void {
    const { compare, then, otherwise } = transaction;
    const copied = { compare, then: then.map(ownOp), otherwise: otherwise.map(ownOp) };
    this.#call(options, done, () => {
      const outcome = this.keyspace.transact(copied);
      this.#center.changed();
      return outcome;
    });
  }

  grant(ttlMs: number, options: WriteOptions, done: Parameters<Registry['grant']>[2]): void {
    this.#call(options, done, () => {
      const outcome = this.keyspace.grant(ttlMs);
      if (outcome.ok) this.#center.leases.start(outcome.value.lease, ttlMs);
      return outcome;
    });
  }

  keepAlive(lease: LeaseId, options: WriteOptions, done: Parameters<Registry['keepAlive']>[2]): void {
    const fault = validateLease(lease);
    if (fault !== undefined) return this.#end(done, { ok: false, error: fault });
    this.#call(options, done, () => {
      const ttlMs = this.#center.leases.renew(lease);
      return ttlMs === undefined ? failure('LEASE_EXPIRED', `there is no lease ${lease}`) : success({ ttlMs });
    });
  }

  revoke(lease: LeaseId, options: WriteOptions, done: Done<void>): void {
    const fault = validateLease(lease);
    if (fault !== undefined) return this.#end(done, { ok: false, error: fault });
    this.#call(options, done, () => {
      this.#center.revoke(lease);
      return success(undefined);
    });
  }

  watch(range: KeyRange, fromRevision: number, events: WatchEvents): Cancel {
    const fault = validateRange(range) ?? validateWatchRevision(fromRevision);
    if (fault !== undefined) throw fault;
    const watcher: Watcher = { range, next: fromRevision, events };
    this.#watchers.add(watcher);
    this.#tellSoon();
    return () => this.#watchers.delete(watcher);
  }

  #call<T>(options: WriteOptions, done: Done<T>, execute: () => Outcome<T>): void {
    const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    const interruption = this.#interruption;
    if (interruption === undefined) return this.#end(done, execute());
    if (interruption.happens) execute();
    const { code } = interruption;
    if (code === undefined && !interruption.happens) return this.#hold(timeoutMs, done, execute);
    const late = code === undefined || code === 'DEADLINE' || code === 'NETWORK_TIMEOUT';
    this.#end(done, failure(code ?? 'DEADLINE', 'the registry is interrupted'), late ? timeoutMs : 0);
  }

  #hold<T>(timeoutMs: number, done: Done<T>, execute: () => Outcome<T>): void {
    if (this.#held.size === callsHeldMax) return this.#end(done, failure('CAPACITY'));
    const run = (): void => {
      cancel();
      this.#end(done, execute());
    };
    const cancel = this.#center.clock.schedule(timeoutMs, () => {
      if (this.#held.delete(run)) done(failure('DEADLINE'));
    });
    this.#held.add(run);
  }

  #end<T>(done: Done<T>, outcome: Outcome<T>, delayMs = 0): void {
    this.#center.clock.schedule(delayMs, () => done(outcome));
  }

  /** All changes of one turn are told together. */
  #tellSoon(): void {
    if (this.#telling || this.#watchers.size === 0) return;
    this.#telling = true;
    this.#center.clock.schedule(0, () => {
      this.#telling = false;
      for (const watcher of [...this.#watchers]) this.#tell(watcher);
    });
  }

  #tell(watcher: Watcher): void {
    while (this.#interruption === undefined && this.#watchers.has(watcher)) {
      const part = this.keyspace.changesFrom(watcher.range, watcher.next);
      if (part.kind === 'compacted') {
        this.#watchers.delete(watcher);
        watcher.events.compacted(part.oldestRevision);
        return;
      }
      if (part.next === watcher.next) return;
      watcher.next = part.next;
      for (const { revision, changes } of part.revisions)
        if (this.#watchers.has(watcher)) watcher.events.changed(changes, revision);
    }
  }
}
