import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { RemusterError } from '../../../base/errors.ts';
import type { CallId } from '../../../base/ids.ts';
import type { StoreWrite } from '../../../base/ports.ts';
import { hostingLimits, type HostingLimits } from '../../hosting-limits.ts';
import { ExactlyOnce } from './exactly-once.ts';

/** The dedup state in memory, and its rows on a disk. */
class Kept {
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
    const after = (kept: Kept): Kept => {
      if (isReloaded) kept.reload();
      return kept;
    };

    it('gets the same result again', () => {
      const kept = new Kept();
      kept.keep(3);
      const rows: StoreWrite[] = [];
      const error = new RemusterError('PRECONDITION', 'closed');
      kept.once.record({ id: idOf(4, 's'), lowestPending: 0, remainingMs: 0 }, { error }, 0, rows);
      for (const { key, value } of rows) kept.disk.set(key, value as Uint8Array);
      after(kept);
      assert.deepEqual([kept.sent(3), kept.sent(4), kept.sent(5)], ['result 3', 'PRECONDITION', 'runs']);
      assert.equal(kept.sent(3, 'another'), 'runs');
    });

    it('is dropped below the lowest pending call, and never runs again', () => {
      const kept = new Kept();
      for (const counter of [1, 2, 3]) kept.keep(counter);
      kept.keep(5, { lowestPending: 3 });
      after(kept);
      assert.deepEqual(
        [1, 2, 3, 4, 5].map((counter) => kept.sent(counter)),
        ['PRECONDITION', 'PRECONDITION', 'result 3', 'runs', 'result 5'],
      );
      for (let counter = 6; counter <= 100; counter++) kept.keep(counter, { lowestPending: counter - 2 });
      after(kept);
      assert.deepEqual(
        [97, 98, 99, 100, 101].map((counter) => kept.sent(counter)),
        ['PRECONDITION', 'result 98', 'result 99', 'result 100', 'runs'],
      );
      assert.equal(kept.disk.size, 3, 'rows are reused');
    });

    it('is dropped even if counters arrived out of order', () => {
      const kept = new Kept();
      for (const counter of [10, 5, 11]) kept.keep(counter);
      kept.keep(12, { lowestPending: 6 });
      assert.equal(kept.sent(5), 'PRECONDITION');
      kept.keep(13, { lowestPending: 13 });
      after(kept);
      assert.equal(kept.sent(11), 'PRECONDITION');
      assert.equal(kept.sent(13), 'result 13');
      for (let counter = 14; counter <= 50; counter++) kept.keep(counter, { lowestPending: counter });
      assert.equal(kept.disk.size, 4, 'rows are reused');
    });

    it('loses its result beyond the bound, but not the fact that it ran', () => {
      const kept = new Kept({ dedupResultsMax: 3, evictedResultsMax: 2 });
      for (let counter = 1; counter <= 5; counter++) kept.keep(counter * 2);
      after(kept);
      assert.deepEqual(
        [2, 3, 4, 5, 6, 8, 10].map((counter) => kept.sent(counter)),
        ['PRECONDITION', 'runs', 'PRECONDITION', 'runs', 'result 6', 'result 8', 'result 10'],
      );
      for (let counter = 6; counter <= 9; counter++) kept.keep(counter * 2);
      after(kept);
      assert.equal(kept.sent(3), 'PRECONDITION', 'beyond that bound the floor rises');
      assert.ok(kept.disk.size <= 6, 'and one row for reuse');
    });

    it('is bounded in bytes over all sessions', () => {
      const kept = new Kept({ dedupBytesMax: 100 });
      for (let counter = 1; counter <= 5; counter++) kept.keep(counter, { session: `s${counter}`, bytes: 30 });
      assert.ok(kept.once.bytes <= 100);
      after(kept);
      assert.ok(kept.once.bytes <= 100);
      assert.deepEqual([kept.sent(1, 's1'), kept.sent(5, 's5')], ['PRECONDITION', 'result 5']);
      kept.keep(6, { session: 's6', bytes: 500 });
      assert.equal(kept.sent(6, 's6'), 'result 6', 'the newest result is kept, however large it is');
    });
  });
}

it('exactly-once drops a session only when none of its calls can be retried', () => {
  const kept = new Kept({ sessionsMax: 2, sessionKeepMs: 1_000 });
  kept.keep(1, { session: 'a', nowMs: 0 });
  kept.keep(1, { session: 'b', nowMs: 1_500 });
  assert.equal(kept.sent(1, 'c', 1_600), 'CAPACITY');
  assert.equal(kept.sent(1, 'a', 1_600), 'result 1');
  assert.equal(kept.sent(1, 'c', 2_000), 'runs');
  kept.keep(1, { session: 'c', nowMs: 2_000 });
  assert.equal(kept.once.sessions, 2);
  assert.deepEqual([...kept.disk.keys()].toSorted(), ['ob/1/0', 'oc/1/0']);
});

it('exactly-once keeps the rows of a dropped session that has returned', () => {
  const kept = new Kept({ sessionsMax: 1, sessionKeepMs: 1_000 });
  kept.keep(1, { session: 'a', nowMs: 0 });
  assert.equal(kept.sent(1, 'b', 5_000), 'runs');
  kept.keep(2, { session: 'a', nowMs: 5_000 });
  kept.keep(3, { session: 'a', nowMs: 5_000 });
  kept.reload();
  assert.deepEqual([kept.sent(2, 'a'), kept.sent(3, 'a')], ['result 2', 'result 3']);
});

it('exactly-once keeps few unused rows', () => {
  const kept = new Kept();
  for (let counter = 1; counter <= 1_000; counter++) kept.keep(counter);
  assert.equal(kept.disk.size, 1_000);
  for (let counter = 1_001; counter <= 1_020; counter++) kept.keep(counter, { lowestPending: counter });
  assert.ok(kept.disk.size < 200, `${kept.disk.size} rows`);
  kept.reload();
  assert.deepEqual([kept.sent(1_019), kept.sent(1_020), kept.sent(1_021)], ['PRECONDITION', 'result 252', 'runs']);
});

it('exactly-once keeps every session for a while after a move', () => {
  const kept = new Kept({ sessionsMax: 1, sessionKeepMs: 1_000 });
  kept.keep(1, { session: 'a', nowMs: 0 });
  kept.reload(50_000);
  assert.equal(kept.sent(1, 'b', 50_900), 'CAPACITY');
  assert.equal(kept.sent(1, 'b', 51_000), 'runs');
});

it('exactly-once refuses rows that it has not written', () => {
  const { once } = new Kept();
  assert.throws(() => once.load('os/1/07', new Uint8Array([1, 0]), 0), /cannot be read/);
  assert.throws(() => once.load('os/1/7', new Uint8Array([1, 0]), 0), /cannot be read/);
});
