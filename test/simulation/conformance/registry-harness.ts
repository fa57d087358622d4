/** Helpers of the Registry suites: calls that are awaited, entries as text, watches that are checked. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { ErrorCode } from '../../../src/base/errors.ts';
import type { Cancel, Clock } from '../../../src/base/ports.ts';
import {
  type KeyRange,
  type LeaseId,
  type RangeOptions,
  type RangeResult,
  type Registry,
  type RegistryChange,
  type RegistryCompare,
  type RegistryEntry,
  type RegistryOp,
  type RegistryTransaction,
  type TransactionResult,
  onlyKey,
  withPrefix,
} from '../../../src/base/registry.ts';
import { type OpenHarness, type TestWorld, expectFailure, expectSuccess, utf8Text, utf8 } from './harness.ts';

/** One empty key space for one test, and two clients of it. */
export type RegistryHarness = TestWorld & {
  readonly registry: Registry;
  readonly other: Registry;
  readonly clock: Clock;
  /** Compacts the history before the current revision. Undefined if the implementation cannot do it. */
  compact?(): Promise<void>;
  /** Makes the registry stop replying, or reply again. Undefined if the implementation cannot do it. */
  stopReplying?(isStopped: boolean): Promise<void>;
};

export const allKeys = withPrefix('');

export function putOp(key: string, value = '', lease?: LeaseId): RegistryOp {
  return { kind: 'put', key, value: utf8.encode(value), ...(lease === undefined ? {} : { lease }) };
}

export function deleteOp(range: KeyRange | string): RegistryOp {
  return { kind: 'delete', range: typeof range === 'string' ? onlyKey(range) : range };
}

export function readOp(range: KeyRange | string, limit = 100): RegistryOp {
  return { kind: 'read', range: typeof range === 'string' ? onlyKey(range) : range, limit };
}

export function keyIsAbsent(key: string): RegistryCompare {
  return { key, target: 'createRevision', is: 'equal', than: 0 };
}

export function buildTransaction(parts: Partial<RegistryTransaction>): RegistryTransaction {
  return { compare: [], then: [], otherwise: [], ...parts };
}

export function formatEntries(entries: readonly RegistryEntry[]): string {
  return entries.map(({ key, value }) => `${key}=${utf8Text(value)}`).join(' ');
}

/** `+key=value` or `-key` for each change of one revision. */
function formatChanges(changes: readonly RegistryChange[]): string {
  return changes
    .map((change) =>
      change.kind === 'put' ? `+${change.entry.key}=${utf8Text(change.entry.value)}` : `-${change.key}`,
    )
    .join(' ');
}

/** A client of a registry whose calls are awaited in the world. */
export class RegistryCaller {
  readonly #world: TestWorld;
  readonly registry: Registry;

  constructor(world: TestWorld, registry: Registry) {
    this.#world = world;
    this.registry = registry;
  }

  transact(parts: Partial<RegistryTransaction>): Promise<TransactionResult> {
    return expectSuccess<TransactionResult>(this.#world, (done) =>
      this.registry.transact(buildTransaction(parts), {}, done),
    );
  }

  write(...then: RegistryOp[]): Promise<TransactionResult> {
    return this.transact({ then });
  }

  refuses(code: ErrorCode, parts: Partial<RegistryTransaction>): Promise<void> {
    return expectFailure<TransactionResult>(this.#world, code, (done) =>
      this.registry.transact(buildTransaction(parts), {}, done),
    );
  }

