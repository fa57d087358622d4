import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { RemusterError } from '../../../base/errors.ts';
import type { CallId } from '../../../base/ids.ts';
import type { StoreWrite } from '../../../base/ports.ts';
import { hostingLimits, type HostingLimits } from '../../hosting-limits.ts';
import { ExactlyOnce } from './exactly-once.ts';

/** The dedup state in memory, and its rows on a disk. */
class DedupHarness {
  readonly disk = new Map<string, Uint8Array>();
  readonly limits: HostingLimits;
  once: ExactlyOnce;

  constructor(limits: Partial<HostingLimits> = {}) {
    this.limits = { ...hostingLimits, ...limits };
    this.once = new ExactlyOnce(this.limits);
  }

  keep(
    counter: number,
    options: { lowestPending?: number; session?: string; bytes?: number; nowMs?: number } = {},
  ): void {
    const { lowestPending = 0, session = 's', bytes = 1, nowMs = 0 } = options;
    const rows: StoreWrite[] = [];
    const value = new Uint8Array(bytes).fill(counter);
    this.once.record({ id: idOf(counter, session), lowestPending, remainingMs: 1_000 }, { value }, nowMs, rows);
    for (const { key, value: row } of rows) {
      if (row === null) this.disk.delete(key);
      else this.disk.set(key, row);
    }
  }

  reload(nowMs = 0): void {
    this.once = new ExactlyOnce(this.limits);
    for (const [key, value] of [...this.disk].toSorted(([a], [b]) => (a < b ? -1 : 1)))
      this.once.load(key, value, nowMs);
    this.once.loadComplete();
  }

  /** The outcome of a call: it runs, gets a remembered result, or is refused. */
  sent(counter: number, session = 's', nowMs = 0): string {
    const found = this.once.find(idOf(counter, session), nowMs);
    if (found === undefined) return 'runs';
    return 'value' in found ? `result ${found.value[0]}` : found.error.code;
  }
}

function idOf(counter: number, session: string): CallId {
  return { session, generation: 1, counter };
}

for (const isReloaded of [false, true]) {
  describe(isReloaded ? 'a remembered call, after a move' : 'a remembered call', () => {
    const after = (dedup: DedupHarness): DedupHarness => {
      if (isReloaded) dedup.reload();
      return dedup;
    };

    it('gets the same result again', () => {
      const dedup = new DedupHarness();
      dedup.keep(3);
      const rows: StoreWrite[] = [];
      const error = new RemusterError('PRECONDITION', 'closed');
      dedup.once.record({ id: idOf(4, 's'), lowestPending: 0, remainingMs: 0 }, { error }, 0, rows);
      for (const { key, value } of rows) dedup.disk.set(key, value as Uint8Array);
      after(dedup);
      assert.deepEqual([dedup.sent(3), dedup.sent(4), dedup.sent(5)], ['result 3', 'PRECONDITION', 'runs']);
      assert.equal(dedup.sent(3, 'another'), 'runs');
    });

    it('is dropped below the lowest pending call, and never runs again', () => {
      const dedup = new DedupHarness();
      for (const counter of [1, 2, 3]) dedup.keep(counter);
      dedup.keep(5, { lowestPending: 3 });
      after(dedup);
      assert.deepEqual(
        [1, 2, 3, 4, 5].map((counter) => dedup.sent(counter)),
        ['PRECONDITION', 'PRECONDITION', 'result 3', 'runs', 'result 5'],
      );
      for (let counter = 6; counter <= 100; counter++) dedup.keep(counter, { lowestPending: counter - 2 });
      after(dedup);
      assert.deepEqual(
        [97, 98, 99, 100, 101].map((counter) => dedup.sent(counter)),
        ['PRECONDITION', 'result 98', 'result 99', 'result 100', 'runs'],
      );
      assert.equal(dedup.disk.size, 3, 'rows are reused');
    });

    it('is dropped even if counters arrived out of order', () => {
      const dedup = new DedupHarness();
      for (const counter of [10, 5, 11]) dedup.keep(counter);
      dedup.keep(12, { lowestPending: 6 });
      assert.equal(dedup.sent(5), 'PRECONDITION');
      dedup.keep(13, { lowestPending: 13 });
      after(dedup);
      assert.equal(dedup.sent(11), 'PRECONDITION');
      assert.equal(dedup.sent(13), 'result 13');
      for (let counter = 14; counter <= 50; counter++) dedup.keep(counter, { lowestPending: counter });
      assert.equal(dedup.disk.size, 4, 'rows are reused');
    });

    it('loses its result beyond the bound, but not the fact that it ran', () => {
      const dedup = new DedupHarness({ dedupResultsMax: 3, evictedResultsMax: 2 });
      for (let counter = 1; counter <= 5; counter++) dedup.keep(counter * 2);
      after(dedup);
      assert.deepEqual(
        [2, 3, 4, 5, 6, 8, 10].map((counter) => dedup.sent(counter)),
        ['PRECONDITION', 'runs', 'PRECONDITION', 'runs', 'result 6', 'result 8', 'result 10'],
      );
      for (let counter = 6; counter <= 9; counter++) dedup.keep(counter * 2);
      after(dedup);
      assert.equal(dedup.sent(3), 'PRECONDITION', 'beyond that bound the floor rises');
      assert.ok(dedup.disk.size <= 6, 'and one row for reuse');
    });

    it('is bounded in bytes over all sessions', () => {
      const dedup = new DedupHarness({ dedupBytesMax: 100 });
      for (let counter = 1; counter <= 5; counter++) dedup.keep(counter, { session: `s${counter}`, bytes: 30 });
      assert.ok(dedup.once.bytes <= 100);
      after(dedup);
      assert.ok(dedup.once.bytes <= 100);
      assert.deepEqual([dedup.sent(1, 's1'), dedup.sent(5, 's5')], ['PRECONDITION', 'result 5']);
      dedup.keep(6, { session: 's6', bytes: 500 });
      assert.equal(dedup.sent(6, 's6'), 'result 6', 'the newest result is dedup, however large it is');
    });
  });
}

