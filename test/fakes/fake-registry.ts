/**
 * Fake `Registry` in one process on the real key space, without consensus. Each connection can be interrupted and
 * resumed as by a network; leases expire meanwhile.
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
  type WatchStart,
  type WriteOptions,
  registryLimits,
} from '../../src/base/registry.ts';
import { validateLease, validateLimit, validateRange, validateWatchStart } from '../../src/base/registry-validation.ts';
import { Keyspace } from '../../src/registry/keyspace/keyspace.ts';
import { type KeyspaceLimits } from '../../src/registry/keyspace/keyspace-types.ts';
import { LeaseClock } from '../../src/registry/keyspace/lease-clock.ts';

const defaultTimeoutMs = 5_000;
const callsHeldMax = 10_000;

export type FakeRegistry = Registry & {
  readonly keyspace: Keyspace;
  /**
   * Requests of this connection fail with that code: DEADLINE and NETWORK_TIMEOUT after their timeout, others at once.
   * Without a code they wait for `resume`, and end with DEADLINE at their timeout. With `takesEffect` they are executed
   * and only the reply is lost. Watches are silent until `resume` and then catch up.
   */
  interrupt(code?: ErrorCode, options?: { readonly takesEffect?: boolean }): void;
  resume(): void;
  /** Another connection to the same key space, with its own interruptions. */
  connect(): FakeRegistry;
  /** Stops leases and watches of all connections. */
  close(): void;
};

type Interruption = { readonly code: ErrorCode | undefined; readonly takesEffect: boolean };
type Watcher = { readonly range: KeyRange; next: number; readonly events: WatchEvents };

export function fakeRegistry(options: {
  readonly clock: Clock;
  readonly limits?: Partial<KeyspaceLimits>;
}): FakeRegistry {
  return new FakeConnection(new SharedKeyspace(options.clock, new Keyspace(options.limits)));
}

/** Copies the bytes, which the caller may reuse. The key space refuses a value that is no byte array. */
function copyOp(op: RegistryOp): RegistryOp {
  return op.kind === 'put' && op.value instanceof Uint8Array ? { ...op, value: new Uint8Array(op.value) } : op;
}

/** The key space, leases and change notifications that all connections share. */
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

  /** Calls `run` after each change until `close`. */
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
  readonly #shared: SharedKeyspace;
  readonly #watchers = new Set<Watcher>();
  /** Requests that wait for `resume`. */
  readonly #held = new Set<() => void>();
  #interruption: Interruption | undefined;
  #notifyScheduled = false;

  constructor(shared: SharedKeyspace) {
    this.#shared = shared;
    this.keyspace = shared.keyspace;
    shared.onChange(() => this.#scheduleNotify());
  }

  connect(): FakeRegistry {
    return new FakeConnection(this.#shared);
  }

  close(): void {
    this.#shared.close();
  }

  interrupt(code?: ErrorCode, options: { readonly takesEffect?: boolean } = {}): void {
    this.#interruption = { code, takesEffect: options.takesEffect ?? false };
  }

  resume(): void {
    this.#interruption = undefined;
    const held = [...this.#held];
    this.#held.clear();
    for (const run of held) run();
    this.#scheduleNotify();
  }

  range(range: KeyRange, options: RangeOptions, done: Parameters<Registry['range']>[2]): void {
    const limit = options.limit ?? registryLimits.rangeLimitMax;
    const fault = validateRange(range) ?? validateLimit(limit);
    if (fault !== undefined) return this.#end(done, { ok: false, error: fault });
    this.#call(options, done, () => success(this.keyspace.range(range, limit)));
  }

  transact(transaction: RegistryTransaction, options: WriteOptions, done: Parameters<Registry['transact']>[2]): void {
    const { compare, then, otherwise } = transaction;
    const copied = { compare, then: then.map(copyOp), otherwise: otherwise.map(copyOp) };
    this.#call(options, done, () => {
      const outcome = this.keyspace.transact(copied);
      this.#shared.changed();
      return outcome;
    });
  }

  grant(ttlMs: number, options: WriteOptions, done: Parameters<Registry['grant']>[2]): void {
    this.#call(options, done, () => {
      const outcome = this.keyspace.grant(ttlMs);
      if (outcome.ok) this.#shared.leases.start(outcome.value.lease, ttlMs);
      return outcome;
    });
  }

  keepAlive(lease: LeaseId, options: WriteOptions, done: Parameters<Registry['keepAlive']>[2]): void {
    const fault = validateLease(lease);
    if (fault !== undefined) return this.#end(done, { ok: false, error: fault });
    this.#call(options, done, () => {
      const ttlMs = this.#shared.leases.renew(lease);
      return ttlMs === undefined ? failure('LEASE_EXPIRED', `there is no lease ${lease}`) : success({ ttlMs });
    });
  }

  revoke(lease: LeaseId, options: WriteOptions, done: Done<void>): void {
    const fault = validateLease(lease);
    if (fault !== undefined) return this.#end(done, { ok: false, error: fault });
    this.#call(options, done, () => {
      this.#shared.revoke(lease);
      return success(undefined);
    });
  }

  watch(range: KeyRange, start: WatchStart, events: WatchEvents): Cancel {
    const fault = validateRange(range) ?? validateWatchStart(start);
    if (fault !== undefined) throw fault;
    const watcher: Watcher = { range, next: start.revision, events };
    this.#watchers.add(watcher);
    this.#scheduleNotify();
    return () => this.#watchers.delete(watcher);
  }

  #call<T>(options: WriteOptions, done: Done<T>, execute: () => Outcome<T>): void {
    const timeoutMs = options.timeoutMs ?? defaultTimeoutMs;
    const interruption = this.#interruption;
    if (interruption === undefined) return this.#end(done, execute());
    if (interruption.takesEffect) execute();
    const { code } = interruption;
    if (code === undefined && !interruption.takesEffect) return this.#hold(timeoutMs, done, execute);
    const late = code === undefined || code === 'DEADLINE' || code === 'NETWORK_TIMEOUT';
    this.#end(done, failure(code ?? 'DEADLINE', 'the registry is interrupted'), late ? timeoutMs : 0);
  }

  #hold<T>(timeoutMs: number, done: Done<T>, execute: () => Outcome<T>): void {
    if (this.#held.size === callsHeldMax) return this.#end(done, failure('CAPACITY'));
    const run = (): void => {
      cancel();
      this.#end(done, execute());
    };
    const cancel = this.#shared.clock.schedule(timeoutMs, () => {
      if (this.#held.delete(run)) done(failure('DEADLINE'));
    });
    this.#held.add(run);
  }

  #end<T>(done: Done<T>, outcome: Outcome<T>, delayMs = 0): void {
    this.#shared.clock.schedule(delayMs, () => done(outcome));
  }

  /** Coalesces the changes of one turn. */
  #scheduleNotify(): void {
    if (this.#notifyScheduled || this.#watchers.size === 0) return;
    this.#notifyScheduled = true;
    this.#shared.clock.schedule(0, () => {
      this.#notifyScheduled = false;
      for (const watcher of [...this.#watchers]) this.#notify(watcher);
    });
  }

  #notify(watcher: Watcher): void {
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