  range(range: KeyRange = allKeys, options: RangeOptions = {}): Promise<RangeResult> {
    return expectSuccess<RangeResult>(this.#world, (done) => this.registry.range(range, options, done));
  }

  async contents(range: KeyRange = allKeys, options: RangeOptions = {}): Promise<string> {
    return formatEntries((await this.range(range, options)).entries);
  }

  async entry(key: string): Promise<RegistryEntry | undefined> {
    return (await this.range(onlyKey(key))).entries[0];
  }

  grant(ttlMs: number): Promise<{ readonly lease: LeaseId; readonly ttlMs: number }> {
    return expectSuccess(this.#world, (done: Parameters<Registry['grant']>[2]) => this.registry.grant(ttlMs, {}, done));
  }

  keepAlive(lease: LeaseId): Promise<{ readonly ttlMs: number }> {
    return expectSuccess(this.#world, (done: Parameters<Registry['keepAlive']>[2]) =>
      this.registry.keepAlive(lease, {}, done),
    );
  }

  revoke(lease: LeaseId): Promise<void> {
    return expectSuccess<void>(this.#world, (done) => this.registry.revoke(lease, {}, done));
  }
}

export type RegistryScene = {
  readonly world: RegistryHarness;
  readonly here: RegistryCaller;
  readonly there: RegistryCaller;
  readonly after: (delayMs: number) => Promise<void>;
  /** A watch that ends with the test. */
  readonly watch: (range: KeyRange, fromRevision: number) => WatchRecorder;
};

export async function openRegistryScene(t: TestContext, open: OpenHarness<RegistryHarness>): Promise<RegistryScene> {
  const world = await open(t);
  return {
    world,
    here: new RegistryCaller(world, world.registry),
    there: new RegistryCaller(world, world.other),
    after: (delayMs) => world.settle(new Promise((resolve) => void world.clock.schedule(delayMs, resolve))),
    watch: (range, fromRevision) => {
      const watched = new WatchRecorder(world, range, fromRevision);
      t.after(() => watched.end());
      return watched;
    },
  };
}

/** Records what a watch delivers and checks the rules of every watch. */
export class WatchRecorder {
  /** One text for each revision. */
  readonly seen: string[] = [];
  readonly revisions: number[] = [];
  readonly changes: RegistryChange[] = [];
  readonly compactions: number[] = [];
  readonly cancel: Cancel;
  readonly #world: TestWorld;
  readonly #faults: string[] = [];
  #isCancelled = false;
  #onDelivery: () => void = () => undefined;

  constructor(world: RegistryHarness, range: KeyRange, fromRevision: number) {
    this.#world = world;
    let returned = false;
    const cancel = world.registry.watch(
      range,
      { revision: fromRevision },
      {
        changed: (changes, revision) => {
          this.#check(returned, 'delivered a change before the call returned');
          this.#check(!this.#isCancelled, 'delivered a change after it was cancelled');
          this.#check(this.compactions.length === 0, 'delivered a change after its end');
          this.#check(changes.length > 0, 'delivered no change');
          const earliest = Math.max(fromRevision, (this.revisions.at(-1) ?? 0) + 1);
          this.#check(revision >= earliest, `delivered revision ${revision}, expected ${earliest} or later`);
          const isOne = changes.every((change) => modRevisionOf(change) === revision);
          this.#check(isOne, `delivered several revisions as ${revision}`);
          this.revisions.push(revision);
          this.changes.push(...changes);
          this.seen.push(formatChanges(changes));
          this.#onDelivery();
        },
        compacted: (oldestRevision) => {
          this.#check(
            returned && !this.#isCancelled,
            'reported its end before the call returned or after it was cancelled',
          );
          this.compactions.push(oldestRevision);
          this.#onDelivery();
        },
      },
    );
    returned = true;
    this.cancel = () => {
      this.#isCancelled = true;
      cancel();
    };
  }

  /** Waits until the watch has delivered enough. Fails if it broke a rule. */
  async until(isEnough: (watched: WatchRecorder) => boolean): Promise<void> {
    const enough = new Promise<void>((resolve) => {
      this.#onDelivery = () => {
        if (this.#faults.length > 0 || isEnough(this)) resolve();
      };
      this.#onDelivery();
    });
    await this.#world.settle(enough);
    assert.deepEqual(this.#faults, []);
  }

  /** Fails if the watch broke a rule after the last wait. */
  end(): void {
    this.cancel();
    assert.deepEqual(this.#faults, []);
  }

  /** Records a broken rule. A listener must not throw: that would fail the registry and not the test. */
  #check(isRight: boolean, fault: string): void {
    if (!isRight) this.#faults.push(fault);
  }
}

function modRevisionOf(change: RegistryChange): number {
  return change.kind === 'put' ? change.entry.modRevision : change.modRevision;
}