it('exactly-once drops a session only when none of its calls can be retried', () => {
  const dedup = new DedupHarness({ sessionsMax: 2, sessionKeepMs: 1_000 });
  dedup.keep(1, { session: 'a', nowMs: 0 });
  dedup.keep(1, { session: 'b', nowMs: 1_500 });
  assert.equal(dedup.sent(1, 'c', 1_600), 'CAPACITY');
  assert.equal(dedup.sent(1, 'a', 1_600), 'result 1');
  assert.equal(dedup.sent(1, 'c', 2_000), 'runs');
  dedup.keep(1, { session: 'c', nowMs: 2_000 });
  assert.equal(dedup.once.sessions, 2);
  assert.deepEqual([...dedup.disk.keys()].toSorted(), ['ob/1/0', 'oc/1/0']);
});

it('exactly-once keeps the rows of a dropped session that has returned', () => {
  const dedup = new DedupHarness({ sessionsMax: 1, sessionKeepMs: 1_000 });
  dedup.keep(1, { session: 'a', nowMs: 0 });
  assert.equal(dedup.sent(1, 'b', 5_000), 'runs');
  dedup.keep(2, { session: 'a', nowMs: 5_000 });
  dedup.keep(3, { session: 'a', nowMs: 5_000 });
  dedup.reload();
  assert.deepEqual([dedup.sent(2, 'a'), dedup.sent(3, 'a')], ['result 2', 'result 3']);
});

it('exactly-once keeps few unused rows', () => {
  const dedup = new DedupHarness();
  for (let counter = 1; counter <= 1_000; counter++) dedup.keep(counter);
  assert.equal(dedup.disk.size, 1_000);
  for (let counter = 1_001; counter <= 1_020; counter++) dedup.keep(counter, { lowestPending: counter });
  assert.ok(dedup.disk.size < 200, `${dedup.disk.size} rows`);
  dedup.reload();
  assert.deepEqual([dedup.sent(1_019), dedup.sent(1_020), dedup.sent(1_021)], ['PRECONDITION', 'result 252', 'runs']);
});

it('exactly-once keeps every session for a while after a move', () => {
  const dedup = new DedupHarness({ sessionsMax: 1, sessionKeepMs: 1_000 });
  dedup.keep(1, { session: 'a', nowMs: 0 });
  dedup.reload(50_000);
  assert.equal(dedup.sent(1, 'b', 50_900), 'CAPACITY');
  assert.equal(dedup.sent(1, 'b', 51_000), 'runs');
});

it('exactly-once refuses rows that it has not written', () => {
  const { once } = new DedupHarness();
  assert.throws(() => once.load('os/1/07', new Uint8Array([1, 0]), 0), /cannot be decoded/);
  assert.throws(() => once.load('os/1/7', new Uint8Array([1, 0]), 0), /cannot be decoded/);
});
